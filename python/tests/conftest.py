"""One stitchd for the session, on a socket and a store of its own, started as the package starts it."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

import pytest
from daemons import servers

_FOLDER = tempfile.TemporaryDirectory(prefix="stitch-test-")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes a minute or more")
    # Before stitch is imported by any test: paths are read at every call, but threads outlive fixtures.
    folder = pathlib.Path(_FOLDER.name)
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    os.environ["STITCH_CACHE_DIR"] = str(folder / "cache")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    for variable in ("STITCH_SERVER", "STITCH_DEVICE", "STITCH_DISABLE", "STITCH_START"):
        os.environ.pop(variable, None)
    (folder / "cache").mkdir()


def address_of(folder) -> str:
    """Of the stitchd whose socket is below a folder."""
    return f"unix://{next(pathlib.Path(folder).rglob('stitchd.sock'))}"


def counters(folder) -> dict[str, float]:
    """The /metrics of that stitchd, by name with labels."""
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(address_of(folder).removeprefix("unix://"))
        connection = http.client.HTTPConnection("localhost")
        connection.sock = connected
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def jobs_of(folder) -> list[dict]:
    """What `stitch show jobs` says of it."""
    command = [_programs_of_stitch("stitch"), "show", "jobs", "--server", address_of(folder), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def settled(folder) -> dict[str, float]:
    """The counters of what it made and has, once nothing is under way."""
    made = ("stitch_store_records", "stitch_lookups", "stitch_kernels", "stitch_plans", "stitch_measurements",
            "stitch_programs", "stitch_serving")  # fmt: skip
    before = None
    for _ in range(600):
        now = {name: value for name, value in counters(folder).items() if name.startswith(made)}
        if now == before and not {job["state"] for job in jobs_of(folder)} & {"queued", "running"}:
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError("the server does not come to rest")


def damage_artifacts(folder) -> int:
    """Overwrites the code that processes fetched in the store below a folder, and takes what they kept of it: of how many
    kernels."""
    (store,) = pathlib.Path(folder).rglob("stitch.db")
    kept = list(store.parent.joinpath("artifacts").glob("*"))
    with contextlib.closing(sqlite3.connect(store, timeout=30)) as database, database:
        for file in kept:
            database.execute("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", (bytes.fromhex(file.name),))
            file.unlink()
        return database.total_changes


def gained(before: dict, after: dict) -> dict[str, float]:
    """By how much counters are greater, those that are."""
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


def _programs_of_stitch(name: str) -> str:
    from stitch import _programs

    return _programs.find(name)


def pytest_unconfigure(config):
    for process in servers(_FOLDER.name):
        os.kill(process, signal.SIGTERM)


@pytest.fixture
def folder():
    return pathlib.Path(_FOLDER.name)


def run_on_the_emulated_driver(script: str, folder, devices: str = "h100", arguments=()) -> None:
    """Runs a program, whose first argument is the server's address, where the emulated driver is the machine's. It says
    at its end that it "ran on the emulated driver", which may find no unordered access and no use of freed memory."""
    import stitch
    from stitch import _native

    emulated = pathlib.Path(stitch.__file__).parent.joinpath("bin").resolve().parent / "lib" / "emulated"
    if not (emulated / "libcuda.so.1").exists():
        pytest.skip("the emulated driver was not built")
    stitch.connect()
    tests = pathlib.Path(__file__).parent  # for what scripts have in common
    report = folder / "emulated-driver.json"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "LD_LIBRARY_PATH": str(emulated),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(tests), os.environ.get("PYTHONPATH")])),
        "STITCH_EMULATED_DEVICE": devices,
        "STITCH_EMULATED_QUIET": "1",
        "STITCH_EMULATED_REPORT": str(report),
    }
    command = [sys.executable, "-c", script, f"unix://{_native.default_socket_path()}", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ran on the emulated driver" in done.stdout, done.stderr[-4000:]
    found = report.read_text()
    assert "unordered_access" not in found and "freed_memory" not in found, found
