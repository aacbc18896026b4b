"""Runs samples of operators: names come line by line, a row of JSON goes out for each.

A sample is *right* when ours is eager's within a tolerance, or not farther from eager in float64 than a few times
eager itself. What eager refuses, or what has no defined result, is no sample.
"""

import itertools
import json
import logging
import os
import sys

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

import stitch.torch

OPTIONS = {"device": "emulated", "deadline_ms": 60_000, "improve": False, "random": "eager"}

# Whatever was in the memory is right.
UNDEFINED = ("empty", "new_empty", "resize")


def operators() -> dict:
    """OpInfo's operators by name, variants included."""
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def dtype_of(op):
    wanted = (torch.float32, torch.int64, torch.bool)
    return next((dtype for dtype in wanted if dtype in op.dtypes), None)


def tensors(value) -> list:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def copied(sample, change=lambda x: x):
    def of(value):
        if not isinstance(value, torch.Tensor):
            return value
        return change(value.detach().clone()).requires_grad_(value.requires_grad)

    return pytree.tree_map(of, (sample.input, sample.args, sample.kwargs))


def double(x):
    return x.double() if x.is_floating_point() else x


def function(op):
    return lambda value, arguments, keywords: op.op(value, *arguments, **keywords)


def called(run, arguments, gradient: bool) -> list:
    """The results, and the gradients of the inputs where they are asked for."""
    torch.manual_seed(3)
    results = tensors(run(*arguments))
    if not gradient:
        return [y.detach() for y in results]
    differentiable = [y for y in results if y.requires_grad and y.is_floating_point()]
    inputs = [x for x in tensors(arguments) if x.requires_grad]
    gradients = torch.autograd.grad(differentiable, inputs, [torch.ones_like(y) for y in differentiable],
                                    allow_unused=True)  # fmt: skip
    return [y.detach() for y in results] + [g for g in gradients if g is not None]


def farthest(values, right) -> float:
    apart = [0.0]
    for a, b in zip(values, right):
        if b.numel() and b.is_floating_point():
            difference = (a.double() - b.double()).abs()
            difference = torch.where((a.double() == b) | (a.isnan() & b.isnan()), 0.0, difference)
            apart.append((difference / b.double().abs().clamp_min(1e-3)).nan_to_num(nan=float("inf")).max().item())
    return max(apart)


def difference(op, sample, found, expected, gradient: bool) -> str | None:
    """What is wrong with ours; nothing where it is right."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    try:
        for ours, eager in zip(found, expected):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, equal_nan=True, check_stride=False)
        return None
    except AssertionError as error:
        reason = str(error).strip().replace("\n", " ")
    try:
        right = called(function(op), copied(sample, double), gradient)
        if farthest(found, right) <= 8 * farthest(expected, right) + 1e-5:
            return None
    except Exception:
        pass  # no float64: eager is right
    return reason[:300]


def sampled(op, dtype, most: int, gradient: bool):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), most))


def attempt(op, sample, gradient: bool, row: dict) -> None:
    try:
        expected = called(function(op), copied(sample), gradient)
    except Exception:
        return
    row["samples"] += 1
    torch._dynamo.reset()
    try:
        compiled = torch.compile(function(op), backend="stitch", options=OPTIONS, dynamic=False)
        found = called(compiled, copied(sample), gradient)
    except Exception as error:
        row["crashed"].append(f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"[:300])
        return
    if not op.name.startswith(UNDEFINED) and (wrong := difference(op, sample, found, expected, gradient)):
        row["wrong"].append(wrong)


def tried(op, most: int) -> dict:
    row = {"samples": 0, "wrong": [], "crashed": []}
    dtype = dtype_of(op)
    stitch.torch.reset()
    if dtype is not None:
        for sample in sampled(op, dtype, most, False):
            attempt(op, sample, False, row)
        if dtype == torch.float32 and op.supports_autograd:
            for sample in sampled(op, dtype, 1, True):
                attempt(op, sample, True, row)
    report = stitch.torch.report()
    kept = ("operators", "operators_ours", "operators_library", "kernel_calls", "eager_calls", "fell_back", "failed")
    return {**row, **{name: report[name] for name in kept}}


def main() -> None:
    logging.disable(logging.WARNING)
    # Samples print; rows go where the parent reads.
    rows = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known = operators()
    for name in sys.stdin:
        op = known[name.strip()]
        try:
            row = tried(op, int(sys.argv[1]))
        except Exception as error:
            row = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(row), file=rows, flush=True)


if __name__ == "__main__":
    main()
