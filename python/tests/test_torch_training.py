"""Training through the back end: peak memory, dropout, and what PyTorch's other switches do to it."""

import copy
import logging

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, Mlp, fresh  # noqa: E402, F401
from torch.autograd import profiler  # noqa: E402

import stitch.torch  # noqa: E402


def compiled(function, **options):
    return torch.compile(function, backend="stitch", options={**EMULATED, **options})


def peak_of(run) -> int:
    """The most bytes of tensors that lived at once in a run, over those that lived before it."""
    with profiler.profile(profile_memory=True) as profile:
        run()
    held = most = 0
    records = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    for record in sorted(records, key=lambda event: event.start_ns()):
        held += record.nbytes()
        most = max(most, held)
    return most


def test_a_training_step_holds_no_more_than_eager_does():
    x, peaks = torch.randn(4, 16, 16), []
    blocks = torch.nn.Sequential(*(Block() for _ in range(4)))
    for run, model in ((compiled(blocks), blocks), (blocks, blocks)):
        for measured in (False, True):
            model.zero_grad(set_to_none=True)
            step = lambda: run(x).square().mean().backward()  # noqa: E731, B023
            peaks += [peak_of(step)] if measured else step() or []
    assert stitch.torch.report()["kernel_calls"] > 0
    assert peaks[0] <= 1.1 * peaks[1], peaks


@pytest.mark.parametrize("layout", ["dense", "transposed"])
@pytest.mark.parametrize("p", [0.3, 1.0])
def test_dropout_has_eagers_mask_and_is_ours_but_for_that(layout, p):
    def gradients(run):
        x = torch.linspace(-1, 1, 8 * 96).view(8, 96)
        x = (x.t() if layout == "transposed" else x).detach().requires_grad_()
        torch.manual_seed(3)
        y = run(x)
        (y * torch.linspace(0, 1, y.numel()).view_as(y)).sum().backward()
        return y.detach(), x.grad

    function = lambda x: torch.nn.functional.dropout(x * 2, p) + x  # noqa: E731
    torch.testing.assert_close(gradients(compiled(function)), gradients(function))
    report = stitch.torch.report()
    assert [entry["op"] for entry in report["fell_back"]] == ["aten.bernoulli.p"] and report["kernel_calls"] == 2


@pytest.mark.parametrize("budget", [1.0, 0.01])
def test_no_mask_is_drawn_twice(budget):
    """Not by a partitioner that is told to compute anew what it can."""
    x = torch.linspace(1, 2, 8 * 96).view(8, 96).requires_grad_()
    with torch._functorch.config.patch(activation_memory_budget=budget):
        y = compiled(lambda x: torch.nn.functional.dropout1d(torch.nn.functional.dropout(x.exp())).sin())(x)
        y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)


def test_a_checkpoint_draws_the_same_mask_again():
    def function(x):
        part = lambda x: torch.nn.functional.dropout(x.exp()).sin()  # noqa: E731
        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)

    x = torch.linspace(1, 2, 8 * 96).view(8, 96).requires_grad_()
    y = compiled(function)(x)
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)
