"""Residual connections: bias, dropout, sum and norm in one."""
from .case import Case, Input, integer, keep, normal
from .frameworks import F, jax, jnp, torch
from .norms import affine, layer_norm_jax, layer_norm_torch, rms_norm_jax, rms_norm_torch


def post_norm_torch(x, bias, residual, weight, shift, kept):
    return layer_norm_torch(residual + torch.where(kept, (x + bias) / 0.9, 0.0), weight, shift)


def post_norm_jax(x, bias, residual, weight, shift, kept):
    return layer_norm_jax(residual + jnp.where(kept, (x + bias) / 0.9, 0.0), weight, shift)


def random_torch(x, bias, residual, weight, shift, seed):
    return layer_norm_torch(residual + F.dropout(x + bias, 0.1), weight, shift)


def random_jax(x, bias, residual, weight, shift, seed):
    kept = jax.random.bernoulli(jax.random.key(seed), jnp.float32(0.9), x.shape)
    return layer_norm_jax(residual + jnp.where(kept, (x + bias) / 0.9, 0.0), weight, shift)


def add_rms_torch(x, residual, weight):
    total = x + residual
    return total, rms_norm_torch(total, weight)


def add_rms_jax(x, residual, weight):
    total = x + residual
    return total, rms_norm_jax(total, weight)


def pre_norm_bias_torch(x, bias, residual, weight, shift):
    total = residual + (x + bias)
    return total, layer_norm_torch(total, weight, shift)


def pre_norm_bias_jax(x, bias, residual, weight, shift):
    total = residual + (x + bias)
    return total, layer_norm_jax(total, weight, shift)


def block(rows, columns, dtype):
    return [Input("x", (rows, columns), dtype), Input("bias", (columns,), dtype, normal(0.5)),
            Input("residual", (rows, columns), dtype), *affine(columns, dtype)]


def post_norm_case(rows, columns, dtype, backward):
    def inputs(rows, columns):
        made = [*block(rows, columns, dtype), Input("kept", (rows, columns), "pred", keep(0.9))]
        return made + ([Input("cotangent", (rows, columns), dtype)] if backward else [])
    return Case(f"bias_dropout_residual_norm_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "residual", inputs,
                {"rows": rows, "columns": columns}, post_norm_torch, post_norm_jax, {"rows": 64},
                reduction=("rows", "columns") if backward else ("columns",), roundings=5,
                gradients=(0, 1, 2, 3, 4) if backward else (),
                source="BERT's blocks (bert_train), dropout's mask as an input")


def random_inputs(rows, columns):
    return [*block(rows, columns, "f32"), Input("seed", (), "u32", integer(2**31)),
            Input("cotangent", (rows, columns))]


def two_cotangents(rows, columns):
    return [Input("x", (rows, columns), "bf16"), Input("residual", (rows, columns), "bf16"), affine(columns, "bf16")[0],
            Input("cotangent_total", (rows, columns), "bf16"), Input("cotangent_normed", (rows, columns), "bf16")]


CASES = [
    post_norm_case(8192, 1024, "f16", backward=False),
    post_norm_case(4096, 768, "f32", backward=True),
    Case("bias_random_dropout_residual_norm_4096x768_f32_fb", "residual", random_inputs, {"rows": 4096, "columns": 768},
         random_torch, random_jax, {"rows": 64}, reduction=("rows", "columns"), gradients=(0, 1, 2, 3, 4),
         torch_random=True, source="BERT's blocks (bert_train)",
         note="PyTorch draws from its own generator, JAX (and the HLO) by threefry from a seed: other bits, so "
              "PyTorch's results are not compared"),
    Case("bias_residual_norm_8192x2560_f16", "residual", lambda rows, columns: block(rows, columns, "f16"),
         {"rows": 8192, "columns": 2560}, pre_norm_bias_torch, pre_norm_bias_jax, {"rows": 64}, reduction=("columns",),
         roundings=4, source="pre-norm blocks (gpt2_train without dropout): the sum is a result too"),
    Case("residual_rms_norm_8192x4096_bf16", "residual", lambda rows, columns: two_cotangents(rows, columns)[:3],
         {"rows": 8192, "columns": 4096}, add_rms_torch, add_rms_jax, {"rows": 64}, reduction=("columns",), roundings=3,
         source="Llama's blocks (llama_prefill): the sum is a result too"),
    Case("residual_rms_norm_4096x4096_bf16_fb", "residual", two_cotangents, {"rows": 4096, "columns": 4096},
         add_rms_torch, add_rms_jax, {"rows": 64}, reduction=("rows", "columns"), roundings=4, gradients=(0, 2),
         cotangents=2, source="Llama's blocks (llama_train); the residual's gradient is that of x"),
]
