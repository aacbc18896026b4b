"""Element types under the names of HLO and of Stitch, and values at which implementations part."""
import base64

import ml_dtypes
import numpy as np

TYPES = {
    "pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
    "f64": np.float64,
}
FLOATS = [name for name in TYPES if name.startswith(("f", "b"))]
SIGNED = ["s8", "s16", "s32", "s64"]
UNSIGNED = ["u8", "u16", "u32", "u64"]
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS
ALL = list(TYPES)
_NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}


def name_of(array):
    """HLO's name of an array's element type."""
    return _NAMES[np.dtype(array.dtype)]


def document(array, name=None):
    """A tensor as stitch conformance differential reads it."""
    kind = name_of(array).replace("f8e4m3fn", "f8e4m3")
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return ({} if name is None else {"name": name}) | {"type": kind, "dims": list(array.shape), "data": data}


# Types whose subnormal numbers XLA's CPU backend takes for zeros; narrower ones are numbers of f32.
FLUSHED = ["bf16", "f32", "f64"]


def specials(name, subnormal=None):
    """Zeros, ones, extremes and what lies beside them; of floats also infinities, NaN and ties. Subnormal numbers of
    the types that XLA flushes only when asked for, so that they have cases of their own."""
    subnormal = name not in FLUSHED if subnormal is None else subnormal
    kind = TYPES[name]
    if name == "pred":
        return np.array([False, True])
    if name in INTEGERS:
        limits = np.iinfo(kind)
        values = {0, 1, 2, 3, 5, 7, limits.bits - 1, limits.bits, limits.bits + 1, limits.max, limits.max - 1, limits.max // 2}
        if name in SIGNED:
            values |= {-1, -2, -3, -7, limits.min, limits.min + 1, limits.min // 2}
        return np.array(sorted(values), kind)
    limits = ml_dtypes.finfo(kind)
    largest, normal, tiny = float(limits.max), float(limits.smallest_normal), float(limits.smallest_subnormal)
    step = float(limits.eps)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 0.3, -0.7, 1 + step, 1 - step / 2,
              7.75, -10.5, largest, -largest, largest / 2, normal, -normal, float("inf"),
              float("-inf"), float("nan")]
    if subnormal:
        values += [normal / 2, -normal / 2, tiny, -tiny, normal - tiny]
    return np.array(values).astype(kind)


def random_array(rng, name, shape, spread="usual"):
    """usual: small numbers, full range of the integers; wide: all magnitudes of the type."""
    kind = TYPES[name]
    if name == "pred":
        return rng.random(shape) < 0.5
    if name in INTEGERS:
        limits = np.iinfo(kind)
        if spread == "small":
            return rng.integers(max(limits.min, -4), 5, shape).astype(kind)
        return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    if spread == "wide":
        limits = ml_dtypes.finfo(kind)
        low = np.log2(float(limits.smallest_normal if name in FLUSHED else limits.smallest_subnormal))
        high = np.log2(float(limits.max))
        return (np.exp2(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape)).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def with_specials(rng, name, count, spread="usual"):
    """A vector that begins with the specials."""
    first = specials(name)[:count]
    return np.concatenate([first, random_array(rng, name, (count - len(first),), spread)])


def flushed(array):
    """The array with signed zeros for its subnormal numbers, where XLA flushes those of the type."""
    if name_of(array) not in FLUSHED:
        return array
    small = np.abs(array.astype(np.float64)) < float(ml_dtypes.finfo(array.dtype).smallest_normal)
    return np.where(small, np.copysign(np.zeros_like(array), array), array)


def array_of(tensor):
    """The array of a document."""
    kind = TYPES[tensor["type"].replace("f8e4m3", "f8e4m3fn")]
    return np.frombuffer(base64.b64decode(tensor["data"]), kind).reshape(tensor["dims"])
