"""The back end of torch.compile: results and gradients beside eager in float64, and what must not break."""

import copy
import logging
import math

import pytest

torch = pytest.importorskip("torch")

import stitch.torch  # noqa: E402

EMULATED = {"device": "emulated", "deadline_ms": 120_000}
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    stitch.torch.reset()
    torch.manual_seed(7)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = torch.nn.Linear(16, 24), torch.nn.LayerNorm(24), torch.nn.Linear(24, 8)

    def forward(self, x):
        return torch.softmax(self.second(self.norm(torch.nn.functional.gelu(self.first(x)))), -1)


class Pool(torch.nn.Module):
    """Batch normalisation, whose statistics are updated, and pools."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 3, 2, 1)
        return torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)


class Block(torch.nn.Module):
    """A transformer block with its own attention."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm, self.other = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(torch.nn.functional.silu(self.up(self.other(x))))


def errors_of(model, inputs, options=EMULATED):
    """How far our result and gradients, and eager's, are from eager's in float64; relative to the largest."""
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    compiled = torch.compile(model, backend="stitch", options=options)

    def step(run, of, inputs):
        y = run(*inputs)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
        return [y.detach(), *(p.grad for p in of.parameters())]

    ours = step(compiled, model, inputs)
    theirs = step(eager, eager, inputs)
    right = step(exact, exact, [x.double() if x.is_floating_point() else x for x in inputs])

    def error(values):
        return max(((a - b).abs().max() / b.abs().max().clamp_min(1e-3)).item() for a, b in zip(values, right))

    return error(ours), error(theirs)


@pytest.mark.parametrize("model, shape", [(Mlp, (4, 16)), (Block, (2, 5, 16)), (Pool, (2, 3, 8, 8))])
def test_results_and_gradients_are_those_of_float64(model, shape):
    ours, eager = errors_of(model(), [torch.randn(shape)])
    assert ours < 8 * eager + 1e-6
    report = stitch.torch.report()
    assert report["failed"] == [] and report["eager_calls"] == 0 and report["kernel_calls"] > 0
    assert report["share"] == 1.0, report["fell_back"]


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimizer_step_is_one_fragment(foreach):
    model = Mlp()
    exact = copy.deepcopy(model).double()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, foreach=foreach) for m in (model, exact)]
    x = torch.randn(4, 16)
    for m in (model, exact):
        m(x.to(next(m.parameters()).dtype)).square().sum().backward()
    stitch.torch.reset()
    step = torch.compile(optimizers[0].step, backend="stitch", options=EMULATED)
    for _ in range(2):
        step()
        optimizers[1].step()
    report = stitch.torch.report()
    assert report["kernel_calls"] == 2 and report["failed"] == [], report
    for ours, right in zip(model.parameters(), exact.parameters()):
        torch.testing.assert_close(ours.double(), right, rtol=1e-5, atol=1e-6)


def run(function, *inputs, options=EMULATED):
    return torch.compile(function, backend="stitch", options=options)(*inputs)


FUNCTIONS = {
    "strides of results": lambda x: (x.t() + 1).t().contiguous().view(-1) * 2,
    "a transposed result": lambda x: x.t() * 2,
    "views of a result": lambda x: (x * 2).view(2, -1)[:, 1:],
    "an expanded result": lambda x: (x[:, :1] * 2).expand(4, 6).permute(1, 0),
    "an input mutated": lambda x: x.add_(1).mul(2),
    "several results": lambda x: (x.var(1), x.mean(1), x.amax(0)),
    "positions": lambda x: x.max(1).indices + x.argmin(1),
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1], [3, 0], [5, 5]])),
    "indexing": lambda x: x[torch.tensor([0, -1, 2]), :, None] * 2,
    "index put": lambda x: torch.zeros(4, 6).index_put((torch.tensor([1, 1, 3]),), x[:3], accumulate=True),
    "integers": lambda x: (x * 10).to(torch.int32) // 3 % 4,
    "floor division": lambda x: torch.div(x, 0.3, rounding_mode="floor") + torch.remainder(x, 0.7),
    "cumulative": lambda x: x.cumsum(1) + x.flip(0),
    "cumulative logarithms": lambda x: (x.logcumsumexp(1), (x * 200).flip(0).logcumsumexp(0)),
    "in the middle": lambda x: (
        x.median(), x.median(1), torch.kthvalue(x, 2, 0), torch.where(x > 1, math.nan, x).median(1, keepdim=True).values.nan_to_num(7),
    ),
    "log softmax": lambda x: torch.log_softmax(x, 0),
    "16 bit": lambda x: torch.nn.functional.gelu(x.bfloat16()).float(),
    "truth values": lambda x: ((x > 0) & (x < 1)).any(1),
    "concatenation": lambda x: torch.cat([x, x[:, :2].neg()], 1).clamp(-1, 1),
    "padding": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "no elements": lambda x: x[:0].exp() + 1,
    "maxima of windows": lambda x: torch.nn.functional.max_pool2d(x[None], 3, 2, 1, return_indices=True),
    "averages of windows": lambda x: torch.nn.functional.avg_pool2d(x[None], 2, 1, 1, count_include_pad=False),
    "windows beyond the padding": lambda x: (
        torch.nn.functional.max_pool2d(x[None], 3, 2, ceil_mode=True),
        torch.nn.functional.max_pool2d(x[None], 2, 3, 1, ceil_mode=True),
        torch.nn.functional.avg_pool2d(x[None], 3, 2, 1, ceil_mode=True),
        torch.nn.functional.avg_pool2d(x[None], 3, 2, 1, ceil_mode=True, count_include_pad=False),
        torch.nn.functional.avg_pool2d(x[None], 3, 2, ceil_mode=True, divisor_override=4),
    ),
    "the next number": lambda x: torch.nextafter(x, x.flip(0)),
    "numbers rather than NaN": lambda x: torch.fmax(x, x.clamp_min(0).log()) + torch.fmin(x.clamp_min(0).log(), x),
    "signs": lambda x: (torch.copysign(x + 1, -x), torch.signbit(-x.clamp_min(0)), torch.copysign(x, -0.0)),
    "lengths": lambda x: torch.hypot(x * 1e30, x.flip(0) * 1e30),
    "shifts": lambda x: (((x * 10).to(torch.int32) << 3) >> 2, (x * 40).abs().to(torch.uint8) >> 1),
    "decimals": lambda x: x.round(decimals=1) + (x * 100).round(decimals=-1),
    "the greatest written": lambda x: x.scatter_reduce(1, (x > 0).long(), x.flip(1), "amax"),
    "triangles": lambda x: x[:4, :4][tuple(torch.tril_indices(4, 4, -1))] * 2,
    "every other element": lambda x: torch.slice_scatter(x, x[:, :3] * 2, 1, 0, 6, 2).index_fill(0, torch.tensor([1]), 0.5),
    "diagonals written": lambda x: (
        torch.diagonal_scatter(x, torch.ones(4)),
        torch.diagonal_scatter(x, x[0, :3] * 2, -1),
        torch.diagonal_scatter(x[:, None].repeat(1, 2, 1), x[:2, :4], -2, 2, 0),
        torch.diagonal_scatter(x.exp(), x[:0, 0], 6),
    ),
    "positions of truth": lambda x: ((x > 0).max(1), (x > 0).min(0)),
    "averages in space": lambda x: torch.nn.functional.avg_pool3d(x[None, None], (1, 2, 3), (1, 1, 2), (0, 1, 1)),
    "a scalar": lambda x: x.mean() * torch.tensor(3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_do_what_eager_does(name):
    x = torch.randn(4, 6)
    ours, eager = x.clone(), x.clone()
    found, expected = run(FUNCTIONS[name], ours), FUNCTIONS[name](eager)
    torch.testing.assert_close(ours, eager)
    tolerance = 1e-2 if name == "16 bit" else 1e-5
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, check_stride=True)
    report = stitch.torch.report()
    assert report["failed"] == [] and report["share"] == 1.0, report


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"stride": 1, "padding": 1}, {"stride": 2, "padding": 1, "count_include_pad": False},
                {"stride": 3, "divisor_override": 5}, {"stride": 3, "ceil_mode": True},
                {"stride": 2, "padding": 1, "ceil_mode": True}],
)  # fmt: skip
def test_gradients_of_averages_of_windows(options):
    def gradient(function):
        x = torch.linspace(-1, 1, 2 * 7 * 5).view(1, 2, 7, 5).requires_grad_()
        y = function(x)
        (y * torch.linspace(-2, 1, y.numel()).view_as(y)).sum().backward()
        return x.grad

    def function(x):
        return torch.nn.functional.avg_pool2d(x, (3, 2), **options)

    torch.testing.assert_close(gradient(lambda x: run(function, x)), gradient(function))
    assert stitch.torch.report()["share"] == 1.0


def test_gradients_of_maxima_of_windows_beyond_the_padding():
    x = torch.randn(1, 2, 7, 6)

    def gradient(function):
        given = x.clone().requires_grad_()
        y = function(given)
        (y * torch.linspace(-2, 1, y.numel()).view_as(y)).sum().backward()
        return given.grad

    def function(x):
        return torch.nn.functional.max_pool2d(x, 3, 2, ceil_mode=True)

    torch.testing.assert_close(gradient(lambda x: run(function, x)), gradient(function))
    assert stitch.torch.report()["share"] == 1.0


@pytest.mark.parametrize("first", [False, True])
def test_an_encoder_layer_without_gradients_is_taken_apart(first):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=first)
    layer = layer.eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.testing.assert_close(run(layer, x), layer(x), rtol=1e-5, atol=1e-5)
    report = stitch.torch.report()
    assert report["share"] == 1.0 and report["kernel_calls"] > 0, report


def test_signs_that_views_only_promise():
    x = torch._neg_view(torch.randn(8))
    assert x.is_neg()
    torch.testing.assert_close(run(lambda x: x.exp() * 2, x), x.exp() * 2)


def test_random_numbers_of_pytorchs_are_said_once(caplog):
    function = lambda x: torch.nn.functional.dropout(torch.nn.functional.dropout(x * 2, 0.5) + 1, 0.3)  # noqa: E731
    x = torch.randn(64)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        torch.manual_seed(3)
        ours = run(function, x, options={**EMULATED, "random": "eager"})
    torch.manual_seed(3)
    torch.testing.assert_close(ours, function(x))
    assert len([r for r in caplog.records if "bernoulli" in r.getMessage()]) == 1
    assert [(e["op"], e["count"]) for e in stitch.torch.report()["fell_back"]] == [("aten.bernoulli.p", 2)]


def test_what_is_not_supported_is_an_error_on_request():
    with pytest.raises(Exception, match="aten.sort.default: lines of 9000 elements"):
        run(lambda x: x.sort().values * 2, torch.randn(9000), options={**EMULATED, "fallback": "error"})


def test_a_graph_that_cannot_be_traced_stays_with_pytorch(monkeypatch):
    def broken():
        raise RuntimeError("no table")

    monkeypatch.setattr(stitch.torch._decompositions, "table", broken)
    x = torch.randn(4)
    torch.testing.assert_close(run(lambda x: x * 4.5, x), x * 4.5)
    assert "no table" in stitch.torch.report()["failed"][0]["message"]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no table"):
        run(lambda x: x * 4.5, x, options={**EMULATED, "fallback": "error"})


def test_a_plan_that_fails_stays_with_pytorch(monkeypatch):
    function = torch.compile(lambda x: x * 5.5, backend="stitch", options=EMULATED)
    x = torch.randn(4)
    torch.testing.assert_close(function(x), x * 5.5)
    assert stitch.torch.report()["kernel_calls"] == 1

    def fails(self, parameters, results):
        raise stitch.KernelError("a fault")

    for slot in stitch.torch._runtime._slots.values():
        monkeypatch.setattr(slot, "plan", type("Plan", (), {"run": fails})())
    for _ in range(2):
        torch.testing.assert_close(function(x), x * 5.5)
    report = stitch.torch.report()
    assert report["kernel_calls"] == 1 and report["failed"][0]["message"] == "a plan did not run: a fault"


def test_extents_that_change():
    function = torch.compile(lambda x: x.exp() + 1, backend="stitch", options=EMULATED, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x), x.exp() + 1)


def test_until_a_plan_is_there_it_runs_eagerly_then_kernels_take_over():
    function = torch.compile(lambda x: (x * 1.25).tanh().sum(0), backend="stitch", options={"device": "emulated"})
    x = torch.randn(3, 11)
    torch.testing.assert_close(function(x), (x * 1.25).tanh().sum(0))
    assert stitch.torch.wait(120)
    torch.testing.assert_close(function(x), (x * 1.25).tanh().sum(0))
    report = stitch.torch.report()  # on a busy machine the plan may be there before the first call
    assert report["kernel_calls"] >= 1 and report["kernel_calls"] + report["eager_calls"] == 2


def test_a_dead_server_costs_one_warning(caplog, tmp_path):
    options = {**EMULATED, "server": f"unix://{tmp_path}/nobody.sock"}
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for scale in (2.5, 3.5):
            x = torch.randn(4)
            torch.testing.assert_close(run(lambda x: x * scale, x, options=options), x * scale)
    assert len([r for r in caplog.records if "PyTorch runs these operators instead" in r.getMessage()]) == 1


def test_cpu_tensors_stay_with_pytorch_unless_asked(monkeypatch):
    x = torch.randn(4)
    torch.testing.assert_close(run(lambda x: x * 2, x, options=None), x * 2)
    assert stitch.torch.report()["graphs"] == 0
    torch._dynamo.reset()
    monkeypatch.setenv("STITCH_DEVICE", "emulated")
    torch.testing.assert_close(run(lambda x: x * 2, x, options={"deadline_ms": 120_000}), x * 2)
    assert stitch.torch.report()["kernel_calls"] == 1
    torch._dynamo.reset()
    monkeypatch.setenv("STITCH_DISABLE", "1")
    torch.testing.assert_close(run(lambda x: x * 2, x), x * 2)
    assert stitch.torch.report()["graphs"] == 1


@pytest.mark.parametrize(
    "mode, options, message",
    [
        (None, {"devise": "emulated"}, "no option 'devise' .did you mean 'device'"),
        (None, {"device": "emulate"}, "did you mean 'emulated'"),
        (None, {"deadline_ms": "soon"}, "expected a number of milliseconds"),
        ("max-autotun", None, "did you mean 'max-autotune"),
    ],
)
def test_unknown_options_name_the_nearest(mode, options, message):
    from stitch.torch._options import settings_of

    with pytest.raises(ValueError, match=message):
        settings_of(mode, options)


def test_every_reason_of_a_graph_is_kept():
    stitch.torch.reset()
    run(lambda x: x.sort().values.exp() + x.cumsum(0), torch.randn(9000))
    found = {entry["op"]: entry for entry in stitch.torch.report()["fell_back"]}
    assert found["aten.sort.default"]["where"].endswith(tuple("0123456789"))
