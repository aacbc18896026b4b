"""Convolutions with what follows them. Tensors lie with their features last: PyTorch sees them as channels_last, weights
are (results, window, features). cuDNN's search for its fastest kernel is on (torch.backends.cudnn.benchmark).

Rivals: PyTorch's convolution with the rest by torch.compile (library), and cuDNN's own fused call with the norm folded
into weights and bias beforehand (cudnn).
"""
from cases.case import Input, normal, positive
from cases.frameworks import F, jax, jnp, torch

from .case import RivalCase, Way

EPSILON = 1e-5


def first(t):
    """Features first, as PyTorch's functions want them; the memory stays as it is."""
    return t.permute(0, 3, 1, 2)


def last(t):
    return t.permute(0, 2, 3, 1)


def convolved_torch(x, w, bias=None, **options):
    return F.conv2d(first(x), first(w), bias, **options)


def convolved_jax(x, w, strides=1, padding=0, groups=1, holes=1):
    return jax.lax.conv_general_dilated(x, w, (strides, strides), [(padding, padding)] * 2, lhs_dilation=(holes, holes),
                                        dimension_numbers=("NHWC", "OHWI", "NHWC"), feature_group_count=groups)


def norm_inputs(count):
    return [Input("mean", (count,), "f32", normal(0.3)), Input("variance", (count,), "f32", positive()),
            Input("gamma", (count,), "f32", normal(0.2, 1.0)), Input("beta", (count,), "f32", normal(0.3))]


def normed_torch(y, mean, variance, gamma, beta):
    return F.batch_norm(y, mean, variance, gamma, beta, False, 0.0, EPSILON)


def normed_jax(y, mean, variance, gamma, beta):
    scale = gamma * jax.lax.rsqrt(variance + EPSILON)
    return ((y - mean) * scale + beta).astype(y.dtype)


def folded(w, bias, mean, variance, gamma, beta):
    """The norm in the weights."""
    scale = gamma * torch.rsqrt(variance + EPSILON)
    return ((w * scale[:, None, None, None]).to(w.dtype), ((bias.to(scale.dtype) - mean) * scale + beta).to(w.dtype))


def weights(r, window, c):
    return Input("w", (r, window, window, c), "f16", normal((c * window * window) ** -0.5))


def block_case(name, n, side, c, r, window, strides, residual=False, pooled=False, source=""):
    padding = window // 2

    def inputs(n, side, c, r, window):
        out = side // strides
        made = [Input("x", (n, side, side, c), "f16"), weights(r, window, c), Input("bias", (r,), "f16", normal(0.3)),
                *norm_inputs(r)]
        return made + ([Input("residual", (n, out, out, r), "f16")] if residual else [])

    def rest_torch(y, mean, variance, gamma, beta, *residuals):
        y = normed_torch(y, mean, variance, gamma, beta)
        y = F.relu(y + first(residuals[0]) if residuals else y)
        return last(F.max_pool2d(y, 3, 2, 1) if pooled else y)

    def in_torch(x, w, bias, *rest):
        return rest_torch(convolved_torch(x, w, bias, stride=strides, padding=padding), *rest)

    def in_jax(x, w, bias, mean, variance, gamma, beta, *residuals):
        y = normed_jax(convolved_jax(x, w, strides, padding) + bias, mean, variance, gamma, beta)
        y = jax.nn.relu(y + residuals[0] if residuals else y)
        if not pooled:
            return y
        return jax.lax.reduce_window(y, jnp.array(-jnp.inf, y.dtype), jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                                     [(0, 0), (1, 1), (1, 1), (0, 0)])

    def by_library(compiled):
        return lambda x, w, bias, *rest: compiled(rest_torch)(
            convolved_torch(x, w, bias, stride=strides, padding=padding), *rest)

    def by_cudnn(compiled):
        def run(x, w, bias, *residuals):
            places = ((strides, strides), (padding, padding), (1, 1), 1)
            if residuals:
                return last(torch.cudnn_convolution_add_relu(x, w, residuals[0], 1.0, bias, *places))
            y = torch.cudnn_convolution_relu(x, w, bias, *places)
            return last(F.max_pool2d(y, 3, 2, 1) if pooled else y)
        return run

    def fold(x, w, bias, mean, variance, gamma, beta, *residuals):
        w, bias = folded(w, bias, mean, variance, gamma, beta)
        return first(x), first(w), bias, *map(first, residuals)
    # The window's sum, and the variance's reciprocal root, which magnifies what is before it.
    return RivalCase(f"conv_{name}_{n}x{side}x{side}x{c}_{r}x{window}x{window}_f16", "convolution", inputs,
                     {"n": n, "side": side, "c": c, "r": r, "window": window}, in_torch, in_jax,
                     {"n": 2, "side": 12, "c": min(c, 16), "r": 24}, reduction=("c*window*window",), roundings=12,
                     source=source, ways={"library": Way(by_library), "cudnn": Way(by_cudnn, fold, True)})


def bare_case(name, n, side, c, r, window, strides=1, depthwise=False, source=""):
    padding = window // 2

    def inputs(n, side, c, r, window):
        per_group = 1 if depthwise else c
        return [Input("x", (n, side, side, c), "f16"), weights(r, window, per_group),
                Input("bias", (r,), "f16", normal(0.3))]

    def in_torch(x, w, bias):
        return last(F.relu(convolved_torch(x, w, bias, stride=strides, padding=padding,
                                           groups=x.shape[-1] if depthwise else 1)))

    def in_jax(x, w, bias):
        return jax.nn.relu(convolved_jax(x, w, strides, padding, x.shape[-1] if depthwise else 1) + bias)

    def by_cudnn(compiled):
        def run(x, w, bias):
            return last(torch.cudnn_convolution_relu(x, w, bias, (strides, strides), (padding, padding), (1, 1),
                                                     x.shape[1] if depthwise else 1))
        return run
    return RivalCase(f"conv_{name}_{n}x{side}x{side}x{c}_{r}x{window}x{window}_f16", "convolution", inputs,
                     {"n": n, "side": side, "c": c, "r": r, "window": window}, in_torch, in_jax,
                     {"n": 2, "side": 12, "c": 16, "r": 16 if depthwise else 24}, reduction=("c*window*window",),
                     roundings=3, source=source,
                     ways={"cudnn": Way(by_cudnn, lambda x, w, bias: (first(x), first(w), bias), True)})


# --- transposed: what a gradient of a strided convolution is, and a decoder's step ---

def transposed_inputs(n, side, c, r):
    return [Input("x", (n, side, side, c), "f16"), weights(r, 4, c), Input("bias", (r,), "f16", normal(0.3))]


def transposed_torch(x, w, bias):
    """`w`: as transposed_state has made it."""
    return last(F.relu(F.conv_transpose2d(first(x), w, bias, stride=2, padding=1)))


def transposed_state(x, w, bias):
    """PyTorch's weights are (features, results, window), mirrored."""
    flipped = w.flip(1, 2).permute(3, 0, 1, 2)
    return x, flipped.contiguous(memory_format=torch.channels_last), bias


CASES = [
    block_case("norm_relu", 64, 56, 64, 64, 3, 1, source="ResNet-50, stage 2, inference"),
    block_case("norm_relu", 64, 14, 256, 256, 3, 1, source="ResNet-50, stage 4, inference"),
    block_case("norm_add_relu", 64, 28, 128, 512, 1, 1, residual=True, source="the end of a block of ResNet-50"),
    block_case("norm_relu_pool", 64, 224, 3, 64, 7, 2, pooled=True, source="the stem of ResNet-50"),
    bare_case("strided", 64, 56, 128, 128, 3, 2, source="ResNet-50, stage 3"),
    bare_case("depthwise", 64, 56, 192, 192, 3, depthwise=True, source="MobileNet, EfficientNet"),
    bare_case("depthwise_large", 64, 28, 192, 192, 7, depthwise=True, source="ConvNeXt"),
    RivalCase("conv_transposed_64x16x16x256_128x4x4_f16", "convolution", transposed_inputs,
              {"n": 64, "side": 16, "c": 256, "r": 128}, transposed_torch,
              lambda x, w, bias: jax.nn.relu(convolved_jax(x, w, 1, 2, holes=2) + bias),
              {"n": 2, "side": 6, "c": 16, "r": 24}, reduction=("c",), roundings=3, torch_state=transposed_state,
              source="a DCGAN's generator"),
]
