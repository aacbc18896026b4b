"""Models that were compiled: an ONNX file of one EPContext node with the program and its code (ep.context_enable).

As onnxruntime's providers write them: the node (domain com.microsoft) takes the model's inputs and initializers, and
has the program in `ep_cache_context`, or the name of the file beside the model that it is in (`embed_mode`). Such a
file needs neither server nor compiler.
"""

import dataclasses
import pathlib

import numpy

from .. import _native, _plan
from . import _protobuf, _types
from ._errors import Fail, InvalidArgument, InvalidGraph, NoSuchFile, NotImplemented

SOURCE = "StitchExecutionProvider"

_OPERATOR, _DOMAIN = "EPContext", "com.microsoft"
_MOST = (1 << 31) - 1  # bytes of a protobuf message


@dataclasses.dataclass
class Context:
    """What such a file has: the program, the names of its inputs in order, and those of them that are initializers."""

    program: bytes
    names: list
    initializers: dict


@dataclasses.dataclass(frozen=True)
class Wish:
    """What the keys ep.context_… say."""

    path: pathlib.Path
    embed: bool
    prefix: str
    initializers: str


def wish_of(entries: dict, source) -> Wish | None:
    """Where a session is to write; None: nowhere. Errors: InvalidArgument (a value, no path), Fail (it exists)."""
    for key in ("ep.context_enable", "ep.context_embed_mode"):
        if entries.get(key, "0") not in ("0", "1"):
            raise InvalidArgument(f"{key} is 0 or 1, not '{entries[key]}'")
    if entries.get("ep.context_enable", "0") == "0":
        return None
    named = entries.get("ep.context_file_path")
    if not named and isinstance(source, (bytes, bytearray, memoryview)):
        raise InvalidArgument("ep.context_enable: the model came as bytes, so that ep.context_file_path must say where")
    path = pathlib.Path(named) if named else pathlib.Path(source).with_name(pathlib.Path(source).stem + "_ctx.onnx")
    if path.exists():
        raise Fail(f"Failed to generate EP context model since the file '{path}' exist already.")
    outside = entries.get("ep.context_model_external_initializers_file_name", "")
    if outside and pathlib.PurePath(outside).name != outside:
        raise InvalidArgument(
            f"ep.context_model_external_initializers_file_name: '{outside}' is no name of a file beside {path.name}"
        )
    embed = entries.get("ep.context_embed_mode", "0") == "1"
    return Wish(path, embed, entries.get("ep.context_node_name_prefix", ""), outside)


def write(wish: Wish, ports: dict, prepared) -> None:
    """Writes a model's program with its initializers. Errors: Fail (more than a protobuf file holds; no folder)."""
    program = prepared.program
    inputs = {name: program.inputs[i] for i, name in enumerate(prepared.names)}
    held = {name: array for name, array in zip(prepared.names, prepared.arrays, strict=True) if array is not None}
    document = program.to_bytes()
    beside = wish.path.with_name(f"{wish.path.stem}_stitch.bin")
    tensors, outside = _tensors(held, wish.initializers)
    node = _protobuf.message(
        (1, prepared.names),
        (2, [name for name, *_ in ports["outputs"]]),
        (3, f"{wish.prefix}{SOURCE}_{ports['graph']}_0"),
        (4, _OPERATOR),
        (5, [_integer("main_context", 1), _integer("embed_mode", int(wish.embed))]),
        (5, [_text("ep_cache_context", document if wish.embed else beside.name), _text("source", SOURCE)]),
        (5, [_text("ep_sdk_version", _native.version), _text("partition_name", ports["graph"])]),
        (7, _DOMAIN),
    )
    graph = _protobuf.message(
        (1, node),
        (2, ports["graph"]),
        (5, tensors),
        (10, ports["graph_description"] or None),
        (11, [_value(name, inputs.get(name), port) for name, *port in ports["inputs"]]),
        (12, [_value(port[0], of, None) for port, of in zip(ports["outputs"], program.outputs, strict=True)]),
    )
    model = _protobuf.message(
        (1, 10),
        (2, ports["producer"] or None),
        (4, ports["domain"] or None),
        (5, ports["version"]),
        (6, ports["description"] or None),
        (7, graph),
        (8, [_protobuf.message((1, ""), (2, 17)), _protobuf.message((1, _DOMAIN), (2, 1))]),
        (14, [_protobuf.message((1, key), (2, value)) for key, value in ports["metadata"].items()]),
    )
    if len(model) > _MOST:
        raise Fail(
            f"{wish.path}: {len(model):,} bytes are more than a model's file holds; name one for the initializers"
            " (ep.context_model_external_initializers_file_name)"
        )
    try:
        if not wish.embed:
            _plan._write(beside, document)
        if outside:
            _plan._write(wish.path.with_name(wish.initializers), outside)
        _plan._write(wish.path, model)
    except OSError as error:
        raise Fail(f"{wish.path}: {error.strerror}") from error


def _tensors(held: dict, file: str) -> tuple[list, bytes]:
    """The initializers, and what is in the file for them."""
    tensors, outside = [], []
    place = 0
    for name, array in held.items():
        head = [
            (1, [int(extent) for extent in array.shape]),
            (2, _types.NUMBERS[_types.ours_of_array(array)]),
            (8, name),
        ]
        data = numpy.ascontiguousarray(array).tobytes()
        if not file:
            tensors.append(_protobuf.message(*head, (9, data)))
            continue
        where = {"location": file, "offset": str(place), "length": str(len(data))}
        entries = [_protobuf.message((1, key), (2, value)) for key, value in where.items()]
        tensors.append(_protobuf.message(*head, (13, entries), (14, 1)))
        outside.append(data)
        place += len(data)
    return tensors, b"".join(outside)


def _integer(name: str, value: int) -> bytes:
    return _protobuf.message((1, name), (3, value), (20, 2))


def _text(name: str, value) -> bytes:
    return _protobuf.message((1, name), (4, value), (20, 3))


def _value(name: str, of, port) -> bytes:
    """An input or output; one that the program does not read as it was declared."""
    if of is not None:
        number, shape = _types.NUMBERS[of.dtype], list(of.shape)
    else:
        _, element, declared = port
        number, shape = _types.NUMBERS[_types._TYPES[element][1]], list(declared or [])
    dims = [_protobuf.message((1, extent) if isinstance(extent, int) else (2, extent)) for extent in shape]
    tensor = _protobuf.message((1, number), (2, _protobuf.message((1, dims))))
    return _protobuf.message((1, name), (2, _protobuf.message((1, tensor))))


def read(data: bytes, beside) -> Context | None:
    """What a file has of a program; None where it is a model like any other. `beside(location)`: the bytes of a file
    beside it. Errors: NotImplemented (another provider's), InvalidGraph."""
    if _OPERATOR.encode() not in data:
        return None
    models = _protobuf.fields(data)
    graph = _protobuf.fields(models[7][-1]) if models[7] else {1: []}
    nodes = [_protobuf.fields(node) for node in graph[1]]
    contexts = [node for node in nodes if _protobuf.text(node[4]) == _OPERATOR and _protobuf.text(node[7]) == _DOMAIN]
    if not contexts:
        return None
    attributes = {}
    for attribute in map(_protobuf.fields, contexts[0][5]):
        attributes[_protobuf.text(attribute[1])] = attribute[3][-1] if attribute[3] else (attribute[4] or [b""])[-1]
    source = bytes(attributes.get("source", b"")).decode(errors="replace")
    if source != SOURCE:
        raise NotImplemented(f"{_OPERATOR} of '{source}': the model was compiled by another provider")
    if len(nodes) != 1:
        raise InvalidGraph(f"a model of {len(nodes)} nodes, one of them {_OPERATOR}: those written here have one")
    context = bytes(attributes.get("ep_cache_context", b""))
    program = context if attributes.get("embed_mode") == 1 else beside(context.decode(errors="replace"))
    initializers = dict(_initializer(_protobuf.fields(tensor), beside) for tensor in graph[5])
    return Context(program, [bytes(name).decode(errors="replace") for name in contexts[0][1]], initializers)


def _initializer(tensor: dict, beside) -> tuple[str, numpy.ndarray]:
    name = _protobuf.text(tensor[8])
    ours = _types.OURS_OF_NUMBER.get(tensor[2][-1] if tensor[2] else 0)
    if ours is None or not (tensor[9] or tensor[13]):
        raise InvalidGraph(f"initializer '{name}': no bytes of a type that is read here")
    shape, dtype = tuple(_protobuf.numbers(tensor[1])), _types.numpy_of(ours)
    size = int(numpy.prod(shape, dtype=object)) * dtype.itemsize
    if tensor[13]:
        where = {_protobuf.text(entry[1]): _protobuf.text(entry[2]) for entry in map(_protobuf.fields, tensor[13])}
        offset = int(where.get("offset", "0"))
        data = beside(where.get("location", ""))[offset : offset + size]
    else:
        data = tensor[9][-1]
    if len(data) != size:
        raise InvalidGraph(f"initializer '{name}': {len(data)} bytes for {ours}{list(shape)}")
    return name, _plan._dense(numpy.frombuffer(data, dtype).reshape(shape))


def reader(folder: pathlib.Path | None):
    """Reads files beside a model, and none elsewhere: a model is what a stranger sent."""
    known: dict = {}

    def beside(location: str) -> bytes:
        if folder is None:
            raise InvalidArgument(
                f"the model's context is in the file '{location}', and the model came as bytes: give its path, or"
                " session.model_external_initializers_file_folder_path"
            )
        if not location or pathlib.PurePath(location).name != location:
            raise InvalidArgument(f"the file '{location}' is not beside the model")
        if location not in known:
            try:
                known[location] = (folder / location).read_bytes()
            except OSError as error:
                raise NoSuchFile(f"{folder / location}: {error.strerror}") from error
        return known[location]

    return beside
