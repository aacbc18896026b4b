"""Scans by jax.lax.associative_scan, forward and with gradients; same form as fragments.py, for bench/scans/table.

A name ending in _fb is forward and backward in one graph: gradients of sum(output * cotangent).
"""
import jax
import jax.numpy as jnp
from jax import lax
import workloads as W
from fragments import both, key

spec = W.spec


def linear(left, right):
    """h = a h' + b."""
    return left[0] * right[0], left[1] * right[0] + right[1]


def gated(a, b):
    return lax.associative_scan(linear, (a, b), axis=1)[1]


def gated_rows(a, b):
    return lax.associative_scan(linear, (a, b), axis=-1)[1]


def segment_sums(x, starts):
    def combine(left, right):
        return left[0] | right[0], jnp.where(right[0], right[1], left[1] + right[1])
    return lax.associative_scan(combine, (starts, x), axis=-1)[1]


def log_sums(x):
    return lax.associative_scan(jnp.logaddexp, x, axis=-1)


def advantages(rewards, values, ends):
    """Generalised advantage estimates: a linear recurrence from the last step back."""
    decay = 0.99 * 0.95 * (1.0 - ends)
    following = jnp.concatenate([values[:, 1:], jnp.zeros_like(values[:, :1])], 1)
    delta = rewards + 0.99 * following * (1.0 - ends) - values
    return lax.associative_scan(linear, (decay, delta), reverse=True, axis=1)[1]


rows, wide = (512, 2048), (8, 2048, 256)
SCANS = {
    "gated_product": key(gated, spec(*wide), spec(*wide)),
    "gated_product_fb": key(both(gated, 2), spec(*wide), spec(*wide), spec(*wide)),
    "gated_product_rows": key(gated_rows, spec(*rows), spec(*rows)),
    "gated_product_rows_fb": key(both(gated_rows, 2), spec(*rows), spec(*rows), spec(*rows)),
    "segment_sums": key(segment_sums, spec(*rows), spec(*rows, dtype=jnp.bool_)),
    "segment_sums_fb": key(both(segment_sums, 1), spec(*rows), spec(*rows, dtype=jnp.bool_), spec(*rows)),
    "cumulative_log_sum_exp": key(log_sums, spec(*rows)),
    "cumulative_log_sum_exp_fb": key(both(log_sums, 1), spec(*rows), spec(*rows)),
    "cumulative_sum": key(lambda x: jnp.cumsum(x, -1), spec(*rows)),
    "cumulative_sum_fb": key(both(lambda x: jnp.cumsum(x, -1), 1), spec(*rows), spec(*rows)),
    "cumulative_product_fb": key(both(lambda x: jnp.cumprod(x, -1), 1), spec(*rows), spec(*rows)),
    "advantage_estimates": key(advantages, spec(*rows), spec(*rows), spec(*rows)),
}
