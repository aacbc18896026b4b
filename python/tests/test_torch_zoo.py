"""Some of the models from PyPI that bench/pytorch tries, by the same judgement; scripts/test-python --run
bench/pytorch/run.py has them all."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
for package in ("diffusers", "timm", "torchvision", "transformers"):
    pytest.importorskip(package)
BENCH = pathlib.Path(__file__).parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "pytorch")]

import page  # noqa: E402
import trial  # noqa: E402

# A decoder, an encoder, convolutions, diffusion and a scan; and what PyTorch runs of them. Eager's random numbers, which
# a comparison needs, are PyTorch's.
LEFT = {"GPT-2": [], "BERT": [], "MobileNetV3": [], "DiT": ["aten.rand.default"], "Mamba": []}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", LEFT)
def test_a_model_and_its_training_step_are_right_and_ours(name):
    rows = trial.tried(name, "float32", beside=False)
    assert set(rows) == {"forward", "training step"}
    for what, row in rows.items():
        assert not page.wrong(row), (what, page.verdict(row))
        assert page.share(row) >= 0.98 and row["kernel_calls"] > 0, (what, page.verdict(row))
        left = {entry["op"] for entry in row["fell_back"]}
        assert left <= set(LEFT[name]) and (row["failed"], row["eager_calls"]) == ([], 0), (what, row)


def test_a_wrong_result_is_seen():
    row = {"errors": [[1e-7, 1e-7], [9e-6, 1e-7]]}
    assert not page.wrong(row)
    assert page.wrong({"errors": [*row["errors"], [2e-5, 1e-6]]}) and page.wrong({"errors": [[float("nan"), 1.0]]})
    right = [torch.tensor([1.0, -2.0], dtype=torch.float64)]
    assert trial.error([torch.tensor([1.0, -2.0])], right) == 0
    assert trial.error([torch.tensor([1.0, -2.002])], right) == pytest.approx(1e-3, rel=1e-3)
    assert trial.error([], right) == trial.error([torch.tensor([1.0, float("nan")])], right) == float("inf")
