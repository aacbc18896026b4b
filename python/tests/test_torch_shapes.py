"""Extents that change from call to call: plans by bucket, bounded in number, then PyTorch with a word."""

import copy
import logging

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, Mlp, fresh  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _rows, _runtime  # noqa: E402
from stitch.torch._buckets import LAUNCH_BYTES, Buckets  # noqa: E402


def compiled(function, **options):
    return torch.compile(function, backend="stitch", dynamic=True, options={**EMULATED, **options})


def run(function, x):
    """A call whose plans are there."""
    function(x)
    assert stitch.torch.wait(120)
    stitch.torch.reset()
    return function(x)


def expect_gradients(model, inputs, tolerance: float):
    """Of a step with plans that are there, for each of the inputs, beside float64's."""
    exact, function = copy.deepcopy(model).double(), compiled(model)
    for x in inputs:
        for _ in range(2):
            model.zero_grad()
            function(x).square().sum().backward()
            assert stitch.torch.wait(120)
        exact.zero_grad()
        exact(x.double()).square().sum().backward()
        for ours, right in zip(model.parameters(), exact.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.double(), right.grad, rtol=tolerance, atol=tolerance)


def plans() -> int:
    return len(_runtime._slots)


def test_rows_of_all_numbers_have_few_plans_and_float64s_results():
    model = Mlp()
    function, exact = compiled(model), copy.deepcopy(model).double()
    for rows in (3, 4, 5, 7, 8, 6):
        x = torch.randn(rows, 16)
        ours = run(function, x)
        torch.testing.assert_close(ours.double(), exact(x.double()), rtol=1e-5, atol=1e-6)
        report = stitch.torch.report()
        assert report["eager_calls"] == 0 and report["kernel_calls"] > 0 and report["failed"] == [], report
        before = before if rows > 5 else plans()
    assert plans() == before, "a bucket that has its plans needs none"


def test_gradients_where_rows_are_summed_have_plans_for_extents():
    expect_gradients(Block(), [torch.randn(2, length, 16) for length in (4, 6)], 1e-4)
    report = stitch.torch.report()
    assert report["failed"] == [] and report["kernel_calls"] > 0 and report["share"] == 1.0, report


def test_more_extents_than_plans_are_allowed_stay_with_pytorch_and_it_is_said_once(caplog):
    function = compiled(lambda x: x.cumsum(0) * 20.5, buckets=2)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for extent in (3, 4, 5, 6, 3):
            x = torch.randn(extent)
            torch.testing.assert_close(function(x), x.cumsum(0) * 20.5)
            assert stitch.torch.wait(120)
    said = [r.getMessage() for r in caplog.records if r.name == "stitch.torch"]
    assert len(said) == 1 and "plans for 2 extents, as many as the option buckets allows" in said[0], said
    assert [entry["count"] for entry in stitch.torch.report()["failed"]] == [2]


@pytest.mark.parametrize("largest", [1, 2, 7, 100, 5000, 8192])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 16, 64, 1024])
@pytest.mark.parametrize("row_bytes", [1, 4096, 64_000, 1 << 22])
def test_all_extents_have_room_in_as_many_buckets_as_are_allowed(row_bytes, most, largest):
    of = Buckets(row_bytes, largest, most)
    found = {extent: of(extent) for extent in range(1, largest + 1)}
    assert all(extent <= bucket <= largest for extent, bucket in found.items())
    assert len(set(found.values())) <= most
    assert all(of(bucket) == bucket for bucket in found.values()), "a bucket is its own"
    assert list(found.values()) == sorted(found.values())


@pytest.mark.parametrize("row_bytes", [4096, 16_384, 64_000])
def test_sixty_four_plans_are_a_tenth_from_every_extents_own(row_bytes):
    """Where a plan takes a launch and its bytes, on any GPU whose launches are worth that many or more."""
    of = Buckets(row_bytes, 8192, 64)
    for launch in (LAUNCH_BYTES, 9 * LAUNCH_BYTES):
        times = [(launch + of(s) * row_bytes) / (launch + s * row_bytes) for s in range(1, 8193)]
        assert max(times) < 1.13, "and alignment to a thirty-second"
        assert sum(times) / len(times) < 1.06


def test_without_a_largest_extent_buckets_are_powers_of_two():
    of = Buckets(16_384, None, 16)
    assert [of(extent) for extent in (1, 2, 5, 16, 17, 64, 65, 1000, 1025, 100_000)] == [
        1, 4, 16, 16, 64, 64, 128, 1024, 2048, 131_072,
    ]  # fmt: skip


def test_which_plan_runs_depends_on_the_extent_and_not_on_what_came_before(monkeypatch):
    """And extents of one bucket ask for one plan, whichever of them the graph was traced with."""
    ran = []
    monkeypatch.setattr(
        _runtime, "_run_on_host", lambda slot, *given, own=_runtime._run_on_host: ran.append(slot) or own(slot, *given)
    )

    def plans_by_extent(order) -> dict:
        torch._dynamo.reset()
        before, found = plans(), {}
        inside = torch.compile(lambda x: x.softmax(-1) * 1.25, backend="stitch", options={**EMULATED, "buckets": 6})
        for rows in order:
            x = torch.randn(rows, 32)
            torch._dynamo.mark_dynamic(x, 0, max=128)
            torch.testing.assert_close(inside(x), x.softmax(-1) * 1.25)
            assert stitch.torch.wait(120)
            ran.clear()
            torch.testing.assert_close(inside(x), x.softmax(-1) * 1.25)
            assert len(set(ran)) == 1, "one plan, though it may run twice"
            found[rows] = ran[0].plan.info["id"]
        assert plans() - before in (0, len(set(found.values()))), "the second order finds those of the first"
        return found

    first = plans_by_extent((9, 100, 33, 64, 128, 2))
    assert plans_by_extent((128, 2, 64, 33, 100, 9)) == first
    assert len(set(first.values())) < len(first), "some share a plan"


ROWS = {
    "every element": (lambda x: x.exp() * 2 + x, True),
    "softmax of a row": (lambda x: x.softmax(-1), True),
    "softmax over the rows": (lambda x: x.softmax(1), False),
    "rows in a row": (lambda x: (x * 2).view(-1, 6).tanh(), True),
    "columns first": (lambda x: (x.transpose(0, 1) * 2).tanh(), True),
    "sums of rows": (lambda x: x.exp().sum((0, 2)), True),
    "sums over rows": (lambda x: x.exp().sum(1), False),
    "a mean of all": (lambda x: x.exp().mean(), False),
    "how many there are": (lambda x: x.exp() * x.shape[1], False),
    "parts of rows": (lambda x: torch.cat([x[:, :, 1:].exp(), x[:, :, :2]], 2), True),
    "the last row": (lambda x: x[:, -1].exp(), False),
    "all but a row": (lambda x: x[:, 1:].exp(), False),
    "rows after rows": (lambda x: torch.cat([x, x], 1).exp(), False),
    "norms": (lambda x: torch.nn.functional.layer_norm(x, (6,)) * 3, True),
    "the greatest of rows": (lambda x: x.exp().max(0), True),
    "turned around": (lambda x: x.flip(1).exp(), False),
    "positions": (lambda x: x.exp().argmax(2) + 1, True),
    "every row with every other": (lambda x: x[:, :, None].exp() + x[:, None].exp(), False),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_by_rows_runs_in_the_plan_of_its_bucket(name, monkeypatch):
    function, by_rows = ROWS[name]
    padded = []
    monkeypatch.setattr(_rows, "padded", lambda *given, own=_rows.padded: padded.append(given) or own(*given))
    x = torch.randn(3, 5, 6)
    torch._dynamo.mark_dynamic(x, 1)
    inside = torch.compile(function, backend="stitch", options=EMULATED)
    torch.testing.assert_close(inside(x), function(x), check_stride=True)
    assert bool(padded) == by_rows
    report = stitch.torch.report()
    assert report["failed"] == [] and report["kernel_calls"] > 0 and report["eager_calls"] == 0, report


LEADING = {
    "rows of whole vectors": lambda x, y: (x.softmax(-1) * y)[:, :4].clone(),
    "rows that end anywhere": lambda x, y: x[:, :3].exp().softmax(-1),
    "a number of each": lambda x, y: (x.exp().sum(-1), y.exp()),
    "groups of rows": lambda x, y: (x * 2).view(-1, 2).tanh(),
    "the same for all rows": lambda x, y: (x + y, y.cos()),
    "an axis of one before them": lambda x, y: (x[None] * y).exp().sum(-1),
}


@pytest.mark.parametrize("name", LEADING)
def test_rows_that_are_outermost_are_taken_in_two_parts_and_nothing_is_copied(name, monkeypatch):
    def refused(*given):
        raise AssertionError("rows were appended")

    monkeypatch.setattr(_rows, "padded", refused)
    runs = []
    monkeypatch.setattr(
        _runtime, "_run_on_host", lambda slot, *given, own=_runtime._run_on_host: runs.append(slot) or own(slot, *given)
    )
    inside = torch.compile(LEADING[name], backend="stitch", options={**EMULATED, "buckets": 8})
    for rows in (21, 64, 31):
        x, y = torch.randn(rows, 8), torch.randn(8)
        torch._dynamo.mark_dynamic(x, 0, max=64)
        inside(x, y)
        assert stitch.torch.wait(120)
        stitch.torch.reset()
        runs.clear()
        torch.testing.assert_close(inside(x, y), LEADING[name](x, y), check_stride=True)
        report = stitch.torch.report()
        assert report["failed"] == [] and report["kernel_calls"] > 0 and report["eager_calls"] == 0, report
        assert len(runs) == (1 if rows == 64 else 2) * report["kernel_calls"], "64 are a bucket's own"


def test_what_is_written_over_is_not_computed_twice():
    def function(x):
        return x.mul_(1.5).add_(1)

    inside = compiled(function, buckets=8)
    for rows in (21, 40, 21):
        x = torch.randn(rows, 8)
        expected = function(x.clone())
        inside(x.clone())
        assert stitch.torch.wait(120)
        torch.testing.assert_close(inside(x), expected)
        torch.testing.assert_close(x, expected)
    assert stitch.torch.report()["failed"] == []


def test_extents_that_are_computed_and_numbers_made_of_them():
    """Windows' extents, and means that divide by how many there are, are known where the inputs' extents are."""

    class Windows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.more = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3, 2)
            self.norm = torch.nn.GroupNorm(2, 4)

        def forward(self, x):
            x = torch.relu(self.more(self.norm(self.conv(x))))
            return torch.nn.functional.adaptive_avg_pool2d(x.exp(), 1).flatten(1) + x.mean((2, 3))

    expect_gradients(Windows(), [torch.randn(2, 3, extent, extent + 1) for extent in (9, 12)], 1e-3)
    report = stitch.torch.report()
    assert report["failed"] == [] and report["share"] == 1.0, report["fell_back"]


def test_a_division_that_rows_survive_is_survived_by_those_that_are_appended():
    function = compiled(lambda x: 840 // x)
    x = torch.tensor([1, 2, 3, 4, 5])
    assert torch.equal(run(function, x), 840 // x)
    assert stitch.torch.report()["kernel_calls"] == 1


def test_extents_that_only_values_tell_stay_with_pytorch():
    def function(x):
        return (x.nonzero() * 2 + 1).exp2()

    x = torch.tensor([0, 1, 0, 1, 1])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(compiled(function, buckets=3)(x), function(x))
    reasons = {entry["reason"] for entry in stitch.torch.report()["fell_back"]}
    assert any("known only when it runs" in reason for reason in reasons), reasons


@pytest.mark.parametrize("value", [0, "many", True])
def test_a_number_of_buckets_is_a_number(value):
    with pytest.raises(ValueError, match="option 'buckets': expected a number of plans from 1 to 1,024"):
        stitch.torch._options.settings_of(None, {"buckets": value})
