"""Locks of `stitch.onnx`: a session has the plans that a file names, or says what differs."""

import re
import subprocess

import numpy
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from test_onnx import QUICK, feeds, perceptron, theirs  # noqa: E402, F401

import stitch.onnx  # noqa: E402
from stitch import _native, _programs  # noqa: E402

BOTH = {"providers": ["StitchExecutionProvider", "CPUExecutionProvider"]}


def session(lock, source=None, **more):
    return stitch.onnx.InferenceSession(
        perceptron(8) if source is None else source, provider_options=[{**QUICK[0], "lock": str(lock)}], **more
    )


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "stitch.lock"
    assert stitch.onnx.InferenceSession(perceptron(8), provider_options=QUICK).write_lock(path) == 1
    return path


def close(ours, theirs):  # noqa: F811
    for one, other in zip(ours, theirs, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_session_has_what_is_locked(lock, theirs, tmp_path):  # noqa: F811
    made = session(lock)
    close(made.run(None, feeds()), theirs.run(None, feeds()))
    made.write_lock(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == lock.read_bytes()
    assert lock.read_text().startswith("stitch-lock 1\nprogram ") and "\nfragment " in lock.read_text()


def test_what_the_command_line_locks_is_honoured(lock, theirs, tmp_path):  # noqa: F811
    (tmp_path / "model.onnx").write_bytes(perceptron(8))
    command = [_programs.find("stitch"), "lock", "model.onnx", "-o", "cli.lock"]
    command += ["--server", f"unix://{_native.default_socket_path()}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    made = session(tmp_path / "cli.lock")
    close(made.run(None, feeds()), theirs.run(None, feeds()))
    # It calls the program by its file's name, and a session by the graph's.
    lines = [path.read_text().splitlines() for path in (tmp_path / "cli.lock", lock)]
    assert [re.sub("  .*", "", line) if line.startswith("program") else line for line in lines[0]] == [
        re.sub("  .*", "", line) if line.startswith("program") else line for line in lines[1]
    ]


def test_every_set_of_extents_has_its_program(theirs, tmp_path):  # noqa: F811
    path = tmp_path / "stitch.lock"
    made = stitch.onnx.InferenceSession(perceptron(), provider_options=QUICK)
    for batch in (8, 4):
        made.run(None, feeds(batch))
    assert made.write_lock(path) == 2
    locked = session(path, perceptron())
    for batch in (4, 8):
        close(locked.run(None, feeds(batch)), theirs.run(None, feeds(batch)))
    with pytest.raises(stitch.onnx.Fail, match="the lock has 2 programs, and none is"):
        locked.run(None, feeds(5))


@pytest.mark.parametrize("pattern", ["plan (.)", "code (.)"])
def test_another_plan_or_other_code_is_refused_or_onnxruntimes(pattern, lock, theirs, caplog):  # noqa: F811
    text = lock.read_text()
    place = re.search(pattern, text).start(1)
    lock.write_text(text[:place] + ("1" if text[place] == "0" else "0") + text[place + 1 :])
    with pytest.raises(stitch.onnx.Fail, match=f"{re.escape(str(lock))}: line 4 of the lock"):
        session(lock)
    both = stitch.onnx.InferenceSession(
        perceptron(8), provider_options=[{**QUICK[0], "lock": str(lock)}, {}], **BOTH
    )
    close(both.run(None, feeds()), theirs.run(None, feeds()))
    assert both.get_providers() == ["CPUExecutionProvider"]
    assert any("line 4 of the lock" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "No such file"),
        ("garbage", "line 1: no lock of Stitch's"),
        ("stitch-lock 2\n", "line 1: 'stitch-lock 2', 'stitch-lock 1' is read here"),
        ("stitch-lock 1\npiece 12  plan 3  code\n", "line 2: a lock of stitch.torch.write_lock"),
    ],
)
def test_a_lock_that_cannot_be_read_is_an_invalid_argument(text, message, tmp_path):
    path = tmp_path / "stitch.lock"
    if text is not None:
        path.write_text(text)
    with pytest.raises(stitch.onnx.InvalidArgument, match=message):
        session(path)
