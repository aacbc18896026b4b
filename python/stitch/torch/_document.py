"""FX graphs of core ATen as the documents that the importer reads (docs/importers.md)."""

import functools
import json
import math
import operator

import torch

from .. import _native, errors
from . import _shapes
from ._shapes import Cannot

TYPES = {
    torch.bool: "pred",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int16: "s16",
    torch.uint16: "u16",
    torch.int32: "s32",
    torch.uint32: "u32",
    torch.int64: "s64",
    torch.uint64: "u64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}


def type_of(value, extents: _shapes.Extents | None = None) -> str:
    """The type of a traced tensor, as "f32[4,8]", where symbols have these values, or those that they were traced with.
    Strides are no part of it."""
    if not isinstance(value, torch.Tensor):
        raise Cannot(f"a value of type {type(value).__name__}")
    if value.layout != torch.strided or value.is_quantized:
        raise Cannot("a tensor that is not dense")
    if value.dtype not in TYPES:
        raise Cannot(f"tensors of {value.dtype}")
    return f"{TYPES[value.dtype]}[{','.join(map(str, _shapes.numbers(value.shape, extents)))}]"


def values_of(node) -> list:
    """A node's traced results; one or several."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def where(node) -> str:
    """The user's line that a node comes from."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return lines[-1].split(", in ")[0].removeprefix("File ").replace('"', "").replace(", line ", ":") if lines else ""


def _encode(value, reference):
    if isinstance(value, torch.fx.Node):
        return reference(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.dtype):
        if value not in TYPES:
            raise Cannot(f"tensors of {value}")
        return {"dtype": TYPES[value]}
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return str(value)
    raise Cannot(f"an argument of type {type(value).__name__}")


# What autograd inserts, behind all decompositions, where it divides by how many elements there are.
_SAME = {"aten.true_divide.Tensor": "aten.div.Tensor"}


def operator_of(node) -> str:
    """The operator's name, as the importer has it."""
    return _SAME.get(str(node.target), str(node.target))


def arguments_of(node) -> dict:
    """A node's arguments by the names of its schema."""
    schema = node.target._schema.arguments
    given = {schema[i].name: value for i, value in enumerate(node.args)}
    return {**given, **node.kwargs}


class Document:
    """Inputs, nodes and outputs under names of our own, so that equal graphs give equal texts. A result that an operator
    was not asked for (`output_mask`) has no type.

    `extents`: what symbols are in it; without, what they were traced with.
    """

    def __init__(self, extents: _shapes.Extents | None = None):
        self.inputs, self.nodes, self._names, self._extents = [], [], {}, extents

    def input(self, node) -> None:
        """An extent is no input, but a number in the document."""
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat)):
            self._names[node] = _encode(_shapes.number(node.meta["val"], self._extents), None)
            return
        name = f"x{len(self.inputs)}"
        self._names[node] = {"value": name}
        self.inputs.append({"name": name, "type": type_of(node.meta.get("val"), self._extents)})

    def knows(self, node) -> bool:
        return node in self._names

    def _encoded(self, value):
        if isinstance(value, (list, tuple)):
            return [self._encoded(entry) for entry in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            value = _shapes.number(value, self._extents)
        return _encode(value, self._names.__getitem__)

    def node(self, node) -> None:
        if node.target is operator.getitem:
            of, index = node.args
            self._names[node] = {**self._names[of], "result": index}
            return
        name = f"v{len(self.nodes)}"
        results = [None if value is None else type_of(value, self._extents) for value in values_of(node)]
        arguments = {name: self._encoded(value) for name, value in arguments_of(node).items()}
        self.nodes.append({"name": name, "op": operator_of(node), "args": arguments, "results": results})
        self._names[node] = {"value": name}

    def text(self, outputs, name: str = "") -> str:
        document = {"format": "stitch-aten", "version": 1, "name": name, "inputs": self.inputs, "nodes": self.nodes}
        document["outputs"] = [self._names[node] if isinstance(node, torch.fx.Node) else node for node in outputs]
        return json.dumps(document)


@functools.lru_cache(maxsize=65536)
def _refusal(text: str) -> str | None:
    """Why the importer refuses a document of one node; None when it takes it."""
    try:
        _native.read_aten(text)
        return None
    except errors.Error as error:
        return str(error).partition("): ")[2] or str(error)


def refusal(node, device: torch.device) -> str | None:
    """Why a node cannot run in our kernels; None when it can. The importer itself is asked, with the node alone."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return "no operator of PyTorch's"
    if not _native.aten_operator_known(operator_of(node)):
        return "no rule for this operator"
    document = Document()
    try:
        for value in [*values_of(node), *(value for argument in node.all_input_nodes for value in values_of(argument))]:
            if isinstance(value, torch.Tensor) and value.device != device:
                return f"tensors on {value.device}"
        for argument in node.all_input_nodes:
            if not document.knows(argument):
                document.input(argument)
        document.node(node)
        results = [{"value": "v0", "result": i} for i, value in enumerate(values_of(node)) if value is not None]
        return _refusal(document.text(results))
    except Cannot as reason:
        return str(reason)


def of_module(module: torch.fx.GraphModule, extents: _shapes.Extents | None = None) -> str:
    """The document of a graph all of whose operators are taken, where its symbols have these values."""
    document = Document(extents)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            document.input(node)
        elif node.op == "call_function":
            document.node(node)
        elif node.op == "output":
            outputs = node.args[0]
            return document.text(outputs if isinstance(outputs, (list, tuple)) else [outputs])
        else:
            raise Cannot(f"a node of kind {node.op}")
    raise Cannot("no output")
