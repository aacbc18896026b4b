"""Modules whose kernels XLA compiles for the corpus: fragments and models of bench/models with small extents, and operators that
those do not have. Of each: the function, its arguments' shapes, and the most kernels that are taken."""
import os
import sys

import jax
import jax.numpy as jnp
from jax import lax

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/generate"))
import fragments as F
import workloads as W

spec, f32, bf16, i32 = W.spec, W.f32, W.bf16, W.i32
f16, i8, u8 = jnp.float16, jnp.int8, jnp.uint8


def of_fragments():
    both, norm = F.both, F.norm_args
    rms = lambda x, g: W.rms_norm(g, x)
    yield "layer_norm", F.layer_norm, norm(33, 257)
    yield "layer_norm_fb", both(F.layer_norm, 3), (*norm(64, 256), spec(64, 256))
    yield "layer_norm_bf16_fb", both(F.layer_norm, 3), (*norm(64, 512, bf16), spec(64, 512, dtype=bf16))
    yield "layer_norm_long", F.layer_norm, norm(2, 40000)
    yield "rms_norm_fb", both(rms, 2), (spec(48, 320), spec(320), spec(48, 320))
    yield "rms_norm_bf16", rms, (spec(40, 513, dtype=bf16), spec(513, dtype=bf16))
    yield "softmax", F.masked_softmax, (spec(48, 384), spec(48, 384, dtype=jnp.bool_))
    yield "softmax_fb", both(F.masked_softmax, 1), (spec(32, 256), spec(32, 256, dtype=jnp.bool_), spec(32, 256))
    yield "softmax_long", lambda x: jax.nn.softmax(x, -1), (spec(2, 50000),)
    yield "softmax_columns", lambda x: jax.nn.softmax(x, 0), (spec(256, 192),)
    yield "softmax_then_column_sum", lambda x: jax.nn.softmax(x, 1).sum(0), (spec(128, 256),)
    yield "cross_entropy_fb", jax.value_and_grad(F.cross_entropy), (spec(24, 1000), spec(24, dtype=i32))
    yield "cross_entropy_bf16_fb", jax.value_and_grad(F.cross_entropy), (spec(16, 2001, dtype=bf16), spec(16, dtype=i32))
    yield "gelu_fb", both(F.gelu, 2), (spec(64, 384), spec(384), spec(64, 384))
    yield "swiglu_fb", both(F.swiglu, 2), (spec(48, 352), spec(48, 352), spec(48, 352))
    yield "dropout_residual_norm", F.drop_norm, (spec(32, 256), spec(256), spec(32, 256), spec(256), spec(256), spec(dtype=jnp.uint32))
    yield "rotary", F.rotary_qk, (spec(2, 4, 64, 32), spec(2, 2, 64, 32))
    yield "group_norm_fb", both(F.group_norm, 3), (spec(2, 8, 8, 64), spec(64), spec(64), spec(2, 8, 8, 64))
    yield "batch_norm_fb", both(F.batch_norm, 3), (spec(4, 14, 14, 64), spec(64), spec(64), spec(4, 14, 14, 64))
    yield "embedding_norm_fb", F.embedding_norm_fb, (spec(4, 32, dtype=i32), spec(200, 96), spec(32, 96), spec(96), spec(96), spec(4, 32, 96))
    yield "augru", F.augru, (spec(128, 192), spec(128, 192), spec(128, 64), spec(128, 1))
    yield "row_and_column_sums", lambda x: (x.sum(0), x.sum(1)), (spec(300, 200),)
    yield "column_max_row_sum_exp", lambda x: (x.max(0), jnp.exp(x).sum(1)), (spec(256, 320),)
    yield "full_sum", lambda x: (x.sum(), x.max(1)), (spec(256, 512),)
    yield "standardise", lambda x: (x - x.mean()) / (x.std() + 1e-5), (spec(256, 300),)
    yield "column_variance", lambda x: x.var(0), (spec(1024, 64),)
    yield "log_sum_exp", lambda x: jax.nn.logsumexp(x, -1), (spec(3, 60000),)
    yield "transpose_add_bf16", lambda x, y: x.transpose(0, 2, 1, 3) + y, (spec(2, 64, 4, 32, dtype=bf16), spec(2, 4, 64, 32, dtype=bf16))
    tensors = [spec(128, 96), spec(96), spec(96, 200)]
    yield "adam", F.adam_step, (tensors,) * 4 + (spec(dtype=i32),)
    yield "lamb", F.lamb_step, (tensors,) * 4 + (spec(dtype=i32),)
    yield "clip", F.clip, (tensors,)


def scatter_add(x, i, u):
    return x.at[i].add(u)


def pool_gradient(x):
    return jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum())(x)


def of_operators():
    yield "transpose.2d", lambda x: x.T + 1, (spec(130, 70),)
    yield "transpose.3d", lambda x: x.transpose(2, 0, 1) * 2, (spec(9, 40, 33),)
    yield "transpose.s8", lambda x: x.T, (spec(128, 96, dtype=i8),)
    yield "cumsum", lambda x: jnp.cumsum(x, 1), (spec(16, 300),)
    yield "cumulative_max", lambda x: lax.cummax(x, 0), (spec(100, 24),)
    yield "argmax", lambda x: jnp.argmax(x, -1), (spec(40, 500),)
    yield "argmin.columns", lambda x: jnp.argmin(x, 0), (spec(200, 65),)
    yield "sort", lambda x: jnp.sort(x, -1), (spec(4, 200),)
    yield "sort.pairs", lambda x, y: lax.sort((x, y), num_keys=1), (spec(3, 96), spec(3, 96, dtype=i32))
    yield "top_k", lambda x: lax.top_k(x, 5), (spec(8, 128),)
    yield "gather.rows", lambda x, i: x[i] * 2, (spec(100, 48), spec(33, dtype=i32))
    yield "gather.elements", lambda x, i: jnp.take_along_axis(x, i, 1), (spec(20, 64), spec(20, 8, dtype=i32))
    yield "scatter.add", scatter_add, (spec(50, 40), spec(64, dtype=i32), spec(64, 40))
    yield "scatter.s32", scatter_add, (spec(50, dtype=i32), spec(300, dtype=i32), spec(300, dtype=i32))
    yield "scatter.max", lambda x, i, u: x.at[i].max(u), (spec(64), spec(200, dtype=i32), spec(200))
    yield "scatter.bf16", scatter_add, (spec(50, 40, dtype=bf16), spec(64, dtype=i32), spec(64, 40, dtype=bf16))
    yield "update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), (spec(64, 48), spec(4, 48), spec(dtype=i32))
    yield "slice", lambda x, i: lax.dynamic_slice(x, (i, 3), (5, 20)) + 1, (spec(64, 48), spec(dtype=i32))
    yield "concatenate", lambda x, y: jnp.concatenate([x, y * 2, x], 1), (spec(20, 30), spec(20, 17))
    yield "pad", lambda x: jnp.pad(x, ((1, 2), (3, 0)), constant_values=7.0) * 3, (spec(20, 30),)
    yield "reverse", lambda x: x[::-1, ::2] - 1, (spec(20, 30),)
    yield "max_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), (spec(2, 14, 14, 16),)
    yield "max_pool_gradient", pool_gradient, (spec(1, 10, 10, 8),)
    yield "average_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4, (spec(2, 12, 12, 16),)
    yield "uniform", lambda s: jax.random.uniform(jax.random.key(s), (40, 50)), (spec(dtype=jnp.uint32),)
    yield "normal", lambda s: jax.random.normal(jax.random.key(s), (30, 40)), (spec(dtype=jnp.uint32),)
    yield "one_hot", lambda i: jax.nn.one_hot(i, 40) * 0.5, (spec(30, dtype=i32),)
    yield "elementary", lambda x: (jnp.sin(x) + jnp.cos(x), jnp.tanh(x), jnp.expm1(x), jnp.log1p(x * x), lax.erf(x)), (spec(40, 30),)
    yield "elementary.f16", lambda x: (jnp.exp(x), jnp.tanh(x), jax.nn.sigmoid(x)), (spec(40, 30, dtype=f16),)
    yield "power", lambda x, y: (jnp.abs(x) ** y, jnp.arctan2(x, y), jnp.cbrt(x), jnp.remainder(x, y)), (spec(30, 40), spec(30, 40))
    yield "integers", lambda x, y: (x // (y + 1), x % (y + 1), x << 3, lax.population_count(x), lax.clz(x ^ y)), (spec(500, dtype=i32), spec(500, dtype=i32))
    yield "quantise", lambda x: (jnp.clip(jnp.round(x * 20), -128, 127).astype(i8), x.astype(bf16), x.astype(f16)), (spec(60, 70),)
    yield "dequantise", lambda x, s: x.astype(f32) * s, (spec(60, 70, dtype=i8), spec(70))
    yield "reduce.and", lambda x: ((x > 0).all(1), (x > 1).any(0)), (spec(60, 70),)
    yield "reduce.prod", lambda x: (1 + x * 0.01).prod(1), (spec(60, 70),)
    yield "reduce.s32", lambda x: (x.sum(0), x.max(1)), (spec(60, 70, dtype=i32),)
    yield "reduce.f16", lambda x: x.sum(1), (spec(60, 300, dtype=f16),)
    yield "reduce.middle", lambda x: x.sum(1), (spec(8, 50, 60),)


def of_products():
    yield "dot.f32", lambda x, y: x @ y, (spec(64, 96), spec(96, 80))
    yield "dot.bf16", lambda x, y: x @ y, (spec(64, 128, dtype=bf16), spec(128, 64, dtype=bf16))
    yield "dot.f16.bias_gelu", lambda x, y, b: jax.nn.gelu(x @ y + b), (spec(64, 64, dtype=f16), spec(64, 128, dtype=f16), spec(128, dtype=f16))
    yield "dot.bf16.dequantised", lambda x, y: x @ y.astype(bf16), (spec(64, 128, dtype=bf16), spec(128, 64, dtype=i8))
    yield "dot.transposed", lambda x, y: x.T @ y.T, (spec(96, 64, dtype=bf16), spec(80, 96, dtype=bf16))
    yield "dot.batch", lambda x, y: jnp.einsum("bhqd,bhkd->bhqk", x, y), (spec(2, 2, 32, 64, dtype=bf16), spec(2, 2, 48, 64, dtype=bf16))
    # No product of s8: without autotuning its tile is 16 deep, half of what mma.m16n8k32 takes, and the kernel passes it both halves
    # of its operands twice, so that every sum is doubled (seen on the emulated device; the PTX says as much).
    attention = lambda q, k, v: W.attention(q, k, v, jnp.tril(jnp.ones((32, 32), bool)))
    yield "attention", attention, (spec(2, 2, 32, 32),) * 3
    yield "attention_fb", F.both(attention, 3), (*(spec(1, 2, 32, 32, dtype=bf16),) * 3, spec(1, 32, 64, dtype=bf16))


def of_models():
    for name, model in (("bert_infer", W.bert_infer(2, 16, layers=1, d=64, n=2)),
                        ("bert_infer_f16", W.bert_infer(2, 16, W.f16, layers=1, d=64, n=2)),
                        ("bert_train", W.bert_train(2, 16, layers=1, d=32, n=2)),
                        ("transformer_train", W.transformer_train(2, 8, 8, layers=1, d=32, n=2, vocab=120)),
                        ("asr_infer", W.asr_infer(1, 32, layers=1, d=32, n=2, vocab=50)),
                        ("gpt2_train", W.gpt2_train(2, 16, layers=1, d=64, n=2, vocab=200)),
                        ("llama_prefill", W.llama_prefill(2, 16, layers=1, d=64, n=4, kv=2, ff=96, vocab=200)),
                        ("llama_train", W.llama_train(2, 16, layers=1, d=64, n=4, kv=2, ff=96, vocab=200)),
                        ("llama_decode", W.llama_decode(2, 32, layers=1, d=64, n=4, kv=2, ff=96, vocab=200)),
                        ("resnet_train", W.resnet_train(2, (1, 1, 1, 1), 32, 10)),
                        ("rwkv_block", W.rwkv_block(2, 6, 32)),
                        ("graph_network", W.graph_network(64, 160, 32, 1, 4))):
        yield (name, *model)


CASES = {f"{name}": (function, arguments, most)
         for rows, most in ((of_fragments(), 8), (of_operators(), 4), (of_products(), 6), (of_models(), 14))
         for name, function, arguments in rows}
