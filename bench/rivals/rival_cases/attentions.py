"""Attention as a whole: heads lie before positions (batch, heads, positions, depth), as PyTorch's function has them.

Rivals: FlashAttention-2, cuDNN and the memory-efficient kernel as PyTorch's scaled_dot_product_attention calls them,
and the packages flash_attn and flash_attn_interface (FlashAttention-3) where they are installed.
"""
import contextlib
import functools
import math

from cases.case import Input
from cases.frameworks import F, jax, jnp, lowest, torch, wide

from .case import RivalCase, Way

PAGE = 256  # flash_attn's page sizes are multiples of it


def attention_jax(q, k, v, mask=None):
    """As a user writes it: scores in at least f32, grouped queries by repeated heads."""
    if k.shape[1] != q.shape[1]:
        k, v = (jnp.repeat(each, q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = wide(jnp.einsum("bhqd,bhkd->bhqk", q, k)) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, lowest(scores))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1).astype(v.dtype), v)


def visible(rows, keys, window=None, library=jnp, **where):
    """Row i sees keys up to its own place; with a window, the last `window` of them."""
    row, key = library.arange(rows, **where)[:, None], library.arange(keys, **where)[None, :]
    return (key <= row) if window is None else (key <= row) & (key > row - window)


# --- PyTorch's function by one of its back ends ---

@contextlib.contextmanager
def backend_of(name):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(getattr(SDPBackend, name)):
        yield


BACKENDS = {"sdpa_flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}


def attention_torch(q, k, v, causal=False, mask=None):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, attn_mask=mask,
                                          enable_gqa=q.shape[1] != k.shape[1])


def by_backends(call, names=tuple(BACKENDS)):
    def way(name):
        def run(*tensors):
            with backend_of(BACKENDS[name]):
                return call(*tensors)
        return Way(lambda compiled: run, None, name != "sdpa_flash")
    return {name: way(name) for name in names}


# --- the packages: positions before heads ---

def positions_first(*tensors):
    return tuple(t.transpose(1, 2).contiguous() for t in tensors)


def flash_function(package, name):
    import importlib
    return getattr(importlib.import_module(package), name)


def heads_first(result):
    result = result[0] if isinstance(result, tuple) else result
    return result.transpose(1, 2)


def by_packages(options):
    """Inputs are laid out as the package wants them before anything is timed. `options` of a number of positions."""
    def way(package):
        return Way(lambda compiled: lambda q, k, v: heads_first(
            flash_function(package, "flash_attn_func")(q, k, v, **options(q.shape[1]))), positions_first)
    return {"flash2": way("flash_attn"), "flash3": way("flash_attn_interface")}


def attention_case(name, b, h, kv, s, d, dtype, causal=False, backward=False, source=""):
    def inputs(b, h, kv, s, d):
        made = [Input("q", (b, h, s, d), dtype), Input("k", (b, kv, s, d), dtype), Input("v", (b, kv, s, d), dtype)]
        return made + ([Input("cotangent", (b, h, s, d), dtype)] if backward else [])

    def in_jax(q, k, v):
        return attention_jax(q, k, v, visible(q.shape[2], k.shape[2]) if causal else None)
    in_torch = functools.partial(attention_torch, causal=causal)
    return RivalCase(f"attention_{name}_{b}x{h}x{s}x{d}_{dtype}{'_fb' if backward else ''}",
                     "attention's gradients" if backward else "attention", inputs,
                     {"b": b, "h": h, "kv": kv, "s": s, "d": d}, in_torch, in_jax,
                     {"b": 2, "h": 4, "kv": 4 * kv // h, "s": 48, "d": 32}, reduction=("s", "d"),
                     roundings=8 if backward else 4, gradients=(0, 1, 2) if backward else (), source=source,
                     ways={**by_backends(in_torch), **({} if backward else by_packages(lambda positions: {"causal": causal}))})


# --- sliding window ---

def sliding_case(b, h, s, d, window):
    def of(positions):
        """Half of them at the most, so that what is checked slides as well."""
        return min(window, positions // 2)

    def in_jax(q, k, v):
        return attention_jax(q, k, v, visible(q.shape[2], k.shape[2], of(q.shape[2])))

    def in_torch(q, k, v):
        return attention_torch(q, k, v, mask=visible(q.shape[2], k.shape[2], of(q.shape[2]), torch, device=q.device))

    def flex(compiled):
        from torch.nn.attention.flex_attention import flex_attention
        return lambda q, k, v, mask: compiled(flex_attention)(q, k, v, block_mask=mask)

    def flex_arranged(q, k, v):
        from torch.nn.attention.flex_attention import create_block_mask
        narrow = of(q.shape[2])
        return q, k, v, create_block_mask(lambda b, h, i, j: (j <= i) & (j > i - narrow), None, None, q.shape[2],
                                          k.shape[2], device=q.device)
    return RivalCase(f"attention_sliding_{b}x{h}x{s}x{d}_bf16", "attention",
                     lambda b, h, s, d: [Input(name, (b, h, s, d), "bf16") for name in "qkv"],
                     {"b": b, "h": h, "s": s, "d": d}, in_torch, in_jax, {"b": 1, "h": 2, "s": 64, "d": 32},
                     reduction=("s", "d"), roundings=4, source=f"Mistral: a window of {window}",
                     ways={**by_backends(in_torch, ("cudnn", "efficient")),
                           "flex": Way(flex, flex_arranged),
                           **by_packages(lambda positions: {"causal": True, "window_size": (of(positions) - 1, 0)})})


# --- a token after a cache in pages ---

def tables(pages):
    """Every sequence has pages of its own, shuffled."""
    def made(shape):
        import numpy as np
        return np.random.default_rng(5).permutation(pages)[:shape[0] * shape[1]].reshape(shape).astype(np.int32)
    return made


def lengths_of(page):
    """Sequences of unlike lengths, the first one as long as the cache."""
    def draw(random, count):
        import numpy as np
        drawn = random.integers(page // 2, page + 1, count, dtype=np.int32)
        drawn[0] = page
        return drawn
    return draw


def paged_inputs(b, h, kv, pages, page, d):
    total = b * pages
    return [Input("q", (b, h, 1, d), "bf16"), Input("keys", (total, page, kv, d), "bf16"),
            Input("values", (total, page, kv, d), "bf16"), Input("table", (b, pages), "s32", shaped=tables(total)),
            Input("lengths", (b,), "s32", lengths_of(pages * page))]


def paged_jax(q, keys, values, table, lengths):
    def gathered(cache):
        found = cache[table]
        return found.reshape(found.shape[0], -1, *found.shape[3:]).transpose(0, 2, 1, 3)
    k, v = gathered(keys), gathered(values)
    mask = jnp.arange(k.shape[2])[None, None, None, :] < lengths[:, None, None, None]
    return attention_jax(q, k, v, mask)


def paged_torch(q, keys, values, table, lengths):
    k, v = (cache[table].flatten(1, 2).transpose(1, 2) for cache in (keys, values))
    mask = torch.arange(k.shape[2], device=q.device)[None, None, None, :] < lengths[:, None, None, None]
    return attention_torch(q, k, v, mask=mask)


def paged_by(package):
    key = "block_table" if package == "flash_attn" else "page_table"

    def run(q, keys, values, table, lengths):
        return heads_first(flash_function(package, "flash_attn_with_kvcache")(
            q, keys, values, cache_seqlens=lengths, **{key: table}))
    return Way(lambda compiled: run, lambda q, keys, values, table, lengths: (
        q.transpose(1, 2).contiguous(), keys, values, table.int(), lengths.int()))


# --- sequences of unlike lengths behind one another ---

def segments(shape):
    """Positions' sequence numbers: each sequence is longer than the one before."""
    import numpy as np
    ends = np.array([0.04, 0.12, 0.3, 0.55, 1.0]) * shape[0]
    return np.searchsorted(ends, np.arange(shape[0]), side="right").astype(np.int32)


def packed_inputs(h, s, d):
    return [*(Input(name, (1, h, s, d), "bf16") for name in "qkv"), Input("segments", (s,), "s32", shaped=segments)]


def packed_jax(q, k, v, segment):
    return attention_jax(q, k, v, (segment[:, None] == segment[None, :]) & visible(q.shape[2], k.shape[2]))


def packed_torch(q, k, v, segment):
    mask = (segment[:, None] == segment[None, :]) & visible(q.shape[2], k.shape[2], None, torch, device=q.device)
    return attention_torch(q, k, v, mask=mask)


def packed_by(package):
    def arrange(q, k, v, segment):
        lengths = torch.bincount(segment)
        starts = F.pad(torch.cumsum(lengths, 0), (1, 0)).int()
        return *(each[0].transpose(0, 1).contiguous() for each in (q, k, v)), starts, int(lengths.max())

    def run(q, k, v, starts, longest):
        result = flash_function(package, "flash_attn_varlen_func")(
            q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, causal=True)
        result = result[0] if isinstance(result, tuple) else result
        return result.transpose(0, 1)[None]
    return Way(lambda compiled: run, arrange)


CASES = [
    attention_case("bert", 8, 12, 12, 512, 64, "f16", source="BERT"),
    attention_case("causal", 4, 32, 32, 2048, 128, "bf16", causal=True, source="Llama 7B"),
    attention_case("grouped_causal", 1, 32, 8, 4096, 128, "bf16", causal=True, source="Llama 3 8B"),
    sliding_case(1, 8, 8192, 128, 1024),
    RivalCase("attention_paged_decode_32x32x8x4096x128_bf16", "attention", paged_inputs,
              {"b": 32, "h": 32, "kv": 8, "pages": 16, "page": PAGE, "d": 128}, paged_torch, paged_jax,
              {"b": 3, "h": 4, "kv": 2, "pages": 3, "page": 16, "d": 32}, reduction=("pages*page", "d"), roundings=4,
              source="vLLM's decoding: a token each, keys and values in pages",
              ways={"flash2": paged_by("flash_attn"), "flash3": paged_by("flash_attn_interface")}),
    RivalCase("attention_packed_16x4096x128_bf16", "attention", packed_inputs, {"h": 16, "s": 4096, "d": 128}, packed_torch,
              packed_jax, {"h": 2, "s": 64, "d": 32}, reduction=("s", "d"), roundings=4,
              source="five sequences of unlike lengths behind one another, causal",
              ways={**by_backends(packed_torch, ("efficient",)), "flash2": packed_by("flash_attn"),
                    "flash3": packed_by("flash_attn_interface")}),
    attention_case("causal", 4, 16, 16, 1024, 64, "bf16", causal=True, backward=True, source="GPT-2"),
]
