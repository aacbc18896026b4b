"""Which operators of a graph become kernels of ours, and which together."""

import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from . import _document, _report, _shapes

# What a library does best: products, convolutions, attention. Neither ours nor a fall-back, unless they are asked for.
_LIBRARY = (
    "aten._cudnn_rnn",
    "aten._efficient_attention",
    "aten._flash_attention",
    "aten._grouped_mm",
    "aten._scaled_",
    "aten.addbmm",
    "aten.addmm",
    "aten.addmv",
    "aten.baddbmm",
    "aten.bmm",
    "aten.convolution",
    "aten.dot",
    "aten.mm",
    "aten.mv",
    "aten.mkldnn",
    "mkldnn.",
)

# What computes nothing: PyTorch gives another view of the same memory, or memory without contents.
_VIEWS = {
    f"aten.{name}"
    for name in (
        "_unsafe_view.default alias.default as_strided.default detach.default diagonal.default empty.memory_format"
        " empty_like.default empty_permuted.default empty_strided.default expand.default imag.default"
        " lift_fresh.default new_empty.default new_empty_strided.default permute.default real.default reshape.default"
        " select.int slice.Tensor split.Tensor split_with_sizes.default squeeze.default squeeze.dim squeeze.dims"
        " t.default transpose.int unbind.int unfold.default unsqueeze.default view.default view_as_complex.default"
        " view_as_real.default"
    ).split()
}


def is_library(node) -> bool:
    return str(node.target).startswith(_LIBRARY)


def is_random(node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def mark_as_seed(node) -> None:
    """Of what gives random operators of ours their seeds: PyTorch runs it, and it is no operator of the program's."""
    node.meta["stitch_seed"] = True


def _is_seed(node) -> bool:
    return node.meta.get("stitch_seed", False)


def is_item(node) -> bool:
    """Whether it takes one of an operator's several results."""
    return node.op == "call_function" and node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node)


def is_view(node) -> bool:
    return node.target is operator.getitem or str(node.target) in _VIEWS


def writes_its_input(function):
    """Marks what stands in a graph for an operator that writes where its first operand lies, and returns that."""
    function.writes_its_input = True
    return function


def is_write(node) -> bool:
    return node.op == "call_function" and getattr(node.target, "writes_its_input", False)


def is_operator(node) -> bool:
    """Whether it computes a tensor."""
    if node.op != "call_function" or _is_seed(node):
        return False
    return not is_view(node) and not is_write(node) and not _shapes.is_symbol(node)


# So small a part of the bytes that a graph reads, and no larger one, may wait for a piece although it could be freed.
# A sixteenth has BERT at eager's peak with 26 kernels in forward and backward, an eighth at 1.02 with 22; all: 1.59, 16.
_WAITING_PART = 8


class _Support(OperatorSupportBase):
    """`products`: whether products, convolutions and attention are ours, too."""

    def __init__(self, device: torch.device, products: bool):
        self.device, self.products, self.reasons = device, products, {}

    def is_node_supported(self, submodules, node) -> bool:
        if node.op != "call_function" or _shapes.is_symbol(node) or is_write(node) or _is_seed(node):
            return False
        if node.target is operator.getitem:
            of = node.args[0]
            return isinstance(of, torch.fx.Node) and of.op == "call_function" and self.is_node_supported({}, of)
        if node not in self.reasons:
            of_library = is_library(node) and not self.products
            self.reasons[node] = "of the library" if of_library else _document.refusal(node, self.device)
        return self.reasons[node] is None


def _without_outer_views(nodes: list, graph_nodes: dict) -> list:
    """A partition without views that lead out of it: what they show is its result, and PyTorch views it for nothing."""
    inside = set(nodes)
    for node in sorted(nodes, key=graph_nodes.__getitem__, reverse=True):
        leads_out = not any(user in inside for user in node.users)
        # Results of an operator that has several are taken out of it inside.
        if leads_out and is_view(node) and node.target is not operator.getitem:
            inside.discard(node)
    return [node for node in nodes if node in inside]


def _bytes_of(node) -> int:
    return sum(_shapes.bytes_of(value) for value in _document.values_of(node) if isinstance(value, torch.Tensor))


def _held_outside(node) -> bool:
    """Whether a value is an input of the program's, by AOTAutograd's name: its caller holds it anyway."""
    return node.op == "placeholder" and node.name.startswith(("primals_", "arg"))


def _components(nodes: list) -> list:
    """A partition's parts that no value connects."""
    above = {node: node for node in nodes}

    def root(node):
        while above[node] is not node:
            above[node] = node = above[above[node]]
        return node

    for node in nodes:
        for argument in node.all_input_nodes:
            if argument in above:
                above[root(argument)] = root(node)
    parts = {}
    for node in nodes:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())


def _without_long_waits(nodes: list, order: dict, limit: int) -> list:
    """A partition as several, in each of which what waits for its end although it could be freed is below `limit` bytes.

    A piece runs where its last operator stands. Gradients of biases and of norms' weights lead nowhere, so that those of
    all layers are one partition: every layer's gradients would be held until the backward's end.
    """
    groups, reads = [], set()
    for part in sorted(_components(nodes), key=lambda part: order[part[-1]]):
        waiting = [node for node in reads if max(map(order.__getitem__, node.users)) < order[part[0]]]
        if not groups or sum(map(_bytes_of, waiting)) > limit:
            groups.append([])
            reads = set()
        groups[-1] += part
        reads |= {n for node in part for n in node.all_input_nodes if not _held_outside(n)}.difference(part)
    return [sorted(group, key=order.__getitem__) for group in groups]


def _pieces(graph_module, support: OperatorSupportBase) -> list:
    partitioner = CapabilityBasedPartitioner(graph_module, support, allows_single_node_partition=True)
    order = {node: i for i, node in enumerate(graph_module.graph.nodes)}
    pieces = [sorted(part.nodes, key=order.__getitem__) for part in partitioner.propose_partitions()]
    calls = [node for node in graph_module.graph.nodes if node.op in ("call_function", "call_module")]
    foreign = [node for node in calls if not support.is_node_supported({}, node)]
    if not foreign and len(pieces) > 1:  # an optimizer's updates: one fragment, whose kernels are packed
        pieces = [sorted((node for piece in pieces for node in piece), key=order.__getitem__)]
    elif foreign:
        limit = sum(_bytes_of(node) for node in graph_module.graph.nodes if node.op == "placeholder") // _WAITING_PART
        pieces = [part for piece in pieces for part in _without_long_waits(piece, order, limit)]
    pieces = [_without_outer_views(piece, order) for piece in pieces]
    return [piece for piece in pieces if any(not is_view(node) for node in piece)]


def split(graph_module: torch.fx.GraphModule, device: torch.device, products: bool = False):
    """Takes our pieces out of a graph, in place. Returns the modules that they became, by name.

    Counts operators for the report, and says what PyTorch keeps. `device`: of the tensors that are ours. `products`:
    products, convolutions and attention are, too, as far as there are rules for them; the rest is the library's.
    """
    support = _Support(device, products)
    pieces = _pieces(graph_module, support)
    ours = {node for piece in pieces for node in piece}
    for node in graph_module.graph.nodes:
        if not is_operator(node):
            continue
        _report.count("operators")
        if is_library(node):
            _report.count("operators_library")
            if node in ours:
                _report.count("products_ours")
        elif node in ours:
            _report.count("operators_ours")
        elif support.reasons.get(node):
            _report.fell_back(str(node.target), support.reasons[node], _document.where(node))
    reasons = {str(n.target): r for n, r in support.reasons.items() if r and not is_library(n) and not is_view(n)}
    return _fused(graph_module, pieces, "fused_"), reasons


def rest_of(graph_module: torch.fx.GraphModule, support: OperatorSupportBase) -> dict:
    """Takes what another compiler is to have out of a graph whose pieces of ours are taken out, likewise."""
    return _fused(graph_module, _pieces(graph_module, support), "rest_")


def _symbols_of_inputs(graph: torch.fx.Graph) -> dict:
    """Of symbols, the input that has one's value, or the input and dimension that it is the extent of."""
    numbers, extents = {}, {}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            numbers[_shapes.expression(value)] = node
        for dim, extent in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(extent, torch.SymInt):
                extents[_shapes.expression(extent)] = node, dim
    return {**extents, **numbers}


def _extent(graph: torch.fx.Graph, of, dim: int) -> torch.fx.Node:
    """An input's extent, read at once: the input is not kept for it."""
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        node = graph.call_function(torch.ops.aten.sym_size.int, (of, dim))
    node.meta["val"] = of.meta["val"].shape[dim]
    return node


def give_extents(graph_module: torch.fx.GraphModule, modules: dict) -> None:
    """Has parts of a graph take as inputs the symbols that their values' extents are made of: Inductor does not find s0
    and s1 where all it is given has s0 * s1 elements."""
    known = _symbols_of_inputs(graph_module.graph)
    for node in graph_module.graph.find_nodes(op="call_module"):
        if node.target not in modules:
            continue
        inside = modules[node.target].graph
        values = [one.meta.get("val") for one in inside.nodes if one.op != "output"]
        inputs = inside.find_nodes(op="placeholder")
        given = {_shapes.expression(v) for v in (one.meta.get("val") for one in inputs) if isinstance(v, torch.SymInt)}
        for symbol in sorted(_shapes.symbols_of(values) - given, key=str):
            if symbol not in known:
                continue
            if isinstance(known[symbol], tuple):
                known[symbol] = _extent(graph_module.graph, *known[symbol])
            # Behind all others, as in the call: some releases (2.11) make inputs where they are first read, so that
            # operators stand before some of them.
            with inside.inserting_after(next(iter(inside.find_nodes(op="placeholder")[::-1]), None)):
                inside.placeholder(f"extent_{symbol}").meta["val"] = known[symbol].meta["val"]
            node.args = (*node.args, known[symbol])
        modules[node.target].recompile()


def _fused(graph_module: torch.fx.GraphModule, pieces: list, prefix: str) -> dict:
    before = {name for name, _ in graph_module.named_children()}
    fuse_by_partitions(graph_module, [dict.fromkeys(piece) for piece in pieces], prefix)
    return {name: child for name, child in graph_module.named_children() if name not in before}
