"""Down to core ATen, and a little further: what our importer has no rule for, but whose parts it has."""

import functools

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

aten = torch.ops.aten

# Attention, like matrix products, stays one call of PyTorch's.
_KEPT = ("aten._scaled_dot_product_flash_attention_for_cpu", "aten.native_dropout")

_MORE = (
    aten._batch_norm_with_update_functional,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._weight_norm_interface,
    aten.addcdiv,
    aten.addcmul,
    aten.avg_pool2d_backward,
    aten.batch_norm_backward,
    aten.glu_backward,
    aten.hardtanh_backward,
    aten.native_batch_norm,
    aten.native_group_norm,
    aten.norm,
    aten.split_with_sizes,
    aten.std,
    aten.upsample_bilinear2d,
    aten.upsample_nearest2d,
    aten.upsample_nearest2d_backward,
)

# Operators of lists whose parts have another name.
_FOREACH_NAMES = {"norm": "linalg_vector_norm", "clamp_min": "clamp_min", "clamp_max": "clamp_max"}


def _each(overload, name: str):
    """An operator of lists as one operator per tensor; our fragments pack them again."""
    packet = getattr(aten, _FOREACH_NAMES.get(name, name))
    arguments = overload._schema.arguments
    is_list = {argument.name: str(argument.type).startswith("List[") for argument in arguments}

    def decomposed(*args, **kwargs):
        given = {arguments[i].name: value for i, value in enumerate(args)}
        given.update(kwargs)
        count = len(given[arguments[0].name])
        results = []
        for i in range(count):
            own = {key: value[i] if is_list[key] else value for key, value in given.items()}
            positional = [own.pop(a.name) for a in arguments if a.name in own and not a.kwarg_only]
            results.append(packet(*positional, **own))
        return results

    return decomposed


def _of_lists() -> dict:
    table = {}
    for full in dir(aten):
        name = full.removeprefix("_foreach_")
        if not full.startswith("_foreach_") or full.endswith("_") or not hasattr(aten, _FOREACH_NAMES.get(name, name)):
            continue
        packet = getattr(aten, full)
        for kind in packet.overloads():
            overload = getattr(packet, kind)
            # Maxima and minima of tensors and numbers have names of their own.
            scalar = kind.startswith("Scalar")
            own = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name) if scalar else name
            if "out" not in kind:
                table[overload] = _each(overload, own)
    return table


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
    return {op: function for op, function in result.items() if not str(op).startswith(_KEPT)}
