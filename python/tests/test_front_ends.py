"""What all front ends promise of their first result: PyTorch, JAX and ONNX on a stitchd of the test's own, whose store is
empty, and on what the first process left in it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
import conftest
from conftest import servers

from stitch import _programs

TORCH = """
import copy, sys, torch, stitch.torch
torch.manual_seed(1)
eager = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.GELU(), torch.nn.LayerNorm(24))
model = copy.deepcopy(eager)
options = {"device": "emulated", "deadline_ms": int(sys.argv[1])}
compiled = torch.compile(model, backend="stitch", options=options)
x = torch.randn(5, 24)
for run in (compiled, eager):
    (run(x) * torch.linspace(-1, 1, 24)).sum().backward()
torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
for a, b in zip(model.parameters(), eager.parameters()):
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
report = stitch.torch.report()
assert report["share"] == 1.0, report
phases = {"capture (Dynamo)", "capture (AOTAutograd)", "split", "import"}
assert phases | ({"fetch"} if report["kernel_calls"] else set()) <= report["seconds"].keys(), report
print(report["kernel_calls"], report["eager_calls"])
"""

JAX = """
import sys, jax, jax.numpy as jnp, numpy, stitch.jax
loss = lambda w, x: jnp.mean(jax.nn.softmax(x @ w) ** 2)
ours = stitch.jax.jit(loss, device="emulated", deadline_ms=int(sys.argv[1]))
w, x = jnp.eye(16), jnp.linspace(0, 1, 64).reshape(4, 16)
found, right = (jax.jit(jax.value_and_grad(of))(w, x) for of in (ours, loss))
for a, b in zip(found, right):
    numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
report = stitch.jax.report()
print(report["runs"], len(report["fell_back"]))
"""

ONNX = """
import sys, numpy, onnx.parser, stitch.onnx
text = '<ir_version: 8, opset_import: ["": 17]> g (float[6, 40] x) => (float[6, 40] y) { s = Softmax(x)  y = Mul(s, x) }'
model = onnx.parser.parse_model(text).SerializeToString()
options = [{"deadline_ms": sys.argv[1]}, {}]
providers = ["StitchExecutionProvider", "CPUExecutionProvider"]
session = stitch.onnx.InferenceSession(model, providers=providers, provider_options=options)
x = numpy.linspace(-2, 2, 240, dtype="float32").reshape(6, 40)
e = numpy.exp(x - x.max(1, keepdims=True))
numpy.testing.assert_allclose(session.run(None, {"x": x})[0], e / e.sum(1, keepdims=True) * x, rtol=1e-4, atol=1e-6)
ours = session.get_providers()[0] == "StitchExecutionProvider"
print(int(ours), int(not ours))
"""

SCRIPTS = {"torch": TORCH, "jax": JAX, "onnx": ONNX}
FRONT_ENDS = pytest.mark.parametrize("front_end", SCRIPTS)

# Holds the one worker of a server: what is tuned on demand goes before what look-ups want tuned.
BUSY = """
import stitch
from stitch import _tuning
def long(columns):
    return {"format": "stitch-graph", "version": 1, "name": "long", "nodes": [
        {"op": "parameter", "attributes": {"type": f"f32[4096,{columns}]"}}, {"op": "exp", "operands": [0]},
        {"op": "reduce", "operands": [1], "attributes": {"kind": "sum", "dimensions": [1]}}], "results": [2]}
client = stitch._server.shared()
for i in range(240):
    _tuning.begin(client, stitch.fragment(long(4096 + i)), "", "quick", 0)
"""


def done_by(front_end: str, deadline_ms: int, environment, **variables):
    """A script that has compared its results."""
    pytest.importorskip(front_end)
    command = [sys.executable, "-c", SCRIPTS[front_end], str(deadline_ms)]
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def run(front_end: str, deadline_ms: int, environment, **variables) -> tuple[int, int]:
    """How often kernels of ours ran, and how often the framework itself."""
    ours, theirs = done_by(front_end, deadline_ms, environment, **variables).stdout.split()
    return int(ours), int(theirs)


def counters(environment, *prefixes: str) -> dict:
    """The server's counters whose names begin so."""
    found = conftest.counters(environment["XDG_RUNTIME_DIR"])
    return {name: value for name, value in found.items() if name.startswith(prefixes)}


def answered_from(environment) -> dict:
    """How many look-ups, by where their answer came from."""
    found = counters(environment, "stitch_lookups_total")
    return {name.partition('"')[2].rpartition('"')[0]: int(count) for name, count in found.items() if count}


def told(*command) -> list | dict:
    done = subprocess.run(
        [_programs.find("stitch"), *map(str, command), "--json"], env=_programs.environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tuning_jobs(environment) -> dict[int, str]:
    """The states of the jobs that tune fragments, by number; the server has others of its own."""
    jobs = conftest.jobs_of(environment["XDG_RUNTIME_DIR"])
    return {job["id"]: job["state"] for job in jobs if job["kind"] == "tune-fragment"}


def place_of(folder: pathlib.Path) -> dict:
    """The environment of processes whose server and store are in a folder."""
    (folder / "cache").mkdir(exist_ok=True)
    variables = {"XDG_RUNTIME_DIR": str(folder), "STITCH_CACHE_DIR": str(folder / "cache")}
    return {name: value for name, value in {**os.environ, **variables}.items() if name != "STITCH_SERVER"}


@pytest.fixture
def busy(tmp_path):
    """A server that has other things to tune for minutes."""
    environment = place_of(tmp_path)
    begun = subprocess.run([sys.executable, "-c", BUSY], env=environment, capture_output=True, text=True)
    assert begun.returncode == 0, begun.stderr
    yield environment
    for process in servers(environment["XDG_RUNTIME_DIR"]):
        os.kill(process, signal.SIGKILL)  # asked to end it would finish the kernel that it has under way


@FRONT_ENDS
def test_the_first_result_waits_for_no_tuning(front_end, busy):
    """Without time for plans the framework runs; with some, kernels that were predicted do, while what was to be tuned
    still waits for its turn."""
    others = tuning_jobs(busy)
    assert sum(run(front_end, 0, busy)) > 0
    ours, theirs = run(front_end, 60_000, busy)
    assert ours > 0 and theirs == 0
    own = [state for number, state in tuning_jobs(busy).items() if number not in others]
    assert own and set(own) == {"queued"}, own
    assert not any(counters(busy, "stitch_measurements", 'stitch_store_records{kind="measurements"}').values())


BUDGET = """
import stitch
graph = {"format": "stitch-graph", "version": 1, "name": "bounded", "results": [1], "nodes": [
    {"op": "parameter", "attributes": {"type": "f32[6,40]"}}, {"op": "exp", "operands": [0]}]}
print(stitch.tune(graph, effort="full", budget_seconds=1).info["label"])
"""


def test_a_budget_ends_what_a_server_would_tune(busy):
    """It has other things to do for minutes: when the budget is over the work is ended, and there is the best plan so far."""
    others = tuning_jobs(busy)
    done = subprocess.run([sys.executable, "-c", BUDGET], env=busy, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == "predicted\n", (done.stdout, done.stderr[-4000:])
    assert [state for number, state in tuning_jobs(busy).items() if number not in others] == ["cancelled"]


def end_servers(environment) -> None:
    for process in servers(environment["XDG_RUNTIME_DIR"]):
        os.kill(process, signal.SIGTERM)
    while servers(environment["XDG_RUNTIME_DIR"]):
        time.sleep(0.01)


def changed(data: bytes) -> bytes:
    wrong = bytearray(data)
    wrong[len(wrong) // 2] ^= 0x10
    return bytes(wrong)


def damage(store: pathlib.Path) -> None:
    """Changes a bit of every kernel, source and graph that is stored."""
    for file in [*store.glob("artifacts/*"), *store.glob("kernels/*")]:
        if file.is_file() and file.stat().st_size:
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(changed(content))
    with contextlib.closing(sqlite3.connect(store / "stitch.db")) as database, database:
        rows = database.execute("SELECT row, data FROM artifact").fetchall()
        assert rows
        database.executemany("UPDATE artifact SET data = ? WHERE row = ?", [(changed(data), row) for row, data in rows])


@pytest.fixture(scope="module", params=SCRIPTS)
def warm(request, tmp_path_factory):
    """A front end, and where its store is: the one that its first process left. No server runs."""
    environment = place_of(tmp_path_factory.mktemp("warm"))
    run(request.param, 60_000, environment)
    assert answered_from(environment).keys() <= {"predicted", "pending"}
    conftest.settled(environment["XDG_RUNTIME_DIR"])
    end_servers(environment)
    yield request.param, environment
    end_servers(environment)


def test_a_second_process_makes_nothing(warm, tmp_path):
    """What was planned, compiled, verified and measured stays as it was, all look-ups are answered from the store, and
    the process tells what it took by phase."""
    front_end, environment = warm
    subprocess.run([sys.executable, "-c", "import stitch; stitch.connect()"], env=environment, check=True, timeout=60)
    work = ("stitch_store_records", "stitch_kernels_", "stitch_measurements_", "stitch_plans_")
    before = counters(environment, *work)
    assert before and answered_from(environment) == {}
    ours, theirs = run(front_end, 60_000, environment, STITCH_TRACE=str(tmp_path / "traces"))
    conftest.settled(environment["XDG_RUNTIME_DIR"])
    assert ours > 0 and theirs == 0
    assert counters(environment, *work) == before
    # Plans of a whole program come with it.
    assert answered_from(environment).keys() == ({"store"} if front_end == "torch" else set())
    (told_of,) = told("trace", tmp_path / "traces")["processes"]
    assert told_of["misses"] == told_of["made"] == 0 and told_of["hits"] > 0
    phases = {phase["name"] for phase in told_of["phases"]}
    assert {"import", "load", "first launch"} <= phases and {"fetch", "make program"} & phases


def test_of_a_damaged_store_nothing_runs_and_the_reason_is_told(warm, tmp_path):
    front_end, undamaged = warm
    end_servers(undamaged)
    shutil.copytree(undamaged["STITCH_CACHE_DIR"], tmp_path / "cache")
    environment = place_of(tmp_path)
    damage(tmp_path / "cache")
    done = done_by(front_end, 60_000, environment)
    ours, theirs = map(int, done.stdout.split())
    assert ours + theirs > 0
    if theirs:
        # Which of the two finds it depends on the byte: the frame's decoder, or what it decodes to.
        assert "artifact " in done.stderr, done.stderr
        assert "the stored bytes have hash" in done.stderr or "zstd" in done.stderr, done.stderr
    end_servers(environment)


EXPORT = """
import base64, gzip, pathlib, re, sys, jax, jax.numpy as jnp, stitch.jax
folder = pathlib.Path(sys.argv[1])
ours = jax.jit(stitch.jax.jit(lambda x: jnp.tanh(x) * 2, device="emulated", improve=False, fallback="error"))
checks = [jax.export.DisabledSafetyCheck.custom_call(stitch.jax.CUSTOM_CALL)]
data = bytes(jax.export.export(ours, disabled_checks=checks)(jax.ShapeDtypeStruct((3, 8), "float32")).serialize())
(text,) = re.findall(rb"H4sI[A-Za-z0-9+/=]{100,}", data)  # the program, as gzip and base64 write it

def packed(document):
    return base64.b64encode(gzip.compress(document, 6, mtime=0))

def changed(data, place):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]

document = gzip.decompress(base64.b64decode(text))
assert packed(document) == text
wrong = bytearray(text)
wrong[len(text) // 2] = ord("A") + (text[len(text) // 2] == ord("A"))
(folder / "whole").write_bytes(data)
(folder / "text").write_bytes(data.replace(text, wrong))
# Packed anew, so that nothing but the program itself can tell; as long as before, for the file around it.
others = (packed(changed(document, place)) for place in range(len(document) // 2, len(document)))
(folder / "document").write_bytes(data.replace(text, next(other for other in others if len(other) == len(text))))
"""

CALL = """
import sys, jax, jax.numpy as jnp, numpy, stitch.jax
exported = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
try:
    numpy.testing.assert_allclose(exported.call(numpy.ones((3, 8), "float32")), 2 * numpy.tanh(1), rtol=1e-6)
    print("right")
except jax.errors.JaxRuntimeError as error:
    print(error)
assert abs(jnp.sin(1.0) - 0.841471) < 1e-5  # the process goes on
"""


def test_a_program_in_an_export_of_jaxs_that_was_changed_is_an_error_that_says_so(tmp_path):
    """There is nothing else in the module that XLA could run."""
    pytest.importorskip("jax")
    subprocess.run([sys.executable, "-c", EXPORT, str(tmp_path)], check=True, timeout=300)
    told = {}
    for name in ("whole", "text", "document"):
        command = [sys.executable, "-c", CALL, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        told[name] = done.stdout
    assert told["whole"] == "right\n"
    assert "DATA_LOSS: stitch: gzip" in told["text"] and "stitch: " in told["document"], told
