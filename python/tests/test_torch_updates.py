"""Inputs that a graph updates: optimizers' steps write back what they computed in few kernels."""

import copy

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Mlp, fresh  # noqa: E402, F401
from torch.autograd import profiler  # noqa: E402

import stitch.torch  # noqa: E402


def compiled(function):
    return torch.compile(function, backend="stitch", options={**EMULATED, "fallback": "error"})


def events(run) -> list[str]:
    with profiler.profile() as profile:
        run()
    return [event.name for event in profile.function_events]


def optimized(model, make, steps: int, wrap=lambda function: function):
    optimizer = make(model.parameters())
    step = wrap(optimizer.step)
    for i in range(steps):
        for n, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.1 * (i + 1) + 0.01 * n)
        step()
    return step


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False),
])  # fmt: skip
def test_a_step_writes_back_together(make):
    model = Mlp()
    other = copy.deepcopy(model)
    step = optimized(model, make, 3, compiled)
    optimized(other, make, 3)
    for ours, eager in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)
    assert stitch.torch.report()["eager_calls"] == 0 and stitch.torch.report()["share"] == 1.0
    seen = events(step)
    assert seen.count("aten::_foreach_copy_") == 1, seen


def test_inputs_are_updated_in_their_memory():
    def function(x, y):
        x.mul_(2).add_(y)
        y.tanh_()
        return x.sum()

    x, y = torch.randn(4, 8), torch.randn(4, 8)
    views = x[1:3], y.t()
    ours = [x.clone(), y.clone()]
    expected = function(x, y)
    places = [t.data_ptr() for t in ours]
    found = compiled(function)(*ours)
    torch.testing.assert_close([found, *ours], [expected, x, y], rtol=1e-5, atol=1e-6)
    assert places == [t.data_ptr() for t in ours]
    torch.testing.assert_close(views[0], x[1:3])


def test_inputs_that_are_exchanged_are_not_mixed_up():
    def function(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return x * 2

    x, y = torch.randn(4), torch.randn(4)
    first, second = x.clone(), y.clone()
    torch.testing.assert_close(compiled(function)(first, second), y * 2)
    assert torch.equal(first, y) and torch.equal(second, x)


def test_an_input_may_be_written_in_part():
    def function(x, at):
        x[1] = at.exp()
        x[:, 2].add_(1)

    x, at = torch.randn(4, 8), torch.randn(8)
    ours = x.clone()
    compiled(function)(ours, at)
    function(x, at)
    torch.testing.assert_close(ours, x, rtol=1e-5, atol=1e-6)


def test_what_is_not_ours_may_update_inputs():
    def function(x):
        y = torch.linalg.inv_ex(x @ x.T + 4 * torch.eye(4)).inverse
        x.add_(y)
        return y

    x = torch.randn(4, 4)
    ours = x.clone()
    torch._dynamo.reset()
    found = torch.compile(function, backend="stitch", options=EMULATED)(ours)
    torch.testing.assert_close([found, ours], [function(x), x], rtol=1e-4, atol=1e-4)


def caches(length=16):
    return torch.zeros(2, length, 4), torch.ones(2, length, 4)


PARTS = {
    "a slice": lambda k, v, new, at: (k.__setitem__((slice(None), slice(3, 4)), new), v[:, 5:7].mul_(2)),
    "a position": lambda k, v, new, at: (k.index_copy_(1, at, new.tanh()), v.index_put_((torch.tensor([1]), at), new[0])),
    "one of a dimension": lambda k, v, new, at: (k[:, 2].copy_(new[:, 0]), v.select(0, 1).add_(1)),
    "scattered": lambda k, v, new, at: (k.scatter_(1, at.view(1, 1, 1).expand(2, 1, 4), new * 2), v.add_(0)),
    "twice": lambda k, v, new, at: (k.__setitem__((slice(None), slice(0, 1)), new), k[:, 3:4].copy_(new + 1)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_written_where_it_is(name):
    """And what reads the cache afterwards reads what was written."""

    def function(k, v, new, at):
        PARTS[name](k, v, new, at)
        return torch.softmax(k * new, -1) + v.exp()

    new, at = torch.randn(2, 1, 4), torch.tensor([7])
    ours, theirs = caches(), caches()
    found = torch.compile(function, backend="stitch", options=EMULATED)(*ours, new, at)
    torch.testing.assert_close([found, *ours], [function(*theirs, new, at), *theirs], rtol=1e-5, atol=1e-6)
    report = stitch.torch.report()
    assert report["updated_bytes"] == (ours[1].nbytes if name == "scattered" else 0), report
    assert report["kernel_calls"] >= 1 and report["failed"] == [], report


@pytest.mark.parametrize("move", [
    lambda k: k[:, 1:].copy_(k[:, :-1].clone()), lambda k: k.__setitem__((slice(None), slice(0, 15)), k[:, 1:] * 1),
    lambda k: k.index_copy_(1, torch.arange(1, 16), k[:, :15].clone()),
])  # fmt: skip
def test_a_part_may_be_moved_within_its_tensor(move):
    (ours, _), (theirs, _) = caches(), caches()
    for tensor in (ours, theirs):
        tensor.copy_(torch.arange(tensor.numel()).view_as(tensor))

    def function(k):
        move(k)
        return k.sum(1)

    found = torch.compile(function, backend="stitch", options=EMULATED)(ours)
    torch.testing.assert_close([found, ours], [function(theirs), theirs])


def test_what_was_there_before_is_read_before():
    def function(k, new):
        before = k.sum(1)
        k[:, 3:4] = new
        return before, k.sum(1)

    new, (ours, _), (theirs, _) = torch.randn(2, 1, 4), caches(), caches()
    found = torch.compile(function, backend="stitch", options=EMULATED)(ours, new)
    torch.testing.assert_close([*found, ours], [*function(theirs, new), theirs])
