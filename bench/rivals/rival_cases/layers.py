"""Products of matrices with what stands around them in networks: fused by epilogue, over rows, with one another."""
from cases.case import Input, integer, normal
from cases.frameworks import F, jax, jnp, torch, wide

from .case import RivalCase, Way


def weight(name, rows, columns, dtype):
    return Input(name, (rows, columns), dtype, normal(columns ** -0.5))


def vector(name, length, dtype, mean=0.0):
    return Input(name, (length,), dtype, normal(0.3, mean))


def gelu_jax(x):
    return jax.nn.gelu(wide(x), approximate=True).astype(x.dtype)


def gelu_torch(x):
    return F.gelu(x, approximate="tanh")


def lt_gelu(x, w, b):
    """cuBLASLt with bias and GELU as its epilogue."""
    return torch._addmm_activation(b, x, w.t(), use_gelu=True)


# --- matmul + bias + GELU (+ residual) ---

def gelu_case(m, n, k, dtype, residual, source):
    def inputs(m, n, k):
        made = [Input("x", (m, k), dtype), weight("w", n, k, dtype), vector("b", n, dtype)]
        return made + ([Input("r", (m, n), dtype)] if residual else [])
    if residual:
        functions = (lambda x, w, b, r: gelu_torch(F.linear(x, w, b)) + r, lambda x, w, b, r: gelu_jax(x @ w.T + b) + r)
        library = Way(lambda compiled: lambda x, w, b, r: compiled(add)(lt_gelu(x, w, b), r))
    else:
        functions = lambda x, w, b: gelu_torch(F.linear(x, w, b)), lambda x, w, b: gelu_jax(x @ w.T + b)
        library = Way(lambda compiled: lt_gelu)
    return RivalCase(f"linear_gelu{'_residual' if residual else ''}_{m}x{n}x{k}_{dtype}", "epilogue", inputs,
                     {"m": m, "n": n, "k": k}, *functions, {"m": 40, "n": 48, "k": 64}, reduction=("k",), roundings=4,
                     ways={"library": library}, source=source)


def add(x, y):
    return x + y


# --- matmul + residual + norm ---

def layer_norm_inputs(m, n, k):
    return [Input("x", (m, k), "f16"), weight("w", n, k, "f16"), vector("b", n, "f16"), Input("r", (m, n), "f16"),
            vector("g", n, "f16", 1.0), vector("beta", n, "f16")]


def layer_norm_torch(y, r, g, beta):
    return F.layer_norm(y + r, (y.shape[-1],), g, beta, 1e-5)


def layer_norm_jax(x, w, b, r, g, beta):
    y = wide(x @ w.T + b + r)
    mean = y.mean(-1, keepdims=True)
    centred = y - mean
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return (centred * scale * g + beta).astype(x.dtype)


def rms_norm_inputs(m, n, k):
    return [Input("x", (m, k), "bf16"), weight("w", n, k, "bf16"), Input("r", (m, n), "bf16"),
            vector("g", n, "bf16", 1.0)]


def rms_norm_torch(y, r, g):
    y = y + r
    wider = y.to(torch.promote_types(y.dtype, torch.float32))
    return (wider * torch.rsqrt(wider.square().mean(-1, keepdim=True) + 1e-6)).to(y.dtype) * g, y


def rms_norm_jax(x, w, r, g):
    y = x @ w.T + r
    wider = wide(y)
    return (wider * jax.lax.rsqrt((wider * wider).mean(-1, keepdims=True) + 1e-6)).astype(y.dtype) * g, y


# --- several products ---

def qkv_inputs(m, n, k):
    return [Input("x", (m, k), "f16"), *(weight(f"w{each}", n, k, "f16") for each in "qkv"),
            *(vector(f"b{each}", n, "f16") for each in "qkv")]


def qkv_torch(x, wq, wk, wv, bq, bk, bv):
    return F.linear(x, wq, bq), F.linear(x, wk, bk), F.linear(x, wv, bv)


def qkv_jax(x, wq, wk, wv, bq, bk, bv):
    return x @ wq.T + bq, x @ wk.T + bk, x @ wv.T + bv


def qkv_packed(x, wq, wk, wv, bq, bk, bv):
    return x, torch.cat([wq, wk, wv]), torch.cat([bq, bk, bv])


def gate_up_inputs(m, n, k):
    return [Input("x", (m, k), "bf16"), weight("gate", n, k, "bf16"), weight("up", n, k, "bf16")]


def gated(y):
    gate, up = y.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_torch(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def swiglu_jax(x, gate, up):
    return jax.nn.silu(x @ gate.T) * (x @ up.T)


def mlp_inputs(m, k, h):
    return [Input("x", (m, k), "f16"), weight("w1", h, k, "f16"), vector("b1", h, "f16"), weight("w2", k, h, "f16"),
            vector("b2", k, "f16")]


def mlp_torch(x, w1, b1, w2, b2):
    return F.linear(gelu_torch(F.linear(x, w1, b1)), w2, b2)


def mlp_jax(x, w1, b1, w2, b2):
    return gelu_jax(x @ w1.T + b1) @ w2.T + b2


def gated_mlp_inputs(m, k, h):
    return [Input("x", (m, k), "bf16"), weight("gate", h, k, "bf16"), weight("up", h, k, "bf16"),
            weight("down", k, h, "bf16")]


def two_inputs(m, k, h, n):
    return [Input("x", (m, k), "f16"), weight("w1", h, k, "f16"), weight("w2", n, h, "f16")]


# --- matmul + cross entropy ---

def cross_entropy_inputs(m, n, k):
    return [Input("x", (m, k), "bf16"), weight("w", n, k, "bf16"), Input("labels", (m,), "s32", integer(n))]


def cross_entropy_torch(logits, labels):
    return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels)


def cross_entropy_jax(x, w, labels):
    logits = wide(x @ w.T)
    chosen = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


# --- mixture of experts: rows sorted by expert, each group by its expert's matrix ---

def sizes(rows):
    """Uneven parts of `rows`, one of them empty."""
    def made(shape):
        import numpy as np
        parts = np.array([(7 * e) % (2 * shape[0] - 3) + 1 for e in range(shape[0])], np.float64)
        parts[shape[0] // 2] = 0
        whole = np.floor(parts / parts.sum() * rows).astype(np.int32)
        whole[0] += rows - whole.sum()
        return whole
    return made


def experts_inputs(m, n, k, e):
    return [Input("x", (m, k), "bf16"), Input("w", (e, k, n), "bf16", normal(k ** -0.5)),
            Input("sizes", (e,), "s32", shaped=sizes(m))]


def experts_torch(x, w, group_sizes):
    expert = torch.repeat_interleave(torch.arange(w.shape[0], device=x.device), group_sizes, output_size=x.shape[0])
    result = torch.zeros(x.shape[0], w.shape[2], dtype=x.dtype, device=x.device)
    for each in range(w.shape[0]):
        result = torch.where((expert == each)[:, None], x @ w[each], result)
    return F.silu(result)


def experts_grouped(x, w, group_sizes):
    return F.silu(torch._grouped_mm(x, w, offs=torch.cumsum(group_sizes, 0, dtype=torch.int32)))


def experts_jax(x, w, group_sizes):
    return jax.nn.silu(jax.lax.ragged_dot(x, w, group_sizes))


# --- a step of a recurrent layer, its products with it ---

def lstm_inputs(b, i, h):
    return [Input("x", (b, i), "f16"), Input("h", (b, h), "f16"), Input("c", (b, h), "f16"),
            weight("wx", 4 * h, i, "f16"), weight("wh", 4 * h, h, "f16"), vector("bias", 4 * h, "f16")]


def lstm_cell(gates, c):
    i, f, g, o = gates.chunk(4, -1)
    cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def lstm_torch(x, h, c, wx, wh, bias):
    return lstm_cell(F.linear(x, wx, bias) + F.linear(h, wh), c)


def lstm_jax(x, h, c, wx, wh, bias):
    i, f, g, o = jnp.split(x @ wx.T + h @ wh.T + bias, 4, -1)
    cell = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def lstm_joined(x, h, c, wx, wh, bias):
    """One product of both: a user joins the weights once, and x and h in every step."""
    return x, h, c, torch.cat([wx, wh], 1), bias


SMALL = {"m": 40, "n": 48, "k": 64}

CASES = [
    gelu_case(4096, 3072, 768, "f16", False, "BERT's feed-forward"),
    gelu_case(4096, 3072, 768, "f16", True, "ALCOP's shape with a residual"),
    gelu_case(2048, 6400, 1600, "bf16", False, "GPT-2 XL's feed-forward"),
    RivalCase("linear_residual_layer_norm_4096x768x3072_f16", "rows", layer_norm_inputs, {"m": 4096, "n": 768, "k": 3072},
              lambda x, w, b, r, g, beta: layer_norm_torch(F.linear(x, w, b), r, g, beta), layer_norm_jax, SMALL,
              reduction=("k", "n"), roundings=5, source="BERT's blocks",
              ways={"library": Way(lambda compiled: lambda x, w, b, r, g, beta:
                                   compiled(layer_norm_torch)(F.linear(x, w, b), r, g, beta))}),
    RivalCase("linear_residual_rms_norm_2048x4096x4096_bf16", "rows", rms_norm_inputs, {"m": 2048, "n": 4096, "k": 4096},
              lambda x, w, r, g: rms_norm_torch(F.linear(x, w), r, g), rms_norm_jax, SMALL, reduction=("k", "n"),
              roundings=5, source="Llama's blocks: the sum is a result too",
              ways={"library": Way(lambda compiled: lambda x, w, r, g: compiled(rms_norm_torch)(F.linear(x, w), r, g))}),
    RivalCase("qkv_4096x768x768_f16", "several", qkv_inputs, {"m": 4096, "n": 768, "k": 768}, qkv_torch, qkv_jax, SMALL,
              reduction=("k",), roundings=2, source="BERT's attention; the library's weights are packed",
              ways={"library": Way(lambda compiled: lambda x, w, b: F.linear(x, w, b).chunk(3, -1), qkv_packed)}),
    RivalCase("gate_up_2048x11008x4096_bf16", "several", gate_up_inputs, {"m": 2048, "n": 11008, "k": 4096}, swiglu_torch,
              swiglu_jax, SMALL, reduction=("k",), roundings=6, source="Llama 7B; the library's weights are packed",
              ways={"library": Way(lambda compiled: lambda x, w: compiled(gated)(F.linear(x, w)),
                                   lambda x, gate, up: (x, torch.cat([gate, up])))}),
    RivalCase("mlp_4096x768x3072_f16", "several", mlp_inputs, {"m": 4096, "k": 768, "h": 3072}, mlp_torch, mlp_jax,
              {"m": 40, "k": 64, "h": 96}, reduction=("k", "h"), roundings=5, source="BERT",
              ways={"library": Way(lambda compiled: lambda x, w1, b1, w2, b2: F.linear(lt_gelu(x, w1, b1), w2, b2))}),
    RivalCase("gated_mlp_512x4096x11008_bf16", "several", gated_mlp_inputs, {"m": 512, "k": 4096, "h": 11008},
              lambda x, gate, up, down: F.linear(swiglu_torch(x, gate, up), down),
              lambda x, gate, up, down: swiglu_jax(x, gate, up) @ down.T, {"m": 40, "k": 64, "h": 96},
              reduction=("k", "h"), roundings=7, source="Llama 7B; the library's weights are packed",
              ways={"library": Way(lambda compiled: lambda x, w, down: F.linear(compiled(gated)(F.linear(x, w)), down),
                                   lambda x, gate, up, down: (x, torch.cat([gate, up]), down))}),
    RivalCase("back_to_back_16384x128x128x64_f16", "several", two_inputs, {"m": 16384, "k": 128, "h": 128, "n": 64},
              lambda x, w1, w2: F.linear(F.relu(F.linear(x, w1)), w2), lambda x, w1, w2: jax.nn.relu(x @ w1.T) @ w2.T,
              {"m": 40, "k": 64, "h": 48, "n": 32}, reduction=("k", "h"), roundings=3,
              source="CUTLASS's example of two products; what is between them fits a tile's rows"),
    RivalCase("linear_cross_entropy_4096x32000x2048_bf16", "loss", cross_entropy_inputs,
              {"m": 4096, "n": 32000, "k": 2048}, lambda x, w, labels: cross_entropy_torch(F.linear(x, w), labels),
              cross_entropy_jax, SMALL, reduction=("k", "n"), roundings=1, roundoff=2.0**-11, source="a Llama head",
              ways={"library": Way(lambda compiled: lambda x, w, labels:
                                   compiled(cross_entropy_torch)(F.linear(x, w), labels))}),
    RivalCase("experts_4096x2048x2048x8_bf16", "experts", experts_inputs, {"m": 4096, "n": 2048, "k": 2048, "e": 8},
              experts_torch, experts_jax, {"m": 72, "n": 32, "k": 64, "e": 4}, reduction=("k",), roundings=4,
              source="a mixture of experts, rows sorted by expert, an expert without rows",
              ways={"library": Way(lambda compiled: experts_grouped)}),
    RivalCase("lstm_step_64x1024x1024_f16", "recurrent", lstm_inputs, {"b": 64, "i": 1024, "h": 1024}, lstm_torch, lstm_jax,
              {"b": 16, "i": 32, "h": 48}, reduction=("i", "h"), roundings=10, source="CRNN, DeepCuts' recurrent layer",
              ways={"library": Way(lambda compiled: lambda x, h, c, w, bias:
                                   compiled(lstm_cell)(F.linear(torch.cat([x, h], 1), w, bias), c), lstm_joined)}),
]
