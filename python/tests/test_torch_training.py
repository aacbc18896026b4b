"""Training through the back end: peak memory, dropout, and what PyTorch's other switches do to it."""

import copy

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, Mlp, fresh  # noqa: E402, F401
from torch.autograd import profiler  # noqa: E402

import stitch.torch  # noqa: E402
from stitch.torch import _runtime  # noqa: E402


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


@pytest.mark.parametrize("shape", [(4, 16, 16), (2, 8, 16)], ids=["mostly activations", "mostly weights"])
def test_a_training_step_holds_no_more_than_eager_does(shape):
    x, peaks = torch.randn(shape), []
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
    torch.testing.assert_close(gradients(compiled(function, random="eager")), gradients(function))
    report = stitch.torch.report()
    assert [entry["op"] for entry in report["fell_back"]] == ["aten.bernoulli.p"] and report["kernel_calls"] == 2


@pytest.mark.parametrize("budget", [1.0, 0.01])
def test_no_mask_is_drawn_twice(budget):
    """Not by a partitioner that is told to compute anew what it can."""
    x = torch.linspace(1, 2, 8 * 96).view(8, 96).requires_grad_()
    with torch._functorch.config.patch(activation_memory_budget=budget):
        function = lambda x: torch.nn.functional.dropout1d(torch.nn.functional.dropout(x.exp())).sin()  # noqa: E731
        y = compiled(function, random="eager")(x)
        y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)


def test_a_checkpoint_draws_the_same_mask_again():
    def function(x):
        part = lambda x: torch.nn.functional.dropout(x.exp()).sin()  # noqa: E731
        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)

    x = torch.linspace(1, 2, 8 * 96).view(8, 96).requires_grad_()
    y = compiled(function, random="eager")(x)
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)


def losses_of(model, run, steps=2, parts=2) -> list:
    """Of training steps whose gradients are accumulated over several parts of a batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for i in range(steps):
        optimizer.zero_grad()
        for part in range(parts):
            torch.manual_seed(10 * i + part)
            loss = run(torch.randn(4, 16)).square().sum()
            (loss / parts).backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def test_gradients_accumulate():
    model = Mlp()
    other = copy.deepcopy(model)
    assert losses_of(model, compiled(model)) == pytest.approx(losses_of(other, other), rel=1e-5)
    assert stitch.torch.report()["eager_calls"] == 0


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_has_eagers_types_and_about_its_values(inside):
    model = Mlp()
    other = copy.deepcopy(model)
    x = torch.randn(4, 16)

    def gradients(of, run):
        def cast(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return of(x)

        if inside:
            y = run(cast)(x)
        else:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = run(of)(x)
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
        return [y.detach(), *(p.grad for p in of.parameters())]

    ours, theirs = gradients(model, compiled), gradients(other, lambda of: of)
    for one, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, right, rtol=0.05, atol=0.05 * right.abs().max().item())
    report = stitch.torch.report()
    assert report["kernel_calls"] > 0 and report["failed"] == [], report


def test_a_stance_of_eager_is_kept():
    function = compiled(lambda x: x * 13.5)
    x = torch.randn(4)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(function(x), x * 13.5)
    assert stitch.torch.report()["graphs"] == 0
    assert torch.equal(function(x), x * 13.5)
    assert stitch.torch.report()["kernel_calls"] == 1


def test_other_stances_are_kept():
    function = lambda x: x * 24.5  # noqa: E731
    run = compiled(function)
    x, other = torch.randn(4), torch.randn(4, dtype=torch.float64)
    with torch.compiler.set_stance("eager_then_compile"):
        assert torch.equal(run(x), function(x)) and stitch.torch.report()["graphs"] == 0
        assert torch.equal(run(x), function(x)) and stitch.torch.report()["graphs"] == 1
    with torch.compiler.set_stance("eager_on_recompile"):
        assert torch.equal(run(other), function(other)) and stitch.torch.report()["graphs"] == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(run(x), function(x))
        with pytest.raises(RuntimeError, match="recompile"):
            run(other)
    torch._dynamo.reset()
    with torch.compiler.set_stance("default", force_backend="eager"):
        assert torch.equal(run(other), function(other)) and stitch.torch.report()["graphs"] == 1
    assert stitch.torch.report()["failed"] == []


@pytest.mark.parametrize(
    "mode, options, begun",
    [("default", {}, []), ("reduce-overhead", {}, []), ("max-autotune", {}, [("full", 0)]),
     ("max-autotune-no-cudagraphs", {"budget_seconds": 3}, [("full", 3)]), (None, {"effort": "full"}, [("full", 0)]),
     (None, {"effort": "none", "budget_seconds": 3}, []), (None, {"effort": "full", "improve": False}, []),
     (None, {"budget_seconds": 9}, [("quick", 9)])],
)  # fmt: skip
def test_a_mode_says_how_much_is_tuned(mode, options, begun, monkeypatch):
    asked, scale = [], 25.0 + len(str((mode, options))) / 128
    monkeypatch.setattr(_runtime._tuning, "begin", lambda client, fragment, constraints, *how: asked.append(how))
    monkeypatch.setenv("STITCH_DEVICE", "emulated")
    for name, value in options.items() if mode else ():  # PyTorch takes one of mode and options
        monkeypatch.setenv(f"STITCH_{name.upper()}", str(value))
    given = {"mode": mode} if mode else {"options": options}
    run = torch.compile(lambda x: x * scale, backend="stitch", **given)
    x = torch.randn(4)
    run(x)
    assert stitch.torch.wait(120)
    torch.testing.assert_close(run(x), x * scale)
    # The plan may be there before the first call is.
    assert stitch.torch.report()["kernel_calls"] >= 1 and asked == begun


def test_modes_are_pytorchs_words():
    from stitch.torch._options import settings_of

    assert set(stitch.torch.list_mode_options()) == set(torch._inductor.list_mode_options())
    assert stitch.torch.list_mode_options("max-autotune") == {"effort": "full"}
    assert settings_of("max-autotune", {"effort": "none"}).effort == "none"


def test_plans_with_more_workspace_than_allowed_stay_with_pytorch():
    x = torch.ones(1, 1 << 20)
    torch.testing.assert_close(compiled(lambda x: x.sum(1), max_workspace_bytes=0)(x), x.sum(1))
    report = stitch.torch.report()
    assert report["eager_calls"] == 1 and "max_workspace_bytes is 0" in report["failed"][0]["message"], report


def test_what_the_compiler_is_not_to_see_runs_between_our_pieces():
    seen = []

    @torch.compiler.disable
    def unseen(x):
        seen.append(type(x))
        return x + 1

    function = lambda x: unseen(x * 14.5) * 2  # noqa: E731
    x = torch.randn(4)
    torch.testing.assert_close(compiled(function)(x), (x * 14.5 + 1) * 2)
    assert seen == [torch.Tensor] and stitch.torch.report()["kernel_calls"] == 2


def test_one_graph_is_one_graph_or_an_error():
    model = Block()
    x = torch.randn(2, 5, 16)
    whole = torch.compile(model, backend="stitch", fullgraph=True, options=EMULATED)
    torch.testing.assert_close(whole(x), model(x), rtol=1e-5, atol=1e-5)
    breaks = lambda x: torch._dynamo.graph_break() or x  # noqa: E731
    broken = torch.compile(breaks, backend="stitch", fullgraph=True, options=EMULATED)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        broken(x)


def test_what_is_deterministic_for_pytorch_is_for_our_plans():
    def function(x, index):
        return torch.zeros(4, 24).index_add(0, index, x.exp())

    x, index = torch.randn(500, 24), torch.randint(0, 4, (500,))
    compiled(function)(x, index)
    before = set(_runtime._slots)
    torch.use_deterministic_algorithms(True)
    try:
        torch._dynamo.reset()
        run = compiled(function)
        assert torch.equal(run(x, index), run(x, index))
    finally:
        torch.use_deterministic_algorithms(False)
    asked = set(_runtime._slots) - before
    assert asked and all("deterministic" in key for key in asked)
    assert all(_runtime._slots[key].plan is not None for key in asked)
