"""Several processes on one server and one store: each plan is made once, and a second time nothing is made at all."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

from conftest import servers

from stitch import _programs

_SCRIPT = """
import json, stitch

def sums(rows):
    return {"format": "stitch-graph", "version": 1, "name": "sums", "nodes": [
        {"op": "parameter", "attributes": {"type": f"f32[{rows},96]"}},
        {"op": "reduce", "operands": [0], "attributes": {"kind": "sum", "dimensions": [1]}}], "results": [1]}

plans = [stitch.plan(sums(8 * i), deadline_ms=120_000) for i in (1, 2, 3)]
print(json.dumps([plan.info["id"] for plan in plans]))
"""
_REPLAYED = """
import stitch
try:
    stitch.plan({"format": "stitch-graph", "version": 1, "name": "exp", "nodes": [
        {"op": "parameter", "attributes": {"type": "f32[7]"}}, {"op": "exp", "operands": [0]}], "results": [1]})
except stitch.PlanMissing as error:
    print(f'["{error}"]')
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "cache").mkdir()
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(tmp_path), STITCH_CACHE_DIR=str(tmp_path / "cache"))
    environment.pop("STITCH_SERVER", None)
    yield environment
    for process in servers(tmp_path):
        os.kill(process, 15)


def begin(environment, script=_SCRIPT):
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return json.loads(out)


def records(environment):
    """What the store holds, by kind, and look-ups by where their answer came from."""
    socket = next(pathlib.Path(environment["XDG_RUNTIME_DIR"]).rglob("stitchd.sock"))
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket_to(socket)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = {}
    for line in text.splitlines():
        if line.startswith(("stitch_store_records", "stitch_lookups_total")):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def socket_to(path):
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(str(path))
    return connected


def settled(environment):
    """The records once nothing is under way."""
    before = None
    for _ in range(600):
        now = records(environment)
        busy = subprocess.run(
            [_stitch(), "show", "jobs", "--server", _address(environment), "--json"], capture_output=True, text=True
        )
        states = {job["state"] for job in json.loads(busy.stdout)}
        if now == before and not states & {"queued", "running"}:
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError("the server does not come to rest")


def _address(environment):
    return f"unix:{next(pathlib.Path(environment['XDG_RUNTIME_DIR']).rglob('stitchd.sock'))}"


def _stitch():
    return _programs.find("stitch")


def test_eight_processes_tune_each_fragment_once_and_have_the_same_plans(environment):
    ranks = [begin(environment) for _ in range(8)]
    answers = [told(rank) for rank in ranks]
    jobs = json.loads(
        subprocess.run(
            [_stitch(), "show", "jobs", "--server", _address(environment), "--json"], capture_output=True, text=True
        ).stdout
    )
    tuned = [job for job in jobs if job["kind"] == "tune-fragment"]
    assert len(tuned) == 3, jobs
    settled(environment)
    # Whoever asks now has the plans that are served, and all have the same.
    late = [told(rank) for rank in [begin(environment) for _ in range(8)]]
    assert all(answer == late[0] for answer in late)
    assert len(set(late[0])) == 3 and all(len(answer) == 3 for answer in answers)


def test_a_second_process_on_a_warm_store_makes_nothing(environment):
    told(begin(environment))
    before = settled(environment)
    told(begin(environment))
    after = settled(environment)
    made = {name for name in after if "lookups" not in name and after[name] != before.get(name)}
    assert not made, made
    asked = {name: after[name] - before.get(name, 0) for name in after if "lookups" in name}
    assert asked['stitch_lookups_total{source="store"}'] == 3 and sum(asked.values()) == 3


def test_a_process_that_replays_has_what_is_stored_and_nothing_else(environment):
    first = told(begin(environment))
    settled(environment)
    replaying = dict(environment, STITCH_MODE="replay")
    assert len(told(begin(replaying))) == len(first)
    before = settled(environment)
    assert "is stored" in told(begin(replaying, _REPLAYED))[0]
    after = settled(environment)
    assert {name for name in after if "lookups" not in name and after[name] != before.get(name)} == set()
