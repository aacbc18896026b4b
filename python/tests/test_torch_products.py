"""Products, convolutions and attention in kernels of ours (option `products`), beside PyTorch's own."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812
from test_torch import EMULATED, Mlp, fresh  # noqa: E402, F401

import stitch.torch  # noqa: E402

OURS = {**EMULATED, "products": "ours", "fallback": "error"}


def values(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def outcome(run, tensors):
    """A function's result and the gradients of what it was given."""
    own = [tensor.detach().clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    result = run(*own)
    (result * values(*result.shape, seed=9).to(result.dtype)).sum().backward()
    return [result.detach(), *(tensor.grad for tensor in own if tensor.grad is not None)]


def check(function, *tensors, bound=1e-4, **options):
    """Forward and backward against the exact result: no further off than PyTorch by more than rounding explains."""
    ours = outcome(torch.compile(function, backend="stitch", options={**OURS, **options}), tensors)
    eager = outcome(function, tensors)
    exact = outcome(function, [t.double() if t.is_floating_point() else t for t in tensors])
    assert len(ours) == len(exact) > 1
    for got, usual, right in zip(ours, eager, exact, strict=True):
        assert got.shape == usual.shape and got.stride() == usual.stride() and got.dtype == usual.dtype
        if right.numel() == 0:
            continue
        scale = right.abs().max().clamp(min=1e-6)
        off, usually = ((x.double() - right).abs().max() / scale for x in (got, usual))
        assert off <= 4 * usually + bound * 0.01, (off, usually)
    report = stitch.torch.report()
    assert report["failed"] == report["fell_back"] == [] and report["eager_calls"] == 0
    assert report["products_ours"] == report["operators_library"] > 0 and report["kernel_calls"] > 0
    return report


PRODUCTS = {
    "mm": (lambda x, w: (x @ w).sin(), (6, 24), (24, 10)),
    "bmm": (lambda x, y: torch.bmm(x, y).tanh(), (3, 5, 8), (3, 8, 4)),
    "matmul of unlike ranks": (lambda x, y: torch.matmul(x, y) + 1, (2, 3, 5, 8), (8, 4)),
    "linear, GELU": (lambda x, w, b: F.gelu(F.linear(x, w, b)), (9, 16), (8, 16), (8,)),
    "addmm with factors": (lambda c, x, w: torch.addmm(c, x, w, beta=0.5, alpha=-2.0), (1, 4), (6, 8), (8, 4)),
    "addmv": (lambda c, x, v: torch.addmv(c, x, v, alpha=3.0), (6,), (6, 8), (8,)),
    "baddbmm": (lambda c, x, y: torch.baddbmm(c, x, y, beta=2.0), (3, 1, 4), (3, 5, 8), (3, 8, 4)),
    "nothing to sum": (lambda x, w: x @ w + 1, (3, 0), (0, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_ours(name):
    function, *shapes = PRODUCTS[name]
    check(function, *(values(*shape) for shape in shapes))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_products_of_other_types(dtype):
    tensors = [values(16, 24, dtype=dtype), values(8, 24, dtype=dtype), values(8, dtype=dtype)]
    check(lambda x, w, b: F.relu(F.linear(x, w, b)), *tensors)


CONVOLUTIONS = {
    "plain": ({"padding": 1}, (2, 4, 7, 6), (5, 4, 3, 3)),
    "strides that leave a rest": ({"stride": 2, "padding": 1}, (2, 4, 8, 7), (5, 4, 3, 3)),
    "groups": ({"groups": 2, "padding": (1, 0)}, (2, 4, 7, 6), (6, 2, 3, 1)),
    "depthwise": ({"groups": 4, "padding": 1}, (2, 4, 7, 6), (4, 1, 3, 3)),
    "dilated": ({"dilation": 2, "padding": 2}, (2, 4, 9, 6), (3, 4, 3, 3)),
    "one dimension": ({"stride": 3}, (2, 4, 16), (5, 4, 4)),
    "three dimensions": ({"padding": 1}, (1, 2, 4, 5, 3), (3, 2, 3, 3, 3)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_ours(name):
    options, x, w = CONVOLUTIONS[name]
    of = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    check(lambda x, w, b: of(x, w, b, **options).sigmoid(), values(*x), values(*w), values(w[0]))


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}], ids=str
)
def test_transposed_convolutions_are_ours(options):
    groups = options.get("groups", 1)
    x, w, b = values(2, 4, 5, 6), values(4, 6 // groups, 3, 3), values(6)
    check(lambda x, w, b: F.conv_transpose2d(x, w, b, **options) * 2, x, w, b)


@pytest.mark.parametrize("which", ["plain", "causal", "mask", "rows without keys"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_keeps_no_scores(which, dtype):
    """Forward one kernel that keeps the rows' sums, backward two besides what is made of them by the row."""
    q, k, v = (values(2, 3, 40, 16, dtype=dtype, seed=i) for i in range(3))
    more = {"is_causal": which == "causal"}
    if which not in ("plain", "causal"):
        more["attn_mask"] = values(40, 40) > (0.3 if which == "mask" else 5.0)
    report = check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **more), q, k, v)
    assert report["kernel_calls"] == 2
    # Three kernels, rows(dO ∘ O), and the logarithm of the sums.
    assert report["launches"] <= 6, report["launches"]


def test_a_model_and_its_gradients_are_two_programs():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 10),
    )
    x, y = values(4, 3, 8, 8), torch.arange(4)
    compiled = torch.compile(model, backend="stitch", options=OURS)
    gradients = []
    for run in (compiled, model):
        model.zero_grad()
        F.cross_entropy(run(x), y).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    report = stitch.torch.report()
    assert report["products_ours"] == report["operators_library"] == 5 and report["kernel_calls"] == 2
    assert report["failed"] == report["fell_back"] == []


@pytest.mark.parametrize("products", ["library", "faster"])
def test_a_program_may_have_the_librarys_calls(products):
    check(lambda x, w: (x @ w).sin(), values(6, 24), values(24, 10), products=products)


def test_products_are_pytorchs_where_nobody_asks():
    run = torch.compile(lambda x, w: (x @ w).sin(), backend="stitch", options=EMULATED)
    run(values(6, 24), values(24, 10))
    report = stitch.torch.report()
    assert report["operators_library"] == 1 and report["products_ours"] == 0


def test_what_has_no_rule_stays_the_librarys():
    """Heads that share keys are one call of PyTorch's; what surrounds it is ours all the same."""
    q, k = values(2, 4, 8, 16), values(2, 2, 8, 16, seed=1)
    function = lambda q, k: F.scaled_dot_product_attention(q.sin(), k, k, enable_gqa=True).cos()  # noqa: E731
    run = torch.compile(function, backend="stitch", options={**OURS, "fallback": "eager"})
    with torch.no_grad():
        torch.testing.assert_close(run(q, k), function(q, k))
    report = stitch.torch.report()
    assert report["failed"] == report["fell_back"] == [] and report["kernel_calls"] > 0


def test_a_program_is_saved_and_locked(tmp_path):
    model, x = Mlp(), values(4, 16)
    torch.compile(model, backend="stitch", options=OURS)(x)
    lock = tmp_path / "stitch.lock"
    assert stitch.torch.write_lock(lock) > 0
    artifacts, _ = torch.compiler.save_cache_artifacts()
    torch._dynamo.reset()
    torch.compiler.load_cache_artifacts(artifacts)
    again = torch.compile(model, backend="stitch", options={**OURS, "lock": str(lock)})
    torch.testing.assert_close(again(x), model(x))
    assert stitch.torch.report()["failed"] == []
