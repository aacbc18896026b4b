"""Sums and other reductions along two axes at once, and of whole tensors."""
from .case import Case, Input, normal
from .frameworks import F, jax, jnp, torch, wide


def matrix(dtype="f32", scale=1.0, mean=0.0):
    return lambda rows, columns: [Input("x", (rows, columns), dtype, normal(scale, mean))]


def matrix_case(name, rows, columns, functions, dtype="f32", reduction=("rows",), mean=0.0, source="", roundings=2):
    return Case(f"{name}_{rows}x{columns}_{dtype}", "sums", matrix(dtype, mean=mean),
                {"rows": rows, "columns": columns}, *functions, {"rows": 256}, reduction=reduction,
                source=source, roundings=roundings)


def router_torch(x):
    p = F.softmax(x, -1)
    return p, p.mean(0)


def router_jax(x):
    p = jax.nn.softmax(x, -1)
    return p, p.mean(0)


SUMS = (lambda x: (x.sum(0), x.sum(1)), lambda x: (x.sum(0), x.sum(1)))

CASES = [
    matrix_case("row_and_column_sums", 4096, 4096, SUMS),
    matrix_case("row_and_column_sums", 1000, 3000, SUMS, "bf16"),
    matrix_case("column_max_row_sum_exp", 8192, 4096, (lambda x: (x.amax(0), x.exp().sum(1)),
                                                     lambda x: (x.max(0), jnp.exp(x).sum(1))), reduction=("columns",)),
    matrix_case("sum_and_row_max", 8192, 4096, (lambda x: (x.sum(), x.amax(1)), lambda x: (x.sum(), x.max(1))),
                reduction=("rows*columns",), mean=0.1),
    matrix_case("standardise", 4096, 4096, (lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-5),
                                            lambda x: (x - x.mean()) / (x.std() + 1e-5)), reduction=("rows*columns",),
                source="advantages (reinforcement learning), images"),
    matrix_case("column_variance", 32768, 512, (lambda x: torch.var_mean(x, 0, correction=0),
                                                lambda x: (x.var(0), x.mean(0)))),
    matrix_case("router_probabilities_and_load", 65536, 128, (router_torch, router_jax),
                source="a mixture of experts' router and its load-balancing loss"),
    Case("sum_axes_0_2_64x256x56x56_bf16", "sums",
         lambda batch, channels, side: [Input("x", (batch, channels, side, side), "bf16", normal(1.0, 0.2))],
         {"batch": 64, "channels": 256, "side": 56},
         lambda x: (x.float().sum((0, 2, 3)), x.float().square().sum((0, 2, 3))),
         lambda x: (wide(x).sum((0, 2, 3)), jnp.square(wide(x)).sum((0, 2, 3))),
         {"batch": 2}, reduction=("batch*side*side",), source="a convolution's bias gradient, a norm's statistics"),
]
