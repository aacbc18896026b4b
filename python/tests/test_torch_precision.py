"""The option precision="eager": results rounded as PyTorch's own kernels round them."""

import pytest

torch = pytest.importorskip("torch")

import stitch.torch  # noqa: E402
from test_torch import EMULATED, fresh  # noqa: E402, F401

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def chain(x, y):
    """Operators whose results IEEE rounding settles. Two are not among them on the host: square roots, of which MKL's are
    not always rounded to nearest, and sums with a number, which is rounded to bf16 there and not on GPUs.
    EagerPrecisionEmulated has them."""
    z = (x * y + x) / 3 - y * 0.7
    w = z.abs() * x - z * y
    return torch.where(w > 0, w * 1.7, w / 7) + (z * z + x * x).reciprocal()


def compiled(function, precision: str):
    torch._dynamo.reset()
    return torch.compile(function, backend="stitch", options={**EMULATED, "precision": precision})


def differing(function, precision: str, *inputs) -> float:
    """The share of elements with another bit than eager's."""
    ours, eager = compiled(function, precision)(*inputs), function(*inputs)
    assert stitch.torch.report()["kernel_calls"] == 1 and ours.dtype == eager.dtype
    return (ours != eager).float().mean().item()


@pytest.mark.parametrize("dtype", TYPES)
def test_a_chain_has_eagers_bits(fresh, dtype):  # noqa: F811
    torch.manual_seed(1)
    x, y = torch.randn(2, 64, 67, dtype=torch.float64).to(dtype)
    assert differing(chain, "eager", x, y) == 0
    stitch.torch.reset()
    assert differing(chain, "default", x, y) > 0


def test_the_gradient_of_a_chain_has_eagers_bits(fresh):  # noqa: F811
    torch.manual_seed(2)
    x, y = (t.to(torch.bfloat16).requires_grad_() for t in torch.randn(2, 48, 33))
    compiled(chain, "eager")(x, y).sum().backward()
    ours = x.grad, y.grad
    x.grad = y.grad = None
    chain(x, y).sum().backward()
    assert torch.equal(ours[0], x.grad) and torch.equal(ours[1], y.grad)


def test_functions_are_cudas_own(fresh):  # noqa: F811
    """PyTorch's on the host have other last bits in f32, which rounding to bf16 shows in few elements."""

    def activations(x):
        return torch.nn.functional.silu(x) * torch.tanh(x) + torch.nn.functional.gelu(x.exp())

    x = torch.linspace(-6, 6, 8192).to(torch.bfloat16)
    assert differing(activations, "eager", x) < 0.002
    stitch.torch.reset()
    assert differing(activations, "default", x) > 0.02


def test_an_unknown_word_is_an_error():
    with pytest.raises(Exception, match="'eagre' is none of default, eager"):
        torch.compile(chain, backend="stitch", options={"precision": "eagre"})(torch.ones(2), torch.ones(2))
