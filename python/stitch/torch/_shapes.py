"""Extents that PyTorch traced as symbols: their values when a graph is compiled, and in a call."""

import math

import sympy
import torch

Extents = dict
"""What symbols, and what is made of them, stand for: sympy.Expr → int, or float."""


class Cannot(Exception):
    """Why something cannot be part of a document."""


def expression(value: torch.SymInt | torch.SymFloat) -> sympy.Expr:
    """Of symbols; PyTorch has plain numbers for what it has found to be one."""
    return sympy.sympify(value.node.expr)


def is_symbol(node) -> bool:
    """Whether a node computes with extents and not with tensors: PyTorch's in any case, and nothing to compute."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) and (
        not isinstance(node.target, torch._ops.OpOverload) or str(node.target).startswith("aten.sym_")
    )


def symbols_of(value) -> set:
    """The symbols in a tensor's extents and strides, or in a number."""
    if isinstance(value, torch.Tensor):
        return set().union(*map(symbols_of, (*value.shape, *value.stride())))
    if isinstance(value, (list, tuple)):
        return set().union(*map(symbols_of, value))
    return set(expression(value).free_symbols) if isinstance(value, (torch.SymInt, torch.SymFloat)) else set()


def atom_of(value: torch.SymInt) -> tuple[int, sympy.Expr]:
    """An extent as a number times what is a symbol, mostly, or a product of some."""
    factor, atom = expression(value).as_coeff_Mul()
    return int(factor), atom


def atoms_of(value) -> set:
    """Those in a tensor's extents, or of a number."""
    if isinstance(value, torch.Tensor):
        return set().union(*map(atoms_of, value.shape))
    if isinstance(value, (list, tuple)):
        return set().union(*map(atoms_of, value))
    return {atom_of(value)[1]} if isinstance(value, torch.SymInt) else set()


def number(value, extents: Extents | None = None) -> int | float:
    """What an extent, or a number that comes of some, is: where its symbols have these values, or those that they were
    traced with. Asked so, PyTorch does not specialise the graph for it. Errors: Cannot (what no input's extents tell,
    such as the number of non-zeros)."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value
    if extents is None:
        extents = value.node.shape_env.backed_var_to_val
    kind = int
    if isinstance(value, torch.SymFloat):
        kind, factor, atom = float, 1, expression(value)
    else:
        factor, atom = atom_of(value)
    if atom in extents:
        return factor * kind(extents[atom])
    wanted = [of for of in extents if not of.is_Symbol or of in atom.free_symbols]
    result = atom.xreplace({of: sympy.sympify(extents[of]) for of in wanted})
    if result.free_symbols:
        raise Cannot("extents that are known only when it runs")
    return factor * kind(result)


def numbers(values, extents: Extents | None = None) -> tuple:
    return tuple(number(value, extents) for value in values)


def bytes_of(value) -> int:
    """Of a traced tensor, as it was traced; 0 where that is not known."""
    try:
        return math.prod(numbers(value.shape)) * value.dtype.itemsize
    except Cannot:
        return 0


def shapes_of(values) -> tuple:
    """The extents of tensors, and numbers, as they are, or as they were traced. Errors: Cannot."""
    return tuple([numbers(value.shape) if isinstance(value, torch.Tensor) else number(value) for value in values])


def extents_of(traced: list, shapes: tuple) -> Extents:
    """What symbols are in a call, as far as its inputs tell: what these were traced as, and their shapes now."""
    found: Extents = {}
    for value, real in zip(traced, shapes, strict=True):
        pairs = zip(value.shape, real, strict=True) if isinstance(value, torch.Tensor) else [(value, real)]
        for one, is_now in pairs:
            if isinstance(one, torch.SymInt):
                found.update(_parts(expression(one), is_now))
            elif isinstance(one, torch.SymFloat):
                found[expression(one)] = is_now
    while new := [_solved(atom, found) for atom in found if _solved(atom, found)]:
        found.update(new)
    return found


def _parts(of: sympy.Expr, value: int) -> Extents:
    """What is known where an expression is: itself without a factor, and that without an addend, and so on."""
    found: Extents = {}
    while True:
        factor, atom = of.as_coeff_Mul()
        if not atom.free_symbols or value % int(factor):
            return found
        value //= int(factor)
        found[atom] = value
        addend, of = atom.as_coeff_Add()
        if addend == 0:
            return found
        value -= int(addend)


def _solved(atom: sympy.Expr, found: Extents) -> tuple | None:
    """The one factor of a product that is not known yet."""
    unknown = [factor for factor in atom.args if factor not in found] if atom.is_Mul else []
    if len(unknown) != 1 or not all(factor.is_Symbol and found.get(factor, 1) for factor in atom.args):
        return None
    return unknown[0], found[atom] // math.prod(found[factor] for factor in atom.args if factor in found)


def largest_of(atom: sympy.Expr, traced: list) -> int | None:
    """The most that an extent may be (torch._dynamo.mark_dynamic(max=)); None where nobody said it."""
    for value in traced:
        for one in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(one, torch.SymInt) and atom_of(one)[1] == atom:
                uppers = [one.node.shape_env.var_to_range[symbol].upper for symbol in atom.free_symbols]
                known = atom.is_Symbol and uppers[0] < 1 << 31
                return int(uppers[0]) if known else None
    return None
