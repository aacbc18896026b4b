"""One stitchd for the session, on a socket and a store of its own, started as the package starts it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

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


def servers(folder) -> list[int]:
    """Process ids of the stitchds that listen on a socket below a folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"stitchd") and any(str(folder).encode() in word for word in words):
            found.append(int(process.name))
    return found


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
