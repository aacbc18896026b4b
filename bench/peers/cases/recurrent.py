"""The element-wise cells of recurrent layers; their matmuls' results come as inputs."""
from .case import Case, Input, normal, uniform
from .frameworks import jax, jnp, torch


def augru_torch(x, bias, h_gates, h, attention):
    xu, xr, xc = (x + bias).chunk(3, -1)
    hu, hr, hc = h_gates.chunk(3, -1)
    update = torch.sigmoid(xu + hu) * (1 - attention)
    candidate = torch.tanh(xc + torch.sigmoid(xr + hr) * hc)
    return (1 - update) * h + update * candidate


def augru_jax(x, bias, h_gates, h, attention):
    xu, xr, xc = jnp.split(x + bias, 3, -1)
    hu, hr, hc = jnp.split(h_gates, 3, -1)
    update = jax.nn.sigmoid(xu + hu) * (1 - attention)
    candidate = jnp.tanh(xc + jax.nn.sigmoid(xr + hr) * hc)
    return (1 - update) * h + update * candidate


def augru_case(rows, units, dtype, backward):
    def inputs(rows, units):
        made = [Input("x", (rows, 3 * units), dtype), Input("bias", (3 * units,), dtype, normal(0.3)),
                Input("h_gates", (rows, 3 * units), dtype), Input("h", (rows, units), dtype, uniform(-1, 1)),
                Input("attention", (rows, 1), dtype, uniform())]
        return made + ([Input("cotangent", (rows, units), dtype)] if backward else [])
    return Case(f"augru_{rows}x{units}_{dtype}{'_fb' if backward else ''}", "recurrent", inputs,
                {"rows": rows, "units": units}, augru_torch, augru_jax, {"rows": 64},
                reduction=("rows",) if backward else (), roundings=8, gradients=(0, 1, 2, 3, 4) if backward else (),
                source="DIEN (dien_infer, dien_train)")


def lstm_inputs(rows, units):
    return [Input("x_gates", (rows, 4 * units), "f16"), Input("h_gates", (rows, 4 * units), "f16"),
            Input("bias", (4 * units,), "f16", normal(0.3)), Input("cell", (rows, units), "f16")]


def lstm_torch(x_gates, h_gates, bias, cell):
    i, f, g, o = (x_gates + h_gates + bias).chunk(4, -1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def lstm_jax(x_gates, h_gates, bias, cell):
    i, f, g, o = jnp.split(x_gates + h_gates + bias, 4, -1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


CASES = [
    augru_case(16384, 128, "f32", backward=False),
    augru_case(16384, 128, "f32", backward=True),
    augru_case(16384, 256, "bf16", backward=False),
    Case("lstm_8192x512_f16", "recurrent", lstm_inputs, {"rows": 8192, "units": 512}, lstm_torch, lstm_jax,
         {"rows": 64}, roundings=8, source="CRNN (crnn_infer)"),
]
