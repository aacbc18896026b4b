"""A part of PyTorch's own samples of its operators; bench/pytorch/opinfo.py has them all."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which PyTorch's samples import
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "pytorch"))

import opinfo_trial  # noqa: E402

NAMES = (
    "addcdiv argmax bitwise_left_shift copysign cumsum fmax gather hypot index_put logsumexp"
    " nn.functional.glu nn.functional.group_norm nn.functional.pad.reflect"
    " select_scatter slice_scatter softmax var_mean"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_samples_of_an_operator_are_right(name):
    row = opinfo_trial.tried(opinfo_trial.operators()[name], 1)
    assert row["samples"] and row["kernel_calls"]
    assert (row["wrong"], row["crashed"], row["failed"], row["fell_back"]) == ([], [], [], [])


def test_a_wrong_value_is_seen():
    op = opinfo_trial.operators()["exp"]
    sample = opinfo_trial.sampled(op, torch.float32, 1, False)[0]
    right = opinfo_trial.called(opinfo_trial.function(op), opinfo_trial.copied(sample), False)
    assert opinfo_trial.difference(op, sample, right, right, False) is None
    assert opinfo_trial.difference(op, sample, [right[0] * 1.01], right, False)
    assert opinfo_trial.difference(op, sample, [], right, False) == "0 results, not 1"
