"""Norms: layer, RMS, group, batch, L2; forward, and forward with backward."""
from .case import Case, Input, normal
from .frameworks import F, jax, jnp, wide


def affine(columns, dtype):
    return [Input("weight", (columns,), dtype, normal(0.1, 1.0)), Input("bias", (columns,), dtype, normal(0.1))]


def layer_norm_jax(x, weight, bias, eps=1e-5):
    y = wide(x)
    mean = y.mean(-1, keepdims=True)
    variance = jnp.square(y - mean).mean(-1, keepdims=True)
    return ((y - mean) * jax.lax.rsqrt(variance + eps) * weight + bias).astype(x.dtype)


def layer_norm_torch(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def rms_norm_jax(x, weight, eps=1e-6):
    y = wide(x)
    return (y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + eps) * weight).astype(x.dtype)


def rms_norm_torch(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def rows_case(kind, rows, columns, dtype, backward=False, check_rows=64, check_columns=None):
    """A norm of every row of a matrix."""
    layer = kind == "layer_norm"
    parameters = 2 if layer else 1

    def inputs(rows, columns):
        made = [Input("x", (rows, columns), dtype, normal(2.0, 0.5)), *affine(columns, dtype)[:parameters]]
        return made + ([Input("cotangent", (rows, columns), dtype)] if backward else [])
    check = {"rows": check_rows, **({"columns": check_columns} if check_columns else {})}
    return Case(f"{kind}_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "norm", inputs,
                {"rows": rows, "columns": columns}, layer_norm_torch if layer else rms_norm_torch,
                layer_norm_jax if layer else rms_norm_jax, check,
                reduction=("rows", "columns") if backward else ("columns",),
                # PyTorch on a CPU also keeps mean and scale for the backward pass in 16 bits.
                roundings=3 if backward else 2, gradients=tuple(range(1 + parameters)) if backward else ())


def group_norm_silu_torch(x, weight, bias):
    return F.silu(F.group_norm(x, 32, weight, bias, 1e-5))


def group_norm_silu_jax(x, weight, bias):
    groups = wide(x).reshape(x.shape[0], 32, -1)
    mean = groups.mean(-1, keepdims=True)
    variance = jnp.square(groups - mean).mean(-1, keepdims=True)
    normed = ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return jax.nn.silu(normed * weight[:, None, None] + bias[:, None, None]).astype(x.dtype)


def group_norm_silu_last_torch(x, weight, bias):
    return group_norm_silu_torch(x.permute(0, 3, 1, 2), weight, bias).permute(0, 2, 3, 1)


def group_norm_silu_last_jax(x, weight, bias):
    n, height, width, channels = x.shape
    groups = wide(x).reshape(n, height * width, 32, channels // 32)
    mean = groups.mean((1, 3), keepdims=True)
    variance = jnp.square(groups - mean).mean((1, 3), keepdims=True)
    normed = ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return jax.nn.silu(normed * weight + bias).astype(x.dtype)


def batch_norm_relu_torch(x, weight, bias):
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-5))


def batch_norm_relu_jax(x, weight, bias):
    y = wide(x)
    mean = y.mean((0, 2, 3), keepdims=True)
    variance = jnp.square(y - mean).mean((0, 2, 3), keepdims=True)
    scaled = (y - mean) * jax.lax.rsqrt(variance + 1e-5) * weight[:, None, None] + bias[:, None, None]
    return jax.nn.relu(scaled).astype(x.dtype)


def batch_norm_relu_last_torch(x, weight, bias):
    return batch_norm_relu_torch(x.permute(0, 3, 1, 2), weight, bias).permute(0, 2, 3, 1)


def batch_norm_relu_last_jax(x, weight, bias):
    y = wide(x)
    mean = y.mean((0, 1, 2))
    variance = jnp.square(y - mean).mean((0, 1, 2))
    return jax.nn.relu((y - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias).astype(x.dtype)


def image_case(name, functions, shape, dtype, reduction, last=False, backward=False, parameters=None, source=""):
    """A norm of images, channels first, or last; `parameters`: another dtype of weight and bias."""
    batch, channels, side = shape

    def inputs(batch, channels, side):
        dims = (batch, side, side, channels) if last else (batch, channels, side, side)
        made = [Input("x", dims, dtype, normal(1.5, 0.3)), *affine(channels, parameters or dtype)]
        return made + ([Input("cotangent", dims, dtype)] if backward else [])
    dims = f"{batch}x{side}x{side}x{channels}" if last else f"{batch}x{channels}x{side}x{side}"
    return Case(f"{name}_{dims}_{dtype}{'_fb' if backward else ''}", "norm", inputs,
                {"batch": batch, "channels": channels, "side": side}, *functions, {"batch": 2}, reduction=reduction,
                roundings=3, gradients=(0, 1, 2) if backward else (), source=source)


GROUP = (group_norm_silu_torch, group_norm_silu_jax)
GROUP_LAST = (group_norm_silu_last_torch, group_norm_silu_last_jax)
BATCH = (batch_norm_relu_torch, batch_norm_relu_jax)
BATCH_LAST = (batch_norm_relu_last_torch, batch_norm_relu_last_jax)
PIXELS = ("batch*side*side",)
GROUP_SIZE = ("channels*side",)


def l2_inputs(rows, columns):
    return [Input("x", (rows, columns)), Input("cotangent", (rows, columns))]


CASES = [
    rows_case("layer_norm", 4096, 768, "f32"),
    rows_case("layer_norm", 4096, 768, "f32", backward=True),
    rows_case("layer_norm", 65536, 128, "f16"),
    rows_case("layer_norm", 8192, 1024, "bf16", backward=True),
    rows_case("layer_norm", 4096, 12288, "bf16", check_rows=8),
    rows_case("layer_norm", 1024, 65536, "f32", check_rows=4),
    rows_case("rms_norm", 8192, 4096, "bf16"),
    rows_case("rms_norm", 8192, 4096, "bf16", backward=True),
    rows_case("rms_norm", 65536, 513, "bf16"),
    rows_case("rms_norm", 4096, 1000, "f32", backward=True),
    image_case("group_norm_silu", GROUP, (8, 320, 64), "f16", GROUP_SIZE,
               source="U-Net block (unet_block)"),
    image_case("group_norm_silu", GROUP, (8, 320, 32), "f32", (*GROUP_SIZE, *PIXELS), backward=True,
               source="U-Net block (unet_block)"),
    image_case("group_norm_silu_last", GROUP_LAST, (8, 320, 32), "f32", GROUP_SIZE, last=True,
               source="U-Net block (unet_block)"),
    image_case("batch_norm_relu", BATCH, (64, 64, 56), "f32", PIXELS, backward=True, source="ResNet-50"),
    image_case("batch_norm_relu_last", BATCH_LAST, (64, 256, 56), "bf16", PIXELS, last=True, parameters="f32",
               source="ResNet-50 (resnet50_train)"),
    Case("l2_normalise_16384x512_f32_fb", "norm", l2_inputs, {"rows": 16384, "columns": 512},
         lambda x: F.normalize(x, dim=-1), lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12),
         {"rows": 64}, reduction=("columns",), gradients=(0,), source="embeddings compared by cosine (CLIP)"),
]
