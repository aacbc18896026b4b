"""Extents that change from call to call: plans by bucket, bounded in number, then PyTorch with a word."""

import copy
import logging

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, Block, Mlp, fresh  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _rows, _runtime, _shapes  # noqa: E402


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


@pytest.mark.parametrize("extent", [1, 2, 3, 5, 8, 100, 1000, 8191, 8192])
@pytest.mark.parametrize("steps", [1, 4, 8])
def test_a_bucket_has_room_and_little_more(extent, steps):
    bucket = _shapes.bucket_of(extent, steps)
    assert extent <= bucket < extent * (1 + 1 / steps) + 1
    assert _shapes.bucket_of(bucket, steps) == bucket


def test_buckets_are_as_fine_as_the_number_of_plans_allows():
    assert [_shapes.steps_for(8192, most) for most in (8, 16, 32, 64, 128)] == [1, 1, 2, 4, 8]
    assert _shapes.steps_for(None, 1000) == 1
    assert len({_shapes.bucket_of(extent, 1) for extent in range(1, 8193)}) == 14


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
