"""Element-wise work around matmuls: bias + GELU, SwiGLU, GEGLU; forward, and forward with backward."""
from .case import Case, Input, normal
from .frameworks import F, jax, jnp, wide


def gelu_case(rows, columns, dtype, tanh=False, backward=False, source=""):
    def inputs(rows, columns):
        made = [Input("x", (rows, columns), dtype), Input("bias", (columns,), dtype, normal(0.5))]
        return made + ([Input("cotangent", (rows, columns), dtype)] if backward else [])
    return Case(f"bias_gelu{'_tanh' if tanh else ''}_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "activation",
                inputs, {"rows": rows, "columns": columns},
                lambda x, bias: F.gelu(x + bias, approximate="tanh" if tanh else "none"),
                lambda x, bias: jax.nn.gelu(wide(x + bias), approximate=tanh).astype(x.dtype), {"rows": 64},
                reduction=("rows",) if backward else (), roundings=3, gradients=(0, 1) if backward else (),
                source=source)


def swiglu_case(rows, columns, dtype, backward=False):
    def inputs(rows, columns):
        names = ("gate", "up", "cotangent")[:3 if backward else 2]
        return [Input(name, (rows, columns), dtype) for name in names]
    return Case(f"swiglu_{rows}x{columns}_{dtype}{'_fb' if backward else ''}", "activation", inputs,
                {"rows": rows, "columns": columns}, lambda gate, up: F.silu(gate) * up,
                lambda gate, up: jax.nn.silu(gate) * up, {"rows": 64}, roundings=4,
                gradients=(0, 1) if backward else (), source="Llama's feed-forward (llama_prefill, llama_train)")


def geglu_torch(x, bias):
    value, gate = (x + bias).chunk(2, -1)
    return value * F.gelu(gate)


def geglu_jax(x, bias):
    value, gate = jnp.split(x + bias, 2, -1)
    return value * jax.nn.gelu(wide(gate), approximate=False).astype(x.dtype)


CASES = [
    gelu_case(8192, 3072, "f32", source="BERT's feed-forward (bert_infer)"),
    gelu_case(4096, 3072, "f32", backward=True, source="BERT's feed-forward (bert_train)"),
    gelu_case(8192, 6400, "bf16", tanh=True, backward=True, source="GPT-2 XL's feed-forward"),
    swiglu_case(8192, 11008, "bf16"),
    swiglu_case(4096, 5632, "f32", backward=True),
    Case("bias_geglu_8192x2560_f16", "activation",
         lambda rows, columns: [Input("x", (rows, columns), "f16"), Input("bias", (columns,), "f16", normal(0.5))],
         {"rows": 8192, "columns": 2560}, geglu_torch, geglu_jax, {"rows": 64}, roundings=4,
         source="U-Net's transformer block (unet_block): both halves of one matmul"),
]
