"""Where nothing may be made (STITCH_MODE=replay, predict=False, stitch.freeze) a miss falls back, and is counted."""

import json
import logging
import subprocess
import sys

import numpy
import pytest

from conftest import counters, gained, settled

import stitch
from stitch import _native, errors
from stitch._activity import counts

_MISSED = 'stitch_lookups_total{source="missed"}'
_MISSES = "stitch_serving_misses_total"


def scaled(extent: int) -> str:
    """A graph that no other test has."""
    return json.dumps(
        {
            "format": "stitch-graph",
            "version": 1,
            "name": "scaled",
            "nodes": [
                {"op": "parameter", "attributes": {"type": f"f32[{extent}]"}},
                {"op": "exp", "operands": [0]},
                {"op": "multiply", "operands": [0, 1]},
            ],
            "results": [2],
        }
    )


@pytest.fixture(scope="module", autouse=True)
def server():
    stitch.connect()


@pytest.fixture
def replay(monkeypatch):
    monkeypatch.setenv("STITCH_MODE", "replay")


def missed_by(run, folder) -> dict:
    """What the server did, and this process's clients counted, during a call."""
    before, ours = settled(folder), counts()
    run()
    assert gained(ours, counts()).keys() <= {"misses", "programs", "plans_stored", "plans_loaded"}
    found = gained(before, settled(folder))
    assert found.get(_MISSES) == found.get(_MISSED) == counts()["misses"] - ours["misses"]
    return found


@pytest.mark.parametrize("by", ["replay", "predict"])
def test_plans_and_programs_are_missing_at_once(by, folder, monkeypatch):
    settings = {"predict": False} if by == "predict" else {}
    if by == "replay":
        monkeypatch.setenv("STITCH_MODE", "replay")

    def miss():
        with pytest.raises(stitch.PlanMissing, match="no plan for fragment .* is stored"):
            stitch.plan(scaled(101), **settings)
        with pytest.raises(stitch.PlanMissing, match="1 of the 1 fragments of scaled have no plan"):
            stitch.program(scaled(102), **settings)

    assert missed_by(miss, folder) == {_MISSED: 2, _MISSES: 2, "stitch_programs_made_total": 1}


def test_who_asks_why_misses_nothing(folder):
    before = settled(folder)
    assert stitch.why(scaled(103))["plan"] is None
    assert gained(before, settled(folder)) == {}


def test_jax_leaves_what_is_missing_to_xla(replay, folder, caplog):
    jax = pytest.importorskip("jax")
    if _native.xla_handler() is None:
        pytest.skip("the native module was built without XLA's headers")
    import stitch.jax

    stitch.jax.reset()
    x = jax.numpy.linspace(-1, 1, 104)

    def function(x):
        return jax.numpy.tanh(x) * x

    def miss():
        step = stitch.jax.jit(function, device="emulated")
        with caplog.at_level(logging.WARNING, "stitch.jax"):
            for _ in range(2):
                numpy.testing.assert_allclose(step(x), function(x), rtol=1e-6)

    assert missed_by(miss, folder) == {_MISSED: 1, _MISSES: 1, "stitch_programs_made_total": 1}
    report = stitch.jax.report()
    assert report["programs"] == report["calls"] == report["runs"] == report["reference_steps"] == 0, report
    (entry,) = report["fell_back"]
    assert entry["count"] == 1 and "have no plan" in entry["reason"], report
    assert caplog.text.count("XLA runs function") == 1
    with pytest.raises(errors.PlanMissing):
        stitch.jax.jit(lambda x: jax.numpy.tanh(x) * x * x, device="emulated", fallback="error")(x)


def test_onnx_leaves_what_is_missing_to_onnxruntime(folder, caplog, monkeypatch):
    parser = pytest.importorskip("onnx.parser")
    pytest.importorskip("onnxruntime")
    import stitch.onnx

    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, 40] x) => (float[n, 40] y) { s = Tanh(x)  y = Mul(s, x) }'
    ).SerializeToString()
    ours = ["StitchExecutionProvider"]
    both = [*ours, "CPUExecutionProvider"]
    options = [{"improve": "0", "deadline_ms": 600_000}]
    session = stitch.onnx.InferenceSession(model, providers=both, provider_options=[*options, {}])

    def run(rows: int, session=session):
        x = numpy.random.default_rng(rows).standard_normal((rows, 40), "float32")
        (y,) = session.run(None, {"x": x})
        numpy.testing.assert_allclose(y, numpy.tanh(x) * x, rtol=1e-5, atol=1e-6)

    run(5)
    monkeypatch.setenv("STITCH_MODE", "replay")

    def miss():
        with caplog.at_level(logging.WARNING, "stitch.onnx"):
            for rows in (5, 6, 5, 6, 7, 6):
                run(rows)

    # Each set of extents is asked for once.
    assert missed_by(miss, folder) == {_MISSED: 2, _MISSES: 2, "stitch_programs_made_total": 2}
    assert caplog.text.count("onnxruntime runs the model") == 1
    assert session.get_providers() == both and session.info()["launches"] > 0

    alone = stitch.onnx.InferenceSession(model, providers=ours, provider_options=options)
    run(5, alone)
    for _ in range(2):
        with pytest.raises(stitch.onnx.PlanMissing, match="have no plan") as raised:
            run(6, alone)
    assert isinstance(raised.value, stitch.PlanMissing)
    strict = stitch.onnx.SessionOptions()
    strict.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(stitch.onnx.EPFail, match="have no plan"):
        run(6, stitch.onnx.InferenceSession(model, strict, both, [*options, {}]))


def test_torch_leaves_what_is_missing_to_pytorch(replay, folder, caplog):
    torch = pytest.importorskip("torch")
    import stitch.torch

    stitch.torch.reset()
    before = stitch.torch.report()["plans"]
    x = torch.linspace(-1, 1, 105)

    def function(x):
        return torch.tanh(x) * x

    def miss():
        run = torch.compile(function, backend="stitch", options={"device": "emulated", "deadline_ms": 600_000})
        with caplog.at_level(logging.WARNING, "stitch.torch"):
            for _ in range(3):
                torch.testing.assert_close(run(x), function(x))

    assert missed_by(miss, folder) == {_MISSED: 1, _MISSES: 1}
    report = stitch.torch.report()
    assert report["eager_calls"] == 3 and report["kernel_calls"] == 0, report
    assert gained(before, report["plans"]) == {"missing": 1}, report
    (entry,) = report["failed"]
    assert entry["kind"] == "plan: not_found" and entry["count"] == 1 and "is stored" in entry["message"], report
    assert caplog.text.count("is stored") == 1


_FROZEN = """
import json, sys
import numpy, stitch
sys.path.insert(0, {tests!r})
from test_replay import counts, scaled
x = numpy.linspace(-1, 1, 106, dtype="float32")
plan = stitch.plan(scaled(106), improve=False, deadline_ms=600_000)
plan.watch()
{before}
kept = stitch.plan(scaled(106), improve=False)
kept.freeze()
first = counts()
assert not first["frozen"]
print("ready", flush=True)
assert sys.stdin.readline() == "go on\\n"
stitch.freeze()
for ask in (stitch.plan, stitch.program, stitch.tune):
    try:
        ask(scaled(107))
        raise SystemExit(f"{{ask.__name__}} has a plan")
    except stitch.PlanMissing as error:
        pass
assert not plan.check_for_update() and not kept.check_for_update()
numpy.testing.assert_allclose(stitch.plan(scaled(106)).run(x), x * numpy.exp(x), rtol=1e-5)
numpy.testing.assert_allclose(plan.run(x), x * numpy.exp(x), rtol=1e-5)
{after}
last = counts()
assert last["frozen"]
print(json.dumps({{name: last[name] - first[name] for name in first if last[name] != first[name]}}))
"""
_TORCH = """
import torch, stitch.torch
def function(x):
    return torch.tanh(x) * x * x
options = {"device": "emulated", "deadline_ms": 600_000, "effort": "none"}
run = torch.compile(function, backend="stitch", dynamic=False, options=options)
y = torch.linspace(-1, 1, 106)
run(y)
"""
_TORCH_AFTER = """
stitch.torch.reset()
torch.testing.assert_close(run(y), function(y))
assert stitch.torch.report()["kernel_calls"] == 1
torch.testing.assert_close(run(y[:100]), function(y[:100]))
report = stitch.torch.report()
assert report["kernel_calls"] == report["eager_calls"] == 1 and report["plans"]["missing"] == 1, report
"""


@pytest.mark.parametrize("front_end", ["numpy", "torch"])
def test_nothing_is_made_for_a_frozen_process(front_end, folder):
    before, after = ("", "")
    if front_end == "torch":
        pytest.importorskip("torch")
        before, after = _TORCH, _TORCH_AFTER
    script = _FROZEN.format(tests=str(__file__.rsplit("/", 1)[0]), before=before, after=after)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        told = process.stdout.readline()
        assert told == "ready\n", process.stderr.read()
        then = settled(folder)
        out, error = process.communicate("go on\n", timeout=900)
    assert process.returncode == 0, error
    misses = 3 if front_end == "numpy" else 4
    # A program's outline is made for a question, and no kernel of it.
    assert gained(then, settled(folder)) == {
        'stitch_lookups_total{source="store"}': 1, _MISSED: misses, _MISSES: misses, "stitch_programs_made_total": 1,
    }  # fmt: skip
    assert json.loads(out) == {
        "misses": misses, "programs": 1, "plans_stored": 1, "plans_loaded": 1, "artifacts_kept": 1, "frozen": True,
    }  # fmt: skip

