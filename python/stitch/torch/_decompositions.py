"""Down to core ATen, and a little further: what our importer has no rule for, but whose parts it has."""

import functools

import torch
import torch.nn.functional as F
from torch._decomp import core_aten_decompositions, get_decompositions

aten = torch.ops.aten

# Attention, like matrix products, stays one call of PyTorch's.
_KEPT = ("aten._scaled_dot_product_flash_attention_for_cpu",)

_MORE = (
    aten._adaptive_avg_pool2d,
    aten._batch_norm_with_update_functional,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._weight_norm_interface,
    aten.addcdiv,
    aten.addcmul,
    aten.batch_norm_backward,
    aten.bucketize,
    aten.dist,
    aten.glu_backward,
    aten.grid_sampler_2d,
    aten.hardtanh_backward,
    aten.ldexp,
    aten.max_pool3d_with_indices,
    aten.native_batch_norm,
    aten.native_group_norm,
    aten.norm,
    aten.rrelu_with_noise_backward,
    aten.split_with_sizes,
    aten.std,
    aten.tril_indices,
    aten.triu_indices,
    aten.upsample_bicubic2d,
    aten.upsample_bilinear2d,
    aten.upsample_nearest2d,
    aten.upsample_nearest2d_backward,
    aten.upsample_trilinear3d,
)

# What Python's << and >> are traced to.
_SHIFTS = {
    aten.__lshift__.Scalar: aten.bitwise_left_shift.Tensor_Scalar,
    aten.__lshift__.Tensor: aten.bitwise_left_shift.Tensor,
    aten.__rshift__.Scalar: aten.bitwise_right_shift.Tensor_Scalar,
    aten.__rshift__.Tensor: aten.bitwise_right_shift.Tensor,
}

# Operators of lists whose parts have another name; with numbers, some have yet another.
_PART_NAMES = {"norm": "linalg_vector_norm"}
_PART_NAMES_WITH_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _each(overload, name: str):
    """An operator of lists as one operator per tensor; our fragments pack them again."""
    packet = getattr(aten, name)
    arguments = overload._schema.arguments
    is_list = {argument.name: str(argument.type).startswith("List[") for argument in arguments}
    keywords = {"alpha": "alpha", "value": "value", "dtype": "dtype"}
    if name in ("addcmul", "addcdiv"):
        keywords["scalars"] = "value"

    def decomposed(*args, **kwargs):
        given = {arguments[i].name: value for i, value in enumerate(args)}
        given.update(kwargs)
        count = max(len(value) for key, value in given.items() if is_list[key])
        results = []
        for i in range(count):
            own = {key: value[i] if is_list[key] else value for key, value in given.items()}
            named = {keywords[key]: own.pop(key) for key in list(own) if key in keywords}
            results.append(packet(*(own[a.name] for a in arguments if a.name in own), **named))
        return results

    return decomposed


def _names_of_list_operators() -> list:
    """Of the dispatcher: in some releases (2.11) dir(torch.ops.aten) has only what somebody has looked up before."""
    prefix = "aten::_foreach_"
    full = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith(prefix)}
    return sorted(name.removeprefix(prefix) for name in full if not name.endswith("_"))


def _of_lists() -> dict:
    table = {}
    for name in _names_of_list_operators():
        packet = getattr(aten, f"_foreach_{name}")
        for kind in packet.overloads():
            own = _PART_NAMES.get(name, name)
            if kind.startswith("Scalar"):
                own = _PART_NAMES_WITH_NUMBERS.get(own, own)
            # A tensor of numbers for the tensors of a list would have to be taken apart.
            of_numbers = name in ("addcmul", "addcdiv") and kind == "Tensor"
            if hasattr(aten, own) and "out" not in kind and not of_numbers:
                table[getattr(packet, kind)] = _each(getattr(packet, kind), own)
    return table


def _encoder_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, *parameters,
    mask=None, mask_type=None,
):  # fmt: skip
    """torch.nn.TransformerEncoderLayer without gradients, which PyTorch has as one call."""
    norm_weight, norm_bias, other_weight, other_bias, up_weight, up_bias, down_weight, down_bias, *masks = parameters
    if mask is not None or any(given is not None for given in masks) or src.is_nested:
        return NotImplemented

    def attended(x):
        batch, length, _ = x.shape
        heads = F.linear(x, qkv_weight, qkv_bias).view(batch, length, 3, num_heads, embed_dim // num_heads)
        y = F.scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4).unbind())
        return F.linear(y.transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias)

    def expanded(x):
        x = F.linear(x, up_weight, up_bias)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), down_weight, down_bias)

    def normed(x):
        return F.layer_norm(x, (embed_dim,), norm_weight, norm_bias, eps)

    def other_normed(x):
        return F.layer_norm(x, (embed_dim,), other_weight, other_bias, eps)

    if norm_first:
        x = src + attended(normed(src))
        return x + expanded(other_normed(x))
    x = normed(src + attended(src))
    return other_normed(x + expanded(x))


def _dropout(x, p, train):
    """The mask is PyTorch's, drawn in the order of x's memory as eager draws it on the host; the rest is arithmetic."""
    if train is False or not x.is_floating_point():
        return NotImplemented
    order = list(range(x.dim()))
    if not x.is_contiguous():
        order.sort(key=torch.empty_like(x).stride().__getitem__, reverse=True)
    drawn = torch.empty([x.shape[i] for i in order], dtype=torch.bool, device=x.device)
    mask = torch.bernoulli(drawn, 1.0 - p).permute([order.index(i) for i in range(x.dim())])
    return x * mask * (0.0 if p == 1.0 else 1.0 / (1.0 - p)), mask


def _dropout_backward(gradient, mask, scale):
    return gradient * mask * scale


def _diagonal_scatter(x, src, offset=0, dim1=0, dim2=1):
    """Every element of the diagonal's rows has the row's own, and a comparison of positions picks it."""
    if not x.is_contiguous():  # the result has x's strides
        return NotImplemented
    planes = x.movedim((dim1, dim2), (-2, -1))
    row = torch.arange(planes.shape[-2], device=x.device)[:, None]
    column = torch.arange(planes.shape[-1], device=x.device)
    before = max(-offset, 0)
    by_row = F.pad(src, (before, planes.shape[-2] - before - src.shape[-1]))[..., :, None]
    return torch.where(column == row + offset, by_row, planes).movedim((-2, -1), (dim1, dim2)).contiguous()


@functools.lru_cache(maxsize=1)
def table() -> dict:
    """The decompositions that AOTAutograd is given."""
    result = dict(core_aten_decompositions())
    for packet in _MORE:
        try:
            result.update(get_decompositions([packet]))
        except RuntimeError:
            continue  # this version of PyTorch has none
    result.update(_of_lists())
    result.update(_SHIFTS)
    result[aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    result[aten.diagonal_scatter.default] = _diagonal_scatter
    result[aten.native_dropout.default] = _dropout
    result[aten.native_dropout_backward.default] = _dropout_backward
    for op in (aten.select_scatter.default, aten.slice_scatter.default):  # which may be written where they are
        result.pop(op, None)
    return {op: function for op, function in result.items() if not str(op).startswith(_KEPT)}
