"""Random numbers that kernels of ours draw: which ones, and that forward and backward draw the same."""

import math

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, fresh  # noqa: E402, F401
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import stitch.torch  # noqa: E402
from stitch.torch import _random, _runtime  # noqa: E402

dropout = torch.nn.functional.dropout


def compiled(function, **options):
    return torch.compile(function, backend="stitch", options={**EMULATED, **options})


def all_ours():
    report = stitch.torch.report()
    return report["fell_back"] == [] and report["failed"] == [] and report["eager_calls"] == 0


def drawn_with(bits, function, x):
    """What a random function of x is where all bits are these."""

    class Drawn(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target is torch.ops.stitch.random_bits.default:
                return torch.full(args[1], bits, dtype=torch.int32)
            return super().call_function(target, args, kwargs)

    graph = make_fx(lambda x: function(x), tracing_mode="fake")(x)
    _random.take_over(graph.graph, _random.drawn_in(graph.graph, torch.device("cpu")))
    return Drawn(graph).run(x)


def line(*shape):
    return torch.linspace(1, 2, math.prod(shape)).view(shape)


def test_bits_are_philoxs():
    """Random123's known answers."""
    zeros = torch.ops.stitch.random_bits(torch.zeros(2, dtype=torch.int64), [4])
    assert zeros.tolist() == [word >> 8 for word in (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)]


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 7), (2, 4096), (0, 4), ()], ids=str)
def test_kernels_have_the_bits_of_operators(shape):
    function = lambda seed: torch.ops.stitch.random_bits(seed, shape) + 1  # noqa: E731
    for seed in ([0, 0], [-1, -1], [0x13198A2E03707344, 0x243F6A88], [1 << 63 - 1, -(1 << 63)]):
        seed = torch.tensor(seed)
        assert torch.equal(compiled(function)(seed), function(seed))
    assert all_ours() or 0 in shape


@pytest.mark.parametrize("layout", ["dense", "transposed"])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_forward_and_backward_have_one_mask_that_is_kept_nowhere(layout, p):
    x = line(96, 64).t() if layout == "transposed" else line(64, 96)
    x = x.detach().requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = compiled(lambda x: dropout(x * x, p))(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y != 0, 2 * x.detach() / (1 - p or 1), 0.0))
    assert sum(t.numel() * t.itemsize for t in kept) <= x.numel() * 4 + 64
    assert all_ours() and abs((y == 0).float().mean() - p) < 0.03


def test_the_generator_decides():
    function = compiled(lambda x: (dropout(x, 0.5), dropout(x, 0.5)))
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append([function(line(8, 64)), function(line(8, 64))])
    flat = [[y for pair in calls for y in pair] for calls in drawn]
    assert all(map(torch.equal, flat[0], flat[1]))
    different = flat[0] + flat[2]
    assert not any(torch.equal(a, b) for i, a in enumerate(different) for b in different[:i])
    assert all_ours()


def test_plans_that_come_between_forward_and_backward():
    x = line(8, 96).requires_grad_()
    y = compiled(lambda x: dropout(x.exp()).sin(), deadline_ms=0)(x)
    assert stitch.torch.wait(60)
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0)


@pytest.mark.parametrize("budget", [1.0, 0.01])
def test_however_much_is_computed_anew(budget):
    x = line(8, 96).requires_grad_()
    with torch._functorch.config.patch(activation_memory_budget=budget):
        y = compiled(lambda x: torch.nn.functional.dropout1d(dropout(x.exp())).sin())(x)
        y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0) and all_ours()


def test_a_checkpoint():
    part = lambda x: dropout(x.exp()).sin()  # noqa: E731
    x = line(8, 96).requires_grad_()
    y = compiled(lambda x: torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False))(x)
    y.sum().backward()
    assert torch.equal(x.grad != 0, y != 0) and all_ours()


def test_extents_that_change():
    def function(x, w):
        return dropout(x.exp() @ w, 0.4).sin()

    run = compiled(function)
    for rows in (5, 8, 3, 17):
        x, w = line(rows, 12).requires_grad_(), line(12, 10).div(100).requires_grad_()
        torch._dynamo.mark_dynamic(x, 0)
        y = run(x, w)
        y.sum().backward()
        kept = (y != 0).float()
        expected = torch.autograd.grad((((x.exp() @ w) / 0.6).sin() * kept).sum(), (x, w))
        torch.testing.assert_close((x.grad, w.grad), expected)
        assert 0 < kept.mean() < 1


def test_extents_that_change_of_what_is_made():
    run = compiled(lambda x: torch.normal(0.0, 1.0, (x.shape[0], 64)) + torch.rand(3, x.shape[0], 1) * 0)
    for rows in (5, 8):
        x = line(rows, 12)
        torch._dynamo.mark_dynamic(x, 0)
        assert 0.5 < run(x).std() < 1.5
    assert stitch.torch.report()["failed"] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_probabilities_that_are_computed_are_compared_once(dtype):
    x = torch.linspace(-3, 3, 64 * 96).view(64, 96).to(dtype).requires_grad_()
    v = torch.ones(64, 96, dtype=dtype, requires_grad=True)
    y = compiled(lambda x, v: torch.bernoulli(torch.sigmoid(x).detach()) * v * torch.sigmoid(x))(x, v)
    y.sum().backward()
    assert torch.equal(v.grad != 0, y != 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("high", [2.0, 0.0, -1.0, 0.1])
def test_no_uniform_number_is_the_upper_end(dtype, high):
    drawn = drawn_with((1 << 24) - 1, lambda x: torch.ops.aten.uniform(x, high - 1, high), torch.ones(4, dtype=dtype))
    assert drawn.dtype == dtype and high - 0.01 < drawn.max().item() < high


def test_equal_layers_have_one_plan():
    weights = [torch.randn(64, 64) / 8 for _ in range(4)]

    def function(x):
        for w in weights:
            x = dropout(torch.relu(x @ w), 0.2)
        return x

    stitch.torch.wait()
    before = _runtime.counts()["ready"]
    compiled(function)(line(8, 64))
    assert _runtime.counts()["ready"] - before == 1 and all_ours()


DRAWN = {
    "rand": (lambda x: torch.rand(x.shape), 0.5, 1 / 12, 0, 1),
    "rand_like of bf16": (lambda x: torch.rand_like(x, dtype=torch.bfloat16) * 1.0, 0.5, 1 / 12, 0, 0.999),
    "randn": (lambda x: torch.randn_like(x), 0, 1, -6, 6),
    "normal": (lambda x: torch.normal(3.0, 2.0, x.shape), 3, 4, -9, 15),
    "normal_": (lambda x: (x * 1).normal_(3.0, 2.0), 3, 4, -9, 15),
    "uniform_": (lambda x: (x * 1).uniform_(-1, 3), 1, 16 / 12, -1, 3),
    "exponential_": (lambda x: (x * 1).exponential_(0.5), 2, 4, 0, 40),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.25), 0.25, 3 / 16, 0, 1),
    "bernoulli_": (lambda x: (x * 1).bernoulli_(0.25), 0.25, 3 / 16, 0, 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_distributions(name):
    function, mean, variance, least, most = DRAWN[name]
    torch.manual_seed(1)
    drawn = compiled(function)(line(64, 256)).double()
    error = math.sqrt(variance / drawn.numel())
    assert abs(drawn.mean() - mean) < 5 * error
    assert drawn.var() == pytest.approx(variance, rel=0.1)
    assert least <= drawn.min() and drawn.max() <= most
    rows = drawn - drawn.mean()
    assert abs((rows[:, 1:] * rows[:, :-1]).mean()) < 5 * variance / math.sqrt(drawn.numel())  # no neighbours alike
    assert all_ours()


def test_a_transformers_layer():
    """As the layers of a transformer have it: attention's weights, and what is added to the residual."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, activation="gelu", batch_first=True)
    x = torch.randn(2, 8, 16)
    y = compiled(layer)(x)
    y.square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert all_ours()


@pytest.mark.parametrize("bits", [0, (1 << 24) - 1])
def test_exponentials_are_neither_zero_nor_infinite(bits):
    """Gumbel's numbers are logarithms of them."""
    (drawn,) = set(drawn_with(bits, torch.ops.aten.exponential, torch.ones(4)).tolist())
    assert 0 < drawn < 20


def test_eagers_numbers_on_request():
    x = line(8, 96)
    torch.manual_seed(5)
    ours = compiled(lambda x: dropout(x + 1, 0.4), random="eager")(x)
    torch.manual_seed(5)
    torch.testing.assert_close(ours, dropout(x + 1, 0.4))
    assert [entry["op"] for entry in stitch.torch.report()["fell_back"]] == ["aten.bernoulli.p"]


@pytest.mark.parametrize("function", [lambda x: torch.rand_like(x.double()), lambda x: torch.rand_like(x.t()) + 1])
def test_other_types_and_orders_stay_with_pytorch(function):
    torch.manual_seed(5)
    ours = compiled(function)(line(4, 6))
    torch.manual_seed(5)
    torch.testing.assert_close(ours, function(line(4, 6)))
