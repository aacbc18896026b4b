"""HLO modules with inputs, operator by operator, for every opcode that the importer lowers.

A family is a function that yields (name, text, inputs); FAMILIES says which opcodes it covers. Attributes and shapes
are drawn from a generator whose seed is the family's name, so that cases stay the same when others are added.
"""
import itertools
import pathlib
import re
import zlib

import numpy as np

from elements import (ALL, FLOATS, FLUSHED, INTEGERS, NUMBERS, SIGNED, TYPES, UNSIGNED, name_of, random_array, specials,
                      with_specials)

SHAPES = [(), (1,), (0,), (3, 5), (2, 0, 3), (1, 7, 1, 2), (33,)]
COMMON = ["pred", "s8", "s32", "u32", "f16", "bf16", "f32"]
COMPARISONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
FAMILIES = {}


def family(*opcodes):
    def register(function):
        for opcode in opcodes:
            assert opcode not in FAMILIES, opcode
            FAMILIES[opcode] = function
        return function

    return register


def xla_text(opcode, text):
    """What XLA is given in the place of a text that its CPU backend does not survive: a fusion is a call by definition,
    and one that was not made by XLA's own passes ends the process."""
    return text.replace("fusion(p0, p1), kind=kLoop, calls=f", "call(p0, p1), to_apply=f") if opcode == "fusion" else text


def importer_opcodes(root):
    """Opcodes that the importer's table lowers to operators of its own, in its order."""
    text = (pathlib.Path(root) / "import/hlo/rules.cpp").read_text()
    rows = re.findall(r'^    \{"([a-z0-9-]+)", (lower_\w+),', text, re.M)
    return [name for name, rule in rows if rule not in ("lower_opaque", "lower_custom_call")]


def shape_text(kind, dims):
    return f"{kind}[{','.join(map(str, dims))}]"


def type_of(array):
    return shape_text(name_of(array), array.shape)


def braces(values):
    return "{" + ",".join(map(str, values)) + "}"


def module(arguments, body, computations=""):
    """A module whose entry has parameters p0, p1, … and then the lines of `body`, the last of them its root."""
    lines = [f"  p{i} = {type_of(a)} parameter({i})" for i, a in enumerate(arguments)]
    steps = body.strip().splitlines()
    steps[-1] = "ROOT " + steps[-1].strip()
    return "HloModule m\n\n" + computations + "ENTRY main {\n" + "\n".join(lines + ["  " + s.strip() for s in steps]) + "\n}\n"


def combiner(name, kind, opcode, *, swapped=False):
    operands = "b, a" if swapped else "a, b"
    return (f"{name} {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n"
            f"  ROOT c = {kind}[] {opcode}({operands})\n}}\n\n")


def literal(kind, value):
    if kind == "pred":
        return "true" if value else "false"
    return str(value) if kind in INTEGERS else repr(float(value))


def bounded(rng, most_rank=4, least_rank=0, extents=(0, 1, 1, 2, 3, 5, 7)):
    return tuple(int(e) for e in rng.choice(extents, rng.integers(least_rank, most_rank + 1)))


# element-wise -----------------------------------------------------------------------------------------------------
UNARY_FLOATS = ["acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "cosh", "cosine", "erf", "exponential",
                "exponential-minus-one", "floor", "is-finite", "log", "log-plus-one", "logistic", "round-nearest-afz",
                "round-nearest-even", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh"]
UNARY = {name: FLOATS for name in UNARY_FLOATS} | {
    "abs": SIGNED + FLOATS, "negate": NUMBERS, "sign": SIGNED + FLOATS, "not": ["pred"] + INTEGERS,
    "popcnt": INTEGERS, "count-leading-zeros": INTEGERS}


@family(*UNARY)
def unary(opcode, rng):
    for kind in UNARY[opcode]:
        inputs = [("specials", with_specials(rng, kind, 61)), ("wide", random_array(rng, kind, (7, 13), "wide"))]
        inputs += [(f"shape{i}", random_array(rng, kind, shape)) for i, shape in enumerate(SHAPES)]
        inputs += [("subnormal", specials(kind, True))] if kind in FLUSHED else []
        for label, x in inputs:
            result = "pred" if opcode == "is-finite" else kind
            yield f"{kind}/{label}", module([x], f"y = {shape_text(result, x.shape)} {opcode}(p0)"), [x]


def all_pairs(values, kind):
    pairs = np.array(list(itertools.product(values, repeat=2)))
    return tuple(np.ascontiguousarray(pairs[:, i]).astype(TYPES[kind]) for i in (0, 1))


BINARY = {"add": ALL, "multiply": ALL, "subtract": NUMBERS, "divide": NUMBERS, "remainder": NUMBERS,
          "maximum": ALL, "minimum": ALL, "power": NUMBERS, "atan2": FLOATS, "and": ["pred"] + INTEGERS,
          "or": ["pred"] + INTEGERS, "xor": ["pred"] + INTEGERS, "shift-left": INTEGERS,
          "shift-right-arithmetic": INTEGERS, "shift-right-logical": INTEGERS}


@family(*BINARY)
def binary(opcode, rng):
    for kind in BINARY[opcode]:
        x, y = all_pairs(specials(kind), kind)
        inputs = [("specials", x, y),
                  ("small", random_array(rng, kind, (5, 11), "small"), random_array(rng, kind, (5, 11), "small"))]
        inputs += [(f"shape{i}", random_array(rng, kind, s), random_array(rng, kind, s)) for i, s in enumerate(SHAPES)]
        inputs += [("subnormal", *all_pairs(specials(kind, True), kind))] if kind in FLUSHED else []
        inputs.append(("same", x, x))
        if opcode == "power" and kind in INTEGERS:
            # XLA looks at six bits of the exponent: cases with more are apart, and all others have less.
            inputs = [(f"large-{label}", a, b) for label, a, b in inputs] + [
                (label, a, (b.astype(np.int64) % 64 - (20 if kind in SIGNED else 0)).astype(b.dtype)) for label, a, b in inputs]
        for label, a, b in inputs:
            yield f"{kind}/{label}", module([a, b], f"y = {type_of(a)} {opcode}(p0, p1)"), [a, b]
        large = "large-" if opcode == "power" and kind in INTEGERS else ""
        yield f"{kind}/{large}itself", module([x], f"y = {type_of(x)} {opcode}(p0, p0)"), [x]


@family("compare")
def compare(_, rng):
    for kind in ALL:
        x, y = all_pairs(specials(kind, True), kind)
        for direction in COMPARISONS:
            for order in ["", ", type=TOTALORDER"] if kind in FLOATS else [""]:
                text = module([x, y], f"y = {shape_text('pred', x.shape)} compare(p0, p1), direction={direction}{order}")
                yield f"{kind}/{direction}{'/total' if order else ''}", text, [x, y]
        for shape in SHAPES[:3]:
            a, b = random_array(rng, kind, shape), random_array(rng, kind, shape)
            text = module([a, b], f"y = {shape_text('pred', shape)} compare(p0, p1), direction=LT")
            yield f"{kind}/shape{len(shape)}{sum(shape)}", text, [a, b]


@family("select")
def select(_, rng):
    for kind in ALL:
        for shape in SHAPES:
            for scalar in [False] if shape == () else [False, True]:
                p = random_array(rng, "pred", () if scalar else shape)
                x, y = with_shape(rng, kind, shape), with_shape(rng, kind, shape)
                text = module([p, x, y], f"y = {type_of(x)} select(p0, p1, p2)")
                yield f"{kind}/{'x'.join(map(str, shape))}{'/scalar' if scalar else ''}", text, [p, x, y]


def with_shape(rng, kind, shape):
    """Specials as far as they fit, in the shape."""
    return with_specials(rng, kind, int(np.prod(shape, dtype=int))).reshape(shape)


@family("clamp")
def clamp(_, rng):
    for kind in NUMBERS:
        triples = np.array(list(itertools.product(specials(kind)[::3], specials(kind), specials(kind)[1::3])))
        low, x, high = (np.ascontiguousarray(triples[:, i]).astype(TYPES[kind]) for i in range(3))
        yield f"{kind}/specials", module([low, x, high], f"y = {type_of(x)} clamp(p0, p1, p2)"), [low, x, high]
        for shape in SHAPES:
            x = with_shape(rng, kind, shape)
            low, high = np.array(1).astype(TYPES[kind]), np.array(3).astype(TYPES[kind])
            yield (f"{kind}/scalars/{'x'.join(map(str, shape))}",
                   module([low, x, high], f"y = {type_of(x)} clamp(p0, p1, p2)"), [low, x, high])


@family("convert")
def convert(_, rng):
    for source, target in itertools.product(ALL, repeat=2):
        x = np.concatenate([specials(source, True), random_array(rng, source, (40,)), random_array(rng, source, (40,), "wide")])
        if target in INTEGERS and source in FLOATS:
            x = np.concatenate([x, near_limits(source, target)])
        yield f"{source}/{target}", module([x], f"y = {shape_text(target, x.shape)} convert(p0)"), [x]
    for kind, shape in itertools.product(["bf16", "f16", "s8"], SHAPES):
        x = random_array(rng, kind, shape)
        text = module([x], f"w = {shape_text('f32', shape)} convert(p0)\nn = {shape_text('s32', shape)} convert(w)\n"
                           f"y = {shape_text(kind, shape)} convert(n)")
        yield f"{kind}/chain/{'x'.join(map(str, shape))}", text, [x]
    for kind in ("s4", "u4"):
        x = np.arange(-8, 20, dtype=np.int8)
        text = module([x], f"n = {kind}[28] convert(p0)\ny = s8[28] convert(n)")
        yield f"s8/{kind}/s8", text, [x]


def near_limits(source, target):
    limits = np.iinfo(TYPES[target])
    around = [float(limits.max), float(limits.max) + 1, float(limits.min), float(limits.min) - 1, float(limits.max) - 1,
              float(limits.max) * 2, -0.9, 0.9, -1.9, float(limits.max) + 0.5]
    return np.array(around).astype(TYPES[source])


@family("bitcast-convert")
def bitcast_convert(_, rng):
    for source, target in itertools.product(ALL, repeat=2):
        if "pred" in (source, target):
            continue
        sizes = [np.dtype(TYPES[kind]).itemsize for kind in (source, target)]
        x = np.concatenate([specials(source), random_array(rng, source, (40,), "wide")])
        if sizes[0] == sizes[1]:
            yield f"{source}/{target}", module([x], f"y = {shape_text(target, x.shape)} bitcast-convert(p0)"), [x]
        elif sizes[0] > sizes[1] and source in ("f32", "u64") and target in ("u8", "bf16", "f8e5m2"):
            shape = x.shape + (sizes[0] // sizes[1],)
            yield f"{source}/{target}", module([x], f"y = {shape_text(target, shape)} bitcast-convert(p0)"), [x]


@family("reduce-precision")
def reduce_precision(_, rng):
    for kind, (exponent, mantissa) in itertools.product(["f16", "bf16", "f32", "f64"],
                                                        [(8, 7), (5, 10), (5, 2), (4, 3), (11, 52), (8, 23), (3, 0), (1, 4)]):
        x = np.concatenate([specials(kind), random_array(rng, kind, (60,), "wide"), random_array(rng, kind, (60,))])
        text = module([x], f"y = {type_of(x)} reduce-precision(p0), exponent_bits={exponent}, mantissa_bits={mantissa}")
        yield f"{kind}/e{exponent}m{mantissa}", text, [x]


@family("map")
def map_(_, rng):
    for kind in ["s8", "u32", "bf16", "f32", "f64"]:
        for shape in SHAPES:
            x, y = random_array(rng, kind, shape), random_array(rng, kind, shape)
            function = (f"f {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n  k = {kind}[] constant(3)\n"
                        f"  s = {kind}[] subtract(a, b)\n  m = {kind}[] maximum(s, k)\n  ROOT r = {kind}[] multiply(m, a)\n}}\n\n")
            dimensions = braces(range(len(shape)))
            yield (f"{kind}/{'x'.join(map(str, shape))}",
                   module([x, y], f"y = {type_of(x)} map(p0, p1), dimensions={dimensions}, to_apply=f", function), [x, y])


# layout -----------------------------------------------------------------------------------------------------------
@family("constant")
def constant(_, rng):
    for kind in ALL:
        values = [v for v in specials(kind)]
        words = [literal(kind, v) for v in values]
        shape = (len(values),)
        yield f"{kind}/specials", module([], f"y = {shape_text(kind, shape)} constant({{{', '.join(words)}}})"), []
        yield f"{kind}/scalar", module([], f"y = {kind}[] constant({words[1]})"), []
        yield f"{kind}/empty", module([], f"y = {kind}[0] constant({{}})"), []
        table = "{ { " + ", ".join(words[:2]) + " }, { " + ", ".join(words[:2][::-1]) + " } }"
        yield f"{kind}/matrix", module([], f"y = {kind}[2,2] constant({table})"), []


@family("iota")
def iota(_, rng):
    for kind in NUMBERS:
        for shape in [(1,), (0,), (19,), (3, 5), (2, 300), (2, 1, 4), (300,)]:
            for dimension in range(len(shape)):
                yield (f"{kind}/{'x'.join(map(str, shape))}/{dimension}",
                       module([], f"y = {shape_text(kind, shape)} iota(), iota_dimension={dimension}"), [])


def layout_case(rng, count, draw):
    for i in range(count):
        kind = ALL[(i * 7 + int(rng.integers(len(ALL)))) % len(ALL)]
        label, text, inputs = draw(kind)
        yield f"{i:02}/{kind}{label}", text, inputs


@family("broadcast")
def broadcast(_, rng):
    def draw(kind):
        result = bounded(rng, 5)
        kept = sorted(rng.choice(len(result), rng.integers(0, len(result) + 1), replace=False)) if result else []
        x = random_array(rng, kind, tuple(result[d] for d in kept))
        return "", module([x], f"y = {shape_text(kind, result)} broadcast(p0), dimensions={braces(kept)}"), [x]

    return layout_case(rng, 45, draw)


@family("reshape")
def reshape(_, rng):
    def draw(kind):
        factors = [int(f) for f in rng.choice([1, 2, 3, 5, 0], rng.integers(0, 6), p=[0.3, 0.25, 0.2, 0.2, 0.05])]
        def grouped():
            dims, order = [1] * int(rng.integers(1, 5)), list(factors)
            for factor in order:
                dims[int(rng.integers(len(dims)))] *= factor
            return tuple(dims)
        source, target = grouped(), grouped()
        x = random_array(rng, kind, source)
        return "", module([x], f"y = {shape_text(kind, target)} reshape(p0)"), [x]

    return layout_case(rng, 45, draw)


@family("bitcast")
def bitcast(_, rng):
    for kind, (a, la), (b, lb) in itertools.product(
            ["f32", "s8", "bf16"], [((4, 6), "{1,0}"), ((4, 6), "{0,1}")],
            [((24,), "{0}"), ((2, 2, 6), "{2,1,0}"), ((6, 4), "{1,0}"), ((6, 4), "{0,1}")]):
        x = random_array(rng, kind, a)
        text = (f"HloModule m\n\nENTRY main {{\n  p0 = {type_of(x)}{{1,0}} parameter(0)\n"
                f"  c = {type_of(x)}{la} copy(p0)\n  b = {shape_text(kind, b)}{lb} bitcast(c)\n"
                f"  ROOT y = {shape_text(kind, b)}{{{','.join(map(str, reversed(range(len(b)))))}}} copy(b)\n}}\n")
        yield f"{kind}/{la}/{'x'.join(map(str, b))}{lb}", text, [x]


@family("transpose")
def transpose(_, rng):
    def draw(kind):
        x = random_array(rng, kind, bounded(rng, 5))
        order = rng.permutation(x.ndim)
        dims = [x.shape[d] for d in order]
        return "", module([x], f"y = {shape_text(kind, dims)} transpose(p0), dimensions={braces(order)}"), [x]

    return layout_case(rng, 45, draw)


def slices_of(rng, shape):
    rows = []
    for extent in shape:
        start = int(rng.integers(0, extent + 1))
        limit = int(rng.integers(start, extent + 1))
        rows.append((start, limit, int(rng.integers(1, 4))))
    return rows


@family("slice")
def slice_(_, rng):
    def draw(kind):
        x = random_array(rng, kind, bounded(rng, 4, 1))
        rows = slices_of(rng, x.shape)
        dims = [-(-(limit - start) // stride) for start, limit, stride in rows]
        ranges = ", ".join(f"[{a}:{b}:{c}]" for a, b, c in rows)
        return "", module([x], f"y = {shape_text(kind, dims)} slice(p0), slice={{{ranges}}}"), [x]

    return layout_case(rng, 60, draw)


@family("concatenate")
def concatenate(_, rng):
    def draw(kind):
        shape = list(bounded(rng, 4, 1))
        along = int(rng.integers(len(shape)))
        parts = []
        for _ in range(int(rng.integers(1, 5))):
            shape[along] = int(rng.integers(0, 5))
            parts.append(random_array(rng, kind, tuple(shape)))
        shape[along] = sum(part.shape[along] for part in parts)
        names = ", ".join(f"p{i}" for i in range(len(parts)))
        return "", module(parts, f"y = {shape_text(kind, shape)} concatenate({names}), dimensions={{{along}}}"), parts

    return layout_case(rng, 45, draw)


@family("pad")
def pad(_, rng):
    def draw(kind):
        while True:
            x = random_array(rng, kind, bounded(rng, 3, 1))
            rows = [(int(rng.integers(-2, 4)), int(rng.integers(-2, 4)), int(rng.integers(0, 3))) for _ in x.shape]
            inner = [e + max(0, e - 1) * i for e, (_, _, i) in zip(x.shape, rows)]
            dims = [e + low + high for e, (low, high, _) in zip(inner, rows)]
            # A crop may not take more than there is on its side.
            if min(dims) >= 0 and all(e + min(low, 0) + min(high, 0) >= 0 for e, (low, high, _) in zip(inner, rows)):
                break
        fill = random_array(rng, kind, ())
        padding = "x".join(f"{low}_{high}_{interior}" for low, high, interior in rows)
        return "", module([x, fill], f"y = {shape_text(kind, dims)} pad(p0, p1), padding={padding}"), [x, fill]

    return layout_case(rng, 75, draw)


@family("reverse")
def reverse(_, rng):
    def draw(kind):
        x = random_array(rng, kind, bounded(rng, 4, 1))
        along = sorted(rng.choice(x.ndim, rng.integers(0, x.ndim + 1), replace=False))
        return "", module([x], f"y = {type_of(x)} reverse(p0), dimensions={braces(along)}"), [x]

    return layout_case(rng, 45, draw)


@family("get-dimension-size")
def dimension_size(_, rng):
    for shape in SHAPES[1:]:
        for along in range(len(shape)):
            x = random_array(rng, "f32", shape)
            yield (f"{'x'.join(map(str, shape))}/{along}",
                   module([x], f"y = s32[] get-dimension-size(p0), dimensions={{{along}}}"), [x])


# indexing ---------------------------------------------------------------------------------------------------------
INDEX_TYPES = ["s32", "s64", "u32", "s8", "u8", "s16", "u16", "u64"]


def index_array(rng, kind, shape, low=-3, high=10):
    return rng.integers(low if kind.startswith("s") else 0, high, shape).astype(TYPES[kind])


@family("dynamic-slice")
def dynamic_slice(_, rng):
    def draw(kind):
        x = random_array(rng, kind, bounded(rng, 4, 0, (1, 2, 3, 5, 7)))
        sizes = [int(rng.integers(0, e + 1)) for e in x.shape]
        index = str(rng.choice(INDEX_TYPES))
        starts = [index_array(rng, index, ()) for _ in x.shape]
        names = ", ".join(f"p{i}" for i in range(x.ndim + 1))
        text = module([x, *starts], f"y = {shape_text(kind, sizes)} dynamic-slice({names}), dynamic_slice_sizes={braces(sizes)}")
        return f"/{index}", text, [x, *starts]

    return layout_case(rng, 60, draw)


@family("dynamic-update-slice")
def dynamic_update_slice(_, rng):
    def draw(kind):
        x = random_array(rng, kind, bounded(rng, 4, 0, (1, 2, 3, 5, 7)))
        update = random_array(rng, kind, tuple(int(rng.integers(0, e + 1)) for e in x.shape))
        index = str(rng.choice(INDEX_TYPES))
        starts = [index_array(rng, index, ()) for _ in x.shape]
        names = ", ".join(f"p{i}" for i in range(x.ndim + 2))
        text = module([x, update, *starts], f"y = {type_of(x)} dynamic-update-slice({names})")
        return f"/{index}", text, [x, update, *starts]

    return layout_case(rng, 60, draw)


def window_of(rng, operand, collapsed, batching):
    return [1 if d in collapsed or d in batching else int(rng.integers(1, e + 1)) for d, e in enumerate(operand)]


def draw_windows(rng):
    """Shapes and numbers of a gather, and of the scatter that is its reverse."""
    rank = int(rng.integers(1, 5))
    operand = tuple(int(e) for e in rng.choice([1, 2, 3, 5, 6], rank))
    dims = list(rng.permutation(rank))
    batching = sorted(int(d) for d in dims[:int(rng.integers(0, min(2, rank)))]) if rng.random() < 0.3 else []
    free = [d for d in range(rank) if d not in batching]
    collapsed = sorted(int(d) for d in rng.choice(free, rng.integers(0, len(free) + 1), replace=False))
    mapped = [int(d) for d in rng.permutation(free)[:int(rng.integers(1, len(free) + 1))]] if free else []
    sizes = window_of(rng, operand, collapsed, batching)
    batch_shape = [operand[d] for d in batching] + [int(e) for e in rng.choice([1, 2, 3, 4], rng.integers(0, 3))]
    index_batching = list(range(len(batching)))
    vector = int(rng.integers(0, len(batch_shape) + 1))
    if len(mapped) == 1 and rng.random() < 0.5:
        vector, index_shape = len(batch_shape), tuple(batch_shape)
    else:
        index_shape = tuple(batch_shape[:vector] + [len(mapped)] + batch_shape[vector:])
        index_batching = [d + (1 if d >= vector else 0) for d in index_batching]
    window = [sizes[d] for d in range(rank) if d not in collapsed and d not in batching]
    result_rank = len(batch_shape) + len(window)
    offset = sorted(int(d) for d in rng.choice(result_rank, len(window), replace=False))
    result, batch_left, window_left = [], list(batch_shape), list(window)
    for d in range(result_rank):
        result.append(window_left.pop(0) if d in offset else batch_left.pop(0))
    return dict(operand=operand, batching=batching, collapsed=collapsed, mapped=mapped, sizes=sizes, vector=vector,
                index_shape=index_shape, index_batching=index_batching, offset=offset, result=tuple(result))


@family("gather")
def gather(_, rng):
    def draw(kind):
        while not (w := draw_windows(rng))["mapped"]:
            pass
        x = random_array(rng, kind, w["operand"])
        index = str(rng.choice(INDEX_TYPES))
        i = index_array(rng, index, w["index_shape"], -2, 8)
        batching = (f", operand_batching_dims={braces(w['batching'])}, start_indices_batching_dims={braces(w['index_batching'])}"
                    if w["batching"] else "")
        text = module([x, i], f"y = {shape_text(kind, w['result'])} gather(p0, p1), offset_dims={braces(w['offset'])}, "
                              f"collapsed_slice_dims={braces(w['collapsed'])}, start_index_map={braces(w['mapped'])}, "
                              f"index_vector_dim={w['vector']}{batching}, slice_sizes={braces(w['sizes'])}")
        return f"/{index}", text, [x, i]

    return layout_case(rng, 120, draw)


SCATTERS = {"add": NUMBERS, "multiply": NUMBERS, "maximum": ALL, "minimum": ALL, "and": INTEGERS, "or": INTEGERS,
            "xor": INTEGERS, "replace": ALL}


@family("scatter")
def scatter(_, rng):
    for i in range(140):
        how = list(SCATTERS)[i % len(SCATTERS)]
        kind = SCATTERS[how][int(rng.integers(len(SCATTERS[how])))]
        while not (w := draw_windows(rng))["mapped"]:
            pass
        x, updates = random_array(rng, kind, w["operand"], "small"), random_array(rng, kind, w["result"], "small")
        index = str(rng.choice(INDEX_TYPES))
        indices = index_array(rng, index, w["index_shape"], -2, 8)
        function = (f"f {{\n  a = {kind}[] parameter(0)\n  ROOT b = {kind}[] parameter(1)\n}}\n\n" if how == "replace"
                    else combiner("f", kind, how, swapped=i % 3 == 0))
        batching = (f", input_batching_dims={braces(w['batching'])}, scatter_indices_batching_dims={braces(w['index_batching'])}"
                    if w["batching"] else "")
        text = module([x, indices, updates],
                      f"y = {type_of(x)} scatter(p0, p1, p2), update_window_dims={braces(w['offset'])}, "
                      f"inserted_window_dims={braces(w['collapsed'])}, scatter_dims_to_operand_dims={braces(w['mapped'])}, "
                      f"index_vector_dim={w['vector']}{batching}, to_apply=f", function)
        yield f"{i:03}/{how}/{kind}/{index}", text, [x, indices, updates]
    for kind in ("f32", "s32"):
        x, updates = random_array(rng, kind, (5, 3)), random_array(rng, kind, (4, 3))
        indices = np.array([[4], [1], [7], [1]], np.int32)
        function = (f"f {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n  c = {kind}[] parameter(2)\n"
                    f"  d = {kind}[] parameter(3)\n  s = {kind}[] add(a, c)\n  m = {kind}[] maximum(b, d)\n"
                    f"  ROOT t = ({kind}[], {kind}[]) tuple(s, m)\n}}\n\n")
        text = module([x, x, indices, updates, updates],
                      f"y = ({type_of(x)}, {type_of(x)}) scatter(p0, p1, p2, p3, p4), update_window_dims={{1}}, "
                      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f", function)
        yield f"two/{kind}", text, [x, x, indices, updates, updates]


# reductions -------------------------------------------------------------------------------------------------------
REDUCERS = {"add": NUMBERS, "multiply": NUMBERS, "maximum": ALL, "minimum": ALL, "and": ["pred"] + INTEGERS,
            "or": ["pred"] + INTEGERS, "xor": INTEGERS}


def identity(how, kind):
    if how in ("add", "or", "xor"):
        return np.array(0).astype(TYPES[kind])
    if how == "multiply":
        return np.array(1).astype(TYPES[kind])
    if how == "and":
        return np.array(-1).astype(TYPES[kind]) if kind != "pred" else np.array(True)
    if kind == "pred":
        return np.array(how == "minimum")
    if kind in INTEGERS:
        limits = np.iinfo(TYPES[kind])
        return np.array(limits.min if how == "maximum" else limits.max, TYPES[kind])
    if kind == "f8e4m3fn":
        return np.array(-448 if how == "maximum" else 448).astype(TYPES[kind])
    return np.array(-np.inf if how == "maximum" else np.inf).astype(TYPES[kind])


@family("reduce")
def reduce(_, rng):
    shapes = [((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 5), (0, 2)), ((7,), (0,)), ((0, 3), (0,)), ((3, 0), (0,)), ((1, 4, 1), (0, 1, 2)), ((4, 60), (1,))]
    for how, kinds in REDUCERS.items():
        for kind in kinds:
            # Compiling takes longest here: types that are like others get fewer shapes.
            for shape, along in shapes if kind in COMMON else shapes[1:4:2] + shapes[5:6]:
                x, start = random_array(rng, kind, shape, "small"), identity(how, kind)
                rest = [e for d, e in enumerate(shape) if d not in along]
                text = module([x], f"i = {kind}[] constant({literal(kind, start)})\n"
                                   f"y = {shape_text(kind, rest)} reduce(p0, i), dimensions={braces(along)}, to_apply=f",
                              combiner("f", kind, how, swapped=len(shape) == 2))
                yield f"{how}/{kind}/{'x'.join(map(str, shape))}/{'_'.join(map(str, along))}", text, [x]
            x, start = with_shape(rng, kind, (4, 9)), random_array(rng, kind, (), "small")
            text = module([x, start], f"y = {kind}[9] reduce(p0, p1), dimensions={{0}}, to_apply=f", combiner("f", kind, how))
            yield f"{how}/{kind}/started", text, [x, start]
    yield from argument_reductions(rng)


def argument_reductions(rng):
    """arg-max and arg-min as jax writes them, and two sums at once."""
    for kind, direction, index in itertools.product(["f32", "bf16", "s32", "u8", "f64"], ["GT", "LT"], ["s32", "s64", "u8"]):
        worst = identity("maximum" if direction == "GT" else "minimum", kind)
        function = (f"f {{\n  a = {kind}[] parameter(0)\n  i = {index}[] parameter(1)\n  b = {kind}[] parameter(2)\n  j = {index}[] parameter(3)\n"
                    f"  better = pred[] compare(a, b), direction={direction}\n  odd = pred[] compare(a, a), direction=NE\n"
                    "  first = pred[] or(better, odd)\n  same = pred[] compare(a, b), direction=EQ\n"
                    "  earlier = pred[] compare(i, j), direction=LT\n  tie = pred[] and(same, earlier)\n  left = pred[] or(first, tie)\n"
                    f"  v = {kind}[] select(first, a, b)\n  k = {index}[] select(left, i, j)\n  ROOT t = ({kind}[], {index}[]) tuple(v, k)\n}}\n\n")
        for shape, along in [((4, 6), 1), ((4, 6), 0), ((1, 5), 0), ((33,), 0)]:
            x = random_array(rng, kind, shape, "small")
            if kind.startswith(("f", "b")) and along == 1:
                x[1, 2] = np.nan
                x[2, 3:5] = np.inf if direction == "GT" else -np.inf
            rest = [e for d, e in enumerate(shape) if d != along]
            text = module([x], f"n = {shape_text(index, shape)} iota(), iota_dimension={along}\nl = {kind}[] constant({literal(kind, worst)})\n"
                               f"z = {index}[] constant(0)\ny = ({shape_text(kind, rest)}, {shape_text(index, rest)}) reduce(p0, n, l, z), "
                               f"dimensions={{{along}}}, to_apply=f", function)
            yield f"arg{direction}/{kind}/{index}/{'x'.join(map(str, shape))}/{along}", text, [x]


def window_text(rows):
    """size, stride, low, high, base dilation, window dilation for each dimension."""
    text = "size=" + "x".join(str(r[0]) for r in rows) + " stride=" + "x".join(str(r[1]) for r in rows)
    text += " pad=" + "x".join(f"{r[2]}_{r[3]}" for r in rows)
    text += " lhs_dilate=" + "x".join(str(r[4]) for r in rows) + " rhs_dilate=" + "x".join(str(r[5]) for r in rows)
    return "{" + text + "}"


def windowed_extent(extent, row):
    size, stride, low, high, base, dilation = row
    padded = (max(0, (extent - 1) * base + 1) if extent else 0) + low + high
    reach = (size - 1) * dilation + 1
    return (padded - reach) // stride + 1 if padded >= reach else 0


def draw_row(rng, extent, plain):
    if plain:
        return (1, 1, 0, 0, 1, 1)
    return (int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(0, 3)), int(rng.integers(0, 3)),
            int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 1, 2])))


@family("reduce-window")
def reduce_window(_, rng):
    for how, kinds in REDUCERS.items():
        for i in range(34 if how in ("add", "maximum", "minimum") else 14):
            kind = kinds[int(rng.integers(len(kinds)))]
            shape = tuple(int(e) for e in rng.choice([1, 2, 5, 7, 8], rng.integers(1, 5)))
            rows = [draw_row(rng, e, rng.random() < 0.35) for e in shape]
            dims = [windowed_extent(e, r) for e, r in zip(shape, rows)]
            x, start = random_array(rng, kind, shape, "small"), identity(how, kind)
            text = module([x], f"i = {kind}[] constant({literal(kind, start)})\n"
                               f"y = {shape_text(kind, dims)} reduce-window(p0, i), window={window_text(rows)}, to_apply=f",
                          combiner("f", kind, how, swapped=i % 2 == 0))
            yield f"{how}/{i:02}/{kind}", text, [x]
    for how, kind in itertools.product(["add", "multiply", "maximum", "minimum"], ["f32", "s32", "bf16", "u8"]):
        for reverse in (False, True):  # scans
            x = random_array(rng, kind, (3, 17), "small")
            row = (17, 1, 0, 16, 1, 1) if reverse else (17, 1, 16, 0, 1, 1)
            text = module([x], f"i = {kind}[] constant({literal(kind, identity(how, kind))})\n"
                               f"y = {type_of(x)} reduce-window(p0, i), window={window_text([(1, 1, 0, 0, 1, 1), row])}, to_apply=f",
                          combiner("f", kind, how))
            yield f"scan/{how}/{kind}{'/reverse' if reverse else ''}", text, [x]


@family("select-and-scatter")
def select_and_scatter(_, rng):
    for i in range(60):
        kind = str(rng.choice(["f32", "f32", "bf16", "f16", "f64", "s32"]))
        shape = tuple(int(e) for e in rng.choice([2, 5, 7, 8], rng.integers(1, 4)))
        rows = [draw_row(rng, e, rng.random() < 0.3)[:4] + (1, 1) for e in shape]
        rows = [(s, t, min(low, s - 1), min(high, s - 1), 1, 1) for s, t, low, high, _, _ in rows]
        dims = tuple(windowed_extent(e, r) for e, r in zip(shape, rows))
        x, source = random_array(rng, kind, shape, "small"), random_array(rng, kind, dims, "small")
        direction = ["GE", "LE", "GT"][i % 3]
        window = re.sub(r" lhs_dilate=\S+ rhs_dilate=[0-9x]+", "", window_text(rows))
        text = module([x, source], f"i = {kind}[] constant(0)\ny = {type_of(x)} select-and-scatter(p0, p1, i), window={window}, select=s, scatter=f",
                      f"s {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction={direction}\n}}\n\n"
                      + combiner("f", kind, "add"))
        yield f"{i:02}/{direction}/{kind}", text, [x, source]


# contractions -----------------------------------------------------------------------------------------------------
DOT_TYPES = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f16", "f32"), ("s8", "s32"),
             ("s32", "s32"), ("u8", "u32"), ("f8e4m3fn", "f32"), ("f8e5m2", "bf16"), ("s64", "s64"), ("u16", "u16"), ("s16", "s32")]


@family("dot")
def dot(_, rng):
    for i in range(112):
        kind, result = DOT_TYPES[i % len(DOT_TYPES)]
        batch, contracted = (tuple(int(e) for e in rng.choice([1, 2, 3, 5, 0], rng.integers(0, 3), p=[.2, .3, .2, .25, .05])) for _ in (0, 1))
        sides, numbers = [], []
        for _ in (0, 1):
            free = tuple(int(e) for e in rng.choice([1, 2, 4, 7], rng.integers(0, 3)))
            labels = [("b", j) for j in range(len(batch))] + [("c", j) for j in range(len(contracted))] + [("f", j) for j in range(len(free))]
            order = [labels[j] for j in rng.permutation(len(labels))]
            shape = tuple({"b": batch, "c": contracted, "f": free}[which][j] for which, j in order)
            sides.append(random_array(rng, kind, shape, "small"))
            numbers.append(([order.index(("b", j)) for j in range(len(batch))], [order.index(("c", j)) for j in range(len(contracted))]))
        frees = [[a.shape[d] for d in range(a.ndim) if d not in n[0] + n[1]] for a, n in zip(sides, numbers)]
        parts = [f"lhs_batch_dims={braces(numbers[0][0])}, rhs_batch_dims={braces(numbers[1][0])}"] if batch else []
        parts += [f"lhs_contracting_dims={braces(numbers[0][1])}, rhs_contracting_dims={braces(numbers[1][1])}"]
        if i % 5 == 0:
            parts.append("operand_precision={highest,highest}")
        dims = list(batch) + frees[0] + frees[1]
        yield f"{i:03}/{kind}/{result}", module(sides, f"y = {shape_text(result, dims)} dot(p0, p1), {', '.join(parts)}"), sides


@family("convolution")
def convolution(_, rng):
    for i in range(84):
        kind, result = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("f16", "f16"), ("f32", "f32"), ("s8", "s32"), ("s32", "s32")][i % 7]
        spatial = int(rng.integers(0, 4))
        feature_groups, batch_groups = [(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)][i % 5]
        batch, features, outputs = int(rng.integers(1, 3)) * batch_groups, int(rng.integers(1, 3)) * feature_groups, int(rng.integers(1, 3)) * feature_groups * batch_groups
        extents = [int(e) for e in rng.choice([1, 3, 5, 8], spatial)]
        rows = []
        for extent in extents:
            while True:
                row = list(draw_row(rng, extent, False))
                row[2], row[3] = int(rng.integers(-1, 3)), int(rng.integers(-1, 3))
                if (extent - 1) * row[4] + 1 + min(row[2], 0) + min(row[3], 0) >= 0 and (extent - 1) * row[4] + 1 + row[2] + row[3] >= 0:
                    break
            rows.append(tuple(row))
        reversal = [int(rng.random() < 0.2) for _ in rows]
        orders = [list(rng.permutation(["b", "f"] + [str(j) for j in range(spatial)])), list(rng.permutation(["o", "i"] + [str(j) for j in range(spatial)])),
                  list(rng.permutation(["b", "f"] + [str(j) for j in range(spatial)]))]
        def laid(order, named):
            return tuple(named[label] for label in order)
        x = laid(orders[0], {"b": batch, "f": features} | {str(j): e for j, e in enumerate(extents)})
        k = laid(orders[1], {"o": outputs, "i": features // feature_groups} | {str(j): r[0] for j, r in enumerate(rows)})
        y = laid(orders[2], {"b": batch // batch_groups, "f": outputs} | {str(j): windowed_extent(e, r) for j, (e, r) in enumerate(zip(extents, rows))})
        labels = f"{''.join(orders[0])}_{''.join(orders[1])}->{''.join(orders[2])}"
        window = window_text(rows)[:-1] + " rhs_reversal=" + "x".join(map(str, reversal)) + "}" if rows else "{}"
        arguments = [random_array(rng, kind, x, "small"), random_array(rng, kind, k, "small")]
        groups = (f", feature_group_count={feature_groups}" if feature_groups > 1 else "") + (f", batch_group_count={batch_groups}" if batch_groups > 1 else "")
        yield f"{i:02}/{kind}", module(arguments, f"y = {shape_text(result, y)} convolution(p0, p1), window={window}, dim_labels={labels}{groups}"), arguments


# structure and control --------------------------------------------------------------------------------------------
@family("tuple", "get-tuple-element", "copy", "opt-barrier", "optimization-barrier", "domain", "add-dependency", "after-all")
def structure(opcode, rng):
    for kind, shape in itertools.product(["pred", "s32", "f32", "bf16", "f8e5m2"], [(), (0,), (3, 4)]):
        x = random_array(rng, kind, shape)
        t = type_of(x)
        body = {"tuple": f"y = ({t}, {t}) tuple(p0, p0)",
                "get-tuple-element": f"a = ({t}, s32[], {t}) tuple(p0, p1, p0)\ny = {t} get-tuple-element(a), index=2",
                "copy": f"y = {t} copy(p0)",
                "opt-barrier": f"a = ({t}, s32[]) tuple(p0, p1)\nb = ({t}, s32[]) opt-barrier(a)\ny = {t} get-tuple-element(b), index=0",
                "optimization-barrier": f"a = ({t}, s32[]) tuple(p0, p1)\nb = ({t}, s32[]) opt-barrier(a)\ny = {t} get-tuple-element(b), index=0",
                "domain": f"y = {t} domain(p0), domain={{kind=\"sharding\", entry={{maximal device=0}}, exit={{maximal device=0}}}}",
                "add-dependency": f"a = token[] after-all()\ny = {t} add-dependency(p0, a)",
                "after-all": f"a = token[] after-all()\ny = {t} add-dependency(p0, a)"}[opcode]
        yield f"{kind}/{'x'.join(map(str, shape))}", module([x, np.array(3, np.int32)], body), [x, np.array(3, np.int32)]


@family("call", "fusion")
def call(opcode, rng):
    for kind, shape in itertools.product(["s32", "f32", "bf16"], SHAPES):
        x, y = random_array(rng, kind, shape, "small"), random_array(rng, kind, shape, "small")
        t = type_of(x)
        function = (f"f {{\n  a = {t} parameter(0)\n  b = {t} parameter(1)\n  m = {t} multiply(a, b)\n  ROOT t = ({t}, {t}) tuple(m, a)\n}}\n\n")
        how = "to_apply=f" if opcode == "call" else "kind=kLoop, calls=f"
        text = module([x, y], f"c = ({t}, {t}) {opcode}(p0, p1), {how}\nm = {t} get-tuple-element(c), index=0\n"
                              f"n = {t} get-tuple-element(c), index=1\nr = {t} subtract(m, n)", function)
        yield f"{kind}/{'x'.join(map(str, shape))}", text, [x, y]


@family("while")
def while_(_, rng):
    for kind, shape, trips in itertools.product(["f32", "s32", "bf16"], [(), (3, 2), (0,)], [0, 1, 5]):
        x = random_array(rng, kind, shape, "small")
        t, carried = type_of(x), f"(s32[], {type_of(x)}, s32[])"
        functions = (f"body {{\n  c = {carried} parameter(0)\n  i = s32[] get-tuple-element(c), index=0\n  v = {t} get-tuple-element(c), index=1\n"
                     f"  n = s32[] get-tuple-element(c), index=2\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  w = {t} add(v, v)\n"
                     f"  ROOT t = {carried} tuple(j, w, n)\n}}\n\n"
                     f"condition {{\n  c = {carried} parameter(0)\n  i = s32[] get-tuple-element(c), index=0\n  n = s32[] get-tuple-element(c), index=2\n"
                     "  ROOT l = pred[] compare(i, n), direction=LT\n}\n\n")
        for known in (True, False):
            limit = f"n = s32[] constant({trips})" if known else "n = s32[] copy(p1)"
            text = module([x, np.array(trips, np.int32)], f"zero = s32[] constant(0)\n{limit}\na = {carried} tuple(zero, p0, n)\n"
                          f"w = {carried} while(a), condition=condition, body=body\ny = {t} get-tuple-element(w), index=1", functions)
            yield f"{kind}/{'x'.join(map(str, shape))}/{trips}{'/known' if known else ''}", text, [x, np.array(trips, np.int32)]


@family("conditional")
def conditional(_, rng):
    for kind, shape, index in itertools.product(["f32", "s8", "bf16"], [(), (3, 2)], [-5, 0, 1, 2, 7]):
        x = random_array(rng, kind, shape, "small")
        t = type_of(x)
        functions = "".join(f"b{i} {{\n  a = {t} parameter(0)\n  ROOT r = {t} {op}\n}}\n\n" for i, op in enumerate(["add(a, a)", "multiply(a, a)", "negate(a)"]))
        i = np.array(index, np.int32)
        yield (f"{kind}/{'x'.join(map(str, shape))}/{index}",
               module([x, i], f"y = {t} conditional(p1, p0, p0, p0), branch_computations={{b0, b1, b2}}", functions), [x, i])
        p = np.array(index > 0)
        yield (f"{kind}/{'x'.join(map(str, shape))}/pred{index}",
               module([x, p], f"y = {t} conditional(p1, p0, p0), true_computation=b0, false_computation=b1", functions), [x, p])


def cases(opcode):
    """(name, text, inputs) of one opcode."""
    rng = np.random.default_rng(zlib.crc32(opcode.encode()))
    for name, text, inputs in FAMILIES[opcode](opcode, rng):
        yield f"{opcode}/{name}", text, inputs
