"""Element types by their four names: ONNX's, onnxruntime's, ours and NumPy's."""

import numpy

from ._errors import InvalidArgument

# ONNX -> (onnxruntime, ours); where ours is None nothing here has the type.
_TYPES = {
    "FLOAT": ("float", "f32"),
    "DOUBLE": ("double", "f64"),
    "FLOAT16": ("float16", "f16"),
    "BFLOAT16": ("bfloat16", "bf16"),
    "FLOAT8E4M3FN": ("float8e4m3fn", "f8e4m3"),
    "FLOAT8E5M2": ("float8e5m2", "f8e5m2"),
    "INT8": ("int8", "s8"),
    "INT16": ("int16", "s16"),
    "INT32": ("int32", "s32"),
    "INT64": ("int64", "s64"),
    "UINT8": ("uint8", "u8"),
    "UINT16": ("uint16", "u16"),
    "UINT32": ("uint32", "u32"),
    "UINT64": ("uint64", "u64"),
    "BOOL": ("bool", "pred"),
    "STRING": ("string", None),
    "COMPLEX64": ("complex64", None),
    "COMPLEX128": ("complex128", None),
    "FLOAT8E4M3FNUZ": ("float8e4m3fnuz", None),
    "FLOAT8E5M2FNUZ": ("float8e5m2fnuz", None),
    "UINT4": ("uint4", None),
    "INT4": ("int4", None),
    "FLOAT4E2M1": ("float4e2m1", None),
}
_OURS = {ours: theirs for theirs, ours in _TYPES.values() if ours}
_NUMPY = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int8": "s8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "pred",
}
# ONNX's numbers of element types (TensorProto.DataType).
NUMBERS = {
    "f32": 1, "u8": 2, "s8": 3, "u16": 4, "s16": 5, "s32": 6, "s64": 7, "pred": 9, "f16": 10, "f64": 11, "u32": 12,
    "u64": 13, "bf16": 16, "f8e4m3": 17, "f8e5m2": 19,
}  # fmt: skip
OURS_OF_NUMBER = {number: ours for ours, number in NUMBERS.items()}
_TO_NUMPY = {ours: name for name, ours in _NUMPY.items()}


def type_text(kind: str, element: str) -> str:
    """ "tensor(float)" of ("tensor", "FLOAT"); of what is no tensor its kind alone."""
    if kind != "tensor":
        return {"sequence": "seq", "sparse tensor": "sparse_tensor"}.get(kind, kind)
    return f"tensor({_TYPES.get(element, (element.lower(), None))[0]})"


def ours_of_array(array) -> str | None:
    return _NUMPY.get(array.dtype.name)


def ours_of_type(dtype: numpy.dtype) -> str:
    """Errors: InvalidArgument for a type that nothing here has."""
    if dtype.name not in _NUMPY:
        raise InvalidArgument(f"element type {dtype.name} is none that is handled")
    return _NUMPY[dtype.name]


def text_of(ours: str) -> str:
    """ "tensor(float)" of "f32" """
    return f"tensor({_OURS[ours]})"


def text_of_array(array) -> str:
    """ "tensor(float)" """
    ours = ours_of_array(array)
    return f"tensor({_OURS[ours] if ours else array.dtype.name})"


def numpy_of(ours: str) -> numpy.dtype:
    """Errors: ImportError for types that only ml_dtypes has."""
    name = _TO_NUMPY[ours]
    if ours in ("bf16", "f8e4m3", "f8e5m2"):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)
