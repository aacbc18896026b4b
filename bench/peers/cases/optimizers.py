"""Optimizers and what surrounds them, over the many tensors of a model: AdamW, LAMB, clipping by the norm, casts.

The PyTorch functions take lists. Eager AdamW is PyTorch's fused implementation, its fastest; for torch.compile it is
the one over tensor lists, which Inductor can fuse (a call of the fused one would stay a call).
"""
from .case import Case, Input, normal, positive, value
from .frameworks import jnp, torch

RATE, BETA1, BETA2, DECAY = 1e-3, 0.9, 0.999, 0.01


def dense(inputs, outputs):
    return [(inputs, outputs), (outputs,)]


def bert_tensors(layers, width, vocabulary=0):
    """Weights and biases of BERT's blocks: 16 tensors a block; with a vocabulary, the embeddings too."""
    block = [*(4 * dense(width, width)), *dense(width, 4 * width), *dense(4 * width, width), *(4 * [(width,)])]
    return ([(vocabulary, width), (512, width)] if vocabulary else []) + layers * block


def resnet_tensors(stages, width):
    """Convolutions and norms of ResNet's bottleneck blocks, and its classifier."""
    made, channels = [(7, 7, 3, width), (width,), (width,)], width
    for stage, blocks in enumerate(stages):
        inner = width << stage
        for block in range(blocks):
            shapes = [(1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, 4 * inner)]
            shapes += [(1, 1, channels, 4 * inner)] if block == 0 else []
            made += [part for shape in shapes for part in (shape, shape[-1:], shape[-1:])]
            channels = 4 * inner
    return [*made, (channels, 1000), (1000,)]


def tensors(name, shapes, dtype="f32", draw=None):
    return [Input(f"{name}{number}", shape, dtype, draw or normal(0.02)) for number, shape in enumerate(shapes)]


def state(shapes, gradient_dtype="f32"):
    return [tensors("parameter", shapes), tensors("gradient", shapes, gradient_dtype, normal(1e-2)),
            tensors("first", shapes, draw=normal(1e-3)), tensors("second", shapes, draw=positive(1e-4))]


def adamw_jax(parameters, gradients, firsts, seconds, step):
    correction1, correction2 = 1 - BETA1 ** (step + 1), 1 - BETA2 ** (step + 1)
    firsts = [BETA1 * m + (1 - BETA1) * g for m, g in zip(firsts, gradients)]
    seconds = [BETA2 * v + (1 - BETA2) * g * g for v, g in zip(seconds, gradients)]
    parameters = [p * (1 - RATE * DECAY) - RATE * (m / correction1) / (jnp.sqrt(v / correction2) + 1e-8)
                  for p, m, v in zip(parameters, firsts, seconds)]
    return parameters, firsts, seconds


def a_step_each(parameters, gradients, firsts, seconds, step):
    """PyTorch's optimizers count steps in one tensor a parameter."""
    return parameters, gradients, firsts, seconds, [step.clone() for _ in parameters]


def adamw_torch(fused):
    def step(parameters, gradients, firsts, seconds, steps):
        # capturable: the steps' powers stay on the device, where a CUDA graph can hold them.
        from torch.optim.adamw import adamw
        adamw(parameters, gradients, firsts, seconds, [], steps, fused=fused, foreach=not fused,
              capturable=not fused, amsgrad=False, beta1=BETA1, beta2=BETA2, lr=RATE,
              weight_decay=DECAY, eps=1e-8, maximize=False)
        return parameters, firsts, seconds
    return step


def adamw_case(name, shapes, source, **check):
    def inputs(**sizes):
        return [*state(shapes(**sizes)), Input("step", (), "f32", value(100.0))]
    return Case(name, "optimizer", inputs, check.pop("dimensions"), adamw_torch(fused=True), adamw_jax, check,
                compiled=adamw_torch(fused=False), torch_state=a_step_each, mutates=True, source=source)


def mixed_adamw_jax(parameters, gradients, firsts, seconds, step):
    wide = [g.astype(p.dtype) for p, g in zip(parameters, gradients)]
    parameters, firsts, seconds = adamw_jax(parameters, wide, firsts, seconds, step)
    return parameters, firsts, seconds, [p.astype(g.dtype) for p, g in zip(parameters, gradients)]


def mixed_adamw_torch(fused):
    update = adamw_torch(fused)

    def step(parameters, gradients, firsts, seconds, steps):
        parameters, firsts, seconds = update(parameters, [g.float() for g in gradients], firsts, seconds, steps)
        return parameters, firsts, seconds, [p.to(g.dtype) for p, g in zip(parameters, gradients)]
    return step


def mixed_inputs(layers, width):
    return [*state(bert_tensors(layers, width), "bf16"), Input("step", (), "f32", value(100.0))]


def lamb_jax(parameters, gradients, firsts, seconds):
    firsts = [BETA1 * m + (1 - BETA1) * g for m, g in zip(firsts, gradients)]
    seconds = [BETA2 * v + (1 - BETA2) * g * g for v, g in zip(seconds, gradients)]

    def update(p, m, v):
        u = m / (jnp.sqrt(v) + 1e-6) + DECAY * p
        p_norm, u_norm = jnp.sqrt(jnp.sum(p * p)), jnp.sqrt(jnp.sum(u * u))
        return p - RATE * jnp.where((p_norm > 0) & (u_norm > 0), p_norm / u_norm, 1.0) * u
    return [update(*each) for each in zip(parameters, firsts, seconds)], firsts, seconds


def lamb_torch(parameters, gradients, firsts, seconds):
    firsts = torch._foreach_add(torch._foreach_mul(firsts, BETA1), gradients, alpha=1 - BETA1)
    seconds = torch._foreach_addcmul(torch._foreach_mul(seconds, BETA2), gradients, gradients, 1 - BETA2)
    updates = torch._foreach_div(firsts, torch._foreach_add(torch._foreach_sqrt(seconds), 1e-6))
    updates = torch._foreach_add(updates, parameters, alpha=DECAY)
    p_norms, u_norms = (torch.stack(torch._foreach_norm(each)) for each in (parameters, updates))
    ratios = torch.where((p_norms > 0) & (u_norms > 0), p_norms / u_norms, 1.0) * RATE
    parameters = torch._foreach_sub(parameters, torch._foreach_mul(updates, list(ratios.unbind())))
    return parameters, firsts, seconds


def clip_jax(gradients):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients))
    return [g * jnp.minimum(1.0, 1.0 / (norm + 1e-6)) for g in gradients], norm


def clip_torch(gradients):
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return torch._foreach_mul(gradients, torch.clamp(1.0 / (norm + 1e-6), max=1.0)), norm


def momentum_jax(parameters, gradients, momenta):
    momenta = [0.9 * m + g + 1e-4 * p for p, g, m in zip(parameters, gradients, momenta)]
    return [p - 0.1 * m for p, m in zip(parameters, momenta)], momenta


def momentum_torch(fused):
    def step(parameters, gradients, momenta):
        from torch.optim.sgd import sgd
        sgd(parameters, gradients, list(momenta), fused=fused, foreach=not fused, weight_decay=1e-4, momentum=0.9,
            lr=0.1, dampening=0.0, nesterov=False, maximize=False)
        return parameters, momenta
    return step


SMALL_BERT = {"layers": 1, "width": 64}

CASES = [
    adamw_case("adamw_bert_f32", bert_tensors, "BERT's blocks (bert_train), 128 tensors",
               dimensions={"layers": 8, "width": 768}, **SMALL_BERT),
    Case("adamw_mixed_gpt2_bf16", "optimizer", mixed_inputs, {"layers": 8, "width": 768}, mixed_adamw_torch(fused=True),
         mixed_adamw_jax, SMALL_BERT, compiled=mixed_adamw_torch(fused=False), torch_state=a_step_each, mutates=True,
         source="bf16 gradients and weights, f32 masters (gpt2_train), 128 tensors"),
    Case("lamb_bert_f32", "optimizer", lambda layers, width, vocabulary: state(bert_tensors(layers, width, vocabulary)),
         {"layers": 4, "width": 768, "vocabulary": 8192}, lamb_torch, lamb_jax, {**SMALL_BERT, "vocabulary": 128},
         reduction=("vocabulary*width",), source="BERT (bert_train_lamb), 66 tensors, vocabulary shortened"),
    Case("clip_by_norm_bert_f32", "optimizer",
         lambda layers, width: [tensors("gradient", bert_tensors(layers, width), draw=normal(1e-2))],
         {"layers": 12, "width": 768}, clip_torch, clip_jax, SMALL_BERT, reduction=("layers*width*width",),
         source="BERT's blocks (bert_train), 192 tensors"),
    Case("momentum_resnet50_f32", "optimizer",
         lambda stages, width: state(resnet_tensors(stages, width))[:3], {"stages": (3, 4, 6, 3), "width": 64},
         momentum_torch(fused=True), momentum_jax, {"stages": (1, 1), "width": 16},
         compiled=momentum_torch(fused=False), mutates=True, source="ResNet-50 (resnet50_train), 161 tensors"),
    Case("cast_weights_gpt2_bf16", "optimizer", lambda layers, width: [tensors("weight", bert_tensors(layers, width))],
         {"layers": 12, "width": 768}, lambda weights: [w.to(torch.bfloat16) for w in weights],
         lambda weights: [w.astype(jnp.bfloat16) for w in weights], SMALL_BERT,
         source="weights under mixed precision (gpt2_train), 192 tensors"),
]
