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
    return optimizer


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False),
])  # fmt: skip
def test_a_step_updates_in_place(make):
    model = Mlp()
    other = copy.deepcopy(model)
    places = [parameter.data_ptr() for parameter in model.parameters()]
    optimizer = optimized(model, make, 3, compiled)
    optimized(other, make, 3)
    for ours, eager in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)
    assert places == [parameter.data_ptr() for parameter in model.parameters()]
    report = stitch.torch.report()
    assert report["eager_calls"] == 0 and report["share"] == 1.0
    # But AdamW's counts of steps, which all threads of a parameter read.
    counts = sum(t.nbytes for state in optimizer.state.values() for t in state.values() if t is not None and t.ndim == 0)
    assert report["updated_bytes"] == 3 * counts, report


def updated(function, *inputs):
    """What a function returns and leaves in its inputs, compiled and eagerly, and how many bytes were copied back."""
    theirs = [tensor.clone() for tensor in inputs]
    found = compiled(function)(*inputs)
    torch.testing.assert_close([found, *inputs], [function(*theirs), *theirs], rtol=1e-5, atol=1e-5)
    report = stitch.torch.report()
    assert report["eager_calls"] == 0 and report["failed"] == [], report
    return report["updated_bytes"]


def test_what_other_elements_or_later_readers_need_is_copied_back():
    def turned(x):
        x.copy_(x.flip(1).exp())

    def read_later(x):
        product = x @ x.t()
        before = x.clone()
        x.mul_(2)
        return product @ before

    def centred(x, columns):
        x.sub_(x.mean(0, keepdim=True)).mul_(columns)

    x = torch.randn(8, 8)
    assert updated(turned, x) == x.nbytes
    updated(read_later, x)
    updated(centred, torch.randn(4096, 8), torch.randn(8))


def test_what_is_returned_as_well_is_not_the_inputs_memory():
    def function(x):
        y = x.exp()
        x.copy_(y)
        return y

    x = torch.randn(8, 8)
    found = compiled(function)(x)
    assert found.data_ptr() != x.data_ptr()
    torch.testing.assert_close(found, x)


def test_views_and_other_strides_are_updated():
    def function(x):
        x.add_(1).mul_(x)

    for view in (lambda t: t.t(), lambda t: t[1:], lambda t: t[:, ::2], lambda t: t.flatten()[1:]):
        ours, theirs = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6)
        compiled(function)(view(ours))
        function(view(theirs))
        torch.testing.assert_close(ours, theirs)


def test_autograd_sees_that_what_it_saved_was_updated():
    def function(x):
        x.mul_(2)

    weight, x = torch.randn(4, requires_grad=True), torch.randn(4)
    product = (weight * x).sum()
    with torch.no_grad():
        compiled(function)(x)
    assert stitch.torch.report()["updated_bytes"] == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        y = torch.ones(4)
        compiled(function)(y)
    assert torch.equal(y, torch.full((4,), 2.0))


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
    assert report["updated_bytes"] == 0, report
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
