"""Models of any size, as HLO text: what bench/planning/measure plans."""


class Module:
    """HLO text, one instruction a call; names are counted."""

    def __init__(self, name):
        self.name, self.lines, self.parameters, self.shapes = name, [], 0, {}

    def add(self, shape, text):
        value = f"v{len(self.lines)}"
        self.lines.append(f"  {value} = f32[{','.join(map(str, shape))}] {text}")
        self.shapes[value] = tuple(shape)
        return value

    def parameter(self, *shape):
        self.parameters += 1
        return self.add(shape, f"parameter({self.parameters - 1})")

    def scalar(self, number):
        return self.add((), f"constant({number})")

    def filled(self, shape, number):
        return self.spread(self.scalar(number), shape, ())

    def spread(self, value, shape, dimensions):
        return self.add(shape, f"broadcast({value}), dimensions={{{','.join(map(str, dimensions))}}}")

    def apply(self, op, *values):
        return self.add(self.shapes[values[0]], f"{op}({', '.join(values)})")

    def reduced(self, value, kind):
        """Over the last dimension."""
        shape = self.shapes[value]
        start = self.scalar("-inf" if kind == "greatest" else "0")
        return self.add(shape[:-1], f"reduce({value}, {start}), dimensions={{{len(shape) - 1}}}, to_apply={kind}")

    def rows(self, value, shape):
        """A value per row, for each element of the row."""
        return self.spread(value, shape, range(len(shape) - 1))

    def along(self, value, shape):
        """A value per column, for every row."""
        return self.spread(value, shape, (len(shape) - 1,))

    def product(self, x, width):
        """x times a matrix of parameters."""
        shape = self.shapes[x]
        matrix = self.parameter(shape[-1], width)
        return self.add((*shape[:-1], width),
                        f"dot({x}, {matrix}), lhs_contracting_dims={{{len(shape) - 1}}}, rhs_contracting_dims={{0}}")

    def text(self, results):
        shapes = ", ".join(f"f32[{','.join(map(str, self.shapes[result]))}]" for result in results)
        combiners = "".join(f"{name} {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                            f"  ROOT r = f32[] {op}(a, b)\n}}\n\n"
                            for name, op in (("plus", "add"), ("greatest", "maximum")))
        body = "\n".join(self.lines)
        return (f"HloModule {self.name}\n\n{combiners}ENTRY main {{\n{body}\n"
                f"  ROOT results = ({shapes}) tuple({', '.join(results)})\n}}\n")


def layer_norm(m, x):
    shape = m.shapes[x]
    share = m.filled(shape[:-1], 1 / shape[-1])
    centred = m.apply("subtract", x, m.rows(m.apply("multiply", m.reduced(x, "plus"), share), shape))
    variance = m.apply("multiply", m.reduced(m.apply("multiply", centred, centred), "plus"), share)
    inverse = m.apply("rsqrt", m.apply("add", variance, m.filled(shape[:-1], 1e-5)))
    normal = m.apply("multiply", centred, m.rows(inverse, shape))
    scaled = m.apply("multiply", normal, m.along(m.parameter(shape[-1]), shape))
    return m.apply("add", scaled, m.along(m.parameter(shape[-1]), shape))


def biased(m, x):
    shape = m.shapes[x]
    return m.apply("add", x, m.along(m.parameter(shape[-1]), shape))


def gelu(m, x):
    shape = m.shapes[x]
    cube = m.apply("multiply", x, m.apply("multiply", x, x))
    inner = m.apply("add", x, m.apply("multiply", cube, m.filled(shape, 0.044715)))
    bent = m.apply("tanh", m.apply("multiply", inner, m.filled(shape, 0.79788456)))
    half = m.apply("multiply", x, m.filled(shape, 0.5))
    return m.apply("multiply", half, m.apply("add", bent, m.filled(shape, 1)))


def softmax(m, x):
    shape = m.shapes[x]
    raised = m.apply("exponential", m.apply("subtract", x, m.rows(m.reduced(x, "greatest"), shape)))
    return m.apply("divide", raised, m.rows(m.reduced(raised, "plus"), shape))


def attention(m, x, width):
    tokens, heads = 128, 8
    parts = [biased(m, m.product(x, heads * width)) for _ in range(3)]
    query, key, value = (m.add((tokens, heads, width), f"reshape({part})") for part in parts)
    batched = "lhs_batch_dims={1}, rhs_batch_dims={1}"
    scores = m.add((heads, tokens, tokens), f"dot({query}, {key}), {batched}, lhs_contracting_dims={{2}}, "
                                            "rhs_contracting_dims={2}")
    weights = softmax(m, m.apply("multiply", scores, m.filled((heads, tokens, tokens), 0.125)))
    mixed = m.add((heads, tokens, width), f"dot({weights}, {value}), lhs_batch_dims={{0}}, rhs_batch_dims={{1}}, "
                                          "lhs_contracting_dims={2}, rhs_contracting_dims={0}")
    turned = m.add((tokens, heads, width), f"transpose({mixed}), dimensions={{1,0,2}}")
    return m.add((tokens, heads * width), f"reshape({turned})")


def transformer(operators, distinct):
    """Encoder blocks. Distinct: every block has widths of its own, so that no two fragments are the same."""
    m = Module("blocks_distinct" if distinct else "blocks_equal")
    x, block = m.parameter(128, 512), 0
    while len(m.lines) < operators:
        width = 512 + 8 * block if distinct else 512
        if m.shapes[x][-1] != width:
            x = m.product(x, width)
        x = m.apply("add", x, biased(m, m.product(attention(m, layer_norm(m, x), width // 8), width)))
        hidden = gelu(m, biased(m, m.product(layer_norm(m, x), 4 * width)))
        x = m.apply("add", x, biased(m, m.product(hidden, width)))
        block += 1
    return m.text([x])


def norm_chain(operators):
    """One fragment: norms, activations and residuals, each of the one before."""
    m = Module("norm_chain")
    x = m.parameter(1024, 768)
    while len(m.lines) < operators:
        x = m.apply("add", x, gelu(m, layer_norm(m, x)))
    return m.text([x])


def element_chain(operators):
    """One fragment of nothing but element-wise operators in a row."""
    m = Module("element_chain")
    x, step = m.parameter(1 << 20), 0
    while len(m.lines) < operators:
        x = m.apply(("tanh", "negate", "logistic", "sine")[step % 4], x)
        step += 1
    return m.text([x])


def updates(operators):
    """Adam on tensors of distinct sizes: one fragment of independent parts, and the norm of all gradients."""
    m = Module("updates")
    tensors = []
    while 20 * len(tensors) < operators:
        size = 4096 + 64 * len(tensors)
        tensors.append([m.parameter(size) for _ in range(4)])
    total = m.scalar(0)
    for tensor in tensors:
        total = m.apply("add", total, m.reduced(m.apply("multiply", tensor[1], tensor[1]), "plus"))
    scale = m.apply("rsqrt", m.apply("maximum", total, m.scalar(1)))
    results = []
    for weight, gradient, first, second in tensors:
        shape = m.shapes[weight]
        clipped = m.apply("multiply", gradient, m.spread(scale, shape, ()))
        mean = m.apply("add", m.apply("multiply", first, m.filled(shape, 0.9)),
                       m.apply("multiply", clipped, m.filled(shape, 0.1)))
        square = m.apply("add", m.apply("multiply", second, m.filled(shape, 0.999)),
                         m.apply("multiply", m.apply("multiply", clipped, clipped), m.filled(shape, 0.001)))
        root = m.apply("add", m.apply("sqrt", square), m.filled(shape, 1e-8))
        step = m.apply("multiply", m.apply("divide", mean, root), m.filled(shape, 1e-3))
        results += [m.apply("subtract", weight, step), mean, square]
    return m.text(results)


FAMILIES = {
    "blocks_equal": ("transformer blocks, all the same", lambda n: transformer(n, False)),
    "blocks_distinct": ("transformer blocks of distinct widths: no two fragments are equal",
                        lambda n: transformer(n, True)),
    "norm_chain": ("one fragment: norms, GELUs and residuals in a row", norm_chain),
    "element_chain": ("one fragment: element-wise operators in a row", element_chain),
    "updates": ("one fragment: Adam with clipping on tensors of distinct sizes", updates),
}
