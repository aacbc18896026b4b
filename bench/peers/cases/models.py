"""Fragments of bench/models that are none of the other families."""
from .case import Case, Input, normal, uniform
from .frameworks import F, jax, jnp, torch, wide


def dice_torch(x, slope):
    mean, variance = x.mean(0, keepdim=True), x.var(0, correction=0, keepdim=True)
    gate = torch.sigmoid((x - mean) * torch.rsqrt(variance + 1e-9))
    return slope * (1 - gate) * x + gate * x


def dice_jax(x, slope):
    mean = x.mean(0, keepdims=True)
    variance = jnp.square(x - mean).mean(0, keepdims=True)
    gate = jax.nn.sigmoid((x - mean) * jax.lax.rsqrt(variance + 1e-9))
    return slope * (1 - gate) * x + gate * x


def dice_inputs(rows, columns):
    return [Input("x", (rows, columns)), Input("slope", (columns,), draw=normal(0.1)),
            Input("cotangent", (rows, columns))]


def modulate_torch(x, scale, shift):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


def modulate_jax(x, scale, shift):
    y = wide(x)
    mean = y.mean(-1, keepdims=True)
    variance = jnp.square(y - mean).mean(-1, keepdims=True)
    normed = ((y - mean) * jax.lax.rsqrt(variance + 1e-6)).astype(x.dtype)
    return normed * (1 + scale[:, None]) + shift[:, None]


def modulate_inputs(batch, length, width):
    return [Input("x", (batch, length, width), "bf16"), Input("scale", (batch, width), "bf16", normal(0.2)),
            Input("shift", (batch, width), "bf16", normal(0.2))]


def glu_norm_silu_torch(x, bias, weight, shift):
    y = F.glu(x + bias, -1)
    return F.silu(F.batch_norm(y.flatten(0, 1), None, None, weight, shift, training=True)).unflatten(0, y.shape[:2])


def glu_norm_silu_jax(x, bias, weight, shift):
    value, gate = jnp.split(x + bias, 2, -1)
    y = value * jax.nn.sigmoid(gate)
    mean = y.mean((0, 1))
    variance = jnp.square(y - mean).mean((0, 1))
    return jax.nn.silu((y - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + shift)


def conformer_inputs(batch, frames, width):
    return [Input("x", (batch, frames, 2 * width)), Input("bias", (2 * width,), draw=normal(0.3)),
            Input("weight", (width,), draw=normal(0.1, 1.0)), Input("shift", (width,), draw=normal(0.1))]


def block_end_torch(x, mean, variance, weight, bias, shortcut):
    y = F.batch_norm(x.permute(0, 3, 1, 2), mean, variance, weight, bias).permute(0, 2, 3, 1)
    return F.relu(y + shortcut)


def block_end_jax(x, mean, variance, weight, bias, shortcut):
    y = (wide(x) - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias
    return jax.nn.relu(y.astype(x.dtype) + shortcut)


def block_end_inputs(batch, side, channels):
    image = (batch, side, side, channels)
    statistics = [Input("mean", (channels,), draw=normal(0.1)), Input("variance", (channels,), draw=uniform(0.5, 1.5))]
    return [Input("x", image, "bf16"), *statistics, Input("weight", (channels,), draw=normal(0.1, 1.0)),
            Input("bias", (channels,), draw=normal(0.1)), Input("shortcut", image, "bf16")]


def heads_torch(x):
    return x.unflatten(-1, (3, 16, 64)).permute(2, 0, 3, 1, 4).contiguous()


def heads_jax(x):
    batch, length, width = x.shape
    return x.reshape(batch, length, 3, 16, width // 48).transpose(2, 0, 3, 1, 4)


CASES = [
    Case("dice_16384x200_f32_fb", "model", dice_inputs, {"rows": 16384, "columns": 200}, dice_torch, dice_jax,
         {"rows": 256}, reduction=("rows",), gradients=(0, 1), source="DIEN's activation (dien_train)"),
    Case("modulated_norm_16x1024x1152_bf16", "model", modulate_inputs, {"batch": 16, "length": 1024, "width": 1152},
         modulate_torch, modulate_jax, {"batch": 1, "length": 64}, reduction=("width",), roundings=4,
         source="a diffusion transformer's adaptive norm"),
    Case("glu_batch_norm_silu_8x1000x512_f32", "model", conformer_inputs, {"batch": 8, "frames": 1000, "width": 512},
         glu_norm_silu_torch, glu_norm_silu_jax, {"batch": 1, "frames": 100}, reduction=("batch*frames",),
         source="Conformer's convolution module (asr_infer), its convolutions left out"),
    Case("residual_block_end_64x28x28x512_bf16", "model", block_end_inputs, {"batch": 64, "side": 28, "channels": 512},
         block_end_torch, block_end_jax, {"batch": 1, "side": 8}, roundings=3,
         source="the end of ResNet-50's blocks, inference"),
    Case("split_heads_16x1024x3072_f16", "model",
         lambda batch, length, width: [Input("x", (batch, length, width), "f16")],
         {"batch": 16, "length": 1024, "width": 3072}, heads_torch, heads_jax, {"batch": 1, "length": 64},
         source="one matmul's queries, keys and values brought apart, heads to the front (bert_infer_f16)"),
]
