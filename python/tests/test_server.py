"""The server that is started for the user: when it ends, and in processes that fork."""

import os
import shutil
import signal
import time

import pytest
from daemons import servers, stop
from test_client import row_sums

import stitch
from stitch import _programs, _server


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of sockets and stores where no server runs yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("STITCH_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    yield tmp_path
    end(tmp_path)


def end(folder) -> None:
    for process in servers(folder):
        os.kill(process, signal.SIGKILL)
    while servers(folder):
        time.sleep(0.01)


def test_a_server_that_ended_is_started_again_but_not_by_every_call(own, monkeypatch):
    stitch.plan(row_sums(rows=1))
    end(own)
    stitch.plan(row_sums(rows=2))
    assert len(servers(own)) == 1
    end(own)
    with pytest.raises(stitch.Unavailable, match="no stitchd at"):
        stitch.plan(row_sums(rows=3))
    assert servers(own) == []
    monkeypatch.setattr(_server.shared(), "_next_start", 0.0)
    stitch.plan(row_sums(rows=4))
    assert len(servers(own)) == 1


def test_a_server_that_is_not_to_be_started_is_not(own, monkeypatch):
    stitch.plan(row_sums(rows=1))
    end(own)
    monkeypatch.setenv("STITCH_START", "0")
    with pytest.raises(stitch.Unavailable, match="no stitchd at"):
        stitch.plan(row_sums(rows=2))
    assert servers(own) == []
    # Someone else starts it.
    stitch.connect(start=True)
    assert stitch.plan(row_sums(rows=2)).info["launches"] == 1


def test_a_server_that_was_stopped_costs_front_ends_their_patience_once(own, monkeypatch):
    stitch.connect()
    (process,) = servers(own)
    stop(process)
    connect, tried = _server.connect, []
    monkeypatch.setattr(_server, "_MOST_PATIENCE_SECONDS", 0.6)
    monkeypatch.setattr(_server, "connect", lambda *of, **settings: tried.append(settings) or connect(*of, **settings))
    with pytest.raises(stitch.ServerUnavailable, match="does not answer"):
        _server.look_for(None, 60_000)
    for _ in range(2):
        with pytest.raises(stitch.ServerUnavailable, match="did not answer a moment ago"):
            _server.look_for(None, 60_000)
    assert tried == [{"timeout_seconds": 0.6}]
    os.kill(process, signal.SIGCONT)
    monkeypatch.setattr(_server, "_in_vain", {})
    monkeypatch.setattr(_server, "_MOST_PATIENCE_SECONDS", 30.0)
    for _ in range(2):
        _server.look_for(None, 60_000)
    assert len(tried) == 2


def test_an_error_of_a_living_server_is_no_reason_to_connect_anew(own):
    shared = _server.shared()
    client = shared._client
    with pytest.raises(stitch.Unavailable, match="device"):
        shared.plan(stitch.fragment(row_sums()), "emulated", 7, 10_000, True, "")  # there is one emulated device
    assert shared._client is client


def test_nvrtc_is_found_wherever_packages_are_installed(tmp_path, monkeypatch):
    """Not beside this package alone: what a virtual environment sees of another's is elsewhere on the path."""
    folder = tmp_path / "elsewhere" / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    first, *others = _programs.environment()["LD_LIBRARY_PATH"].split(":")
    assert first == "/before" and str(folder) in others


def test_what_is_missing_is_told_by_the_errors_type(own, tmp_path, monkeypatch):
    """A device, a server that ended, and a server that cannot start; to who catches Unavailable it is that, still."""
    shared = _server.shared()
    with pytest.raises(stitch.DeviceUnavailable, match="one emulated device"):
        shared.plan(stitch.fragment(row_sums()), "emulated", 7, 10_000, True, "")
    with pytest.raises(stitch.DeviceUnavailable, match="one emulated device"):
        shared.make_program(stitch.fragment(row_sums()), 10_000, True, "", "emulated", 7, "")
    monkeypatch.setenv("STITCH_START", "0")
    end(own)
    with pytest.raises(stitch.DeviceUnavailable, match="one emulated device"):
        shared.plan(stitch.fragment(row_sums()), "emulated", 7, 10_000, True, "")
    with pytest.raises(stitch.ServerUnavailable, match="no stitchd at"):
        shared.plan(stitch.fragment(row_sums()), "emulated", 0, 10_000, True, "")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "stitchd").symlink_to(tmp_path / "nothing")
    monkeypatch.setenv("STITCH_PROGRAMS", str(programs))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_programs, "__file__", str(tmp_path / "elsewhere.py"))
    with pytest.raises(stitch.ServerUnavailable, match="none can be started: no program stitchd"):
        stitch.connect(start=True)
    assert issubclass(stitch.ServerUnavailable, stitch.Unavailable)
    assert issubclass(stitch.DeviceUnavailable, stitch.Unavailable)


def test_a_server_without_a_compiler_says_so(own, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(_programs.find("stitchd"), programs / "stitchd")  # not what belongs beside it
    monkeypatch.setenv("STITCH_PROGRAMS", str(programs))
    with pytest.raises(stitch.ServerUnavailable, match="did not start.*stitch-compiler"):
        stitch.connect(start=True)
