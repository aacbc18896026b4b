"""Optimizers with fused=True: steps of our kernels beside PyTorch's own fused ones."""

import logging

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, fresh  # noqa: E402, F401
from torch.autograd import profiler  # noqa: E402

import stitch.torch  # noqa: E402


def compiled(function, **options):
    return torch.compile(function, backend="stitch", options={**EMULATED, "fallback": "error", **options})


def pair(dtype=torch.float32):
    """The same parameters twice."""
    tensors = [torch.randn(5, 3), torch.randn(70), torch.tensor(0.5)]
    return [[torch.nn.Parameter(tensor.to(dtype, copy=True)) for tensor in tensors] for _ in range(2)]


def give_gradients(parameters, number: int) -> None:
    torch.manual_seed(number)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)


def compare(optimizers, both, tolerance: float) -> None:
    """Parameters, gradients and states."""
    for ours, theirs in zip(*both, strict=True):
        states = optimizers[0].state[ours], optimizers[1].state[theirs]
        assert states[0].keys() == states[1].keys()
        for a, b in [(ours, theirs), (ours.grad, theirs.grad), *((states[0][k], states[1][k]) for k in states[0])]:
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def adam(p, **options):
    return torch.optim.Adam(p, lr=0.01, **options)


def adamw(p, **options):
    return torch.optim.AdamW(p, **{"lr": 0.01, **options})


def sgd(p, **options):
    return torch.optim.SGD(p, **{"lr": 0.1, **options})


def adagrad(p, **options):
    return torch.optim.Adagrad(p, lr=0.1, **options)


CASES = {
    "AdamW": (adamw, {}),
    "AdamW without memory": (adamw, {"betas": (0.0, 0.0), "weight_decay": 0.0}),
    "AdamW, a tensor's rate": (adamw, {"lr": torch.tensor(0.01)}),
    "Adam with all": (adam, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    "SGD": (sgd, {}),
    "SGD with momentum": (sgd, {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1, "maximize": True}),
    "SGD of Nesterov's, a tensor's rate": (sgd, {"lr": torch.tensor(0.1), "momentum": 0.9, "nesterov": True}),
    "Adagrad": (adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
}


SCALED = ("AdamW", "Adam with all", "SGD with momentum", "Adagrad")


@pytest.mark.parametrize("name, scaled", [*((name, False) for name in CASES), *((name, True) for name in SCALED)])
def test_a_step_is_that_of_pytorchs_kernel(name, scaled):
    """Also where gradients are scaled, and a step is skipped since one of them was infinite."""
    make, options = CASES[name]
    both = pair()
    optimizers = [make(parameters, fused=True, **options) for parameters in both]
    steps = compiled(optimizers[0].step), optimizers[1].step
    for i in range(3):
        for optimizer, parameters, step in zip(optimizers, both, steps):
            give_gradients(parameters, i)
            if scaled:
                optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(float(i == 1))
            step()
        compare(optimizers, both, 1e-6)
    report = stitch.torch.report()
    assert report["kernel_calls"] == 3 and report["eager_calls"] == 0 and report["share"] == 1.0, report
    assert report["fell_back"] == report["failed"] == []


def test_sgd_whose_first_step_is_skipped_begins_at_nothing():
    """PyTorch's goes on with what the memory had."""
    (parameters, before) = pair()
    optimizer = sgd(parameters, momentum=0.9, fused=True)
    give_gradients(parameters, 0)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)
    compiled(optimizer.step)()
    for parameter, as_before in zip(parameters, before):
        assert torch.equal(parameter, as_before)
        assert not optimizer.state[parameter]["momentum_buffer"].any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 1e-2), (torch.float64, 1e-12)], ids=["bf16", "f64"])
def test_types_are_computed_in_as_pytorchs_kernel_does(dtype, tolerance):
    both = pair(dtype)
    optimizers = [adamw(parameters, fused=True) for parameters in both]
    steps = compiled(optimizers[0].step), optimizers[1].step
    for i in range(2):
        for parameters, step in zip(both, steps):
            give_gradients(parameters, i)
            step()
    compare(optimizers, both, tolerance)
    if dtype == torch.bfloat16:  # all but what lies between two values is the same to the bit
        same = [(a == b).float().mean().item() for a, b in zip(*both) if a.numel() > 1]
        assert min(same) > 0.9, same


def test_a_scaler_unscales_and_skips():
    both = pair()
    optimizers = [adamw(parameters, fused=True) for parameters in both]
    optimizers[0].step = compiled(optimizers[0].step)
    for optimizer, parameters in zip(optimizers, both):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for i in range(3):
            give_gradients(parameters, i)
            for parameter in parameters:
                parameter.grad *= scaler.scale(torch.tensor(1.0))
            if i == 1:
                parameters[1].grad[3] = float("inf")
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 4.0
    compare(optimizers, both, 1e-6)
    assert stitch.torch.report()["kernel_calls"] == 3


def counted(optimizer, parameters) -> dict:
    stitch.torch.reset()
    give_gradients(parameters, 0)
    compiled(optimizer.step)()
    return stitch.torch.report()


def test_a_fused_step_is_packed_like_a_foreach_one():
    fused, foreach = [
        counted(adamw(parameters, **{which: True}), parameters)
        for which, parameters in zip(("fused", "foreach"), pair(), strict=True)
    ]
    assert fused["kernel_calls"] == 1 and fused["launches"] <= foreach["launches"], (fused, foreach)
    assert fused["bytes"] <= foreach["bytes"] and fused["updated_bytes"] == foreach["updated_bytes"], (fused, foreach)


def launches_pytorchs(run) -> bool:
    with profiler.profile() as profile:
        run()
    return any("_fused_adamw_" in event.name for event in profile.function_events)


def test_with_other_back_ends_and_eagerly_pytorchs_kernel_runs():
    parameters, _ = pair()
    give_gradients(parameters, 0)
    optimizer = adamw(parameters, fused=True)
    ours = torch.compile(optimizer.step, backend="stitch", options=EMULATED)
    assert not launches_pytorchs(ours)
    assert launches_pytorchs(optimizer.step)
    assert launches_pytorchs(torch.compile(optimizer.step, backend="eager"))
    # Where we would run nothing, its kernel is the best that there is.
    assert launches_pytorchs(torch.compile(optimizer.step, backend="stitch"))
    assert launches_pytorchs(torch.compile(optimizer.step, backend="stitch", options={**EMULATED, "disable": True}))


def test_a_fused_step_that_is_not_traced_is_said_once(caplog):
    """One whose numbers are tensors, which its kernel takes out of them."""
    both = pair()
    optimizers = [adamw(p, fused=True, betas=(torch.tensor(0.9), torch.tensor(0.99))) for p in both]
    step = torch.compile(optimizers[0].step, backend="stitch", options=EMULATED)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for i in range(2):
            for parameters, one in zip(both, (step, optimizers[1].step)):
                give_gradients(parameters, i)
                one()
    compare(optimizers, both, 0.0)
    said = [r.getMessage() for r in caplog.records if r.name == "stitch.torch"]
    assert len(said) == 1 and "fused=True whose betas are tensors" in said[0]
    assert [entry["kind"] for entry in stitch.torch.report()["failed"]] == ["optimizer"]
