"""Several processes on one server and one store: each plan is made once, and a second time nothing is made at all."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from conftest import address_of, counters, gained, jobs_of, servers, settled

from stitch import _programs

_SUMS = """
import hashlib, json, os, pathlib, shutil, sys, time
import numpy, stitch

def sums(rows):
    return {"format": "stitch-graph", "version": 1, "name": "sums", "nodes": [
        {"op": "parameter", "attributes": {"type": f"f32[{rows},96]"}},
        {"op": "reduce", "operands": [0], "attributes": {"kind": "sum", "dimensions": [1]}}], "results": [1]}
"""
_SCRIPT = _SUMS + """
plans = [stitch.plan(sums(8 * i), deadline_ms=120_000) for i in (1, 2, 3)]
program = stitch.program(json.dumps(sums(8)), deadline_ms=120_000)
ones = numpy.ones((8, 96), "float32")
assert plans[0].run(ones)[0] == program.run(ones)[0] == 96
print(json.dumps([plan.info["id"] for plan in plans] + [program.lock(), stitch.report()]))
"""
_REPLAYED = """
import stitch
try:
    stitch.plan({"format": "stitch-graph", "version": 1, "name": "exp", "nodes": [
        {"op": "parameter", "attributes": {"type": "f32[7]"}}, {"op": "exp", "operands": [0]}], "results": [1]})
except stitch.PlanMissing as error:
    print(f'["{error}"]')
"""
# One of several that run at once. Files in a folder are what they wait for: the parent's words, and their answers.
_MEETING = """
rank, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])

def wait_for(word):
    while not (folder / word).exists():
        time.sleep(0.01)

def say(word):
    (folder / f"{word}.{rank}").touch()

def lose_the_cache():
    shutil.rmtree(os.environ["STITCH_CACHE_DIR"])

if rank == int(sys.argv[3]):
    wait_for("late ones")
"""
_RANK = _SUMS + _MEETING + """
plans = [stitch.plan(sums(8 * i), deadline_ms=120_000) for i in (1, 2)]
if rank == 3:
    lose_the_cache()
plans.append(stitch.plan(sums(24), deadline_ms=120_000))
say("begun")
wait_for("all are tuned")
if rank == 3:
    lose_the_cache()
for plan in plans:
    plan.check_for_update()
for i, plan in enumerate(plans):
    assert (plan.run(numpy.ones((8 * (i + 1), 96), "float32")) == 96).all()
print(json.dumps([plan.info["id"] for plan in plans]))
"""
_TORCH = """
import torch, stitch.torch
from stitch.torch import _runtime

def step(x):
    return torch.nn.functional.layer_norm(x, (96,)).tanh(), x.exp().sum(-1)

run = torch.compile(step, backend="stitch", options={"device": "emulated", "deadline_ms": 120_000})
x = torch.linspace(-1, 1, 8 * 96).reshape(8, 96)
torch.testing.assert_close(run(x), step(x))
assert stitch.torch.wait(120)
"""
_TORCH_RANK = _SUMS + _MEETING + _TORCH + """
if rank == 1:
    lose_the_cache()
say("begun")
wait_for("all are tuned")
for slot in _runtime._slots.values():
    slot.plan.check_for_update()
torch.testing.assert_close(run(x), step(x))
report = stitch.torch.report()
assert report["plans"]["missing"] == report["eager_calls"] == 0 and report["kernel_calls"] > 0, report
print(json.dumps(stitch.torch.fingerprint()))
"""
_WORK = (
    "stitch_kernels_compiled_total",
    "stitch_kernels_verified_total",
    "stitch_measurements_total",
    "stitch_plans_predicted_total",
    "stitch_plans_tuned_total",
)


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "cache").mkdir()
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(tmp_path), STITCH_CACHE_DIR=str(tmp_path / "cache"))
    environment.pop("STITCH_SERVER", None)
    yield environment
    stop(tmp_path)


def stop(folder):
    """Ends the servers below a folder, and waits until they have."""
    for process in servers(folder):
        os.kill(process, 15)
    end = time.monotonic() + 300
    while servers(folder):
        assert time.monotonic() < end
        time.sleep(0.02)


def begin(environment, script=_SCRIPT, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, error = process.communicate(timeout=900)
    assert process.returncode == 0, error
    return json.loads(out)


def work_of(folder) -> list[float]:
    """What the server did since it was started."""
    now = counters(folder)
    return [now[name] for name in _WORK]


def meet(environment, folder, script, count: int, late: int) -> list:
    """Runs ranks at once on a server whose store is empty, but for one that begins when the others' plans are tuned;
    what each says at its end."""
    told(begin(environment, "import json, stitch; stitch.connect(); print(json.dumps(None))"))
    ranks = []
    for rank in range(count):
        cache = folder / f"cache of {rank}"
        cache.mkdir()
        own = dict(environment, STITCH_SERVER=address_of(folder), STITCH_CACHE_DIR=str(cache), RANK=str(rank))
        ranks.append(begin(own, script, rank, folder, late))

    def all_have_begun(those):
        end = time.monotonic() + 900
        while not all((folder / f"begun.{rank}").exists() for rank in those):
            for rank in those:
                assert ranks[rank].poll() in (None, 0), ranks[rank].communicate()[1]
            assert time.monotonic() < end, "a rank hangs"
            time.sleep(0.02)

    all_have_begun([rank for rank in range(count) if rank != late])
    settled(folder)
    (folder / "late ones").touch()
    all_have_begun(range(count))
    settled(folder)
    (folder / "all are tuned").touch()
    return [told(rank) for rank in ranks]


def test_eight_ranks_have_each_fragment_tuned_once_and_end_with_the_same_plans(environment, tmp_path):
    ids = meet(environment, tmp_path, _RANK, 8, late=7)
    assert len(set(ids[0])) == 3 and all(of == ids[0] for of in ids), ids
    tuned = [job for job in jobs_of(tmp_path) if job["kind"] == "tune-fragment"]
    assert len(tuned) == 3 and {job["state"] for job in tuned} == {"done"}, tuned
    now = counters(tmp_path)
    assert now["stitch_plans_predicted_total"] == now["stitch_plans_tuned_total"] == 3
    assert now['stitch_store_records{kind="incumbents"}'] == 3


def test_ranks_of_torch_have_the_same_fingerprint(environment, tmp_path):
    pytest.importorskip("torch")
    one, other, late = meet(environment, tmp_path, _TORCH_RANK, 3, late=2)
    assert one == other == late and len(one) == 64
    tuned = [job for job in jobs_of(tmp_path) if job["kind"] == "tune-fragment"]
    now = counters(tmp_path)
    assert 0 < len(tuned) == now['stitch_store_records{kind="fragments"}'] == now["stitch_plans_tuned_total"], tuned
    assert now["stitch_plans_predicted_total"] == len(tuned)


def phases_of(folder) -> dict:
    """The process that was traced, as `stitch trace` has it; what its phases took is printed."""
    command = [_programs.find("stitch"), "trace", str(folder)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    (process,) = json.loads(told)["processes"]
    return process


def test_a_second_process_on_a_warm_store_has_nothing_made(environment, tmp_path):
    first = told(begin(environment))
    before = settled(tmp_path)
    assert all(before[name] > 0 for name in _WORK if name != "stitch_measurements_total"), before
    assert before["stitch_measurements_total"] == 0, "the emulated device has no times"
    assert first[-1]["plans_predicted"] == 3 and first[-1]["misses"] == 0, first
    stop(tmp_path)

    # Another daemon on the same store, another process.
    second = told(begin(dict(environment, STITCH_TRACE=str(tmp_path / "trace"))))
    after = settled(tmp_path)
    assert work_of(tmp_path) == [0] * len(_WORK), after
    records = {name for name in gained(before, after) if name.startswith("stitch_store_records")}
    assert not records, records
    asked = {name: count for name, count in after.items() if "lookups" in name and count}
    assert asked == {'stitch_lookups_total{source="store"}': 3} and after["stitch_programs_made_total"] == 1, asked
    report = second[-1]
    assert report["plans_predicted"] == report["misses"] == report["swaps"] == report["artifacts_fetched"] == 0, report
    assert report["plans_stored"] == 4 and report["plans_loaded"] == 3 and report["programs"] == 1, report
    phases = phases_of(tmp_path / "trace")
    assert phases["misses"] == phases["made"] == 0 and phases["hits"] > 0, phases

    # Where the store and what compilers made are gone, all of it is done again.
    stop(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    told(begin(environment))
    settled(tmp_path)
    done = dict(zip(_WORK, work_of(tmp_path), strict=True))
    assert all(count > 0 for name, count in done.items() if name != "stitch_measurements_total"), done


def test_a_second_process_of_torch_on_a_warm_store_has_nothing_made(environment, tmp_path):
    pytest.importorskip("torch")
    script = "import json\n" + _TORCH + "print(json.dumps([stitch.torch.report(), stitch.report()]))\n"
    told(begin(environment, script))
    settled(tmp_path)
    stop(tmp_path)
    torch, clients = told(begin(environment, script))
    settled(tmp_path)
    assert work_of(tmp_path) == [0] * len(_WORK)
    assert torch["kernel_calls"] > 0 and torch["eager_calls"] == 0 and torch["failed"] == [], torch
    assert clients["plans_stored"] > 0 and clients["plans_predicted"] == clients["artifacts_fetched"] == 0, clients


def test_a_process_that_replays_has_what_is_stored_and_nothing_else(environment, tmp_path):
    first = told(begin(environment))
    settled(tmp_path)
    replaying = dict(environment, STITCH_MODE="replay")
    assert len(told(begin(replaying))) == len(first)
    before = settled(tmp_path)
    assert "is stored" in told(begin(replaying, _REPLAYED))[0]
    assert gained(before, settled(tmp_path)) == {
        'stitch_lookups_total{source="missed"}': 1,
        "stitch_serving_misses_total": 1,
    }
