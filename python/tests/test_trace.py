"""STITCH_TRACE: what processes tell of themselves, and `stitch trace`, which reads it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy
import pytest

import stitch
from stitch import _native, _programs, _trace

TANH = {
    "format": "stitch-graph", "version": 1, "name": "", "results": [2],
    "nodes": [
        {"op": "parameter", "attributes": {"type": "f32[5,33]"}},
        {"op": "tanh", "operands": [0]},
        {"op": "exp", "operands": [1]},
    ],
}  # fmt: skip


@pytest.fixture
def traces(tmp_path, monkeypatch):
    folder = tmp_path / "traces"
    monkeypatch.setenv("STITCH_TRACE", str(folder))
    return folder


def events_of(folder) -> list[dict]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def named(folder, name: str) -> list[dict]:
    return [event for event in events_of(folder) if event["event"] == name]


def run(script: str, folder, **environment) -> subprocess.CompletedProcess:
    """Another process on the session's server, which is there."""
    stitch.connect()
    environment = {**os.environ, "STITCH_TRACE": str(folder), **environment}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def told(folder, *options) -> list[dict]:
    command = [_programs.find("stitch"), "trace", str(folder), "--json", *options]
    done = subprocess.run(command, env=_programs.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["processes"]


def test_a_plan_is_told_from_its_look_up_to_its_first_launch(traces):
    plan = stitch.plan(TANH)
    array = numpy.full((5, 33), 0.123456789, "float32")
    for _ in range(3):
        plan.run(array)
    (fetch,) = named(traces, "fetch")
    assert fetch["plan"] == plan.info["id"] and fetch["name"] == "tanh, exp" and not fetch["hit"]
    assert fetch["dur"] >= 0 and abs(fetch["ts"] / 1e6 - time.time()) < 120
    assert len(named(traces, "load")) == len(named(traces, "first launch")) == 1
    assert "0.1234" not in "".join(file.read_text() for file in traces.iterdir())
    stitch.plan(TANH)
    assert named(traces, "fetch")[1]["hit"] is True


def test_a_miss_is_told_with_its_reason(traces, monkeypatch):
    monkeypatch.setenv("STITCH_MODE", "replay")
    other = json.loads(json.dumps(TANH).replace("5,33", "7,33"))
    with pytest.raises(stitch.PlanMissing):
        stitch.plan(other)
    (fetch,) = named(traces, "fetch")
    assert fetch["hit"] is False and "is stored" in fetch["reason"]


def test_nothing_is_written_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("STITCH_TRACE", raising=False)
    monkeypatch.chdir(tmp_path)
    _trace.event("nowhere")
    with _trace.phase("nowhere"):
        pass
    assert not _trace.enabled() and not list(tmp_path.iterdir())


def test_phases_tell_how_they_ended(traces):
    with pytest.raises(KeyError), _trace.phase("capture", name="f", ours=True):
        raise KeyError("x")
    (event,) = named(traces, "capture")
    assert event["error"] == "KeyError: 'x'" and event["ours"] is True and event["name"] == "f"


def test_a_forked_child_has_a_file_of_its_own(traces):
    _trace.event("parent")
    child = os.fork()
    if child == 0:
        _trace.event("child")
        os._exit(0)
    os.waitpid(child, 0)
    processes = {event["pid"]: event for event in named(traces, "begin")}
    assert set(processes) == {os.getpid(), child} and processes[child]["parent"] == os.getpid()
    assert len(named(traces, "child")) == 1


def test_ranks_are_told_by_the_environment(tmp_path):
    traces = tmp_path / "traces"
    script = f"import stitch; stitch.plan({TANH!r})"
    stitch.plan(TANH)
    for rank in ("0", "1"):
        assert run(script, traces, RANK=rank).returncode == 0
    processes = told(traces)
    assert [process["rank"] for process in processes] == [0, 1]
    assert all(process["ended"] and process["hits"] == 1 for process in processes)
    assert [process["rank"] for process in told(traces, "--latest")] == [1]


def test_a_process_that_is_killed_while_it_writes_leaves_what_it_wrote(traces):
    script = "from stitch import _trace\nfor i in range(10**9): _trace.event('step', number=i, name='n', us=1)"
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "STITCH_TRACE": str(traces)})
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(file.stat().st_size > 100_000 for file in traces.glob("*.jsonl")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (found,) = told(traces)
    assert not found["ended"] and len(found["steps"]) > 500
    assert sorted(step["number"] for step in found["steps"]) == list(range(len(found["steps"])))


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("no folder")
    script = f"import stitch, numpy\nprint(stitch.plan({TANH!r}).run(numpy.zeros((5, 33), 'float32')).sum())"
    done = run(script, tmp_path / "file")
    assert done.returncode == 0 and float(done.stdout) == pytest.approx(165)
    assert done.stderr.count("STITCH_TRACE: cannot write") == 1, done.stderr
    assert (tmp_path / "file").read_text() == "no folder"


def test_a_foreign_file_is_named(tmp_path):
    (tmp_path / "stitch-mine.jsonl").write_text('{"a": 1}\n')
    command = [_programs.find("stitch"), "trace", str(tmp_path)]
    done = subprocess.run(command, env=_programs.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "stitch-mine.jsonl, line 1: no trace of Stitch's" in done.stderr


def test_an_onnx_session_tells_how_its_model_was_read(traces):
    onnx = pytest.importorskip("onnx")
    import stitch.onnx

    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 21])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 21])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "tanhs", [x], [y])
    opset = [onnx.helper.make_opsetid("", 17)]
    session = stitch.onnx.InferenceSession(onnx.helper.make_model(graph, opset_imports=opset).SerializeToString())
    session.run(None, {"x": numpy.zeros((3, 21), "float32")})
    assert named(traces, "import")[0]["name"] == "tanhs"
    assert named(traces, "program")[0]["fragments"] == 1
    (launch,) = named(traces, "first launch")
    assert launch["on"] == "host memory"


def test_jax_tells_what_it_captured_and_what_fell_back(traces):
    jax = pytest.importorskip("jax")
    import stitch.jax

    array = jax.numpy.ones((4, 19), "float32")
    stitch.jax.jit(lambda x: jax.numpy.tanh(x) * 2, device="emulated")(array)
    assert named(traces, "capture") and named(traces, "make program") and named(traces, "first launch")
    stitch.jax.jit(lambda x: jax.numpy.tanh(x) * 3)(array)
    (fallback,) = named(traces, "fallback")
    assert fallback["to"] == "XLA" and "only on the emulated device" in fallback["reason"]


def test_torch_tells_every_phase(tmp_path):
    pytest.importorskip("torch")
    traces = tmp_path / "traces"
    script = """
import torch, stitch.torch
model = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.GELU(), torch.nn.LayerNorm(24))
compiled = torch.compile(model, backend="stitch", options={"device": "emulated"})
for _ in range(2):
    compiled(torch.ones(3, 24)).sum().backward()
    assert stitch.torch.wait(120)
odd = torch.compile(lambda x: torch.linalg.qr(x + 1)[0], backend="stitch", options={"device": "emulated"})
odd(torch.eye(5))
"""
    for _ in range(2):
        done = run(script, traces, RANK="2")
        assert done.returncode == 0, done.stderr
    first, second = told(traces)
    phases = {phase["name"] for phase in first["phases"]}
    assert {"capture (Dynamo)", "capture (AOTAutograd)", "split", "import", "fetch", "load", "first launch"} <= phases
    assert first["misses"] > 0 and all(row["reason"] for row in first["fragments"] if row["outcome"] == "miss")
    assert second["misses"] == 0 and second["hits"] == first["hits"] + first["misses"], "the same store"
    assert any("qr" in row["what"] and row["to"] == "PyTorch" for row in first["fallbacks"])
    report = [event for event in named(traces, "report") if event["of"] == "torch"]
    assert len(report) == 2 and report[0]["kernel_calls"] > 0
    page = traces / "page.html"
    told(traces, "--latest", "-o", str(page))
    assert '<svg class="trace"' in page.read_text() and "linalg_qr" in page.read_text()


def test_the_native_module_writes_with_the_interpreters_lock_free(traces):
    _native.trace("raw", '"a":1')
    _native.trace("raw", "", _trace.now())
    first, second = named(traces, "raw")
    assert first["a"] == 1 and "dur" not in first and second["dur"] >= 0
