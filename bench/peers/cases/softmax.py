"""Softmax: plain, with mask, scale and dropout, over rows and columns; forward, and forward with backward."""
from .case import Case, Input, integer, keep, normal
from .frameworks import F, jax, jnp, lowest, torch, wide


def plain_torch(x):
    return F.softmax(x, -1)


def plain_jax(x):
    return jax.nn.softmax(wide(x), -1).astype(x.dtype)


def masked_torch(x, mask):
    return F.softmax(torch.where(mask, x * 0.125, torch.finfo(x.dtype).min), -1)


def masked_jax(x, mask):
    return jax.nn.softmax(wide(jnp.where(mask, x * 0.125, lowest(x))), -1).astype(x.dtype)


def dropped_torch(x, mask, kept):
    return torch.where(kept, masked_torch(x, mask) / 0.9, 0.0)


def dropped_jax(x, mask, kept):
    return jnp.where(kept, masked_jax(x, mask) / 0.9, 0.0)


def native_torch(x, mask, seed):
    return F.dropout(masked_torch(x, mask), 0.1)


def native_jax(x, mask, seed):
    kept = jax.random.bernoulli(jax.random.key(seed), jnp.float32(0.9), x.shape)
    return jnp.where(kept, masked_jax(x, mask) / 0.9, 0.0)


def plain_case(rows, columns, dtype, check_rows=64, backward=False):
    def inputs(rows, columns):
        return [Input(name, (rows, columns), dtype, normal(3.0)) for name in ("x", "cotangent")[:1 + backward]]
    return Case(f"softmax_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "softmax", inputs,
                {"rows": rows, "columns": columns}, plain_torch, plain_jax, {"rows": check_rows},
                reduction=("columns",), gradients=(0,) if backward else ())


def masked_inputs(dtype, backward):
    def inputs(rows, columns):
        made = [Input("x", (rows, columns), dtype, normal(8.0)), Input("mask", (rows, columns), "pred", keep(0.9))]
        return made + ([Input("cotangent", (rows, columns), dtype)] if backward else [])
    return inputs


def masked_case(rows, columns, dtype, backward=False):
    return Case(f"softmax_mask_scale_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "softmax",
                masked_inputs(dtype, backward), {"rows": rows, "columns": columns}, masked_torch, masked_jax,
                {"rows": 64}, reduction=("columns",), roundings=3, gradients=(0,) if backward else ())


def causal(shape):
    import numpy as np
    return np.tril(np.ones(shape, bool))


def attention_inputs(batch, heads, length):
    dims = (batch, heads, length, length)
    return [Input("scores", dims, "f16", normal(8.0)), Input("causal", (length, length), "pred", shaped=causal),
            Input("kept", dims, "pred", keep(0.9)), Input("cotangent", dims, "f16")]


def native_inputs(batch, heads, length):
    dims = (batch, heads, length, length)
    return [Input("scores", dims, "f32", normal(8.0)), Input("causal", (length, length), "pred", shaped=causal),
            Input("seed", (), "u32", integer(2**31))]


CASES = [
    plain_case(98304, 128, "bf16"),
    plain_case(8192, 1537, "f16"),
    plain_case(256, 131072, "f32", check_rows=4),
    plain_case(4096, 8192, "bf16", check_rows=16, backward=True),
    masked_case(4096, 1024, "f32"),
    masked_case(16384, 512, "bf16", backward=True),
    Case("softmax_columns_4096x1024_f32", "softmax",
         lambda rows, columns: [Input("x", (rows, columns), "f32", normal(3.0))], {"rows": 4096, "columns": 1024},
         lambda x: F.softmax(x, 0), lambda x: jax.nn.softmax(x, 0), reduction=("rows",)),
    Case("softmax_causal_dropout_8x12x384_f16_fb", "softmax", attention_inputs,
         {"batch": 8, "heads": 12, "length": 384}, dropped_torch, dropped_jax, {"batch": 1, "heads": 2},
         reduction=("length",), roundings=4, gradients=(0,),
         source="BERT's attention (bert_infer_f16, bert_train), dropout's mask as an input"),
    Case("softmax_causal_random_dropout_8x12x512_f32", "softmax", native_inputs,
         {"batch": 8, "heads": 12, "length": 512}, native_torch, native_jax, {"batch": 1, "heads": 2},
         reduction=("length",), torch_random=True,
         source="GPT-2's attention (gpt2_train)",
         note="PyTorch draws from its own generator, JAX (and the HLO) by threefry from a seed: other bits, so "
              "PyTorch's results are not compared"),
]
