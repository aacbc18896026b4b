"""ONNX models of one operator (or the few that it takes to say something about one), with inputs, drawn at random:
attributes, operator sets, element types, odd shapes.

A family yields Drawn values; FAMILIES says which operators it covers. The generator's seed is the operator's name.
"""
import dataclasses
import pathlib
import re
import zlib

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

import elements
from elements import TYPES, random_array

ONNX_TYPES = {"pred": TensorProto.BOOL, "s8": TensorProto.INT8, "s16": TensorProto.INT16, "s32": TensorProto.INT32,
              "s64": TensorProto.INT64, "u8": TensorProto.UINT8, "u16": TensorProto.UINT16, "u32": TensorProto.UINT32,
              "u64": TensorProto.UINT64, "f8e4m3fn": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2,
              "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE}
FAMILIES = {}
FLOATS = ["f32", "f32", "f64", "f16"]


@dataclasses.dataclass
class Drawn:
    opset: int
    inputs: list  # arrays, None: left out
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    graph: object = None  # instead of one node: a function of the inputs' names that gives nodes, and outputs' names
    label: str = ""


def family(*operators, domain=""):
    def register(function):
        for operator in operators:
            assert (domain, operator) not in FAMILIES, operator
            FAMILIES[domain, operator] = function
        return function

    return register


def importer_operators(root):
    """(domain, operator) of the importer's table, each once, without those that it leaves to libraries."""
    text = (pathlib.Path(root) / "import/onnx/rules.cpp").read_text()
    rows = re.findall(r'^    \{(""|ms|training), "(\w+)", \d+, \d+, (.*?)\},', text, re.M)
    left = {"random_like", "random_of_shape", "multinomial", "grid_sample", "roi_align", "determinant", "top_k"}
    domains = {'""': "", "ms": "com.microsoft", "training": "ai.onnx.preview.training"}
    return list(dict.fromkeys((domains[domain], name) for domain, name, rule in rows if rule not in left))


def model_of(operator, drawn):
    """The model, and the names of the inputs that it has."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(drawn.inputs)]
    if drawn.graph:
        nodes, results = drawn.graph(names)
    else:
        results = [f"y{i}" for i in range(drawn.outputs)]
        nodes = [helper.make_node(operator, names, results, domain=drawn.domain, **drawn.attributes)]
    infos = [helper.make_tensor_value_info(name, ONNX_TYPES[elements.name_of(value)], value.shape)
             for name, value in zip(names, drawn.inputs) if name]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_empty_tensor_value_info(name) for name in results])
    imports = [helper.make_opsetid("", drawn.opset)] + ([helper.make_opsetid(drawn.domain, 1)] if drawn.domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if drawn.opset < 19 else 10), [n for n in names if n]


def opset(rng, low=7, high=23):
    return int(rng.integers(max(low, 7), high + 1))


def shape(rng, least=0, most=4, extents=(1, 1, 2, 3, 5, 7)):
    return tuple(int(e) for e in rng.choice(extents, rng.integers(least, most + 1)))


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def ints(*values):
    return np.array(values, np.int64)


def spiced(rng, kind, dims):
    """Random numbers, some of them special, in a third of the cases."""
    x = random_array(rng, kind, dims)
    if kind in elements.FLOATS and x.size and rng.random() < 0.35:
        flat, special = x.reshape(-1), elements.specials(kind)
        flat[rng.integers(0, x.size, max(1, x.size // 4))] = special[rng.integers(0, len(special), max(1, x.size // 4))]
    return x


# element-wise -----------------------------------------------------------------------------------------------------
UNARY = {name: FLOATS for name in
         ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "IsNaN", "Log",
          "Reciprocal", "Round", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "HardSwish", "Mish"]}
UNARY |= {"Abs": ["f32", "f64", "f16", "s8", "s32", "s64", "u8"], "Neg": ["f32", "f64", "f16", "s8", "s32", "s64"],
          "Sign": ["f32", "f64", "s8", "s32", "s64", "u8"], "Relu": ["f32", "f64", "f16", "s8", "s32"], "Not": ["pred"],
          "BitwiseNot": ["s8", "u8", "s32", "s64", "u64"], "Identity": elements.ALL}
SINCE = {"Acos": 7, "Acosh": 9, "Asinh": 9, "Atanh": 9, "Cosh": 9, "Sinh": 9, "Erf": 9, "IsNaN": 9, "Round": 11, "Sign": 9,
         "HardSwish": 14, "Mish": 18, "BitwiseNot": 18}


@family(*UNARY)
def unary(operator, rng):
    for i in range(9):
        kind = UNARY[operator][i % len(UNARY[operator])]
        yield Drawn(opset(rng, SINCE.get(operator, 7)), [spiced(rng, kind, shape(rng) if i else (37,))])


def a_float(rng, low=-2.0, high=2.0):
    return float(np.float32(rng.uniform(low, high)))


ACTIVATIONS = {"Elu": ["alpha"], "Selu": ["alpha", "gamma"], "Celu": ["alpha"], "LeakyRelu": ["alpha"], "ThresholdedRelu": ["alpha"],
               "HardSigmoid": ["alpha", "beta"], "Shrink": ["bias", "lambd"], "Swish": ["alpha"]}


@family(*ACTIVATIONS)
def activation(operator, rng):
    since = {"Celu": 12, "ThresholdedRelu": 10, "Shrink": 9, "Swish": 24}.get(operator, 7)
    for i in range(9):
        low = 0.1 if operator in ("Celu", "Selu", "Shrink") else -2.0
        attributes = {name: a_float(rng, low) for name in ACTIVATIONS[operator] if rng.random() < 0.7}
        kinds = ["f32"] if operator == "Celu" else FLOATS + (["s32", "u8"] if operator == "Shrink" else [])
        yield Drawn(opset(rng, since, max(since, 23)), [spiced(rng, pick(rng, kinds), shape(rng) if i else (37,))], attributes)


@family("Gelu")
def gelu(_, rng):
    for i in range(9):
        yield Drawn(opset(rng, 20), [spiced(rng, pick(rng, FLOATS), shape(rng))], {"approximate": ["none", "tanh"][i % 2]})


@family("PRelu")
def prelu(_, rng):
    for i in range(12):
        dims = shape(rng, 1)
        slope = pick(rng, [dims, (1,), dims[-1:], tuple(1 for _ in dims)])
        yield Drawn(opset(rng, 7), [spiced(rng, "f32", dims), random_array(rng, "f32", slope)])


def broadcast_pair(rng, dims):
    """Two shapes that broadcast to one, numpy's way."""
    result = []
    for _ in range(2):
        kept = [e if rng.random() < 0.7 else 1 for e in dims]
        result.append(tuple(kept[int(rng.integers(0, len(kept) + 1)):] if rng.random() < 0.4 else kept))
    return result


NUMERIC = ["f32", "f32", "f64", "s32", "s64", "f16"]
MANY = NUMERIC + ["s8", "u8", "s16", "u16", "u32", "u64"]
BINARY = {"Add": MANY, "Sub": MANY, "Mul": MANY, "Div": MANY, "Pow": ["f32", "f64", "s32", "s64"], "Max": NUMERIC + ["u32", "u64"],
          "Min": NUMERIC + ["u32", "u64"], "Mean": ["f32"], "Sum": ["f32", "f64"], "And": ["pred"], "Or": ["pred"], "Xor": ["pred"],
          "Equal": NUMERIC + ["pred"], "Less": NUMERIC, "Greater": NUMERIC, "LessOrEqual": NUMERIC, "GreaterOrEqual": NUMERIC,
          "BitwiseAnd": elements.INTEGERS, "BitwiseOr": elements.INTEGERS, "BitwiseXor": elements.INTEGERS}


@family(*BINARY)
def binary(operator, rng):
    since = {"LessOrEqual": 12, "GreaterOrEqual": 12, "BitwiseAnd": 18, "BitwiseOr": 18, "BitwiseXor": 18}.get(operator, 7)
    for i in range(16):
        kind = BINARY[operator][i % len(BINARY[operator])]
        a, b = broadcast_pair(rng, shape(rng, 0, 4, (0, 1, 2, 3, 5, 7, 7)))
        inputs = [spiced(rng, kind, a), spiced(rng, kind, b)]
        if operator == "Div" and kind in elements.INTEGERS:
            inputs[1] = np.where(inputs[1] == 0, 1, inputs[1]).astype(inputs[1].dtype)
        if operator == "Pow":
            inputs = [random_array(rng, kind, a, "small"), random_array(rng, pick(rng, BINARY["Pow"]), b, "small")]
            if kind in elements.INTEGERS:
                inputs[1] = np.abs(inputs[1])
        if operator in ("Max", "Min", "Mean", "Sum") and i % 4 == 0:
            inputs = inputs[:1] if i % 8 else inputs + [spiced(rng, kind, a)]
        yield Drawn(opset(rng, since), inputs)


@family("Mod")
def mod(_, rng):
    for i in range(20):
        kind = ["f32", "s32", "s8", "u8", "f64", "s64", "f16", "u32"][i % 8]
        a, b = broadcast_pair(rng, shape(rng))
        fmod = 1 if kind in elements.FLOATS else int(rng.random() < 0.4)
        y = random_array(rng, kind, b, "small")
        y = np.where(y == 0, 1, y).astype(y.dtype)
        yield Drawn(opset(rng, 10), [random_array(rng, kind, a), y], {"fmod": fmod})


@family("BitShift")
def bit_shift(_, rng):
    for i in range(12):
        kind = elements.UNSIGNED[i % 4]
        a, b = broadcast_pair(rng, shape(rng))
        most = np.iinfo(TYPES[kind]).bits  # beyond it ONNX says nothing
        yield Drawn(opset(rng, 11), [random_array(rng, kind, a), rng.integers(0, most, b).astype(TYPES[kind])],
                    {"direction": ["LEFT", "RIGHT"][i // 4 % 2]})


@family("Clip")
def clip(_, rng):
    for i in range(18):
        kind = pick(rng, ["f32", "f64", "s8", "u8", "s64", "u64", "f16", "s32"])
        dims = shape(rng)
        if i % 3 == 0:
            attributes = {name: v for name, v in (("min", -0.5), ("max", 0.75)) if rng.random() < 0.7}
            yield Drawn(opset(rng, 7, 10), [spiced(rng, "f32", dims)], attributes)
        else:
            low, high = np.array(0).astype(TYPES[kind]), np.array(2).astype(TYPES[kind])
            if i % 5 == 0:
                low, high = high, low
            yield Drawn(opset(rng, 12), [spiced(rng, kind, dims), low if rng.random() < 0.8 else None, high])


@family("Where")
def where(_, rng):
    for i in range(14):
        dims = shape(rng)
        (a, b), (c, _) = broadcast_pair(rng, dims), broadcast_pair(rng, dims)
        kind = pick(rng, ["f32", "s64", "u8", "f64", "s32", "f16"])
        yield Drawn(opset(rng, 9), [random_array(rng, "pred", a), spiced(rng, kind, b), spiced(rng, kind, c)])


@family("IsInf")
def is_inf(_, rng):
    for i in range(10):
        yield Drawn(opset(rng, 10), [spiced(rng, pick(rng, ["f32", "f64"]), (23,))],
                    {"detect_negative": i % 2, "detect_positive": i // 2 % 2})


CASTS = ["pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"]


@family("Cast")
def cast(_, rng):
    for source in CASTS:
        for target in CASTS:
            x = np.concatenate([elements.specials(source), random_array(rng, source, (20,))])
            if target in elements.INTEGERS and source in elements.FLOATS:
                # What is beyond an integer type is undefined in ONNX.
                limits = np.iinfo(TYPES[target])
                with np.errstate(invalid="ignore"):
                    wide = x.astype(np.float64)
                    x = x[np.isfinite(wide) & (wide < min(limits.max, 2**31 - 1)) & (wide > max(limits.min, -2**31) - 1)]
            narrow = "f8" in target
            attributes = {"to": ONNX_TYPES[target]} | ({"saturate": int(rng.integers(0, 2))} if narrow else {})
            yield Drawn(opset(rng, 19 if "f8" in source + target else 13), [x], attributes, label=f"{source}-{target}")


@family("CastLike")
def cast_like(_, rng):
    for i in range(12):
        yield Drawn(opset(rng, 15), [random_array(rng, pick(rng, CASTS[:9] + ["f32"]), shape(rng), "small"), random_array(rng, pick(rng, ["f16", "f32", "f64", "bf16"]), (2,))])


@family("BitCast")
def bit_cast(_, rng):
    for source, target in [("f32", "s32"), ("s64", "f64"), ("f16", "u16")]:
        yield Drawn(26, [random_array(rng, source, (3, 4))], {"to": ONNX_TYPES[target]})


# shapes -----------------------------------------------------------------------------------------------------------
LAID = ["f32", "s64", "u8", "pred", "f64", "f16", "s32", "s8"]


@family("Reshape")
def reshape(_, rng):
    for i in range(20):
        dims = shape(rng, 1)
        x = random_array(rng, pick(rng, LAID), dims)
        target = list(rng.permutation(dims))
        if i % 3 == 0:
            target[int(rng.integers(len(target)))] = -1
        if i % 4 == 0:
            target = [0] + list(dims[1:])
        if i % 5 == 0:
            target = [-1]
        yield Drawn(opset(rng, 7), [x, ints(*target)])
    for dims, target in [((0, 3), (3, 0)), ((2, 0), (0, 7))]:
        yield Drawn(opset(rng, 14), [random_array(rng, "f32", dims), ints(*target)], {"allowzero": 1})


@family("Flatten")
def flatten(_, rng):
    for _ in range(12):
        dims = shape(rng, 1)
        version = opset(rng)
        yield Drawn(version, [random_array(rng, "f32", dims)], {"axis": int(rng.integers(0 if version < 11 else -len(dims), len(dims) + 1))})


def axes_of(rng, rank, negative, most=None):
    axes = [int(a) for a in rng.permutation(rank)[:int(rng.integers(0, (most or rank) + 1))]]
    return [a - rank if negative and rng.random() < 0.4 else a for a in axes]


def with_axes(version, since, inputs, axes, attributes):
    """Axes as the operator set has them: an attribute, or the next input."""
    if version >= since:
        return inputs + ([ints(*axes)] if axes is not None else []), attributes
    return inputs, attributes | ({"axes": axes} if axes is not None else {})


@family("Squeeze", "Unsqueeze")
def squeeze(operator, rng):
    for i in range(16):
        version = opset(rng)
        dims = shape(rng, 1, 4, (1, 1, 1, 2, 3))
        if operator == "Squeeze":
            ones = [d for d, e in enumerate(dims) if e == 1]
            axes = [int(a) - (len(dims) if version >= 11 and i % 2 else 0) for a in ones[:1 + i % 3]] or None
        else:
            rank = len(dims) + 1 + i % 2
            axes = sorted(int(a) for a in rng.choice(rank, 1 + i % 2, replace=False))
            axes = [a - rank if version >= 11 and i % 3 == 0 else a for a in axes]
        inputs, attributes = with_axes(version, 13, [random_array(rng, pick(rng, LAID), dims)], axes, {})
        yield Drawn(version, inputs, attributes)


@family("Transpose")
def transpose(_, rng):
    for i in range(14):
        dims = shape(rng, 0 if i else 3, 5)
        yield Drawn(opset(rng), [random_array(rng, pick(rng, LAID), dims)], {"perm": [int(p) for p in rng.permutation(len(dims))]} if i % 3 and dims else {})


@family("Expand")
def expand(_, rng):
    for _ in range(12):
        a, b = broadcast_pair(rng, shape(rng, 1))
        yield Drawn(opset(rng, 8), [random_array(rng, pick(rng, LAID), a), ints(*b)])


@family("Tile")
def tile(_, rng):
    for i in range(12):
        dims = shape(rng, 1)
        yield Drawn(opset(rng), [random_array(rng, pick(rng, ["f32", "s64", "u8", "pred"]), dims), rng.integers(0 if i % 4 == 0 else 1, 4, len(dims))])


@family("Slice")
def slice_(_, rng):
    for i in range(30):
        version = opset(rng)
        dims = shape(rng, 1, 4, (1, 2, 5, 7))
        axes = axes_of(rng, len(dims), version >= 10) or [0]
        starts, ends = [[int(v) for v in rng.integers(-9, 10, len(axes))] for _ in (0, 1)]
        if i % 5 == 0:
            ends = [2**31 - 1] * len(axes)
        x = random_array(rng, pick(rng, LAID), dims)
        if version < 10:
            yield Drawn(version, [x], {"axes": axes, "starts": starts, "ends": ends})
        else:
            steps = [int(s) for s in rng.choice([-3, -2, -1, 1, 2, 3], len(axes))]
            kind = np.int64 if i % 2 else np.int32
            yield Drawn(version, [x, np.array(starts, kind), np.array(ends, kind), np.array(axes, kind), np.array(steps, kind)])


@family("Split")
def split(_, rng):
    for i in range(18):
        version = opset(rng)
        dims = list(shape(rng, 1))
        axis = int(rng.integers(len(dims)))
        parts = [int(p) for p in rng.integers(0 if i % 3 == 0 else 1, 4, rng.integers(1, 5))]
        equal = i % 3 == 1
        dims[axis] = len(parts) * 2 if equal else sum(parts)
        attributes = {"axis": axis - (len(dims) if version >= 11 and i % 2 else 0)}
        inputs = [random_array(rng, pick(rng, ["f32", "s64", "f64", "u8"]), tuple(dims))]
        if equal:
            attributes |= {"num_outputs": len(parts)} if version >= 18 else {}
        elif version >= 13:
            inputs.append(ints(*parts))
        else:
            attributes["split"] = parts
        yield Drawn(version, inputs, attributes, outputs=len(parts))


@family("Concat")
def concat(_, rng):
    for i in range(14):
        dims, parts = list(shape(rng, 1)), []
        axis = int(rng.integers(len(dims)))
        kind = pick(rng, LAID)
        for _ in range(1 + i % 4):
            dims[axis] = int(rng.integers(0, 4))
            parts.append(random_array(rng, kind, tuple(dims)))
        version = opset(rng)
        yield Drawn(version, parts, {"axis": axis - (len(dims) if version >= 11 and i % 2 else 0)})


@family("Pad")
def pad(_, rng):
    for i in range(40):
        version, mode = opset(rng), ["constant", "reflect", "edge", "wrap"][i % 4]
        version = max(version, 19) if mode == "wrap" else version
        dims = shape(rng, 1, 4, (3, 4, 5, 7))
        most = min(dims) - 1
        amounts = [int(a) for a in rng.integers(-1 if mode == "constant" else 0, min(3, most) + 1, 2 * len(dims))]
        x = random_array(rng, pick(rng, ["f32", "f64", "s32", "s64"] if version >= 11 else ["f32", "f64"]), dims)
        if version < 11:
            yield Drawn(version, [x], {"mode": mode, "pads": amounts} | ({"value": 1.5} if mode == "constant" else {}))
        else:
            value = [np.array(7).astype(x.dtype)] if mode == "constant" and i % 8 else []
            inputs = [x, ints(*amounts), *value]
            if version >= 18 and i % 3 == 0:
                axes = sorted(int(a) for a in rng.choice(len(dims), rng.integers(1, len(dims) + 1), replace=False))
                kept = amounts[:len(axes)] + amounts[len(dims):len(dims) + len(axes)]
                inputs = [x, ints(*kept), value[0] if value else None, ints(*axes)]
            yield Drawn(version, inputs, {"mode": mode})


@family("Shape", "Size")
def shape_of(operator, rng):
    for i in range(10):
        version = opset(rng)
        attributes = {"start": int(rng.integers(-3, 3)), "end": int(rng.integers(-3, 4))} if operator == "Shape" and version >= 15 and i % 2 else {}
        yield Drawn(version, [random_array(rng, "f32", shape(rng, 0, 4, (0, 1, 2, 3, 5)))], attributes)


@family("Range")
def range_(_, rng):
    for i in range(12):
        kind = ["f32", "s32", "s64", "f64", "s16"][i % 5]
        start, step = rng.integers(-5, 5), rng.choice([-3, -1, 1, 2])
        limit = start + step * rng.integers(-1, 9)
        values = [start + (0.25 if "f" in kind else 0), limit, step * (0.5 if "f" in kind else 1)]
        yield Drawn(opset(rng, 11), [np.array(v).astype(TYPES[kind]) for v in values])


@family("ConstantOfShape")
def constant_of_shape(_, rng):
    for i in range(10):
        kind = pick(rng, ["f32", "s64", "pred", "u8", "f64", "f16"])
        value = helper.make_tensor("v", ONNX_TYPES[kind], [1], random_array(rng, kind, (1,)).tobytes(), raw=True)
        yield Drawn(opset(rng, 9), [ints(*shape(rng, 0, 4, (0, 1, 2, 5)))], {"value": value} if i else {})


@family("Constant")
def constant(_, rng):
    for i in range(6):
        value = helper.make_tensor("v", ONNX_TYPES["f32"], [3, 2], random_array(rng, "f32", (3, 2)).tobytes(), raw=True)
        attributes = [{"value": value}, {"value_float": 2.5}, {"value_ints": [3, -1, 2]}][i % 3]
        yield Drawn(opset(rng, 13), [], attributes)


@family("EyeLike")
def eye_like(_, rng):
    for i in range(8):
        attributes = {"k": int(rng.integers(-3, 4))} | ({"dtype": ONNX_TYPES[pick(rng, ["f64", "s64", "u64", "s32"])]} if i % 2 else {})
        yield Drawn(opset(rng, 9), [random_array(rng, pick(rng, ["f32", "s32", "f64"]), shape(rng, 2, 2))], attributes)


@family("Trilu")
def trilu(_, rng):
    for i in range(14):
        inputs = [random_array(rng, pick(rng, ["f32", "s64", "f64", "pred"]), shape(rng, 2, 4, (0, 1, 3, 5)))]
        yield Drawn(opset(rng, 14), inputs + ([np.array(rng.integers(-4, 5))] if i % 3 else []), {"upper": i % 2})


@family("DepthToSpace", "SpaceToDepth")
def depth(operator, rng):
    for i in range(12):
        block, n, c, h, w = [int(v) for v in rng.integers(1, 4, 5)]
        version = opset(rng, 11)
        kind = pick(rng, ["f32", "f64", "u8"] if version >= 13 else ["f32", "f64"])
        if operator == "DepthToSpace":
            yield Drawn(version, [random_array(rng, kind, (n, c * block * block, h, w))], {"blocksize": block, "mode": ["DCR", "CRD"][i % 2]})
        else:
            yield Drawn(version, [random_array(rng, kind, (n, c, h * block, w * block))], {"blocksize": block})


@family("CenterCropPad")
def center_crop_pad(_, rng):
    for i in range(12):
        dims = shape(rng, 1, 3, (2, 3, 5, 8))
        axes = sorted(int(a) for a in rng.choice(len(dims), rng.integers(1, len(dims) + 1), replace=False))
        target = ints(*[int(t) for t in rng.integers(1, 9, len(axes))])
        yield Drawn(opset(rng, 18), [random_array(rng, "f32", dims), target], {"axes": [a - (len(dims) if i % 3 == 0 else 0) for a in axes]})


# indexing ---------------------------------------------------------------------------------------------------------
def indices(rng, extent, dims, version=13, kind=np.int64):
    return rng.integers(-extent if version >= 11 else 0, extent, dims).astype(kind)


@family("Gather")
def gather(_, rng):
    for i in range(20):
        version, dims = opset(rng), shape(rng, 1)
        axis = int(rng.integers(len(dims)))
        inputs = [random_array(rng, pick(rng, LAID), dims), indices(rng, dims[axis], shape(rng, 0, 3), version, pick(rng, [np.int32, np.int64]))]
        yield Drawn(version, inputs, {"axis": axis - (len(dims) if i % 2 and version >= 11 else 0)})


@family("GatherElements")
def gather_elements(_, rng):
    for i in range(16):
        dims = shape(rng, 1)
        axis = int(rng.integers(len(dims)))
        wanted = tuple(int(rng.integers(1, e + 1)) if d != axis else int(rng.integers(0, 9)) for d, e in enumerate(dims))
        yield Drawn(opset(rng, 11), [random_array(rng, pick(rng, LAID), dims), indices(rng, dims[axis], wanted)], {"axis": axis - (len(dims) if i % 2 else 0)})


@family("GatherND")
def gather_nd(_, rng):
    for i in range(18):
        version, dims = opset(rng, 12), shape(rng, 1, 4)
        batch = int(rng.integers(0, min(2, len(dims)))) if i % 2 else 0
        depth_ = int(rng.integers(1, len(dims) - batch + 1))
        where_ = dims[:batch] + shape(rng, 0, 2)
        columns = [indices(rng, dims[batch + d], where_) for d in range(depth_)]
        yield Drawn(version, [random_array(rng, pick(rng, ["f32", "s64", "u8"]), dims), np.stack(columns, -1)], {"batch_dims": batch})


def unique_along(rng, extent, dims, axis):
    """Indices of which no two along an axis are equal."""
    moved = np.empty(dims[:axis] + dims[axis + 1:] + (dims[axis],), np.int64)
    for place in np.ndindex(moved.shape[:-1]):
        moved[place] = rng.permutation(extent)[:dims[axis]]
    return np.moveaxis(moved, -1, axis)


@family("Scatter", "ScatterElements")
def scatter_elements(operator, rng):
    for i in range(24 if operator == "ScatterElements" else 6):
        dims = shape(rng, 1)
        axis = int(rng.integers(len(dims)))
        chosen = tuple(int(rng.integers(1, e + 1)) for e in dims)
        version = opset(rng, 11) if operator == "ScatterElements" else opset(rng, 9, 10)
        how = ["none", "add", "mul", "max", "min"][i % 5] if version >= 18 else ["none", "add", "mul"][i % 3] if version >= 16 else "none"
        where_ = unique_along(rng, dims[axis], chosen, axis) if how == "none" else indices(rng, dims[axis], chosen)
        kind = pick(rng, ["f32", "s64", "f64", "s32"])
        yield Drawn(version, [random_array(rng, kind, dims, "small"), where_, random_array(rng, kind, chosen, "small")],
                    {"axis": axis} | ({"reduction": how} if version >= 16 else {}))


@family("ScatterND")
def scatter_nd(_, rng):
    for i in range(24):
        dims = shape(rng, 1)
        depth_ = int(rng.integers(1, len(dims) + 1))
        version = opset(rng, 11)
        how = ["none", "add", "mul", "max", "min"][i % 5] if version >= 18 else ["none", "add", "mul"][i % 3] if version >= 16 else "none"
        cells = int(np.prod(dims[:depth_]))
        count = int(rng.integers(1, cells + 1))
        flat = rng.permutation(cells)[:count] if how == "none" else rng.integers(0, cells, count)
        where_ = np.stack(np.unravel_index(flat, dims[:depth_]), -1).astype(np.int64)
        kind = pick(rng, ["f32", "s64", "f64"])
        yield Drawn(version, [random_array(rng, kind, dims, "small"), where_, random_array(rng, kind, (count,) + dims[depth_:], "small")],
                    {"reduction": how} if version >= 16 else {})


@family("OneHot")
def one_hot(_, rng):
    for i in range(12):
        dims = shape(rng, 1, 3)
        version = opset(rng, 9)
        deep = int(rng.integers(1, 7))
        kind = pick(rng, ["f32", "s64"])
        yield Drawn(version, [indices(rng, deep + 1, dims, version), np.array([deep], np.int64), random_array(rng, kind, (2,), "small")],
                    {"axis": int(rng.integers(-1, len(dims) + 1))})


@family("Compress")
def compress(_, rng):
    for i in range(10):
        dims = shape(rng, 1)
        axis = int(rng.integers(len(dims)))
        count = dims[axis] if i % 2 else int(np.prod(dims))
        yield Drawn(opset(rng, 9), [random_array(rng, pick(rng, ["f32", "s64", "pred"]), dims), random_array(rng, "pred", (int(rng.integers(1, count + 1)),))],
                    {"axis": axis} if i % 2 else {})


@family("ReverseSequence")
def reverse_sequence(_, rng):
    for i in range(8):
        dims = shape(rng, 2, 4)
        time = i % 2
        yield Drawn(opset(rng, 10), [random_array(rng, "f32", dims), rng.integers(1, dims[time] + 1, dims[1 - time])], {"time_axis": time, "batch_axis": 1 - time})


# reductions -------------------------------------------------------------------------------------------------------
REDUCTIONS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]


@family(*REDUCTIONS)
def reduction(operator, rng):
    for i in range(16):
        version = opset(rng)
        kinds = ["f32", "f32", "f64", "s32"] + (["s64", "u8", "s8"] if operator in ("ReduceMax", "ReduceMin") and version >= 13 else [])
        kind = pick(rng, kinds)
        dims = shape(rng, 1, 4, (1, 2, 3, 5, 7) if i % 5 else (0, 2, 3))
        x = random_array(rng, kind, dims, "small")
        x = np.abs(x) + 1 if operator == "ReduceLogSum" else x
        axes = axes_of(rng, len(dims), version >= 11) or None
        inputs, attributes = with_axes(version, 13 if operator == "ReduceSum" else 18, [x.astype(TYPES[kind])], axes, {"keepdims": int(rng.integers(0, 2))})
        if axes is None and version >= 18 and i % 2:
            attributes["noop_with_empty_axes"] = 1
        yield Drawn(version, inputs, attributes)


@family("ArgMax", "ArgMin")
def arg(operator, rng):
    for i in range(14):
        version, dims = opset(rng), shape(rng, 1)
        attributes = {"axis": int(rng.integers(-len(dims) if version >= 11 else 0, len(dims))), "keepdims": i % 2}
        attributes |= {"select_last_index": int(rng.integers(0, 2))} if version >= 12 else {}
        yield Drawn(version, [random_array(rng, pick(rng, ["f32", "s32"] + (["f64", "u8", "s8"] if version >= 13 else [])), dims, "small")], attributes)


@family("CumSum", "CumProd")
def cumulative(operator, rng):
    for i in range(12):
        dims = shape(rng, 1)
        axis = np.array(int(rng.integers(-len(dims), len(dims))), pick(rng, [np.int32, np.int64]))
        yield Drawn(opset(rng, 11) if operator == "CumSum" else 26, [random_array(rng, pick(rng, ["f32", "f64", "s32", "s64"]), dims, "small"), axis],
                    {"exclusive": i % 2, "reverse": i // 2 % 2})


# normalisation ----------------------------------------------------------------------------------------------------
def batch_of(rng, least=2, most=5):
    return tuple(int(e) for e in rng.choice([1, 2, 3, 4], 2)) + tuple(int(e) for e in rng.choice([1, 3, 5], rng.integers(least - 2, most - 1)))


@family("BatchNormalization")
def batch_normalization(_, rng):
    for i in range(12):
        x = random_array(rng, pick(rng, ["f32", "f64"]), batch_of(rng))
        scale, bias, mean = (random_array(rng, elements.name_of(x), x.shape[1:2]) for _ in range(3))
        variance = np.abs(random_array(rng, elements.name_of(x), x.shape[1:2])) + 0.1
        yield Drawn(opset(rng, 9), [x, scale, bias, mean, variance.astype(x.dtype)], {"epsilon": a_float(rng, 1e-5, 1e-2)})


@family("InstanceNormalization", "GroupNormalization")
def instance_normalization(operator, rng):
    for i in range(10):
        x = random_array(rng, "f32", batch_of(rng, 3))
        groups = pick(rng, [g for g in (1, 2, 3, 4) if x.shape[1] % g == 0])
        version = opset(rng) if operator == "InstanceNormalization" else opset(rng, 21)
        attributes = {"epsilon": a_float(rng, 1e-5, 1e-2)} | ({"num_groups": groups} if operator == "GroupNormalization" else {})
        yield Drawn(version, [x, *(random_array(rng, "f32", x.shape[1:2]) for _ in (0, 1))], attributes)


@family("LayerNormalization", "RMSNormalization")
def layer_normalization(operator, rng):
    for i in range(14):
        dims = shape(rng, 1, 4, (1, 2, 5, 9))
        axis = int(rng.integers(-len(dims), len(dims)))
        kind = pick(rng, ["f32", "f64", "f16"])
        inner = dims[axis:] if axis < 0 else dims[axis:]
        inputs = [random_array(rng, kind, dims)] + [random_array(rng, kind, inner) for _ in range(2 if operator == "LayerNormalization" and i % 2 else 1)]
        yield Drawn(opset(rng, 17 if operator == "LayerNormalization" else 23), inputs, {"axis": axis, "epsilon": a_float(rng, 1e-5, 1e-2)},
                    outputs=3 if operator == "LayerNormalization" and i % 3 == 0 and kind == "f32" else 1)


@family("LRN")
def lrn(_, rng):
    for _ in range(10):
        yield Drawn(opset(rng), [random_array(rng, "f32", batch_of(rng, 4, 4)[:1] + (int(rng.integers(1, 8)), 3, 2))],
                    {"size": int(rng.choice([1, 3, 5])), "alpha": a_float(rng, 0, 1), "beta": a_float(rng, 0.5, 1), "bias": a_float(rng, 0.5, 2)})


@family("LpNormalization")
def lp_normalization(_, rng):
    for i in range(10):
        dims = shape(rng, 1)
        yield Drawn(opset(rng), [random_array(rng, pick(rng, ["f32", "f64"]), dims)], {"axis": int(rng.integers(-len(dims), len(dims))), "p": 1 + i % 2})


@family("MeanVarianceNormalization")
def mean_variance(_, rng):
    for i in range(8):
        yield Drawn(opset(rng, 13), [random_array(rng, "f32", (2, 3, 4, 5))], {"axes": axes_of(rng, 4, True) or [1]} if i else {})


@family("Softmax", "LogSoftmax", "Hardmax")
def softmax(_, rng):
    for i in range(14):
        version, dims = opset(rng), shape(rng, 1)
        axis = int(rng.integers(-len(dims) if version >= 11 else 0, len(dims)))
        yield Drawn(version, [random_array(rng, pick(rng, ["f32", "f64"]), dims)], {"axis": axis} if i % 4 else {})


# matrices ---------------------------------------------------------------------------------------------------------
def matmul_shapes(rng):
    m, k, n = (int(e) for e in rng.choice([1, 2, 3, 5, 8], 3))
    a, b = broadcast_pair(rng, shape(rng, 0, 2, (1, 2, 3)))
    left, right = a + (m, k), b + (k, n)
    return (left if rng.random() < 0.85 else (k,)), (right if rng.random() < 0.85 else (k,))


@family("MatMul")
def matmul(_, rng):
    for i in range(24):
        kind = ["f32", "f64", "f32", "s32", "s64", "u32", "f16"][i % 7]
        a, b = matmul_shapes(rng)
        yield Drawn(opset(rng, 9), [random_array(rng, kind, a, "small"), random_array(rng, kind, b, "small")])


@family("Gemm")
def gemm(_, rng):
    for i in range(20):
        m, k, n = (int(e) for e in rng.choice([1, 2, 3, 5, 8], 3))
        ta, tb = i % 2, i // 2 % 2
        version, kind = opset(rng, 11), ["f32", "f64"][i % 5 == 4]
        inputs = [random_array(rng, kind, (k, m) if ta else (m, k)), random_array(rng, kind, (n, k) if tb else (k, n))]
        if i % 6:
            inputs.append(random_array(rng, kind, pick(rng, [(m, n), (n,), (1, n), (m, 1), (1,), ()])))
        yield Drawn(version, inputs, {"transA": ta, "transB": tb, "alpha": a_float(rng), "beta": a_float(rng)})


EQUATIONS = ["ij,jk->ik", "ij->ji", "ii->i", "ij->", "bij,bjk->bik", "i,j->ij", "ij,ij->ij", "...ij,...jk->...ik", "bhid,bhjd->bhij", "ij,jk,kl->il", "abc->ca", "i,i->", "ijk,jil->kl"]


@family("Einsum")
def einsum(_, rng):
    for i in range(26):
        equation = EQUATIONS[i % len(EQUATIONS)]
        sizes = {letter: int(rng.choice([1, 2, 3, 5])) for letter in "abcdhijklm"}
        inputs = [random_array(rng, ["f32", "f64", "s32"][i % 3], tuple([2, 3][:2] if "..." in term else []) + tuple(sizes[c] for c in term.replace("...", "")), "small")
                  for term in equation.split("->")[0].split(",")]
        yield Drawn(opset(rng, 12), inputs, {"equation": equation})


@family("MatMulInteger", "QLinearMatMul")
def matmul_integer(operator, rng):
    for i in range(14):
        m, k, n = (int(e) for e in rng.choice([1, 2, 3, 5, 8], 3))
        kinds = [("u8", "u8"), ("u8", "s8"), ("s8", "s8")][i % 3]
        a, b = random_array(rng, kinds[0], (m, k)), random_array(rng, kinds[1], (k, n))
        za, zb = (random_array(rng, kind, ()) for kind in kinds)
        if operator == "MatMulInteger":
            yield Drawn(opset(rng, 10), [a, b] + ([za, zb] if i % 4 else []))
        else:
            scale = [np.array(s, np.float32) for s in (0.02, 0.05, 0.5)]
            yield Drawn(opset(rng, 10, 20), [a, scale[0], za, b, scale[1], zb, scale[2], random_array(rng, kinds[0], ())])


# convolutions and pools -------------------------------------------------------------------------------------------
def window_attributes(rng, spatial, kernel, *, dilated=True):
    attributes = {"strides": [int(s) for s in rng.integers(1, 4, spatial)]}
    if dilated:
        attributes["dilations"] = [int(d) for d in rng.integers(1, 3, spatial)]
    mode = pick(rng, ["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode == "NOTSET":
        attributes["pads"] = [int(p) for p in rng.integers(0, 2, 2 * spatial)] if min(kernel) > 1 else [0] * 2 * spatial
    else:
        attributes["auto_pad"] = mode
        if mode.startswith("SAME"):
            attributes.pop("dilations", None)
    return attributes


@family("Conv", "ConvTranspose")
def conv(operator, rng):
    for i in range(36):
        spatial = 1 + i % 3
        groups = pick(rng, [1, 1, 2, 3])
        kernel = [int(e) for e in rng.choice([1, 2, 3], spatial)]
        inside, outside = int(rng.integers(1, 3)) * groups, int(rng.integers(1, 3)) * groups
        x = random_array(rng, "f32", (int(rng.integers(1, 3)), inside) + tuple(int(e) for e in rng.choice([5, 6, 9], spatial)))
        weights = (outside, inside // groups) if operator == "Conv" else (inside, outside // groups)
        attributes = {"group": groups, "kernel_shape": kernel} | window_attributes(rng, spatial, kernel)
        if operator == "ConvTranspose" and i % 3 == 0 and "pads" in attributes:
            attributes["output_padding"] = [int(rng.integers(0, s)) for s in attributes["strides"]]
        yield Drawn(opset(rng, 11), [x, random_array(rng, "f32", weights + tuple(kernel))] + ([random_array(rng, "f32", (outside,))] if i % 2 else []), attributes)


@family("ConvInteger", "QLinearConv")
def conv_integer(operator, rng):
    for i in range(12):
        kernel = [int(e) for e in rng.choice([1, 2, 3], 2)]
        x, w = random_array(rng, "u8", (1, 2, 6, 5)), random_array(rng, "u8", (3, 2, *kernel))
        attributes = {"kernel_shape": kernel} | window_attributes(rng, 2, kernel)
        zx, zw = random_array(rng, "u8", ()), random_array(rng, "u8", ())
        if operator == "ConvInteger":
            yield Drawn(opset(rng, 10), [x, w, zx, zw], attributes)
        else:
            s = [np.array(v, np.float32) for v in (0.02, 0.05, 0.7)]
            yield Drawn(opset(rng, 10), [x, s[0], zx, w, s[1], zw, s[2], random_array(rng, "u8", ())] + ([random_array(rng, "s32", (3,), "small")] if i % 2 else []), attributes)


@family("AveragePool", "MaxPool", "LpPool")
def pool(operator, rng):
    for i in range(30):
        spatial = 1 + i % 3
        version = opset(rng, {"AveragePool": 10, "MaxPool": 10, "LpPool": 11}[operator])
        kernel = [int(e) for e in rng.choice([1, 2, 3], spatial)]
        dilated = (operator == "MaxPool") or (operator == "AveragePool" and version >= 19) or (operator == "LpPool" and version >= 18)
        attributes = {"kernel_shape": kernel} | window_attributes(rng, spatial, kernel, dilated=dilated)
        if operator == "AveragePool":
            attributes["count_include_pad"] = int(rng.integers(0, 2))
        if operator == "LpPool":
            attributes["p"] = int(rng.integers(1, 4))
        if (operator != "LpPool" or version >= 18) and "auto_pad" not in attributes:
            attributes["ceil_mode"] = int(rng.integers(0, 2))
        x = random_array(rng, "f32", (1, int(rng.integers(1, 4))) + tuple(int(e) for e in rng.choice([5, 6, 9], spatial)))
        yield Drawn(version, [x], attributes, outputs=2 if operator == "MaxPool" and i % 4 == 0 else 1)


@family("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(operator, rng):
    for i in range(8):
        yield Drawn(opset(rng), [random_array(rng, "f32", batch_of(rng, 3))], {"p": 1 + i % 3} if operator == "GlobalLpPool" else {})


@family("MaxUnpool")
def max_unpool(_, rng):
    for i in range(6):
        n, c, h, w = 1, 2, 2 + i % 2, 3
        flat = np.stack([rng.permutation(4 * h * w)[:h * w] for _ in range(n * c)]).reshape(n, c, h, w) + np.arange(c).reshape(1, c, 1, 1) * 4 * h * w
        yield Drawn(opset(rng, 11), [random_array(rng, "f32", (n, c, h, w)), flat.astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]})


# recurrence -------------------------------------------------------------------------------------------------------
@family("RNN", "GRU", "LSTM")
def recurrent(operator, rng):
    for i in range(22):
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
        direction = ["forward", "reverse", "bidirectional"][i % 3]
        ways = 2 if direction == "bidirectional" else 1
        steps, batch, inside, hidden = (int(e) for e in rng.integers(1, 5, 4))
        inputs = [random_array(rng, "f32", (steps, batch, inside)), random_array(rng, "f32", (ways, gates * hidden, inside)),
                  random_array(rng, "f32", (ways, gates * hidden, hidden)),
                  random_array(rng, "f32", (ways, 2 * gates * hidden)) if i % 2 else None,
                  rng.integers(1, steps + 1, batch).astype(np.int32) if i % 4 == 1 else None,
                  random_array(rng, "f32", (ways, batch, hidden)) if i % 3 else None]
        if operator == "LSTM":
            inputs += [random_array(rng, "f32", (ways, batch, hidden)) if i % 3 else None, random_array(rng, "f32", (ways, 3 * hidden)) if i % 5 == 0 else None]
        while inputs[-1] is None:
            inputs.pop()
        attributes = {"hidden_size": hidden, "direction": direction}
        if i % 4 == 2:
            attributes["clip"] = 0.75
        if operator == "GRU":
            attributes["linear_before_reset"] = i // 2 % 2
        if i % 5 == 3:
            attributes["activations"] = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Relu", "Tanh"]}[operator] * ways
        yield Drawn(opset(rng, 7, 21), inputs, attributes, outputs=3 if operator == "LSTM" else 2)


# quantisation -----------------------------------------------------------------------------------------------------
@family("QuantizeLinear", "DequantizeLinear")
def quantize(operator, rng):
    for i in range(36):
        version = opset(rng, 10)
        kinds = ["u8", "s8"] + (["f8e4m3fn", "f8e5m2"] if version >= 19 else []) + (["s16", "u16"] if version >= 21 else [])
        kind = pick(rng, kinds)
        dims = shape(rng, 1, 3, (2, 4, 6))
        axis = int(rng.integers(len(dims)))
        how = ["tensor", "axis", "block"][i % 3]
        how = "tensor" if version < (21 if how == "block" else 13) else how
        grid = {"tensor": (), "axis": dims[axis:axis + 1], "block": dims[:axis] + (dims[axis] // 2,) + dims[axis + 1:]}[how]
        scale = (np.abs(random_array(rng, "f32", grid)) + 0.01).astype(np.float32)
        zero = np.zeros(grid).astype(TYPES[kind]) if "f8" in kind else random_array(rng, kind, grid)
        x = random_array(rng, "f32", dims) * 20 if operator == "QuantizeLinear" else random_array(rng, kind, dims)
        attributes = {} if how == "tensor" else {"axis": axis} | ({"block_size": 2} if how == "block" else {})
        yield Drawn(version, [x.astype(np.float32) if operator == "QuantizeLinear" else x, scale, zero], attributes)


@family("DynamicQuantizeLinear")
def dynamic_quantize(_, rng):
    for _ in range(10):
        yield Drawn(opset(rng, 11), [random_array(rng, "f32", shape(rng, 1)) * 5], outputs=3)


# control flow and sequences ---------------------------------------------------------------------------------------
def subgraph(nodes, inputs, outputs, name):
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    return helper.make_graph(nodes, name, infos, [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs])


@family("If")
def if_(_, rng):
    for i in range(8):
        def build(names):
            yes = subgraph([helper.make_node("Add", [names[1], names[1]], ["a"])], [], [("a", TensorProto.FLOAT, None)], "yes")
            no = subgraph([helper.make_node("Neg", [names[1]], ["b"])], [], [("b", TensorProto.FLOAT, None)], "no")
            return [helper.make_node("If", [names[0]], ["y"], then_branch=yes, else_branch=no)], ["y"]
        yield Drawn(opset(rng, 11), [np.array(i % 2 == 0), random_array(rng, "f32", shape(rng))], graph=build)


@family("Loop")
def loop(_, rng):
    for i in range(8):
        def build(names):
            body = subgraph([helper.make_node("Mul", ["v", "v"], ["s"]), helper.make_node("Sub", ["s", names[2]], ["w"]),
                             helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0), helper.make_node("Less", ["m", names[3]], ["go"]),
                             helper.make_node("Identity", ["w"], ["row"])],
                            [("n", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, None)],
                            [("go", TensorProto.BOOL, []), ("w", TensorProto.FLOAT, None), ("row", TensorProto.FLOAT, None)], "body")
            return [helper.make_node("Loop", [names[0], "", names[1]], ["y", "rows"], body=body)], ["y"]
        x = random_array(rng, "f32", (3,)) * 0.5
        yield Drawn(opset(rng, 13, 17), [np.array(i, np.int64), x.astype(np.float32), np.float32(0.5) * np.ones(3, np.float32), np.array(100, np.float32)], graph=build)


@family("Scan")
def scan(_, rng):
    for i in range(8):
        def build(names):
            body = subgraph([helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Tanh", ["t"], ["r"])],
                            [("s", TensorProto.FLOAT, [3]), ("x", TensorProto.FLOAT, [3])], [("t", TensorProto.FLOAT, [3]), ("r", TensorProto.FLOAT, [3])], "body")
            return [helper.make_node("Scan", names, ["y", "rows"], body=body, num_scan_inputs=1, scan_input_directions=[i % 2], scan_output_directions=[i // 2 % 2])], ["y", "rows"]
        yield Drawn(opset(rng, 9), [random_array(rng, "f32", (3,)), random_array(rng, "f32", (int(rng.integers(1, 6)), 3))], graph=build)


@family("SequenceConstruct", "SequenceAt", "SplitToSequence", "ConcatFromSequence", "SequenceInsert", "SequenceErase", "SequenceLength", "SequenceEmpty")
def sequences(operator, rng):
    for i in range(4):
        axis, new = i % 2, i // 2
        def build(names, operator=operator, axis=axis, new=new):
            make = helper.make_node
            nodes = [make("SequenceConstruct", [names[0], names[1]], ["q"])]
            if operator == "SplitToSequence":
                nodes = [make("SplitToSequence", [names[0]], ["q"], axis=axis, keepdims=1)]
            if operator == "SequenceInsert":
                nodes.append(make("SequenceInsert", ["q", names[0]], ["r"]))
            elif operator == "SequenceErase":
                nodes.append(make("SequenceErase", ["q"], ["r"]))
            elif operator == "SequenceEmpty":
                nodes = [make("SequenceEmpty", [], ["q"]), make("SequenceInsert", ["q", names[1]], ["r"])]
            else:
                nodes.append(make("Identity", ["q"], ["r"]) if operator == "none" else make("SequenceInsert", ["q", names[1]], ["r"]) if operator == "SequenceConstruct" else nodes.pop())
            last = "r" if any("r" in n.output for n in nodes) else "q"
            if operator == "SequenceLength":
                return nodes + [make("SequenceLength", [last], ["y"])], ["y"]
            if operator == "SequenceAt":
                return nodes + [make("SequenceAt", [last, names[2]], ["y"])], ["y"]
            return nodes + [make("ConcatFromSequence", [last], ["y"], axis=axis, new_axis=0 if operator == "SplitToSequence" else new)], ["y"]
        yield Drawn(opset(rng, 13), [random_array(rng, "f32", (2, 3)), random_array(rng, "f32", (2, 3)), np.array(axis - 1, np.int64)], graph=build)


# the rest ---------------------------------------------------------------------------------------------------------
@family("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(operator, rng):
    for i in range(20):
        n, c = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        inner = shape(rng, 0, 2)
        inputs = [random_array(rng, "f32", (n, c) + inner), rng.integers(0, c, (n,) + inner)]
        if i % 2:
            inputs.append(np.abs(random_array(rng, "f32", (c,))) + np.float32(0.1))
        attributes = {"reduction": ["mean", "sum", "none"][i % 3]} | ({"ignore_index": int(rng.integers(0, c))} if i % 4 == 3 and c > 1 else {})
        yield Drawn(opset(rng, 13), inputs, attributes, outputs=2 if operator == "SoftmaxCrossEntropyLoss" and i % 5 == 0 else 1)


@family("Resize")
def resize(_, rng):
    for i in range(60):
        version = opset(rng, 11)
        mode = ["nearest", "linear", "cubic"][i % 3]
        dims = (1, int(rng.integers(1, 3))) + tuple(int(e) for e in rng.choice([3, 4, 5, 7], 2))
        x = random_array(rng, "f32", dims)
        coordinate = pick(rng, ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"] + (["half_pixel_symmetric"] if version >= 19 else []))
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinate}
        if mode == "nearest":
            attributes["nearest_mode"] = pick(rng, ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        if mode == "cubic":
            attributes |= {"cubic_coeff_a": -0.5 if i % 2 else -0.75, "exclude_outside": int(i % 4 == 0)}
        if version >= 18 and mode != "nearest" and i % 5 == 0:
            attributes["antialias"] = 1
        if i % 2:
            inputs = [x, None, np.array([1, 1, *rng.choice([0.5, 0.6, 1.0, 1.5, 2.0, 2.7], 2)], np.float32)]
        else:
            inputs = [x, None, None, ints(*dims[:2], *[int(e) for e in rng.integers(1, 11, 2)])]
        if version < 13 and inputs[1] is None:
            inputs[1] = np.zeros(0, np.float32)
            inputs[2] = np.zeros(0, np.float32) if inputs[2] is None else inputs[2]
        yield Drawn(version, inputs, attributes)


@family("Upsample")
def upsample(_, rng):
    for i in range(6):
        yield Drawn(9, [random_array(rng, "f32", (1, 2, 3, 4)), np.array([1, 1, *rng.choice([1.0, 2.0, 3.0], 2)], np.float32)], {"mode": ["nearest", "linear"][i % 2]})


@family("BlackmanWindow", "HammingWindow", "HannWindow")
def windows(_, rng):
    for i in range(6):
        yield Drawn(opset(rng, 17), [np.array(int(rng.integers(2, 20)))], {"periodic": i % 2})


@family("MelWeightMatrix")
def mel(_, rng):
    for i in range(4):
        yield Drawn(opset(rng, 17), [np.array(int(rng.integers(4, 10))), np.array(32 * (1 + i)), np.array(16000), np.array(20.0 * i, np.float32), np.array(7000.0, np.float32)])


@family("Dropout")
def dropout(_, rng):
    for i in range(6):
        yield Drawn(opset(rng, 13), [random_array(rng, pick(rng, ["f32", "f64"]), shape(rng)), np.array(0.3, np.float32)], outputs=1 + i % 2)


@family("Attention")
def attention(_, rng):
    for i in range(20):
        batch, heads, shared, queries, keys, width = 2, 4, [4, 2, 1][i % 3], 3, 5, 4
        q, k, v = (random_array(rng, "f32", (batch, h, n, width)) for h, n in ((heads, queries), (shared, keys), (shared, keys)))
        attributes, inputs = {}, [q, k, v]
        if i % 2:
            inputs = [x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) for x in inputs]
            attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
        if i % 4 == 1:
            attributes["is_causal"] = 1
        elif i % 4 == 2:
            inputs.append(random_array(rng, "f32", pick(rng, [(queries, keys), (batch, 1, queries, keys)])))
        elif i % 4 == 3:
            inputs.append(rng.random((queries, keys)) < 0.7)
            inputs[-1][:, 0] = True
        if i % 5 == 0:
            attributes["softcap"] = 2.0
        if i % 3 == 0:
            attributes["scale"] = 0.3
        yield Drawn(23, inputs, attributes)


@family("RotaryEmbedding")
def rotary(_, rng):
    for i in range(10):
        batch, heads, steps, width = 2, 3, 4, 8
        x = random_array(rng, "f32", (batch, heads, steps, width))
        attributes = {"interleaved": i % 2}
        if i % 3 == 0:
            attributes["rotary_embedding_dim"] = 4
        half = attributes.get("rotary_embedding_dim", width) // 2
        cos, sin = random_array(rng, "f32", (10, half)), random_array(rng, "f32", (10, half))
        if i % 4 == 1:
            x = x.transpose(0, 2, 1, 3).reshape(batch, steps, -1)
            attributes["num_heads"] = heads
        yield Drawn(23, [x, cos, sin, rng.integers(0, 10, (batch, steps))], attributes)


@family("Adagrad", "Adam", "Momentum", domain="ai.onnx.preview.training")
def optimizer(operator, rng):
    count = {"Adagrad": 1, "Adam": 2, "Momentum": 1}[operator]
    attributes = {"Adagrad": {}, "Adam": {}, "Momentum": {"alpha": 0.9, "beta": 0.1, "norm_coefficient": 0.01, "mode": "standard"}}[operator]
    yield Drawn(14, [np.array(0.1, np.float32), np.array(2), *(random_array(rng, "f32", (3,)) for _ in range(2 + count))], attributes,
                outputs=1 + count, domain="ai.onnx.preview.training")


@family("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "FusedMatMul", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def microsoft(operator, rng):
    for i in range(10):
        dims = shape(rng, 1, 3, (2, 3, 5)) if "Skip" not in operator else (2, 3, 5)
        x, last = random_array(rng, "f32", dims), dims[-1:]
        inputs, attributes, outputs = [x], {}, 1
        if operator == "BiasGelu" or (operator == "FastGelu" and i % 2):
            inputs.append(random_array(rng, "f32", last))
        elif operator == "QuickGelu":
            attributes["alpha"] = a_float(rng, 0.5, 2)
        elif operator == "FusedMatMul":
            attributes = {"transA": i % 2, "transB": i // 2 % 2, "alpha": a_float(rng)}
            inputs = [random_array(rng, "f32", (2, 4, 3) if i % 2 else (2, 3, 4)), random_array(rng, "f32", (2, 5, 4) if i // 2 % 2 else (2, 4, 5))]
        elif "Skip" in operator:
            inputs = [x, random_array(rng, "f32", dims), random_array(rng, "f32", last)]
            inputs += [random_array(rng, "f32", last)] if operator == "SkipLayerNormalization" and i % 2 else []
            attributes["epsilon"] = 1e-3
        yield Drawn(17, inputs, attributes, outputs, domain="com.microsoft")


def cases(domain, operator):
    """(name, model, names of inputs, arrays) of one operator."""
    rng = np.random.default_rng(zlib.crc32(f"{domain}/{operator}".encode()))
    for i, drawn in enumerate(FAMILIES[domain, operator](operator, rng)):
        model, names = model_of(operator, drawn)
        given = [value for value in drawn.inputs if value is not None]
        kind = drawn.label or (elements.name_of(given[0]) if given else "none")
        yield f"{operator}/{i:03}/opset{drawn.opset}/{kind}", model, names, given
