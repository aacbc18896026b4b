"""What a case is: inputs, one function in PyTorch and in JAX, and what is needed to judge a result.

A case's functions take the tree of its inputs, one argument an entry, and are written as a user would write them. With
`gradients` they are the forward part only: the last `cotangents` inputs belong to its results, and what is measured is
the forward results followed by the gradients of the named inputs. A loss (no cotangent) has the cotangent 1.
"""
import dataclasses
import math
import typing
import zlib

import numpy as np

BYTES = {"pred": 1, "s8": 1, "f8e4m3fn": 1, "s32": 4, "u32": 4, "f16": 2, "bf16": 2, "f32": 4}
# Unit roundoff.
ROUNDOFF = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
# Drawing is slow for big tensors: this many values are drawn, then repeated. A prime, so that rows differ.
DISTINCT = 8_388_593


def normal(scale=1.0, mean=0.0):
    return lambda random, count: mean + scale * random.standard_normal(count, dtype=np.float32)


def positive(scale=1.0):
    """Second moments of an optimizer: squares."""
    return lambda random, count: scale * np.square(random.standard_normal(count, dtype=np.float32)) + np.float32(1e-8)


def uniform(low=0.0, high=1.0):
    return lambda random, count: low + (high - low) * random.random(count, dtype=np.float32)


def keep(probability):
    return lambda random, count: random.random(count, dtype=np.float32) < probability


def integer(end):
    return lambda random, count: random.integers(0, end, count, dtype=np.int32)


def value(number):
    return lambda random, count: np.full(count, number)


@dataclasses.dataclass(frozen=True)
class Input:
    """One tensor. `draw` makes `count` values of it; `shaped` makes the whole array where its values follow from their
    place. `read`: elements that have to be read, where that is fewer than all (a look-up)."""
    name: str
    shape: tuple
    dtype: str = "f32"
    draw: typing.Callable = normal()
    shaped: typing.Callable | None = None
    read: int | None = None

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def needed_bytes(self):
        return BYTES[self.dtype] * (self.size if self.read is None else min(self.read, self.size))

    def array(self, seed):
        """The tensor as numpy; 16-bit floats are rounded from float32."""
        if self.shaped is not None:
            return self.shaped(self.shape).astype(numpy_dtype(self.dtype))
        drawn = self.draw(np.random.default_rng(seed), min(self.size, DISTINCT)).astype(numpy_dtype(self.dtype))
        return np.resize(drawn, self.shape)


def numpy_dtype(name):
    if name in ("bf16", "f8e4m3fn"):
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16 if name == "bf16" else ml_dtypes.float8_e4m3fn)
    return np.dtype({"pred": "?", "s8": "i1", "s32": "i4", "u32": "u4", "f16": "f2", "f32": "f4"}[name])


def dtype_name(dtype):
    return {"bool": "pred", "int8": "s8", "float8_e4m3fn": "f8e4m3fn", "int32": "s32", "uint32": "u32", "float16": "f16", "bfloat16": "bf16",
            "float32": "f32"}[np.dtype(dtype).name]


def tree(entry, function):
    """function of every input of a tree (tensors, or lists of them), in the same tree."""
    return [tree(part, function) for part in entry] if isinstance(entry, (list, tuple)) else function(entry)


def leaves(entry):
    return [leaf for part in entry for leaf in leaves(part)] if isinstance(entry, (list, tuple)) else [entry]


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table.

    inputs       function of the dimensions: a list of Input, or of lists of them
    dimensions   what is measured; `check` replaces some of them where a CPU would take long
    reduction    lengths of the sums behind an element of a result, as dimensions or products ("batch*side"); the
                 longest counts
    roundings    how often a value may be rounded to its stored dtype on the way to a result
    gradients    inputs (places) whose gradients are taken too; `cotangents`: how many inputs at the end belong to them
    compiled     what a user gives to torch.compile, where that is another function than what runs eagerly
    torch_state  rearranges the tensors once for the PyTorch functions, before anything is timed
    torch_random PyTorch draws its own random bits: its results are not compared
    mutates      the PyTorch function updates its arguments in place
    source       where the case is from, when it is a fragment of a model
    """
    name: str
    family: str
    inputs: typing.Callable
    dimensions: dict
    torch: typing.Callable
    jax: typing.Callable
    check: dict = dataclasses.field(default_factory=dict)
    reduction: tuple = ()
    roundings: int = 2
    gradients: tuple = ()
    cotangents: int = 1
    compiled: typing.Callable | None = None
    torch_state: typing.Callable | None = None
    torch_random: bool = False
    mutates: bool = False
    source: str = ""
    note: str = ""

    def sized(self, checked=False):
        return {**self.dimensions, **(self.check if checked else {})}

    def input_tree(self, checked=False):
        return self.inputs(**self.sized(checked))

    def arrays(self, checked=False, seed=1):
        """The inputs' tree as numpy arrays; the same ones for the same seed."""
        start = zlib.crc32(self.name.encode())
        numbers = iter(range(10**6))
        return tree(self.input_tree(checked), lambda leaf: leaf.array([seed, start, next(numbers)]))

    def reduction_length(self, checked=False):
        sizes = self.sized(checked)
        return max((math.prod(sizes[name] for name in term.split("*")) for term in self.reduction), default=1)

    def jax_function(self):
        """Forward, and backward where the case has gradients, as one function of all inputs."""
        if not self.gradients:
            return self.jax
        import jax
        import jax.numpy as jnp

        def both(*arguments):
            given = arguments[:len(arguments) - self.cotangents]

            def forward(*chosen):
                full = list(given)
                for place, argument in zip(self.gradients, chosen, strict=True):
                    full[place] = argument
                return self.jax(*full)
            result, pull = jax.vjp(forward, *(given[place] for place in self.gradients))
            cotangent = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(result),
                                                     arguments[len(given):] or [jnp.ones_like(result)])
            return result, pull(cotangent)
        return both

    def results(self, checked=False):
        """Shapes and dtypes of the results, flat, in the order in which both frameworks give them."""
        import jax
        specs = tree(self.input_tree(checked), lambda leaf: jax.ShapeDtypeStruct(leaf.shape, numpy_dtype(leaf.dtype)))
        return jax.tree_util.tree_leaves(jax.eval_shape(self.jax_function(), *specs))

    def ideal_bytes(self, checked=False):
        """Every input read once (of a look-up's table: the rows used), every result written once."""
        read = sum(leaf.needed_bytes for leaf in leaves(self.input_tree(checked)))
        return read + sum(math.prod(r.shape) * BYTES[dtype_name(r.dtype)] for r in self.results(checked))

    def tolerances(self, checked=False):
        """Allowed error of each result."""
        length = self.reduction_length(checked)
        return [tolerance(dtype_name(result.dtype), length, self.roundings) for result in self.results(checked)]


def tolerance(dtype, length, roundings):
    """Allowed error of a result, as a share of (its size + the root mean square of the whole result).

    A value is rounded to its stored dtype `roundings` times, by half a unit each; three times that, because errors of
    factors add up and the largest of millions is compared. On top of it float32 arithmetic: 64 roundoffs (exp, erf and
    pow are off by up to 20 units in vectorised and fast implementations, times the conditioning of what follows), and
    four for each √n of a sum's random walk (PyTorch's serial column sums on a CPU come near three).
    """
    accumulated = ROUNDOFF["f32"] * (64 + 4 * math.sqrt(length))
    stored = 3 * ROUNDOFF[dtype] * roundings if dtype != "f32" else 0.0
    return stored + accumulated
