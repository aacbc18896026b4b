"""Products of matrices by themselves: what cuBLAS has one call for. Layers of a network have weights of n rows."""
from cases.case import Input, normal
from cases.frameworks import F, jnp, torch

from .case import RivalCase

CHECK = {"m": 40, "n": 48, "k": 64}


def plain_case(name, m, n, k, dtype, source=""):
    def inputs(m, n, k):
        return [Input("x", (m, k), dtype), Input("w", (n, k), dtype, normal(k ** -0.5))]
    return RivalCase(f"plain_{name}_{m}x{n}x{k}_{dtype}", "plain", inputs, {"m": m, "n": n, "k": k}, F and F.linear,
                     lambda x, w: x @ w.T, {**CHECK, "m": min(m, CHECK["m"])}, reduction=("k",), roundings=1,
                     source=source)


def batched_case(name, b, m, n, k, dtype, source=""):
    def inputs(b, m, n, k):
        return [Input("x", (b, m, k), dtype), Input("y", (b, k, n), dtype, normal(k ** -0.5))]
    return RivalCase(f"plain_{name}_{b}x{m}x{n}x{k}_{dtype}", "plain", inputs, {"b": b, "m": m, "n": n, "k": k},
                     torch and torch.bmm, jnp.matmul, {"b": 2, **CHECK}, reduction=("k",), roundings=1, source=source)


CASES = [
    plain_case("square", 4096, 4096, 4096, "f16", "ALCOP"),
    plain_case("bert_qkv", 512, 2304, 768, "f16", "BERT (bert_infer_f16)"),
    plain_case("llama_qkv", 2048, 12288, 4096, "bf16", "Llama 7B"),
    plain_case("llama_decode", 16, 12288, 4096, "bf16", "Llama 7B, 16 sequences, a token each"),
    batched_case("attention_values", 12, 512, 64, 512, "f16", "ALCOP"),
    plain_case("deep", 128, 128, 32768, "f16", "few tiles, a long sum"),
]
