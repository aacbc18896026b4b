"""Initializers whose contents a session was given, for onnxruntime, where it runs a model in the place of ours.

Its own SessionOptions.add_initializer comes too late for this: what its passes fold is still of the model's contents.
"""

import numpy

from . import _protobuf, _types
from ._errors import InvalidArgument

_GRAPH, _INITIALIZERS = 7, 5  # of ModelProto, of GraphProto
_DIMS, _TYPE, _NAME, _RAW, _LOCATION = 1, 2, 8, 9, 14  # of TensorProto
_EXTERNAL = 1


def split(data: bytes, given: dict) -> tuple[bytes | None, dict]:
    """The model with the given contents (arrays by name) of those that it holds itself, None where that are none; and the
    contents of those that lie in files beside it, which onnxruntime takes apart. Names that are no initializer's are left
    out. Errors: InvalidArgument (another type or shape), InvalidProtobuf."""
    model = _protobuf.fields(data)
    if not given or not model[_GRAPH]:
        return None, {}
    graph = _protobuf.fields(model[_GRAPH][-1])
    external, is_changed = {}, False
    for place, tensor in enumerate(graph[_INITIALIZERS]):
        of = _protobuf.fields(tensor)
        name = _protobuf.text(of[_NAME])
        if name not in given:
            continue
        array = numpy.ascontiguousarray(given[name])
        check(name, array, _types.OURS_OF_NUMBER.get(of[_TYPE][-1]) if of[_TYPE] else None, _protobuf.numbers(of[_DIMS]))
        if of[_LOCATION] and of[_LOCATION][-1] == _EXTERNAL:
            external[name] = array
            continue
        is_changed = True
        graph[_INITIALIZERS][place] = _protobuf.message(
            (_DIMS, list(array.shape)), (_TYPE, of[_TYPE][-1]), (_NAME, name), (_RAW, array.tobytes())
        )
    if is_changed:
        model[_GRAPH] = [_protobuf.message(*graph.items())]
    return (_protobuf.message(*model.items()) if is_changed else None), external


def check(name: str, array: numpy.ndarray, dtype: str | None, shape) -> None:
    """Errors: InvalidArgument where contents are not of an initializer's type and shape."""
    if dtype is None or _types.ours_of_array(array) != dtype or list(array.shape) != list(shape):
        raise InvalidArgument(
            f"initializer '{name}': {dtype}{list(shape)} is wanted, not {array.dtype}{list(array.shape)}"
        )


def ort_value(onnxruntime, array: numpy.ndarray):
    """Contents as an OrtValue of onnxruntime's."""
    ours = _types.ours_of_array(array)
    if ours in ("bf16", "f8e4m3", "f8e5m2"):  # which it does not know from NumPy
        bits = array.view(f"uint{8 * array.dtype.itemsize}")
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _types.NUMBERS[ours])
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
