"""Whole functions of jax with their gradients, lowered to HLO as jax hands it to XLA."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

rng = np.random.default_rng(2026)
MODELS = {}


def normal(*shape, scale=1.0, dtype=np.float32):
    return jnp.asarray(rng.standard_normal(shape) * scale, dtype)


def model(*arguments):
    def register(function):
        MODELS[function.__name__] = (function, arguments)
        return function

    return register


def with_gradients(loss):
    """A function that gives its value and the gradients to all floating arguments."""
    def both(*arguments):
        places = tuple(i for i, a in enumerate(arguments) if jnp.issubdtype(a.dtype, jnp.floating))
        return jax.value_and_grad(loss, places)(*arguments)

    both.__name__ = loss.__name__
    return both


def gradients(*arguments):
    def register(loss):
        MODELS[loss.__name__] = (with_gradients(loss), arguments)
        return loss

    return register


@gradients(normal(6, 8), normal(8, 16, scale=0.3), normal(16), normal(16, 4, scale=0.3), normal(6, 4))
def mlp(x, w1, b1, w2, y):
    return jnp.mean((jax.nn.relu(x @ w1 + b1) @ w2 - y) ** 2)


@gradients(normal(2, 7, 12), normal(12, 12, scale=0.3), normal(12, 12, scale=0.3), normal(12, 12, scale=0.3))
def attention(x, wq, wk, wv):
    split = lambda t: t.reshape(2, 7, 3, 4).transpose(0, 2, 1, 3)
    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
    scores = jnp.where(jnp.tril(jnp.ones((7, 7), bool)), jnp.einsum("bhid,bhjd->bhij", q, k) / 2, -1e9)
    return jnp.sum(jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores), v) ** 2)


@gradients(normal(5, 33), normal(33), normal(33))
def layer_norm(x, scale, bias):
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return jnp.sum(jnp.sin((x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias))


@gradients(normal(5, 24), normal(24))
def rms_norm_silu(x, scale):
    return jnp.sum(jax.nn.silu(x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale) ** 2)


@gradients(normal(2, 9, 8, 3), normal(3, 3, 3, 5, scale=0.3), normal(5), normal(5))
def conv_batch_norm(x, w, scale, bias):
    y = lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    mean, variance = jnp.mean(y, (0, 1, 2)), jnp.var(y, (0, 1, 2))
    y = jax.nn.relu((y - mean) * lax.rsqrt(variance + 1e-3) * scale + bias)
    return jnp.sum(lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") ** 2)


@gradients(normal(6, 2, 5), normal(5, 16, scale=0.3), normal(4, 16, scale=0.3), normal(16))
def lstm_scan(xs, wx, wh, b):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    _, hs = lax.scan(step, (jnp.zeros((2, 4), np.float32), jnp.zeros((2, 4), np.float32)), xs)
    return jnp.sum(hs ** 2)


@gradients(normal(6, 2, 5), normal(5, 12, scale=0.3), normal(4, 12, scale=0.3))
def gru_scan(xs, wx, wh):
    def step(h, x):
        a, b = x @ wx, h @ wh
        r, z = jax.nn.sigmoid(a[:, :4] + b[:, :4]), jax.nn.sigmoid(a[:, 4:8] + b[:, 4:8])
        h = (1 - z) * jnp.tanh(a[:, 8:] + r * b[:, 8:]) + z * h
        return h, h.mean()

    h, means = lax.scan(step, jnp.zeros((2, 4), np.float32), xs, reverse=True)
    return jnp.sum(h ** 2) + jnp.sum(means)


@gradients(normal(9, 11), jnp.asarray(rng.integers(0, 11, 9), np.int32))
def softmax_cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


@gradients(normal(4, 9), normal(4, 9))
def gelus(x, y):
    return jnp.sum(jax.nn.gelu(x, approximate=True) + jax.nn.gelu(y, approximate=False) ** 2)


@gradients(normal(20, 6), jnp.asarray(rng.integers(0, 20, (3, 4)), np.int32), normal(6, 5))
def embedding(table, indices, w):
    return jnp.sum(jnp.tanh(table[indices] @ w))


@gradients(normal(7, 4), normal(4, 4, scale=0.5), jnp.asarray(rng.integers(0, 7, 12), np.int32), jnp.asarray(rng.integers(0, 7, 12), np.int32))
def graph_network(nodes, w, senders, receivers):
    messages = jax.nn.relu((nodes @ w)[senders])
    return jnp.sum(jax.ops.segment_sum(messages, receivers, 7) ** 2)


@model(normal(4, 5), normal(4, 5, scale=0.1), normal(4, 5, scale=0.1), jnp.abs(normal(4, 5, scale=0.01)), jnp.float32(3))
def adam(p, g, m, v, step):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * (m / (1 - 0.9 ** step)) / (jnp.sqrt(v / (1 - 0.999 ** step)) + 1e-8), m, v


@gradients(normal(2, 6, 6, 2), normal(3, 3, 2, 3, scale=0.3))
def transposed_convolution(x, w):
    return jnp.sum(jax.nn.softplus(lax.conv_transpose(x, w, (2, 2), "SAME")))


@gradients(normal(2, 8, 8, 3), normal(3, 3, 1, 3, scale=0.3))
def depthwise_and_average(x, w):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3)
    return jnp.sum(jnp.square(lax.reduce_window(jax.nn.hard_swish(y), 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "VALID") / 9))


@gradients(normal(3, 7, 5, dtype=jnp.bfloat16), normal(5, 5, dtype=jnp.bfloat16, scale=0.3))
def narrow_block(x, w):
    h = jax.nn.gelu((x @ w).astype(np.float32))
    return jnp.sum((h - jnp.mean(h, -1, keepdims=True)) ** 2)


@gradients(normal(16, 4), normal(4, scale=0.5))
def associative_scan(x, decay):
    def combine(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    gates = jnp.broadcast_to(jax.nn.sigmoid(decay), x.shape)
    return jnp.sum(lax.associative_scan(combine, (gates, x))[1] ** 2)


@model(normal(3, 17), normal(17))
def sorting_free_statistics(x, y):
    return (jnp.cumsum(x, 1), jnp.cumprod(jnp.tanh(x), 1), lax.cummax(x, 1), jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.logaddexp(x, y),
            jnp.std(x, 1), jnp.linalg.norm(x, axis=1), jnp.diff(x), jnp.interp(y, jnp.linspace(-2, 2, 9), jnp.arange(9.0)))


@model(jnp.uint32(7), normal(4, 6))
def dropout(seed, x):
    keep = jax.random.bernoulli(jax.random.PRNGKey(seed), 0.7, x.shape)
    return jnp.where(keep, x / 0.7, 0), jax.random.uniform(jax.random.PRNGKey(seed + 1), (3, 5)), jax.random.normal(jax.random.PRNGKey(3), (9,))


@model(normal(5), jnp.float32(30))
def while_newton(x, target):
    def condition(state):
        return jnp.logical_and(state[1] < 20, jnp.max(jnp.abs(state[0] ** 2 - target)) > 1e-2)

    return lax.while_loop(condition, lambda s: (0.5 * (s[0] + target / s[0]), s[1] + 1), (jnp.abs(x) + 1, jnp.int32(0)))
