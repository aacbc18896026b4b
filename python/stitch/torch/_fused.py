"""Optimizers with fused=True, which Dynamo does not trace: it is given their arithmetic instead, as operators on lists.

PyTorch's fused kernels update a list of parameters in one launch. Traced as operators, a step is one fragment like that of
foreach=True, whose kernels are packed. The arithmetic is the fused kernels': computed in f32 where tensors are f16 or
bf16 and rounded once at the end, gradients unscaled where they lie, nothing written where a gradient was infinite.
Only graphs that become ours are traced so. With other back ends, and eagerly, PyTorch's kernels run.
"""

import functools
import math

import torch
from torch.optim import adagrad, adam, sgd

_HALVES = (torch.float16, torch.bfloat16)


def _computed(tensors: list) -> list:
    """In the type that the fused kernels compute in."""
    return [tensor.float() if tensor.dtype in _HALVES else tensor for tensor in tensors]


def _number_for(value, tensors: list):
    """A number, or a tensor of one, for an operator on lists; moved to where they are, as the fused kernels do it."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.reshape(())
    return value if value.device == tensors[0].device else value.to(tensors[0].device)


def _unless(skipped, before: list, after: list) -> list:
    """`after`, or `before` where the step is skipped."""
    if skipped is None:
        return after
    return [torch.where(skipped == 1, old, new) for old, new in zip(before, after)]


def _write(targets: list, values: list, skipped) -> None:
    torch._foreach_copy_(targets, _unless(skipped, targets, values))


def _gradients(params: list, grads: list, grad_scale, skipped, maximize: bool, decay) -> list:
    """As the step takes them: unscaled, which is written to them, too, turned about, and with the decay of weights."""
    found = _computed(grads)
    if grad_scale is not None:
        found = torch._foreach_div(found, grad_scale)
        _write(grads, found, skipped)
    if maximize:
        found = torch._foreach_neg(found)
    return torch._foreach_add(found, _computed(params), alpha=decay) if decay != 0 else found


def _correction(steps: list, params: list, beta: float) -> list:
    """1 - beta ** step, of which f32 would have lost most digits at first; the fused kernels compute it in f64."""
    steps = [step.double() if param.dtype == torch.float64 else step for step, param in zip(steps, params)]
    if beta == 0:
        return [torch.ones_like(step) for step in steps]
    return torch._foreach_neg(torch._foreach_expm1(torch._foreach_mul(steps, math.log(beta))))


def _adam(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, grad_scale, found_inf, amsgrad, beta1, beta2,
    lr, weight_decay, eps, maximize, decoupled_weight_decay=False, **_,
):  # fmt: skip
    lr, scale, skipped = (_number_for(value, params) for value in (lr, grad_scale, found_inf))
    torch._foreach_add_(state_steps, 1)
    decay = 0 if decoupled_weight_decay else weight_decay
    gradients = _gradients(params, grads, scale, skipped, maximize, decay)
    weights = _computed(params)
    if decoupled_weight_decay and weight_decay != 0:
        weights = torch._foreach_mul(weights, 1 - lr * weight_decay)
    means = torch._foreach_lerp(_computed(exp_avgs), gradients, 1 - beta1)
    squares = torch._foreach_mul(_computed(exp_avg_sqs), beta2)
    squares = torch._foreach_addcmul(squares, gradients, gradients, 1 - beta2)
    largest = torch._foreach_maximum(_computed(max_exp_avg_sqs), squares) if amsgrad else squares
    roots = torch._foreach_sqrt(_correction(state_steps, params, beta2))
    lengths = torch._foreach_add(torch._foreach_div(torch._foreach_sqrt(largest), roots), eps)
    sizes = torch._foreach_mul(torch._foreach_reciprocal(_correction(state_steps, params, beta1)), lr)
    moves = torch._foreach_div(torch._foreach_mul(means, sizes), lengths)
    _write(params, torch._foreach_sub(weights, moves), skipped)
    _write(exp_avgs, means, skipped)
    _write(exp_avg_sqs, squares, skipped)
    if amsgrad:
        _write(max_exp_avg_sqs, largest, skipped)
    if skipped is not None:
        torch._foreach_sub_(state_steps, [skipped] * len(state_steps))


def _sgd(
    params, grads, momentum_buffer_list, *, grad_scale, found_inf, weight_decay, momentum, lr, dampening, nesterov,
    maximize, **_,
):  # fmt: skip
    lr, scale, skipped = (_number_for(value, params) for value in (lr, grad_scale, found_inf))
    gradients = _gradients(params, grads, scale, skipped, maximize, weight_decay)
    if momentum != 0:
        if momentum_buffer_list[0] is None:
            # Of a first step that is skipped PyTorch leaves what the memory had.
            velocities = gradients
            zeros = [torch.zeros_like(gradient) for gradient in grads]
            for i, velocity in enumerate(_unless(skipped, zeros, velocities)):
                momentum_buffer_list[i] = velocity.to(grads[i].dtype, copy=True)
        else:
            velocities = torch._foreach_mul(_computed(momentum_buffer_list), momentum)
            velocities = torch._foreach_add(velocities, gradients, alpha=1 - dampening)
            _write(momentum_buffer_list, velocities, skipped)
        gradients = torch._foreach_add(gradients, velocities, alpha=momentum) if nesterov else velocities
    _write(params, torch._foreach_sub(_computed(params), torch._foreach_mul(gradients, lr)), skipped)


def _adagrad(
    params, grads, state_sums, state_steps, *, grad_scale, found_inf, lr, weight_decay, lr_decay, eps, maximize, **_
):
    lr, scale, skipped = (_number_for(value, params) for value in (lr, grad_scale, found_inf))
    gradients = _gradients(params, grads, scale, skipped, maximize, weight_decay)
    slower = torch._foreach_add(torch._foreach_mul(state_steps, lr_decay), 1)  # the step is counted from 0 in it
    sizes = torch._foreach_mul(torch._foreach_reciprocal(slower), lr)
    torch._foreach_add_(state_steps, 1)
    sums = torch._foreach_addcmul(_computed(state_sums), gradients, gradients)
    lengths = torch._foreach_add(torch._foreach_sqrt(sums), eps)
    moves = torch._foreach_div(torch._foreach_mul(gradients, sizes), lengths)
    _write(params, torch._foreach_sub(_computed(params), moves), skipped)
    _write(state_sums, sums, skipped)
    if skipped is not None:
        torch._foreach_sub_(state_steps, [skipped] * len(state_steps))


def _is_known(options: dict) -> bool:
    """Whether the arithmetic above is all of a step; PyTorch has the rest, and errors are its own."""
    refused = ("has_sparse_grad", "has_complex", "differentiable")
    numbers = all(not isinstance(options.get(name), torch.Tensor) for name in ("beta1", "beta2"))
    return numbers and not any(options.get(name) for name in refused)


def traced_with(theirs, ours, is_ours):
    """PyTorch's function of an optimizer's step, for which Dynamo traces `ours` where fused=True and `is_ours` says so,
    which is asked while Dynamo traces: the kind of device that the parameters are on, and whether `ours` can do it."""

    @functools.wraps(theirs)
    def step(params, grads, *states, fused=None, grad_scale=None, found_inf=None, **options):
        if fused and params and torch.compiler.is_dynamo_compiling():
            if is_ours(params[0].device.type, _is_known(options)):
                return ours(params, grads, *states, grad_scale=grad_scale, found_inf=found_inf, **options)
        return theirs(params, grads, *states, fused=fused, grad_scale=grad_scale, found_inf=found_inf, **options)

    return step


def install(is_ours) -> None:
    """Has Dynamo trace the steps of PyTorch's optimizers that have a fused form."""
    for module, name, ours in ((adam, "adam", _adam), (sgd, "sgd", _sgd), (adagrad, "adagrad", _adagrad)):
        theirs = getattr(module, name)
        if not hasattr(theirs, "_stitch_traced"):
            wrapped = traced_with(theirs, ours, is_ours)
            wrapped._stitch_traced = True
            setattr(module, name, wrapped)
