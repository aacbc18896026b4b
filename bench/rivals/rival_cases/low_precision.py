"""Products of operands with fewer bits, and of f32 by tensor cores."""
from cases.case import Input, normal, uniform
from cases.frameworks import F, jax, jnp, torch

from .case import RivalCase, Way

BLOCK = 128


def in_bf16(x, like):
    """bf16; float64 where the reference is made (`like`, an input of f32, is float64 then)."""
    return x.astype(jnp.bfloat16 if like.dtype == jnp.float32 else like.dtype)


# --- f8 with a scale for each row's 128 and for each 128 × 128 of the weights (DeepSeek-V3) ---

def blocks_inputs(m, n, k):
    return [Input("x", (m, k), "f8e4m3fn"), Input("sx", (m, k // BLOCK), "f32", uniform(0.5, 1.5)),
            Input("w", (n, k), "f8e4m3fn"), Input("sw", (n // BLOCK, k // BLOCK), "f32", uniform(0.005, 0.015))]


def blocks_jax(x, sx, w, sw):
    x = in_bf16(x.astype(sx.dtype) * jnp.repeat(sx, BLOCK, 1), sx)
    w = in_bf16(w.astype(sw.dtype) * jnp.repeat(jnp.repeat(sw, BLOCK, 0), BLOCK, 1), sw)
    return x @ w.T


def blocks_torch(x, sx, w, sw):
    x = (x.float() * sx.repeat_interleave(BLOCK, 1)).bfloat16()
    w = (w.float() * sw.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)).bfloat16()
    return F.linear(x, w)


def blocks_by_cublas(x, sx, w, sw):
    from torch.nn.functional import ScalingType, scaled_mm
    return scaled_mm(x, w.t(), sx, ScalingType.BlockWise1x128, sw, ScalingType.BlockWise128x128,
                     output_dtype=torch.bfloat16)


def blocks_arranged(x, sx, w, sw):
    """Scales of rows lie with rows next to one another, those of weights as they are (a multiple of four for a row of
    blocks); PyTorch wants both as of the operands that it is given."""
    return x, sx.t().contiguous().t(), w, sw.t()


# --- f8 with a scale for each tensor ---

def tensor_inputs(m, n, k):
    return [Input("x", (m, k), "f8e4m3fn"), Input("w", (n, k), "f8e4m3fn"),
            Input("sx", (), "f32", uniform(0.5, 1.5)), Input("sw", (), "f32", uniform(0.005, 0.015))]


def tensor_jax(x, w, sx, sw):
    sums = jax.lax.dot_general(x, w, (((1,), (1,)), ((), ())),
                               preferred_element_type=sx.dtype)
    return in_bf16(sums * (sx * sw), sx)


def tensor_torch(x, w, sx, sw):
    return (F.linear(x.bfloat16(), w.bfloat16()).float() * (sx * sw)).bfloat16()


def tensor_by_cublas(x, w, sx, sw):
    return torch._scaled_mm(x, w.t(), sx, sw, out_dtype=torch.bfloat16)


# --- weights of eight bits that are scaled where they are loaded ---

def dequantised_inputs(m, n, k):
    return [Input("x", (m, k), "f16"),
            Input("q", (n, k), "s8", lambda random, count: random.integers(-127, 128, count, dtype="int8")),
            Input("scale", (n,), "f16", uniform(0.5 / 127 * k ** -0.5, 1.5 / 127 * k ** -0.5))]


def dequantised_torch(x, q, scale):
    return F.linear(x, q.to(x.dtype) * scale[:, None])


def dequantised_jax(x, q, scale):
    return x @ (q.astype(scale.dtype) * scale[:, None]).T


def dequantising(q, scale):
    return q.to(scale.dtype) * scale[:, None]


# --- f32 ---

def f32_case(name, m, n, k, ours, precision, roundoff=0.0, tf32=False, source=""):
    def inputs(m, n, k):
        return [Input("x", (m, k)), Input("w", (n, k), "f32", normal(k ** -0.5)), Input("b", (n,), "f32", normal(0.3))]

    def in_jax(x, w, b):
        return jax.nn.relu(jnp.matmul(x, w.T, precision=precision) + b)
    return RivalCase(f"linear_relu_{name}_{m}x{n}x{k}_f32", "float32", inputs, {"m": m, "n": n, "k": k},
                     lambda x, w, b: F.relu(F.linear(x, w, b)), in_jax, {"m": 40, "n": 48, "k": 64}, reduction=("k",),
                     ours=ours, tf32=tf32, roundoff=roundoff, source=source,
                     ways={"library": Way(lambda compiled: lambda x, w, b: torch._addmm_activation(b, x, w.t()))})


HIGHEST = jax.lax.Precision.HIGHEST

CASES = [
    RivalCase("f8_blocks_4096x2048x7168", "quantised", blocks_inputs, {"m": 4096, "n": 2048, "k": 7168}, blocks_torch,
              blocks_jax, {"m": 40, "n": 256, "k": 256}, reduction=("k",), roundings=4, source="DeepSeek-V3",
              ways={"library": Way(lambda compiled: blocks_by_cublas, blocks_arranged, True)}),
    RivalCase("f8_tensor_4096x4096x4096", "quantised", tensor_inputs, {"m": 4096, "n": 4096, "k": 4096}, tensor_torch,
              tensor_jax, {"m": 48, "n": 64, "k": 64}, reduction=("k",), roundings=3, source="f8 training and inference",
              ways={"library": Way(lambda compiled: tensor_by_cublas)}),
    RivalCase("s8_weights_16x4096x4096_f16", "quantised", dequantised_inputs, {"m": 16, "n": 4096, "k": 4096},
              dequantised_torch, dequantised_jax, {"n": 48, "k": 64}, reduction=("k",), roundings=4,
              source="weights of eight bits, 16 sequences a token each",
              ways={"library": Way(lambda compiled: lambda x, q, scale: F.linear(x, compiled(dequantising)(q, scale)))}),
    f32_case("exact", 2048, 2048, 2048, (), HIGHEST, source="f32 without tensor cores"),
    f32_case("tf32", 4096, 4096, 4096, ("--tf32",), None, 2.0**-11, tf32=True, source="TF32 on all sides"),
    f32_case("bf16x3", 4096, 4096, 4096, ("--bf16x3",), HIGHEST, 2.0**-16,
             source="three products of bf16; the rivals' are f32"),
]
