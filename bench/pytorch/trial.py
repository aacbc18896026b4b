"""One model through the back end, forward and one training step, beside eager and eager in float64."""

import contextlib
import copy
import math
import time

import inductor
import torch
import torch.utils._pytree as pytree
from optimizers import OPTIMIZERS
from zoo import MODELS

import stitch.torch

PRECISIONS = ("float32", "bfloat16", "autocast")
"""Of parameters and inputs; or, with float32, of what torch.autocast computes in bfloat16."""

OPTIONS = {"device": "emulated", "deadline_ms": 300_000, "improve": False, "random": "eager"}


def results_of(output) -> list:
    """The tensors of floats in a model's output."""
    if hasattr(output, "to_tuple"):
        output = output.to_tuple()
    leaves = pytree.tree_leaves(output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def loss_of(results):
    return sum(
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + y.square().mean() for y in results
    )


def computing(precision: str):
    """In what ours and eager compute."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else contextlib.nullcontext()


def in_precision(value, precision: str):
    """A model, or a tensor of floats, as a trial has it."""
    if precision != "bfloat16" or (isinstance(value, torch.Tensor) and not value.is_floating_point()):
        return value
    return value.bfloat16() if isinstance(value, (torch.nn.Module, torch.Tensor)) else value


def step(run, model, optimizer_step, inputs, precision: str):
    """Results, gradients and updated parameters of one training step. The masks of dropout depend on the seed alone, and
    are the same in float64."""
    torch.manual_seed(0)
    with computing(precision):
        results = results_of(run(**inputs))
    loss_of([y.float() if y.dtype == torch.bfloat16 else y for y in results]).backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    optimizer_step()
    return [y.detach() for y in results], gradients, [p.detach().clone() for p in model.parameters()]


def there(gradients: list) -> list:
    return [gradient for gradient in gradients if gradient is not None]


def stepped(model, name: str, gradients: list) -> list:
    """The parameters of a model in float64 after an optimizer's step by these gradients. What the gradients are wrong by
    is their error and not the step's: Adam's first one is of full length however small the gradient is."""
    parameters = list(model.parameters())
    optimizer_step = OPTIMIZERS[name](parameters).step
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = None if gradient is None else gradient.double()
    optimizer_step()
    return [parameter.detach() for parameter in parameters]


def error(values, right) -> float:
    """The largest difference, relative to the largest value of the tensor that it is in.

    What is nothing but rounding beside the other tensors (the gradient of a bias before a normalisation) counts
    relative to a thousandth of their largest value.
    """
    if len(values) != len(right):
        return math.inf
    scales = [b.abs()[b.isfinite()].max().item() if b.isfinite().any() else 0.0 for b in right]
    least = max(1e-3 * max(scales, default=0.0), 1e-6)
    worst = 0.0
    for a, b, scale in zip(values, right, scales):
        # Equal infinities are no difference; a NaN on one side alone is.
        apart = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a.double() - b).abs()).nan_to_num(nan=math.inf)
        if apart.numel():
            worst = max(worst, apart.max().item() / max(scale, least))
    return worst


def peak_of(run) -> int:
    """The most bytes that PyTorch's allocator held at once in a run, over what it held before it."""
    from torch.autograd import profiler

    with profiler.profile(profile_memory=True) as profile:
        run()
    held = most = 0
    records = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    for record in sorted(records, key=lambda event: event.start_ns()):
        held += record.nbytes()
        most = max(most, held)
    return most


def doubled(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def summary(report: dict) -> dict:
    kept = (
        "graphs", "operators", "operators_ours", "operators_library", "products_ours", "kernel_calls", "eager_calls", "launches", "bytes",
        "updated_bytes", "fell_back", "failed",
    )  # fmt: skip
    return {name: report[name] for name in kept}


def counted(run) -> dict:
    """What Inductor would launch and move for what `run` does with a back end."""
    torch._dynamo.reset()
    counts = inductor.Counts()
    run(counts)
    torch._dynamo.reset()
    return {"launches": counts.launches, "bytes": counts.bytes, "errors": counts.errors}


def forward(model, inputs, precision: str, options: dict, beside: bool) -> dict:
    model = model.eval()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    compiled = torch.compile(model, backend="stitch", options=options)
    start = time.monotonic()
    with torch.no_grad():
        stitch.torch.reset()
        with computing(precision):
            ours = results_of(compiled(**inputs))
        row = summary(stitch.torch.report())
        with computing(precision):
            theirs = results_of(eager(**inputs))
        right = results_of(exact(**pytree.tree_map(doubled, inputs)))
        row["errors"] = [[error(ours, right), error(theirs, right)]]
        if beside:
            with computing(precision):
                row["peak"] = [peak_of(lambda: compiled(**inputs)), peak_of(lambda: eager(**inputs))]
                row["inductor"] = counted(lambda backend: torch.compile(eager, backend=backend)(**inputs))
    return {**row, "seconds": time.monotonic() - start}


def training(model, inputs, name: str, precision: str, options: dict, beside: bool) -> dict:
    model = model.train()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    untouched = [copy.deepcopy(exact), copy.deepcopy(exact)]
    compiled = torch.compile(model, backend="stitch", options=options)
    steps = [OPTIMIZERS[name](list(of.parameters())).step for of in (model, eager)]
    compiled_step = torch.compile(steps[0], backend="stitch", options=options)
    start = time.monotonic()
    stitch.torch.reset()
    ours = step(compiled, model, compiled_step, inputs, precision)
    row = summary(stitch.torch.report())
    theirs = step(eager, eager, steps[1], inputs, precision)
    right = step(exact, exact, lambda: None, pytree.tree_map(doubled, inputs), "float64")
    of_results = [error(of[0], right[0]) for of in (ours, theirs)]
    of_gradients = [error(there(of[1]), there(right[1])) for of in (ours, theirs)]
    of_parameters = [error(of[2], stepped(before, name, of[1])) for of, before in zip((ours, theirs), untouched)]
    row["errors"] = [of_results, of_gradients, of_parameters]
    row |= {"optimizer": name, "seconds": time.monotonic() - start}
    if not beside:
        return row
    for of in (model, eager):
        of.zero_grad(set_to_none=True)

    def both_ways(run):
        with computing(precision):
            results = results_of(run(**inputs))
        loss_of(results).backward()

    row["peak"] = [peak_of(lambda: both_ways(compiled)), peak_of(lambda: both_ways(eager))]

    def whole_step(backend):
        both_ways(torch.compile(eager, backend=backend))
        torch.compile(steps[1], backend=backend)()

    row["inductor"] = counted(whole_step)
    return {**row, "seconds": time.monotonic() - start}


def tried(name: str, precision: str, products: str = "torch", beside: bool = True) -> dict:
    """The rows of a model, by what was tried. `products`: the option of the back end; `beside`: also the peak of memory,
    and what Inductor would launch."""
    of = MODELS[name]
    torch.manual_seed(0)
    model, inputs = of.make()
    model = in_precision(model, precision)
    inputs = pytree.tree_map(lambda value: in_precision(value, precision), inputs)
    other = copy.deepcopy(model)
    options = {**OPTIONS, "products": products}
    rows = {"forward": forward(model, inputs, precision, options, beside)}
    torch._dynamo.reset()
    if of.optimizer:
        rows["training step"] = training(other, inputs, of.optimizer, precision, options, beside)
    return rows
