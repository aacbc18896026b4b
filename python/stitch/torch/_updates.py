"""Inputs that a graph updates, such as an optimizer's parameters and state.

AOTAutograd leaves updates in inference graphs as copies into inputs behind everything else. Where a part of an input was
written, it is written there instead; and a piece of ours that reads an input last of all may write its update over it.
Of the others, one by one would be a kernel for every tensor; together they are a few.
"""

import operator

import torch

from . import _memory, _partition, _report, _shapes


def _seen_through_views(value):
    while isinstance(value, torch.fx.Node) and value.op == "call_function" and _partition.is_view(value):
        value = value.args[0]
    return value


def _reads_an_input(value) -> bool:
    """Whether a value may be an input's memory."""
    value = _seen_through_views(value)
    return not isinstance(value, torch.fx.Node) or value.op in ("placeholder", "get_attr")


@_partition.writes_its_input
def _put(x, indices, values, accumulate=False):
    return torch.ops.aten.index_put_.default(x, indices, values, accumulate)  # which takes None among the indices


@_partition.writes_its_input
def _write_slice(x, src, dim=0, start=None, end=None, step=1):
    torch.ops.aten.slice.Tensor(x, dim, start, end, step).copy_(src)
    return x


@_partition.writes_its_input
def _write_select(x, src, dim, index):
    x.select(dim, index).copy_(src)
    return x


@_partition.writes_its_input
def _scatter(x, dim, index, src):
    return x.scatter_(dim, index, src)


_IN_PLACE = {
    torch.ops.aten.index_put.default: (_put, 2),
    torch.ops.aten.slice_scatter.default: (_write_slice, 1),
    torch.ops.aten.select_scatter.default: (_write_select, 1),
    torch.ops.aten.scatter.src: (_scatter, 3),
}
"""Operators that write a part of their first operand: what writes it there, and which operand is written."""


def _readers(value, but) -> list:
    """Who reads a value, through views of it as well; but for one."""
    found = []
    for user in value.users:
        if user is not but:
            found += _readers(user, but) if _partition.is_view(user) else [user]
    return found


def _ancestors(node) -> set:
    seen, left = set(), [node]
    while left:
        for one in left.pop().all_input_nodes:
            if one not in seen:
                seen.add(one)
                left.append(one)
    return seen


def _written(write):
    """What a write writes: behind what broadcasts and converts it to a part's shape, which the write does, too."""
    _, place = _IN_PLACE[write.target]
    src = write.args[place]
    if isinstance(src, torch.fx.Node) and src.target is torch.ops.aten.copy.default:
        src = src.args[1]
    return _seen_through_views(src)


def _chain(copy, target, value) -> list:
    """The writes of parts that make `value` of an input, first to last; none where somebody else may read, in whatever
    order, what a write has overwritten."""
    chain = []
    while value is not target:
        if not isinstance(value, torch.fx.Node) or value.op != "call_function" or value.target not in _IN_PLACE:
            return []
        chain.append(value)
        value = value.args[0]
    for written, write in zip([target, *chain[:0:-1]], chain[::-1], strict=True):
        before = _ancestors(write)
        if _written(write) in (target, *chain):  # a part is moved within its tensor
            return []
        if any(reader not in before for reader in _readers(written, write) if reader is not copy):
            return []
    return chain[::-1]


def _without_shapes_of_parts(graph: torch.fx.Graph) -> None:
    """What is written to a part is broadcast and converted where it is written: what says so of a view is left out."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in (_write_slice, _write_select):
            src = node.args[1]
            if src.op == "call_function" and src.target is torch.ops.aten.copy.default and len(src.users) == 1:
                node.update_arg(1, src.args[1])
                view = src.args[0]
                graph.erase_node(src)
                if isinstance(view, torch.fx.Node) and _partition.is_view(view) and not view.users:
                    graph.erase_node(view)


def write_parts(graph: torch.fx.Graph) -> None:
    """Has a graph write parts of inputs where they are (caches of keys and values), instead of making the whole anew and
    copying it: PyTorch's operators do it, behind which stands whoever reads the result."""
    for copy in list(graph.nodes):
        if copy.op != "call_function" or copy.target is not torch.ops.aten.copy_.default or copy.users:
            continue
        target, value = copy.args[:2]
        chain = _chain(copy, target, value) if target.op == "placeholder" else []
        if not chain or any(user.op == "output" for user in value.users):
            continue
        graph.erase_node(copy)
        for node in chain:
            node.target, _ = _IN_PLACE[node.target]
    _without_shapes_of_parts(graph)


def take_out(graph: torch.fx.Graph) -> list:
    """Takes the copies into inputs out of a graph, and has it return what they copy instead, behind its results: who puts
    operators in other orders does not see that copies write. The inputs by their places: splitting makes nodes anew.
    Errors: ValueError (something else reads what was written)."""
    places = {node: place for place, node in enumerate(graph.find_nodes(op="placeholder"))}
    targets, values = [], []
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.aten.copy_.default:
            continue
        target, value = node.args[:2]
        if target not in places or any(user.op != "output" for user in node.users):
            raise ValueError(f"{node} writes to what is no input, or is read")
        node.replace_all_uses_with(target)
        graph.erase_node(node)
        targets.append(places[target])
        values.append(value)
    if targets:
        (output,) = graph.find_nodes(op="output")
        output.args = ((*output.args[0], *values),)
    return targets


def _piece_of(value):
    """The piece whose result a value is, and which of its results; none of what is no piece's."""
    if value.op == "call_module":
        return value, 0
    if value.target is operator.getitem and value.args[0].op == "call_module":
        return value.args
    return None, 0


def _is_dense(target, value) -> bool:
    """Whether both are of one type, and lie in memory in the order of their elements."""
    a, b = target.meta["val"], value.meta["val"]
    if _shapes.symbols_of([a, b]):
        return False
    return (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()) and a.is_contiguous()


def in_place(graph: torch.fx.Graph, targets: list, keeps_order: bool) -> dict:
    """By piece, as (its input, its result): updates that it may write where the input lies. The piece has to read the
    input last of all, or alone where the graph's order does not stay, and whoever calls the graph must not be given what
    was written there besides."""
    if not targets:
        return {}
    (output,) = graph.find_nodes(op="output")
    inputs = list(graph.find_nodes(op="placeholder"))
    order = {node: place for place, node in enumerate(graph.nodes)}
    results = list(output.args[0])
    found: dict = {}
    for place, value in zip(targets, results[len(results) - len(targets) :], strict=True):
        target = inputs[place]
        if not isinstance(value, torch.fx.Node):
            continue
        piece, number = _piece_of(value)
        if piece is None or piece.args.count(target) != 1 or not _is_dense(target, value):
            continue
        readers = _readers(target, None)
        before = [reader for reader in readers if keeps_order and order[reader] < order[piece]]
        last = len(readers) == len(before) + 1
        given = results.count(value) != 1 or _readers(value, None).count(output) != 1
        if last and not given:
            found.setdefault(piece.target, []).append((piece.args.index(target), number))
    return found


def _is_written(target: torch.Tensor, value: torch.Tensor) -> bool:
    try:
        return _memory.address(target) == _memory.address(value)
    except _memory.Absent:
        return False


def write_back(targets: list, values: list, size: int) -> None:
    """`size`: of the values, in bytes."""
    pairs = list(zip(targets, values, strict=True))
    written = [target for target, value in pairs if _is_written(target, value)]
    if written:
        # As a copy would tell autograd, which looks whether what it saved is still what it was.
        torch.autograd.graph.increment_version([target for target in written if not target.is_inference()])
        size -= sum(target.nbytes for target in written)
        pairs = [(target, value) for target, value in pairs if not _is_written(target, value)]
    if pairs:
        torch._foreach_copy_(*map(list, zip(*pairs, strict=True)))
    _report.count("updated_bytes", size)


def put_back(graph: torch.fx.Graph, targets: list, together: bool) -> None:
    """The copies, at the end of the graph again; `together` where no order matters: where no value is an input, which
    another copy may write."""
    if not targets:
        return
    (output,) = graph.find_nodes(op="output")
    count = len(output.args[0]) - len(targets)
    values = output.args[0][count:]
    output.args = (output.args[0][:count],)
    inputs = list(graph.find_nodes(op="placeholder"))
    targets = [inputs[place] for place in targets]
    with graph.inserting_before(output):
        if not together or any(map(_reads_an_input, values)):
            for pair in zip(targets, values, strict=True):
                graph.call_function(torch.ops.aten.copy_.default, pair)
            return
        by_device = {}  # an optimizer's counts of steps are the host's, beside a GPU's parameters
        for target, value in zip(targets, values, strict=True):
            of_one = by_device.setdefault(target.meta["val"].device, ([], []))
            of_one[0].append(target)
            of_one[1].append(value)
        for of_one in by_device.values():
            size = sum(_shapes.bytes_of(target.meta["val"]) for target in of_one[0])
            graph.call_function(write_back, (*of_one, size))
