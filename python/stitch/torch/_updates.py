"""Inputs that a graph updates, such as an optimizer's parameters and state.

AOTAutograd leaves updates in inference graphs as copies into inputs behind everything else. One by one they would be a
kernel for every tensor; together they are a few.
"""

import torch

from . import _partition, _report, _shapes


def _reads_an_input(value) -> bool:
    """Whether a value may be an input's memory."""
    while isinstance(value, torch.fx.Node) and value.op == "call_function" and _partition.is_view(value):
        value = value.args[0]
    return not isinstance(value, torch.fx.Node) or value.op in ("placeholder", "get_attr")


def take_out(graph: torch.fx.Graph) -> list:
    """Takes the copies into inputs out of a graph, and has it return what they copy instead, behind its results: who puts
    operators in other orders does not see that copies write. The inputs by their places: splitting makes nodes anew.
    Errors: ValueError (something else reads what was written)."""
    inputs = list(graph.find_nodes(op="placeholder"))
    targets, values = [], []
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.aten.copy_.default:
            continue
        target, value = node.args[:2]
        if target.op != "placeholder" or any(user.op != "output" for user in node.users):
            raise ValueError(f"{node} writes to what is no input, or is read")
        node.replace_all_uses_with(target)
        graph.erase_node(node)
        targets.append(inputs.index(target))
        values.append(value)
    if targets:
        (output,) = graph.find_nodes(op="output")
        output.args = ((*output.args[0], *values),)
    return targets


def write_back(targets: list, values: list, size: int) -> None:
    """`size`: of the values, in bytes."""
    torch._foreach_copy_(targets, values)
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
