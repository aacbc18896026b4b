"""Losses and what they are made of: cross entropy, log-softmax, log-sum-exp."""
from .case import Case, Input, integer, normal
from .frameworks import F, jax, jnp, torch, wide


def cross_entropy_jax(smoothing=0.0):
    def loss(logits, labels):
        logp = jax.nn.log_softmax(wide(logits))
        picked = -jnp.take_along_axis(logp, labels[:, None], -1)[:, 0]
        if smoothing:
            picked = (1 - smoothing) * picked - smoothing * logp.mean(-1)
        return picked.mean()
    return loss


def cross_entropy_case(rows, classes, dtype, smoothing=0.0, source="", check_rows=16):
    def inputs(rows, classes):
        return [Input("logits", (rows, classes), dtype, normal(3.0)), Input("labels", (rows,), "s32", integer(classes))]
    return Case(f"cross_entropy{'_smoothed' if smoothing else ''}_{rows}x{classes}_{dtype}_fb", "loss", inputs,
                {"rows": rows, "classes": classes},
                lambda logits, labels: F.cross_entropy(logits.float(), labels, label_smoothing=smoothing),
                cross_entropy_jax(smoothing), {"rows": check_rows}, reduction=("classes",), gradients=(0,),
                cotangents=0, source=source)


def picked_torch(logits, actions):
    logp = F.log_softmax(logits, -1)
    return logp.gather(-1, actions[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def picked_jax(logits, actions):
    logp = jax.nn.log_softmax(logits, -1)
    return jnp.take_along_axis(logp, actions[:, None], -1)[:, 0], -(jnp.exp(logp) * logp).sum(-1)


def matrix(dtype):
    return lambda rows, columns: [Input("x", (rows, columns), dtype, normal(3.0))]


CASES = [
    cross_entropy_case(4096, 32000, "f32", source="a Llama head (llama_train)"),
    cross_entropy_case(4096, 50257, "bf16", source="GPT-2's head (gpt2_train)"),
    cross_entropy_case(16384, 1000, "f32", smoothing=0.1, source="label smoothing (transformer_train, resnet50_train)",
                       check_rows=64),
    Case("log_softmax_8192x5000_f32", "loss", matrix("f32"), {"rows": 8192, "columns": 5000},
         lambda x: F.log_softmax(x, -1), lambda x: jax.nn.log_softmax(x, -1), {"rows": 32}, reduction=("columns",),
         source="a CTC head (asr_infer)"),
    Case("log_probability_entropy_32768x2048_f32", "loss",
         lambda rows, columns: [*matrix("f32")(rows, columns), Input("actions", (rows,), "s32", integer(columns))],
         {"rows": 32768, "columns": 2048}, picked_torch, picked_jax, {"rows": 64}, reduction=("columns",),
         source="policy gradients: the chosen action's log-probability and the entropy"),
    # No length of a sum: the logarithm makes its relative error an absolute one, small beside the result.
    Case("log_sum_exp_128x262144_f32", "loss", matrix("f32"), {"rows": 128, "columns": 262144},
         lambda x: torch.logsumexp(x, -1), lambda x: jax.nn.logsumexp(x, -1), {"rows": 4}),
    Case("log_sum_exp_4096x16384_bf16", "loss", matrix("bf16"), {"rows": 4096, "columns": 16384},
         lambda x: torch.logsumexp(x.float(), -1), lambda x: jax.nn.logsumexp(wide(x), -1), {"rows": 16}),
]
