"""Embedding look-up with position and norm; backward scatters into the whole table."""
from .case import Case, Input, integer, normal
from .frameworks import F
from .norms import affine, layer_norm_jax, layer_norm_torch, rms_norm_jax, rms_norm_torch


def embedding_norm_torch(ids, table, positions, weight, shift):
    return layer_norm_torch(F.embedding(ids, table) + positions, weight, shift)


def embedding_norm_jax(ids, table, positions, weight, shift):
    return layer_norm_jax(table[ids] + positions, weight, shift)


def bert_inputs(dtype, backward):
    def inputs(batch, length, vocabulary, width):
        made = [Input("ids", (batch, length), "s32", integer(vocabulary)),
                Input("table", (vocabulary, width), dtype, normal(0.5), read=batch * length * width),
                Input("positions", (length, width), dtype, normal(0.5)), *affine(width, dtype)]
        return made + ([Input("cotangent", (batch, length, width), dtype)] if backward else [])
    return inputs


def bert_case(batch, length, width, dtype, vocabulary=30522, backward=False, source=""):
    return Case(f"embedding_norm_{batch}x{length}x{width}_{dtype}{'_fb' if backward else ''}", "embedding",
                bert_inputs(dtype, backward),
                {"batch": batch, "length": length, "vocabulary": vocabulary, "width": width}, embedding_norm_torch,
                embedding_norm_jax, {"batch": 2, "length": 32, "vocabulary": 1000},
                reduction=("batch*length",) if backward else ("width",), roundings=4,
                gradients=(1, 2, 3, 4) if backward else (), source=source,
                note="ideal counts one row of the table for each token" + (", and the gradient of the whole table"
                                                                          if backward else ""))


def llama_inputs(batch, length, vocabulary, width):
    return [Input("ids", (batch, length), "s32", integer(vocabulary)),
            Input("table", (vocabulary, width), "bf16", normal(0.02), read=batch * length * width),
            affine(width, "bf16")[0]]


CASES = [
    bert_case(32, 512, 768, "f32", source="BERT (bert_infer)"),
    bert_case(32, 128, 768, "f32", backward=True, source="BERT (bert_train)"),
    bert_case(64, 1024, 768, "f16", vocabulary=50257, source="GPT-2 (gpt2_train)"),
    Case("embedding_rms_norm_8x2048x4096_bf16", "embedding", llama_inputs,
         {"batch": 8, "length": 2048, "vocabulary": 32000, "width": 4096},
         lambda ids, table, weight: rms_norm_torch(F.embedding(ids, table), weight),
         lambda ids, table, weight: rms_norm_jax(table[ids], weight), {"batch": 1, "length": 32, "vocabulary": 500},
         reduction=("width",), source="Llama (llama_prefill)", note="ideal counts one row of the table for each token"),
]
