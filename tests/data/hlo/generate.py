"""Small JAX functions as HLO text with inputs and outputs, for tests/import/hlo_golden_test.cpp.

    pip install jax==0.10.2 && python generate.py [NAME...]

Writes NAME.hlo.txt (lowered for a GPU, before optimisation) and NAME.json (arguments and results, computed by XLA's
CPU backend) next to this file. Values are lists of numbers in row-major order; infinities and NaN are strings.
"""
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(2024)


def normal(*shape, dtype=np.float32, scale=1.0):
    return jnp.asarray(rng.standard_normal(shape) * scale, dtype)


def uniform(*shape, low=0.0, high=1.0, dtype=np.float32):
    return jnp.asarray(rng.uniform(low, high, shape), dtype)


def integers(*shape, low=0, high=10, dtype=np.int32):
    return jnp.asarray(rng.integers(low, high, shape), dtype)


INF, NAN = float("inf"), float("nan")
CASES = {}


def case(*arguments, tolerance=None, platform="cuda", wide=False):
    """`tolerance`: relative, where results depend on how XLA rounds narrow intermediates. `platform`: lowered for.
    `wide`: with float64, whose arguments are NumPy's."""

    def register(function):
        CASES[function.__name__] = (function, arguments, tolerance, platform, wide)
        return function

    return register


# element-wise -----------------------------------------------------------------------------------------------------
@case(normal(4, 5), uniform(4, 5, low=0.1, high=0.9))
def unary(x, p):
    return (jnp.exp(x), jnp.expm1(x), jnp.log(p), jnp.log1p(p), jnp.sqrt(p), lax.rsqrt(p), lax.cbrt(x), jnp.sin(x),
            jnp.cos(x), jnp.tan(x), jnp.tanh(x), lax.erf(x), lax.logistic(x), jnp.abs(x), jnp.sign(x), jnp.floor(x * 3),
            jnp.ceil(x * 3), jnp.round(x * 3), lax.round(x * 3), -x, jnp.isfinite(x), lax.asin(p), lax.acosh(p + 1),
            lax.atan2(x, p), lax.sinh(x), lax.erf_inv(p), jnp.arctan(x))


@case(normal(3, 7), normal(3, 7), uniform(3, 7, low=0.5, high=2.0))
def binary(x, y, p):
    return (x + y, x - y, x * y, x / p, jnp.maximum(x, y), jnp.minimum(x, y), p**y, lax.rem(x, p), jnp.mod(x, p),
            jnp.floor_divide(x, p), jnp.hypot(x, y), jnp.logaddexp(x, y), lax.clamp(jnp.float32(-0.5), x, p))


# XLA is handed polynomials for erfc: one set for f32, to which narrower types are converted, another for f64.
@case(jnp.linspace(-9, 9, 25, dtype=np.float32), jnp.linspace(-4, 4, 9, dtype=jnp.bfloat16))
def exact_gelu(x, narrow):
    def gelu(v):
        return jax.nn.gelu(v, approximate=False)

    return jax.scipy.special.erfc(x), gelu(x), jax.grad(lambda v: gelu(v).sum())(x), gelu(narrow)


@case(np.linspace(-6, 26, 33), tolerance=1e-13, wide=True)
def erfc_f64(x):
    return (jax.scipy.special.erfc(x),)


@case(integers(20, low=-9, high=9), integers(20, low=1, high=6), integers(20, high=2**31, dtype=np.uint32))
def integer(x, y, u):
    return (x + y, x - y, x * y, x // y, x % y, lax.rem(x, y), lax.div(x, y), x << y, x >> y,
            lax.shift_right_logical(x, y), u >> 3, u << 5, x & y, x | y, x ^ y, ~x, jnp.abs(x), jnp.sign(x),
            lax.population_count(u), lax.clz(u), lax.clz(x), jnp.maximum(x, y), -x, x**2)


@case(jnp.asarray([1.0, 2.0, NAN, -0.0, INF, -INF, 3.0], np.float32), jnp.asarray([1.0, 3.0, 1.0, 0.0, INF, 2.0, NAN], np.float32))
def comparisons(x, y):
    return (x < y, x <= y, x == y, x != y, x > y, x >= y, jnp.where(x < y, x, y), jnp.isnan(x), jnp.isinf(x),
            jnp.maximum(x, y), jnp.minimum(x, y), jnp.logical_not(x > y), (x > 0) & (y > 0), (x > 0) | (y > 0),
            (x > 0) ^ (y > 0), jnp.sign(x))


@case(jnp.asarray([0.3, -1.7, 2.5, 3.5, 1e10, -1e10, NAN, INF, 70000.0, 1e-6, 448.0, 300.7], np.float32),
      integers(6, low=-300, high=300))
def converts(x, i):
    return (x.astype(jnp.bfloat16), x.astype(jnp.float16), x.astype(jnp.float8_e5m2), jnp.clip(x, -400, 400).astype(jnp.float8_e4m3fn),
            jnp.nan_to_num(x, posinf=5, neginf=-5).astype(jnp.int32), x.astype(jnp.bool_), i.astype(jnp.int8), i.astype(jnp.uint8),
            i.astype(jnp.float16), (i > 0).astype(jnp.float32), i.astype(jnp.bfloat16),
            lax.bitcast_convert_type(x, jnp.int32), lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 5, 10))


# layout -----------------------------------------------------------------------------------------------------------
@case(normal(2, 3, 4), normal(3))
def layout(x, v):
    return (jnp.transpose(x, (2, 0, 1)), x.reshape(6, 4), jnp.broadcast_to(v[:, None], (2, 3, 4)), x[:, ::2, 1:3],
            jnp.concatenate([x, x[:1] * 2], 0), lax.rev(x, (0, 2)), jnp.squeeze(x[:, :1], 1), jnp.tile(v, 2),
            lax.pad(x, jnp.float32(9), ((1, 0, 1), (-1, 2, 0), (0, -1, 2))), lax.broadcasted_iota(jnp.int32, (2, 3), 1),
            jnp.stack([v, v + 1], 1), jnp.roll(x, 1, 2), jnp.tril(x), jnp.repeat(v, 2), jnp.swapaxes(x, 0, 1))


@case()
def constants():
    return (jnp.asarray([[1.5, -2.25], [INF, 1e-30]], np.float32), jnp.asarray([1, -2, 2**30], np.int32),
            jnp.asarray([True, False]), jnp.asarray([0.1, 3.0], jnp.bfloat16), jnp.full((2, 2), 7, jnp.uint8))


# indexing ---------------------------------------------------------------------------------------------------------
@case(normal(7, 3), jnp.asarray([[1, 6], [0, 3]], np.int32), jnp.asarray([0, 9, -1], np.int32))
def embedding(table, indices, outside):
    return table[indices], jnp.take(table, outside, 0, mode="clip"), table.at[outside].get(mode="fill", fill_value=5)


@case(normal(4, 6), integers(4, 2, high=6), integers(4, high=6))
def along_axis(x, indices, labels):
    return jnp.take_along_axis(x, indices, 1), x[jnp.arange(4), labels], jax.vmap(lambda r, i: r[i])(x, labels)


@case(normal(5, 6), jnp.int32(3), jnp.int32(-1))
def dynamic(x, i, j):
    return (lax.dynamic_slice(x, (i, j), (3, 2)), lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, 5)),
            lax.dynamic_index_in_dim(x, i, 1), lax.dynamic_slice(x, (9, 1), (2, 2)))


@case(normal(5, 3), jnp.asarray([4, 1, 4, 7], np.int32), normal(4, 3))
def scatters(x, indices, updates):
    return (x.at[indices].add(updates), x.at[indices].max(updates), x.at[indices].min(updates),
            x.at[indices].multiply(updates), x.at[jnp.asarray([2, 0])].set(updates[:2], unique_indices=True),
            x.at[1:3, 0].set(0), x.at[2].add(1))


@case(normal(3, 4), integers(3, 2, high=4), normal(3, 2))
def batched_scatter(x, indices, updates):
    return jax.vmap(lambda r, i, u: r.at[i].add(u))(x, indices, updates)


# reductions -------------------------------------------------------------------------------------------------------
@case(normal(3, 4, 5), integers(4, 6, low=-5, high=5))
def reductions(x, i):
    return (jnp.sum(x, (0, 2)), jnp.prod(x, 1), jnp.max(x), jnp.min(x, 2), jnp.mean(x, 0), jnp.var(x, (1, 2)),
            jnp.any(x > 1, 1), jnp.all(x > -1, 1), jnp.sum(i, 0), jnp.max(i, 1), jnp.sum(i > 0),
            lax.reduce_and(i, (1,)), lax.reduce_or(i, (0,)), lax.reduce_xor(i, (1,)),
            jax.nn.logsumexp(x, 1), jnp.linalg.norm(x))


@case(normal(4, 6))
def reduce_with_init(x):
    return (lax.reduce(x, jnp.float32(2.5), lax.add, (1,)), lax.reduce(x, jnp.float32(0.25), lax.max, (0,)),
            lax.reduce(x, x[0, 0], lax.mul, (1,)))


@case(normal(4, 6), integers(4, 6))
def variadic_reduce(x, i):
    return lax.reduce((x, i), (jnp.float32(0), jnp.int32(-7)), lambda a, b: (a[0] + b[0], lax.max(b[1], a[1])), (1,))


@case(jnp.asarray([[1, 5, 5, 2], [NAN, 3, NAN, 9], [-INF, -INF, -INF, -INF], [4, 4, 1, 1]], np.float32),
      integers(3, 5, low=-2, high=2))
def arg_extremes(x, i):
    return (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.argmin(i, 1), jnp.argmax(i, 0), jnp.nanargmax(x[3:]),
            lax.argmax(x, 1, jnp.uint32))


@case(normal(4, 64, dtype=jnp.bfloat16), normal(4, 64, dtype=np.float16))
def narrow_sums(x, y):
    return jnp.sum(x, 1), jnp.max(x, 0), jnp.mean(y, 1), jax.nn.softmax(x, 1)


# windows ----------------------------------------------------------------------------------------------------------
@case(normal(2, 7, 8, 3))
def pooling(x):
    max_pool = lambda pad: lax.reduce_window(x, -INF, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), pad)
    return (max_pool("VALID"), max_pool("SAME"), lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME"),
            lax.reduce_window(x, -INF, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 2), (0, 1), (0, 0)),
                              (1, 2, 1, 1), (1, 1, 2, 1)),
            lax.reduce_window(x, 0.5, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"))


@case(normal(2, 6, 6, 2))
def max_pool_gradient(x):
    pool = lambda x: lax.reduce_window(x, -INF, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return jax.grad(lambda x: jnp.sum(pool(x) ** 2))(x)


@case(normal(3, 6), integers(5, low=-3, high=4))
def cumulative(x, i):
    return (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cummin(x, 0, reverse=True),
            lax.cumsum(x, 1, reverse=True), jnp.cumsum(i), jax.grad(lambda x: jnp.sum(jnp.cumsum(x, 1) ** 2))(x))


# contractions -----------------------------------------------------------------------------------------------------
@case(normal(2, 3, 4), normal(2, 4, 5), integers(3, 4, low=-4, high=4, dtype=np.int8))
def dots(x, y, i):
    return (jnp.einsum("bij,bjk->bik", x, y), jnp.einsum("bij,bjk->kib", x, y), jnp.tensordot(x, y, ((2, 0), (1, 0))),
            lax.dot_general(i, i, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32), x[0, 0] @ y[0], jnp.outer(x[0, 0], y[0, 0]))


@case(normal(2, 9, 8, 4), normal(3, 2, 4, 6))
def convolutions(x, w):
    dn = ("NHWC", "HWIO", "NHWC")
    conv = lambda *a, **k: lax.conv_general_dilated(*a, dimension_numbers=dn, **k)
    return (conv(x, w, (1, 1), "SAME"), conv(x, w, (2, 1), ((1, 0), (2, 1))), conv(x, w, (1, 1), "VALID", rhs_dilation=(2, 3)),
            conv(x, w, (1, 1), ((1, 1), (0, 1)), lhs_dilation=(2, 1)), conv(x, w[:, :, :2], (1, 1), "VALID", feature_group_count=2),
            lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=dn))


@case(normal(2, 4, 10), normal(8, 1, 3))
def depthwise_1d(x, w):
    conv = lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", feature_group_count=4)
    loss = lambda x, w: jnp.sum(conv(x, w) ** 2)
    return (conv(x, w),) + jax.grad(loss, (0, 1))(x, w)


@case(normal(2, 3, 6, 6), normal(4, 3, 3, 3))
def convolution_gradient(x, w):
    conv = lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME")
    return jax.grad(lambda x, w: jnp.sum(jnp.tanh(conv(x, w))), (0, 1))(x, w)


# control flow -----------------------------------------------------------------------------------------------------
@case(normal(3, 4))
def counted_loop(x):
    return lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) + i, x)


@case(jnp.float32(100.0))
def open_loop(x):
    return lax.while_loop(lambda c: c[0] > 1.0, lambda c: (c[0] / 3, c[1] + 1), (x, 0))


@case(normal(6, 4), normal(4))
def scan(xs, carry):
    def step(carry, x):
        new = jnp.tanh(carry + x)
        return new, (new * 2, jnp.sum(new))

    return lax.scan(step, carry, xs)


@case(normal(4, 3), normal(3))
def scan_gradient(xs, carry):
    step = lambda carry, x: (jnp.tanh(carry * x), None)
    return jax.grad(lambda xs, c: jnp.sum(lax.scan(step, c, xs)[0]), (0, 1))(xs, carry)


@case(normal(3, 2))
def nested_loops(x):
    inner = lambda n: lambda i, x: lax.fori_loop(0, n, lambda j, x: x * 1.1 + j, x + i)
    return lax.fori_loop(0, 3, inner(4), x)


@case(normal(5), normal(5), jnp.int32(1), jnp.int32(7))
def branches(x, y, i, j):
    pick = lambda k: lax.switch(k, [lambda a, b: a + b, lambda a, b: a * 2, lambda a, b: jnp.sin(b)], x, y)
    return (lax.cond(x[0] > 0, lambda a: a + 1, lambda a: a * 3, x), lax.cond(x[0] <= 0, lambda a: a + 1, lambda a: a * 3, x),
            pick(i), pick(j))


@case(normal(4, 3))
def mapped(x):
    return lax.map(lambda r: r / jnp.sum(jnp.abs(r)), x)


# random -----------------------------------------------------------------------------------------------------------
@case(jnp.asarray([7, 4242], np.uint32))
def random_bits(key):
    return jax.random.bits(key, (5, 3)), jax.random.split(key, 3), jax.random.fold_in(key, 11)


@case(jnp.asarray([3, 1], np.uint32), normal(4, 6))
def dropout(key, x):
    mask = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(mask, x / 0.9, 0), jax.random.uniform(key, (3,)), jax.random.normal(key, (4,))


@case(jnp.asarray([[3, 1], [5, 9]], np.uint32))
def batched_random(keys):
    return jax.vmap(lambda k: jax.random.bernoulli(k, 0.5, (2, 3)))(keys)


@case(normal(6))
def random_in_loop(x):
    def step(i, x):
        return x * jax.random.bernoulli(jax.random.fold_in(jax.random.PRNGKey(3), i), 0.7, x.shape)

    return lax.fori_loop(0, 2, step, x)


@case(jnp.asarray([9, 8], np.uint32), platform="cpu")
def random_rolled(key):
    return jax.random.bits(key, (2, 3)), jax.random.uniform(jax.random.fold_in(key, 5), (4,))


# what models are made of ------------------------------------------------------------------------------------------
@case(normal(4, 16), normal(16), normal(16), normal(4, 16))
def layer_norm_fb(x, g, b, dy):
    def norm(x, g, b):
        mean = jnp.mean(x, -1, keepdims=True)
        var = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * g + b

    y, back = jax.vjp(norm, x, g, b)
    return (y,) + back(dy)


@case(normal(2, 2, 5, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4))
def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 2
    mask = jnp.tril(jnp.ones((5, 5), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


@case(normal(5, 11), integers(5, high=11))
def cross_entropy_gradient(logits, labels):
    def loss(logits):
        log_p = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_p, labels[:, None], 1))

    return jax.value_and_grad(loss)(logits)


@case(normal(3, 4), normal(3, 4), normal(3, 4), uniform(3, 4), jnp.int32(10))
def adam(p, g, m, v, step):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    t = step.astype(jnp.float32)
    return p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


@case(normal(2, 8, dtype=jnp.bfloat16), normal(8, 8, dtype=jnp.bfloat16), tolerance=0.01)
def mixed_precision(x, w):
    f = lambda x, w: jnp.sum(jax.nn.gelu(x @ w).astype(jnp.float32) ** 2)
    return jax.value_and_grad(f, (0, 1))(x, w)


# Large windows, with equals in most of them: side by side, overlapping, padded, over everything.
@case(integers(2, 20, 20, 2, low=-3, high=3).astype(np.float32))
def large_pooling(x):
    def pools(kind, init, size, stride, padding):
        return lax.reduce_window(x, init, kind, (1, size, size, 1), (1, stride, stride, 1), padding)

    return (pools(lax.max, -INF, 10, 10, "VALID"), pools(lax.max, -INF, 7, 1, "SAME"), pools(lax.add, 0.0, 7, 2, "SAME"),
            pools(lax.add, 0.0, 12, 4, "SAME"), pools(lax.min, INF, 20, 1, "VALID"), pools(lax.add, 0.0, 15, 15, "SAME"))


@case(integers(2, 20, 20, 2, low=-3, high=3).astype(np.float32))
def large_pool_gradients(x):
    def gradient(size, stride, padding):
        pool = lambda x: lax.reduce_window(x, -INF, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)
        weights = lax.iota(jnp.float32, pool(x).size).reshape(pool(x).shape)
        return jax.grad(lambda x: jnp.sum(pool(x) * weights))(x)

    return (gradient(5, 5, "VALID"), gradient(10, 10, "VALID"), gradient(7, 7, "SAME"), gradient(5, 2, "SAME"),
            gradient(7, 1, "SAME"), gradient(20, 1, "VALID"), gradient(15, 3, "VALID"))


# Scans that JAX writes out as a recursion: lengths that are a power of two and that are not.
def linear(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


@case(uniform(2, 16, 3), normal(2, 16, 3), uniform(13, 2), normal(13, 2), normal(3, 11))
def associative_recurrences(a, b, decay, reward, x):
    return (lax.associative_scan(linear, (a, b), axis=1)[1],) + lax.associative_scan(linear, (decay, reward), reverse=True) + (
        lax.associative_scan(jnp.add, x, axis=1),)


@case(normal(2, 21), uniform(2, 21) < 0.2, normal(2, 8), normal(2, 8))
def associative_tuples(x, starts, re, im):
    def segment(left, right):
        return left[0] | right[0], jnp.where(right[0], right[1], left[1] + right[1])

    def online(left, right):
        most = jnp.maximum(left[0], right[0])
        return most, left[1] * jnp.exp(left[0] - most) + right[1] * jnp.exp(right[0] - most)

    def turned(left, right):
        return left[0] * right[0] - left[1] * right[1], left[0] * right[1] + left[1] * right[0]

    return (lax.associative_scan(jnp.logaddexp, x, axis=1), lax.associative_scan(segment, (starts, x), axis=1)[1]) + (
        lax.associative_scan(online, (x, jnp.ones_like(x)), axis=1)) + lax.associative_scan(turned, (re, im), axis=1)


@case(uniform(2, 16, 3), normal(2, 16, 3), uniform(2, 13), normal(2, 21), uniform(2, 21) < 0.2, normal(3, 11))
def associative_gradients(a, b, decay, x, starts, y):
    def segment(left, right):
        return left[0] | right[0], jnp.where(right[0], right[1], left[1] + right[1])

    def gated(a, b):
        h = lax.associative_scan(linear, (jax.nn.sigmoid(a), b * a), axis=1)[1]
        return jnp.sum(h * jnp.sin(b)), h

    def advantages(decay, x):
        return jnp.sum(lax.associative_scan(linear, (decay, x[:, :13]), reverse=True, axis=1)[1] ** 2)

    def masked(x, y):
        hidden = jnp.where(jnp.arange(11) % 4 == 2, -jnp.inf, y)
        return jnp.sum(lax.cumlogsumexp(y, 1) * y) + jnp.sum(lax.associative_scan(jnp.logaddexp, hidden, axis=1)[:, 3:] ** 2)

    def others(x, y):
        segments = lax.associative_scan(segment, (starts, x), axis=1)[1]
        return jnp.sum(jnp.sin(segments)) + jnp.sum(jnp.cumprod(y, 1) ** 2) + jnp.sum(
            lax.associative_scan(jnp.add, y, axis=1) ** 2)

    return (jax.grad(gated, (0, 1), has_aux=True)(a, b), jax.grad(advantages, (0, 1))(decay, x),
            jax.grad(masked, 1)(x, y), jax.grad(others, (0, 1))(x, y))


def plain(array):
    array = np.asarray(array)
    dtype = {"bool": "pred", "int8": "s8", "uint8": "u8", "int32": "s32", "uint32": "u32", "int64": "s64",
             "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
             "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}[array.dtype.name]
    if dtype[0] in "fb":
        data = [float(v) for v in array.astype(np.float64).ravel()]
        data = [v if np.isfinite(v) else str(v) for v in data]
    else:
        data = [int(v) for v in array.ravel()]
    return {"dtype": dtype, "dims": list(array.shape), "data": data}


def main(names):
    for name, (function, arguments, tolerance, platform, wide) in CASES.items():
        if names and name not in names:
            continue
        with jax.enable_x64(wide):
            jitted = jax.jit(function, keep_unused=True)
            lowered = jitted.trace(*arguments).lower(lowering_platforms=(platform,))
            text = lowered.compiler_ir("hlo").as_hlo_text()
            results = jax.tree.leaves(jitted(*arguments))
        (HERE / f"{name}.hlo.txt").write_text(text.rstrip() + "\n")
        record = {"arguments": [plain(a) for a in arguments], "results": [plain(r) for r in results]}
        lines = ",\n".join(f' "{key}": [\n' + ",\n".join("  " + json.dumps(v) for v in values) + "\n ]"
                           for key, values in record.items())
        if tolerance is not None:
            lines += f',\n "tolerance": {tolerance}'
        (HERE / f"{name}.json").write_text("{\n" + lines + "\n}\n")
        print(name, len(text))


if __name__ == "__main__":
    main(sys.argv[1:])
