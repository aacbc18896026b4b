"""Random numbers that kernels of ours draw where they are used: no mask of dropout lies in memory.

A number depends on a seed and its place alone (Philox-4x32 with 10 rounds, a block for four neighbours; Salmon et al.,
SC'11). Its bits are the same in forward and backward, in kernels and, until they are there, in PyTorch, and so is what is
decided by bits alone (dropout); what is decided by comparing a number with a computed one is kept. Seeds come from PyTorch's generator, one operator a call of a graph: torch.manual_seed decides as ever, but the
numbers are not those that eager draws (option `random`).
"""

import math
from collections.abc import Sequence

import torch
from torch._subclasses import FakeTensor
from torch.utils.checkpoint import CheckpointPolicy

from . import _partition

aten = torch.ops.aten
_BITS = 24
_FACTORS, _STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


@torch.library.custom_op("stitch::random_bits", mutates_args=())
def random_bits(seed: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """24 random bits an element, as s32 [size], dense. `seed`: s64 [2], the key and half of the counter."""
    count = math.prod(size)
    (key0, key1), (y, z) = ((word & _WORD, word >> 32 & _WORD) for word in seed.unbind())
    x = torch.arange((count + 3) // 4, device=seed.device)
    y, z, w = y.expand_as(x), z.expand_as(x), torch.zeros_like(x)
    for _ in range(10):
        # 64 bits of them are right, whatever their sign.
        first, second = x * _FACTORS[0], z * _FACTORS[1]
        x, z = ((second >> 32) ^ y ^ key0) & _WORD, ((first >> 32) ^ w ^ key1) & _WORD
        y, w = second & _WORD, first & _WORD
        key0, key1 = key0 + _STEPS[0], key1 + _STEPS[1]
    words = torch.stack((x, y, z, w), -1).view(-1)[:count]
    return (words >> (32 - _BITS)).to(torch.int32).view(size)


@random_bits.register_fake
def _(seed, size):
    return seed.new_empty(size, dtype=torch.int32)


class _Site:
    """Where a random operator stands in a graph: what is put in its place, operator by operator."""

    def __init__(self, node: torch.fx.Node, seeds: torch.fx.Node, index: int):
        self.node, self.value, self._seeds, self._index = node, node.meta["val"], seeds, index

    def call(self, target, *args, **kwargs) -> torch.fx.Node:
        return _call(self.node, target, *args, **kwargs)

    def bits(self) -> torch.fx.Node:
        """24 of them for each element, dense."""
        seed = self.call(aten.select.int, self._seeds, 0, self._index)
        self._index += 1
        _partition.mark_as_seed(seed)
        size = [_extent(self, i) for i in range(self.value.dim())]
        drawn = self.call(torch.ops.stitch.random_bits.default, seed, size)
        # Never saved: to draw them anew takes a seed. What torch.utils.checkpoint says of them it says of the mask.
        drawn.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
        return drawn

    def _whole(self, digits: int) -> torch.fx.Node:
        """A whole number of so many bits, as f32."""
        bits = self.bits()
        if digits < _BITS:
            bits = self.call(aten.bitwise_right_shift.Tensor_Scalar, bits, _BITS - digits)
        return self.call(aten._to_copy.default, bits, dtype=torch.float32)

    def uniform(self, digits: int = _BITS) -> torch.fx.Node:
        """In [0, 1), as f32 of so many digits."""
        return self.call(aten.mul.Scalar, self._whole(digits), 2.0**-digits)

    def logarithm(self) -> torch.fx.Node:
        """Of what is uniform in (0, 1): neither infinite nor 0, of which others take the logarithm again."""
        between = self.call(aten.add.Scalar, self._whole(_BITS - 1), 0.5)  # which f32 has exactly
        return self.call(aten.log.default, self.call(aten.mul.Scalar, between, 2.0 ** (1 - _BITS)))

    def normal(self) -> torch.fx.Node:
        """Box and Muller's, as f32."""
        radius = self.call(aten.sqrt.default, self.call(aten.mul.Scalar, self.logarithm(), -2.0))
        angle = self.call(aten.mul.Scalar, self.uniform(), 2.0 * math.pi)
        return self.call(aten.mul.Tensor, radius, self.call(aten.cos.default, angle))

    def scaled(self, drawn, factor: float, offset: float) -> torch.fx.Node:
        if factor != 1.0:
            drawn = self.call(aten.mul.Scalar, drawn, factor)
        return drawn if offset == 0.0 else self.call(aten.add.Scalar, drawn, offset)


def _extent(site: _Site, dim: int):
    """Of what is drawn: a number, that of a list of extents that was given, or that of the tensor that it is like."""
    if isinstance(extent := site.value.shape[dim], int):
        return extent
    if sizes := [given for given in site.node.args if isinstance(given, (list, tuple))]:
        return sizes[0][dim]
    return site.call(aten.sym_size.int, site.node.args[0], dim)


def _call(instead_of: torch.fx.Node, target, *args, **kwargs) -> torch.fx.Node:
    """A node with its traced result, which otherwise is known as what it takes part in the place of."""
    node = instead_of.graph.call_function(target, args, kwargs)
    node.meta = {name: value for name, value in instead_of.meta.items() if name != "tensor_meta"}
    args, kwargs = torch.fx.map_arg((args, kwargs), lambda one: one.meta["val"])
    with instead_of.meta["val"].fake_mode:
        node.meta["val"] = target(*args, **kwargs)
    return node


def _keep(node: torch.fx.Node) -> torch.fx.Node:
    """What is not to be computed twice, not by a checkpoint either."""
    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    node.meta.pop("ac_graph_id", None)
    return node


def _chances(site: _Site, x, p=0.5, generator=None):
    """Ones where the bits are below p · 2^24: the same in kernels and in PyTorch, whatever rounds how."""
    return site.call(aten.lt.Scalar, site.bits(), round(p * (1 << _BITS)))


def _chances_of(site: _Site, probabilities, generator=None):
    # Which may be rounded here and not there.
    return _keep(site.call(aten.lt.Tensor, site.uniform(), probabilities))


def _digits(site: _Site) -> int:
    """So many that no number is rounded up to 1."""
    return min(_BITS, 1 - int(math.log2(torch.finfo(site.value.dtype).eps)))


def _below(number: float, dtype: torch.dtype) -> float:
    """The greatest of a type that is less than a number."""
    bits = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    found = torch.tensor(number, dtype=dtype, device="cpu")
    if found.item() < number:
        return found.item()
    if found == 0:
        return -torch.tensor(1, dtype=bits).view(dtype).item()
    return (found.view(bits) + (-1 if found > 0 else 1)).view(dtype).item()


def _uniform(site: _Site, *size, **options):
    return site.uniform(_digits(site))


def _uniform_between(site: _Site, x, low=0.0, high=1.0, generator=None):
    drawn = site.scaled(site.uniform(_digits(site)), high - low, low)
    return site.call(aten.clamp_max.default, drawn, _below(high, site.value.dtype)) if low < high else drawn


def _normal(site: _Site, *size, **options):
    return site.normal()


def _normal_around(site: _Site, x, mean=0.0, std=1.0, generator=None):
    return site.scaled(site.normal(), std, mean)


def _normal_of_size(site: _Site, mean, std, size, **options):
    return site.scaled(site.normal(), std, mean)


def _exponential(site: _Site, x, rate=1.0, generator=None):
    return site.scaled(site.logarithm(), -1.0 / rate, 0.0)


# What draws instead of an operator, and how many seeds that takes.
_RULES = {
    aten.bernoulli.default: (_chances_of, 1),
    aten.bernoulli.p: (_chances, 1),
    aten.exponential.default: (_exponential, 1),
    aten.normal.float_float: (_normal_of_size, 2),
    aten.normal_functional.default: (_normal_around, 2),
    aten.rand.default: (_uniform, 1),
    aten.rand_like.default: (_uniform, 1),
    aten.randn.default: (_normal, 2),
    aten.randn_like.default: (_normal, 2),
    aten.uniform.default: (_uniform_between, 1),
}
_TYPES = {torch.bool, torch.float16, torch.bfloat16, torch.float32}


def _is_ours(node: torch.fx.Node, device: torch.device) -> bool:
    if node.op != "call_function" or node.target not in _RULES:
        return False
    value = node.meta.get("val")
    return (
        isinstance(value, FakeTensor)
        and value.device == device
        and value.dtype in _TYPES
        and value.is_contiguous()
        and all(isinstance(of.meta.get("val"), (torch.Tensor, torch.SymInt)) for of in node.all_input_nodes)
        and not any(isinstance(one, torch.Generator) for one in (*node.args, *node.kwargs.values()))
    )


_NAMES = ("dropout", "rand", "bernoulli", "normal_", "uniform", "exponential")


def may_be_in(graph: torch.fx.Graph) -> bool:
    """Whether a graph of Dynamo's looks as if it had random operators, by the names of what it calls."""
    return any(name in str(node.target) for node in graph.nodes for name in _NAMES)


def drawn_in(graph: torch.fx.Graph, device: torch.device) -> list:
    """A graph's random operators that can draw from seeds: not those of other types, orders and devices."""
    return [node for node in graph.nodes if _is_ours(node, device)]


def take_over(graph: torch.fx.Graph, nodes: list) -> None:
    """Has these operators of a graph draw from seeds, in place."""
    device = nodes[0].meta["val"].device
    with graph.inserting_before(nodes[0]):
        size = [sum(_RULES[node.target][1] for node in nodes), 2]
        limits = torch.iinfo(torch.int64)
        seeds = _call(nodes[0], aten.randint.low, limits.min, limits.max, size, dtype=torch.int64, device=device)
    _partition.mark_as_seed(_keep(seeds))
    index = 0
    for node in nodes:
        function, count = _RULES[node.target]
        with graph.inserting_before(node):
            site = _Site(node, seeds, index)
            drawn = function(site, *node.args, **node.kwargs)
            if drawn.meta["val"].dtype != site.value.dtype:
                drawn = site.call(aten._to_copy.default, drawn, dtype=site.value.dtype)
        index += count
        node.replace_all_uses_with(drawn)
        graph.erase_node(node)
    graph.lint()
