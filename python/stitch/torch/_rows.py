"""Pieces that treat every row by itself: what they compute is right with rows appended, which are cut off again.

A tensor with an extent s that is known only in a call has an axis of a·s·b elements: a times s groups of b. `Axis` is
that axis. An operator is by rows if its results' places along s depend on its operands' at the same place alone. All
that is not known to be so is not.
"""

import dataclasses
import math
import operator

import torch

from . import _document, _shapes

aten = torch.ops.aten
_ALL = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class Axis:
    """Where s is in a tensor: `dim` has outer · s · inner elements."""

    dim: int
    outer: int = 1
    inner: int = 1


class _No(Exception):
    """Rows depend on each other, or may."""


def _factors(value, symbol) -> list:
    """Of each of a tensor's dims how many times s it is; 0 where it is without. Errors: _No (s + 1, other symbols)."""
    found = []
    for extent in value.shape:
        if not isinstance(extent, torch.SymInt):
            found.append(0)
            continue
        factor, atom = _shapes.atom_of(extent)
        if atom != symbol:
            raise _No
        found.append(factor)
    return found


def _axis_like(value, symbol, outer: int = 1, inner: int = 1) -> Axis | None:
    """The axis of a tensor whose rows are grouped so; None where it has none."""
    factors = _factors(value, symbol)
    if not any(factors):
        return None
    dim = next(i for i, factor in enumerate(factors) if factor)
    if sum(map(bool, factors)) != 1 or factors[dim] != outer * inner:
        raise _No
    return Axis(dim, outer, inner)


def _dims(value, rank: int) -> list:
    """The dims that an argument names."""
    dims = value if isinstance(value, (list, tuple)) else [value]
    return [dim % rank for dim in dims]


class _Walk:
    """The axes of a piece's values, found operator by operator."""

    def __init__(self, symbol, outermost: bool):
        self.symbol, self.outermost, self.axes = symbol, outermost, {}

    def input(self, node) -> None:
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return
        factors = [factor for factor in _factors(value, self.symbol) if factor]
        factor = factors[0] if factors else 1
        grouped = (1, factor) if self.outermost else (factor, 1)
        self.axes[node] = _axis_like(value, self.symbol, *grouped)

    def operator(self, node) -> None:
        if node.target is operator.getitem:
            self.axes[node] = self.axes[node.args[0]]
            return
        rule = _RULES.get(node.target)
        if rule is None and torch.Tag.pointwise in node.target.tags:
            rule = _pointwise
        if rule is None:
            raise _No
        given = _document.arguments_of(node)
        for name, value in given.items():
            # A number that s is part of is another with other rows; extents of results are looked at as these are.
            if name not in ("size", "shape") and self._is_symbolic(value):
                raise _No
        self.axes[node] = axis = rule(self, node, given)
        grouped = (axis.outer, axis.inner) if axis else ()
        if any(_axis_like(value, self.symbol, *grouped) != axis for value in _document.values_of(node)):
            raise _No

    def _is_symbolic(self, value) -> bool:
        if isinstance(value, (list, tuple)):
            return any(map(self._is_symbolic, value))
        return isinstance(value, torch.SymInt) or (
            isinstance(value, torch.fx.Node) and not isinstance(value.meta.get("val"), (torch.Tensor, list, tuple))
        )

    def operands(self, node) -> list:
        return [(n.meta["val"].dim(), self.axes[n]) for n in node.all_input_nodes if self.axes.get(n) is not None]


def _result(node):
    return _document.values_of(node)[0]


def _pointwise(walk: _Walk, node, given) -> Axis | None:
    value = _result(node)
    axes = {dataclasses.replace(axis, dim=axis.dim + value.dim() - rank) for rank, axis in walk.operands(node)}
    if not axes:
        return _axis_like(value, walk.symbol)  # of a number, of tensors that are expanded
    if len(axes) > 1:
        raise _No
    return axes.pop()


def _view(walk: _Walk, node, given) -> Axis | None:
    """The same elements in the same order: as many of them are inside of s as were."""
    value, operands = _result(node), walk.operands(node)
    if not operands:
        return _axis_like(value, walk.symbol)
    (_, axis), of = operands[0], given["self"].meta["val"]
    inside = axis.inner * _product(of.shape[axis.dim + 1 :])
    factors = _factors(value, walk.symbol)
    dims = [i for i, factor in enumerate(factors) if factor]
    if len(dims) != 1:
        raise _No
    behind = _product(value.shape[dims[0] + 1 :])
    if behind == 0 or inside % behind or factors[dims[0]] % (inside // behind):
        raise _No
    return Axis(dims[0], factors[dims[0]] // (inside // behind), inside // behind)


def _product(extents) -> int:
    return math.prod(int(extent) for extent in extents)  # numbers: s is in one dim alone


def _permute(walk: _Walk, node, given) -> Axis | None:
    axis, rank = walk.axes[given["self"]], given["self"].meta["val"].dim()
    if axis is None:
        return None
    order = list(range(rank))
    if "dims" in given:
        order = _dims(given["dims"], rank)
    elif "dim0" in given:
        one, other = _dims([given["dim0"], given["dim1"]], rank)
        order[one], order[other] = other, one
    else:
        order.reverse()
    return dataclasses.replace(axis, dim=order.index(axis.dim))


def _reduction(walk: _Walk, node, given) -> Axis | None:
    axis, rank = walk.axes[given["self"]], given["self"].meta["val"].dim()
    if axis is None:
        return None
    named = given.get("dim")
    dims = list(range(rank)) if named is None or named == [] else _dims(named, rank)
    if axis.dim in dims:
        raise _No
    if not given.get("keepdim", False):
        axis = dataclasses.replace(axis, dim=axis.dim - sum(dim < axis.dim for dim in dims))
    return axis


def _along(walk: _Walk, node, given) -> Axis | None:
    """Operators that go along a dim, which is not that of s, and keep all others."""
    values = given["tensors"] if "tensors" in given else [given["self"]]
    axes = {walk.axes[value] for value in values}
    if len(axes) != 1:
        raise _No
    axis, rank = axes.pop(), values[0].meta["val"].dim()
    if axis is None:
        return None
    if axis.dim in _dims(given.get("dim", 0), rank) and not _is_whole(node, given):
        raise _No
    if node.target is aten.select.int:
        axis = dataclasses.replace(axis, dim=axis.dim - (_dims(given["dim"], rank)[0] < axis.dim))
    return axis


def _is_whole(node, given) -> bool:
    """A slice of all there is, which Python's x[:] is traced to."""
    begin, end, step = given.get("start"), given.get("end"), given.get("step", 1)
    return node.target is aten.slice.Tensor and not begin and (end is None or end == _ALL) and step == 1


def _layer_norm(walk: _Walk, node, given) -> Axis | None:
    of = given["input"]
    axis, normal = walk.axes[of], len(given["normalized_shape"])
    if any(walk.axes.get(given.get(name)) is not None for name in ("weight", "bias")):
        raise _No
    if axis is not None and axis.dim >= of.meta["val"].dim() - normal:
        raise _No
    return axis


def _embedding(walk: _Walk, node, given) -> Axis | None:
    if walk.axes[given["weight"]] is not None:
        raise _No
    return walk.axes[given["indices"]]


def _made(walk: _Walk, node, given) -> Axis | None:
    return _axis_like(_result(node), walk.symbol)


_RULES = {
    **dict.fromkeys(
        (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default,
         aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _view),
    **dict.fromkeys(
        (aten.expand.default, aten.clone.default, aten.alias.default, aten.detach.default, aten._to_copy.default,
         aten.where.self, aten.lift_fresh_copy.default), _pointwise),
    **dict.fromkeys((aten.permute.default, aten.transpose.int, aten.t.default), _permute),
    **dict.fromkeys(
        (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.var.correction,
         aten.var_mean.correction, aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default, aten.any.dim,
         aten.prod.dim_int), _reduction),
    **dict.fromkeys(
        (aten._softmax.default, aten._log_softmax.default, aten.cumsum.default, aten.cumprod.default,
         aten.slice.Tensor, aten.select.int, aten.cat.default, aten.index_select.default), _along),
    aten.native_layer_norm.default: _layer_norm,
    aten.embedding.default: _embedding,
    aten.full.default: _made,
}  # fmt: skip


def axes_of(graph: torch.fx.Graph, symbol) -> tuple[list, list] | None:
    """Where s is in a piece's tensors and in its results, each None where it is not; None: the piece is not by rows.

    Of an input whose axis is a multiple of s nobody knows how it is grouped: both ways are tried.
    """
    for outermost in (False, True):
        walk = _Walk(symbol, outermost)
        try:
            for node in graph.nodes:
                if node.op == "placeholder":
                    walk.input(node)
                elif node.op == "call_function":
                    walk.operator(node)
        except _No:
            continue
        inputs = [walk.axes[n] for n in graph.nodes if n.op == "placeholder" and n in walk.axes]
        output = next(node for node in graph.nodes if node.op == "output").args[0]
        results = list(output) if isinstance(output, (list, tuple)) else [output]
        return inputs, [walk.axes[node] for node in results]
    return None


def _tensors(graph: torch.fx.Graph) -> list:
    """A piece's inputs and results, as axes_of has their axes."""
    inputs = [n.meta["val"] for n in graph.nodes if n.op == "placeholder" and isinstance(n.meta["val"], torch.Tensor)]
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    return inputs + [node.meta["val"] for node in (output if isinstance(output, (list, tuple)) else [output])]


def row_bytes(graph: torch.fx.Graph, axes: tuple[list, list]) -> int:
    """What one more of s is to read and write; the same whatever extent the piece was traced with."""
    total = 0
    for value, axis in zip(_tensors(graph), [*axes[0], *axes[1]], strict=True):
        if axis is not None:
            extent = _shapes.number(value.shape[axis.dim]) // (axis.outer * axis.inner)
            total += _shapes.bytes_of(value) // max(1, extent)
    return total


def lead(graph: torch.fx.Graph, axes: tuple[list, list]) -> bool:
    """Whether s is outermost in all memory: some of its rows are then a part of every tensor, which is dense itself."""
    pairs = zip(_tensors(graph), [*axes[0], *axes[1]], strict=True)
    return all(axis is None or axis.outer * _product(value.shape[: axis.dim]) == 1 for value, axis in pairs)


def part(tensor: torch.Tensor, axis: Axis, begin: int, count: int) -> torch.Tensor:
    """A view of rows where s is outermost."""
    return tensor.narrow(axis.dim, begin * axis.inner, count * axis.inner)


def _grouped(shape, axis: Axis, extent: int) -> tuple:
    before, after = math.prod(shape[: axis.dim]), math.prod(shape[axis.dim + 1 :])
    return before * axis.outer, extent, axis.inner * after


def padded(tensor: torch.Tensor, axis: Axis, extent: int, bucket: int) -> torch.Tensor:
    """A dense tensor with its rows and, up to the bucket, its first row again: with values that there are nothing can
    happen in these that does not happen without them."""
    outer, _, inner = _grouped(tensor.shape, axis, extent)
    rows = tensor.reshape(outer, extent, inner)
    result = tensor.new_empty((outer, bucket, inner))
    result[:, :extent] = rows
    result[:, extent:] = rows[:, :1]
    shape = list(tensor.shape)
    shape[axis.dim] = axis.outer * bucket * axis.inner
    return result.view(shape)


def cut(tensor: torch.Tensor, axis: Axis, extent: int, bucket: int) -> torch.Tensor:
    """The rows without those that were appended; dense."""
    outer, _, inner = _grouped(tensor.shape, axis, bucket)
    shape = list(tensor.shape)
    shape[axis.dim] = axis.outer * extent * axis.inner
    return tensor.view(outer, bucket, inner)[:, :extent].contiguous().view(shape)
