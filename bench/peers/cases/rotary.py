"""Rotary position embedding of queries and keys; angles' cosines and sines come as tables, as models keep them."""
import numpy as np

from .case import Case, Input, normal
from .frameworks import jnp, torch
from .norms import rms_norm_jax, rms_norm_torch


def table(function, halves):
    """cos or sin of position × frequency; each frequency stands for one pair of elements."""
    def make(shape):
        pairs = shape[1] // 2 if halves else shape[1]
        angle = np.arange(shape[0])[:, None] * 10000.0 ** (-np.arange(pairs) / pairs)
        return function(np.concatenate([angle, angle], 1) if halves else angle).astype(np.float32)
    return make


def turned_torch(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def turned_jax(x, cos, sin):
    low, high = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-high, low], -1) * sin


def halves_inputs(dtype, backward):
    def inputs(batch, heads, groups, length, width):
        query, key = (batch, heads, length, width), (batch, groups, length, width)
        tables = [Input(name, (length, width), dtype, shaped=table(function, halves=True))
                  for name, function in (("cos", np.cos), ("sin", np.sin))]
        made = [Input("query", query, dtype), Input("key", key, dtype), *tables]
        cotangents = [Input("cotangent_query", query, dtype), Input("cotangent_key", key, dtype)]
        return made + (cotangents if backward else [])
    return inputs


def both(turned):
    return lambda query, key, cos, sin: (turned(query, cos, sin), turned(key, cos, sin))


def halves_case(dims, dtype, backward=False):
    names = ("batch", "heads", "groups", "length", "width")
    text = "x".join(map(str, dims))
    return Case(f"rotary_qk_{text}_{dtype}{'_fb' if backward else ''}", "rotary", halves_inputs(dtype, backward),
                dict(zip(names, dims, strict=True)), both(turned_torch), both(turned_jax), {"batch": 1, "length": 64},
                roundings=4, gradients=(0, 1) if backward else (), cotangents=2 if backward else 0,
                source="Llama's attention (llama_prefill, llama_train)")


def interleaved_inputs(batch, length, heads, width):
    tables = [Input(name, (length, width // 2), shaped=table(function, halves=False))
              for name, function in (("cos", np.cos), ("sin", np.sin))]
    return [Input("x", (batch, length, heads, width)), *tables]


def interleaved_torch(x, cos, sin):
    even, odd, c, s = x[..., ::2], x[..., 1::2], cos[:, None], sin[:, None]
    return torch.stack((even * c - odd * s, odd * c + even * s), -1).flatten(-2)


def interleaved_jax(x, cos, sin):
    even, odd, c, s = x[..., ::2], x[..., 1::2], cos[:, None], sin[:, None]
    return jnp.stack((even * c - odd * s, odd * c + even * s), -1).reshape(x.shape)


def normed_inputs(batch, length, heads, width):
    tables = [Input(name, (length, width), "bf16", shaped=table(function, halves=True))
              for name, function in (("cos", np.cos), ("sin", np.sin))]
    return [Input("query", (batch, length, heads, width), "bf16"), Input("weight", (width,), "bf16", normal(0.1, 1.0)),
            *tables]


def normed_torch(query, weight, cos, sin):
    return turned_torch(rms_norm_torch(query, weight).transpose(1, 2), cos, sin)


def normed_jax(query, weight, cos, sin):
    return turned_jax(rms_norm_jax(query, weight).transpose(0, 2, 1, 3), cos, sin)


CASES = [
    halves_case((4, 32, 8, 1024, 64), "bf16"),
    halves_case((4, 16, 4, 2048, 128), "f32", backward=True),
    Case("rotary_interleaved_8x1024x16x128_f32", "rotary", interleaved_inputs,
         {"batch": 8, "length": 1024, "heads": 16, "width": 128}, interleaved_torch, interleaved_jax,
         {"batch": 1, "length": 64}, source="GPT-J's pairing of neighbours"),
    Case("head_norm_transpose_rotary_4x2048x32x128_bf16", "rotary", normed_inputs,
         {"batch": 4, "length": 2048, "heads": 32, "width": 128}, normed_torch, normed_jax, {"batch": 1, "length": 64},
         reduction=("width",), roundings=5, source="attention with normed queries (Qwen3), heads brought to the front"),
]
