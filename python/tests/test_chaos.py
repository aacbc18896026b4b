"""STITCH_CHAOS: whatever becomes of what is asked of servers, a program of the user's has its framework's results."""

import collections
import os
import subprocess
import sys

import numpy
import pytest

import stitch
from stitch import _chaos

SEEDS = (1, 2, 3)
KINDS = {"unavailable", "plan: timeout", "plan: corrupt", "plan: parse", "plan: not_found", "plan: resource_exhausted"}


@pytest.fixture
def chaos(monkeypatch):
    """Has a seed decide from now on; then what was done is `_chaos.counts()`."""
    stitch.connect()

    def begin(seed: int) -> None:
        monkeypatch.setattr(_chaos, "_calls", 0)
        monkeypatch.setattr(_chaos, "_done", collections.Counter())
        monkeypatch.setenv("STITCH_CHAOS", str(seed))

    return begin


def results_of(torch, functions, compiles: bool) -> list:
    """Of functions of other shapes and of another who multiplies, with their gradients."""
    results = []
    for turn, function in enumerate(functions):
        x = torch.linspace(-1, 1, (turn + 2) * 6).view(-1, 6).requires_grad_()
        run = function
        if compiles:
            torch._dynamo.reset()
            options = {"device": "emulated", "deadline_ms": 60_000, "products": ("torch", "ours")[turn % 2]}
            run = torch.compile(function, backend="stitch", dynamic=False, options=options)
        y = run(x)
        y.square().sum().backward()
        results += [y.detach(), x.grad]
    return results


def test_pytorch_has_its_results(chaos, monkeypatch):
    torch = pytest.importorskip("torch")
    import stitch.torch
    from stitch.torch import _runtime

    torch.manual_seed(4)
    w, b = torch.randn(6, 4), torch.randn(4)
    functions = [
        lambda x: torch.softmax(x * 1.5, -1),
        lambda x: torch.tanh(x @ w + b).exp(),
        lambda x: torch.nn.functional.layer_norm(x, (6,)).sin(),
        lambda x: torch.softmax(x @ w, -1),
    ]
    right, done, ours = results_of(torch, functions, compiles=False), collections.Counter(), 0
    for seed in SEEDS:
        monkeypatch.setattr(_runtime, "_slots", {})
        monkeypatch.setattr(_runtime, "_dead", {})
        stitch.torch.reset()
        chaos(seed)
        for found, expected in zip(results_of(torch, functions, compiles=True), right, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        report = stitch.torch.report()
        done.update(_chaos.counts())
        ours += report["kernel_calls"]
        assert {entry["kind"] for entry in report["failed"]} <= KINDS, report["failed"]
    assert {"answered", "damaged", "not_found"} <= set(done) and ours > 0, done


def test_jax_has_its_results(chaos):
    jax = pytest.importorskip("jax")
    import stitch.jax

    done = collections.Counter()
    for seed in SEEDS:
        chaos(seed)
        for rows in (2, 3):

            def f(x, rows=rows):
                product = jax.nn.softmax(jax.numpy.tanh(x) * 2 + rows, -1) @ jax.numpy.ones((5, 3))
                return product + jax.numpy.exp(-x).sum()

            x = jax.numpy.linspace(-1, 1, rows * 5).reshape(rows, 5) * (1 + seed / 8)
            ours = jax.jit(stitch.jax.jit(f, device="emulated", improve=False))
            numpy.testing.assert_allclose(ours(x), f(x), rtol=1e-4, atol=1e-4)
        done.update(_chaos.counts())
    assert len(done) >= 3 and done["answered"] > 0, done


def test_onnx_has_its_results(chaos):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    import stitch.onnx
    from test_onnx import QUICK, perceptron

    x = numpy.linspace(-1, 1, 6 * 32, dtype="float32").reshape(6, 32)
    theirs = onnxruntime.InferenceSession(perceptron(6), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    done = collections.Counter()
    for seed in SEEDS:
        chaos(seed)
        for _ in range(3):
            providers = [("StitchExecutionProvider", QUICK[0]), "CPUExecutionProvider"]
            found = stitch.onnx.InferenceSession(perceptron(6), providers=providers).run(None, {"x": x})
            for ours, right in zip(found, theirs, strict=True):
                numpy.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-5)
        done.update(_chaos.counts())
    assert len(done) >= 3 and done["answered"] > 0, done


def test_the_variable_is_all_that_a_program_needs(tmp_path):
    """And its report says what was done."""
    script = (
        "import stitch\n"
        "failed = 0\n"
        "for _ in range(40):\n"
        "    try:\n"
        "        stitch.plan(path, improve=False)\n"
        "    except stitch.Error as error:\n"
        "        assert 'STITCH_CHAOS=3: plan' in str(error)\n"
        "        failed += 1\n"
        "done = stitch.report()['chaos']\n"
        "assert sum(done.values()) == 40 and failed == 40 - done['answered'] - done['late'], (done, failed)\n"
    )
    model = "HloModule m\nENTRY main { x = f32[64] parameter(0)\n ROOT y = f32[64] tanh(x) }"
    (tmp_path / "tanh.hlo.txt").write_text(model)
    script = f"path = {str(tmp_path / 'tanh.hlo.txt')!r}\n" + script
    stitch.connect()
    environment = {**os.environ, "STITCH_CHAOS": "3"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)


def test_what_happens_depends_on_the_seed_and_the_call_alone(monkeypatch):
    def of(seed):
        monkeypatch.setattr(_chaos, "_calls", 0)
        return [_chaos._drawn(seed)[0] for _ in range(200)]

    monkeypatch.setattr(_chaos, "_done", collections.Counter())
    assert of("1") == of("1") != of("2")
    assert set(of("1")) == {*_chaos._SHARES, "answered"}
    assert sum(_chaos.counts().values()) == 800


def test_without_a_seed_nothing_happens(monkeypatch):
    monkeypatch.delenv("STITCH_CHAOS", raising=False)
    monkeypatch.setattr(_chaos, "_done", collections.Counter())
    assert [_chaos.answered("plan", lambda: b"as ever") for _ in range(50)] == [b"as ever"] * 50
    assert _chaos.counts() == {}
