"""The models of bench/models/onnx, made small: one sample instead of a batch, short tables, and as many of the first
nodes as some work allows. Their weights, which the files do not have, are drawn at random."""
import base64
import json
import pathlib
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import elements
import onnx_cases
from case_file import write_file

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "models" / "onnx"
MOST_BYTES = 48 << 20  # of inputs, and of results
MOST_ROWS = 512  # of a table that is looked up
# How many nodes are kept. The others of the folder take minutes on the reference evaluator even so.
MOST_NODES = {"bert_opset13": 190, "dlrm": 10**4, "efficientnet_b0": 40,
              "resnet50": 12, "resnet50_opset11": 75}
NAMES = {number: name for name, number in onnx_cases.ONNX_TYPES.items()}


def load(name):
    return onnx.load(FOLDER / f"{name}.onnx", load_external_data=False), json.loads((FOLDER / f"{name}.json").read_text())


def cut(model, most):
    """The first nodes, their results that nothing reads as results of the graph."""
    graph = model.graph
    del graph.node[most:]
    read = {name for node in graph.node for name in node.input}
    for i in reversed(range(len(graph.node))):  # weights that are handed on by name, to what was cut off
        if graph.node[i].op_type in ("Identity", "Constant") and not read & set(graph.node[i].output):
            del graph.node[i]
    read = {name for node in graph.node for name in node.input}
    made = [name for node in graph.node for name in node.output if name]
    del graph.output[:]
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in made if name not in read)
    wanted = set(read)
    for names in (graph.initializer, graph.input):
        for i in reversed(range(len(names))):
            if names[i].name not in wanted:
                del names[i]
    del graph.value_info[:]


def one_sample(model):
    """One instead of the batch, in the inputs and in the shapes that the file writes out."""
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    for info in model.graph.input:
        dims = info.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == batch:
            dims[0].dim_value = 1
    attributes = [a.t for node in model.graph.node if node.op_type == "Constant" for a in node.attribute if a.name == "value"]
    for tensor in [*model.graph.initializer, *attributes]:
        if tensor.data_type != TensorProto.INT64 or len(tensor.dims) != 1 or tensor.data_location == 1 or tensor.dims[0] < 2:
            continue
        values = numpy_helper.to_array(tensor).copy()
        if values[0] == batch:
            values[0] = 1
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def short_tables(model):
    looked_up = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    for tensor in model.graph.initializer:
        if tensor.name in looked_up and tensor.data_location == 1 and len(tensor.dims) == 2 and tensor.dims[0] > MOST_ROWS:
            tensor.dims[0] = MOST_ROWS


def copied(tensor):
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    return copy


def weights(model, facts, rng):
    """Makes inputs of the initializers that the importer makes parameters of, and arrays for all inputs: their data
    where the file has them, random ones otherwise."""
    tensors = list(map(copied, model.graph.initializer))
    present = {}
    del model.graph.initializer[:]
    for tensor in tensors:
        floats = NAMES.get(tensor.data_type) in elements.FLOATS and int(np.prod(tensor.dims, dtype=int)) > 16
        if floats and tensor.data_location != 1:
            present[tensor.name] = numpy_helper.to_array(tensor)
        if floats or tensor.data_location == 1:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        else:
            model.graph.initializer.append(tensor)
    names, arrays = [], []
    ranges = facts.get("stripped_integers", {})
    pairs = {node.input[1] for node in model.graph.node if node.op_type == "GatherND"}
    for info in model.graph.input:
        kind = NAMES[info.type.tensor_type.elem_type]
        dims = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        names.append(info.name)
        known = ranges.get(info.name, {})
        if info.name in pairs:  # its columns have ranges of their own: the least of them, the batch, suits all
            known = {"min": 0, "max": model.graph.input[0].type.tensor_type.shape.dim[0].dim_value - 1}
        arrays.append(present.get(info.name, array_for(info.name, kind, dims, known, rng)))
    return names, arrays


def array_for(name, kind, dims, known, rng):
    if kind in elements.FLOATS:
        inside = int(np.prod(dims[1:])) if len(dims) > 2 else dims[0] if dims else 1
        scale = 1 / np.sqrt(max(1, inside)) if len(dims) > 1 else 0.2
        values = rng.standard_normal(dims) * (1 if name in ("x", "dense", "ctx", "input_features") else scale)
        return (np.abs(values) + 0.5 if "var" in name else values).astype(elements.TYPES[kind])
    if kind == "pred" or "mask" in name:
        return np.ones(dims, elements.TYPES[kind])
    low, high = known.get("min", 0), known.get("max", MOST_ROWS - 1)
    return rng.integers(low, min(high, MOST_ROWS - 1) + 1, dims).astype(elements.TYPES[kind])


def shrunk(name, most, sampled):
    """A model, the names of its inputs and their arrays."""
    model, facts = load(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    short_tables(model)
    if sampled:
        one_sample(model)
    cut(model, most)
    given, arrays = weights(model, facts, rng)  # which changes the model
    return model.SerializeToString(), given, arrays


def attempts(name):
    """Of what onnxruntime takes: first one sample of the model, then its whole batch, then fewer nodes."""
    most = MOST_NODES[name]
    for nodes in (most, most * 2 // 3, most * 2 // 5):
        yield nodes, True
        yield nodes, False


def make_one(name):
    """The case, or why there is none."""
    import make_onnx
    why = "no part of it is small enough"
    for most, sampled in attempts(name):
        try:
            data, given, arrays = shrunk(name, most, sampled)
            if sum(array.nbytes for array in arrays) > MOST_BYTES:
                continue
            # What onnxruntime could not share shapes with is of no use either way.
            results = [np.asarray(value) for value in make_onnx.run_model(data, given, arrays)]
        except (make_onnx.Refused, IndexError, KeyError) as refusal:
            why = str(refusal)
            continue
        if sum(value.nbytes for value in results) <= MOST_BYTES:
            return {"name": f"model/{name}", "subject": name, "model_base64": base64.b64encode(data).decode(), "simplify": False,
                    "inputs": [elements.document(array, word) for word, array in zip(given, arrays)],
                    "outputs": [elements.document(value) for value in results]}, ""
    return None, why


def make(folder, names):
    for name in names or MOST_NODES:
        case, why = make_one(name)
        write_file(folder / f"onnx.{name}.json.gz", "onnxruntime", ["onnxruntime", "onnx", "numpy"], [case] if case else [],
                   [] if case else [{"name": f"model/{name}", "why": why}], level=1)
