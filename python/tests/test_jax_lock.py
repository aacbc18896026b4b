"""Locks of `stitch.jax`: calls are the programs that a file names, or it is said what differs."""

import logging
import os
import re
import subprocess
import sys

import numpy
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

from test_jax import OURS, arguments, close, loss  # noqa: E402

import stitch  # noqa: E402
import stitch.jax  # noqa: E402
from stitch.jax import _programs  # noqa: E402
from stitch.jax._options import settings_of  # noqa: E402

# Two pieces around a product, whose derivatives have others.
LENIENT = {**OURS, "fallback": "xla"}


@pytest.fixture(autouse=True)
def counts():
    stitch.jax.reset()


@pytest.fixture
def lock(tmp_path):
    """The lock of what a function and its derivative run."""
    _programs._made.clear()
    compiled(loss)
    path = tmp_path / "stitch.lock"
    assert stitch.jax.write_lock(path) == len(_programs._made) >= 2
    stitch.jax.reset()
    return path


def compiled(function, options=OURS):
    jax.clear_caches()
    # JAX returns before what it dispatched has run, and a run that is not over counts after a reset.
    return jax.block_until_ready(jax.value_and_grad(stitch.jax.jit(function, **options))(*arguments()))


def changed(lock, pattern) -> tuple[int, str]:
    """Writes another digit in the first place that the pattern has; the line that has it now, and its number."""
    text = lock.read_text()
    place = re.search(pattern, text).start(1)
    text = text[:place] + ("1" if text[place] == "0" else "0") + text[place + 1 :]
    lock.write_text(text)
    return text.count("\n", 0, place) + 1, text[: text.index("\n", place)].rsplit("\n", 1)[-1]


def test_what_is_locked_runs_and_equal_plans_give_equal_bytes(lock, tmp_path):
    lines = lock.read_text().splitlines()
    assert lines[0] == "stitch-lock 1" and all(line.split()[0] in ("program", "target", "fragment") for line in lines[1:])
    first = dict(_programs._made)
    close(compiled(loss, {**OURS, "lock": lock}), jax.value_and_grad(loss)(*arguments()))
    locked = [call for key, call in _programs._made.items() if key not in first]
    assert len(locked) == len(first), "each was asked for under the lock"
    assert stitch.jax.write_lock(tmp_path / "again") == len(first)
    assert (tmp_path / "again").read_bytes() == lock.read_bytes()
    report = stitch.jax.report()
    assert report["fell_back"] == [] and report["operators_ours"] > 0, report


def test_another_process_runs_what_is_locked(lock, tmp_path):
    code = f"""
import jax, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_jax import OURS, arguments, close, loss
import stitch.jax
close(jax.value_and_grad(stitch.jax.jit(loss, **OURS))(*arguments()), jax.value_and_grad(loss)(*arguments()))
assert stitch.jax.report()["fell_back"] == []
stitch.jax.write_lock({str(tmp_path / "again")!r})
"""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "STITCH_LOCK": str(lock)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
    assert (tmp_path / "again").read_bytes() == lock.read_bytes()


@pytest.mark.parametrize("pattern", ["plan (.)", "code (.)"])
def test_another_plan_or_other_code_is_xlas_and_said_once(pattern, lock, caplog):
    number, line = changed(lock, pattern)
    with caplog.at_level(logging.WARNING, "stitch.jax"):
        for _ in range(2):
            close(compiled(loss, {**LENIENT, "lock": lock}), jax.value_and_grad(loss)(*arguments()))
    said = [r.getMessage() for r in caplog.records if r.name == "stitch.jax"]
    assert len(said) == 1 and f"{lock}: line {number} of the lock" in said[0], said
    (failed,) = stitch.jax.report()["fell_back"]
    assert failed["count"] >= 2 and stitch.jax.report()["runs"] > 0, "other pieces run"
    with pytest.raises(stitch.ConstraintError, match=f"line {number} of the lock"):
        compiled(loss, {**OURS, "lock": lock})


def test_what_the_lock_does_not_have_is_xlas(lock):
    def other(w, x, g):
        return jax.numpy.sum(jax.nn.softmax(x @ w) * g)

    close(compiled(other, {**LENIENT, "lock": lock}), jax.value_and_grad(other)(*arguments()))
    report = stitch.jax.report()
    assert report["runs"] == 0 and all("none is" in entry["reason"] for entry in report["fell_back"]), report
    with pytest.raises(stitch.ConstraintError, match=r"stitch.lock: the lock has \d+ programs, and none is"):
        compiled(other, {**OURS, "lock": lock})


def test_effort_is_none_under_a_lock(lock):
    assert settings_of({"effort": "full"}).tuned == "full"
    assert settings_of({"effort": "full", "lock": lock}).tuned == "none"


@pytest.mark.parametrize(
    "text, error, message",
    [
        (None, stitch.InvalidArgument, "lock .*stitch.lock: No such file"),
        ("", stitch.ParseError, "stitch.lock, line 1: no lock of Stitch's"),
        ("stitch-lock 2\n", stitch.CompatibilityError, "stitch.lock, line 1: 'stitch-lock 2', 'stitch-lock 1' is read"),
        ("stitch-lock 1\npiece 12  plan 3  code\n", stitch.ParseError, "line 2: a lock of stitch.torch.write_lock"),
        ("stitch-lock 1\nprogram 12  m\n", stitch.ParseError, "stitch.lock, line 2: expected 'program ID  NAME'"),
    ],
)
def test_a_lock_that_cannot_be_read_is_an_error_with_its_place(text, error, message, tmp_path, monkeypatch):
    path = tmp_path / "stitch.lock"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        compiled(loss, {**LENIENT, "lock": path})
    monkeypatch.setenv("STITCH_LOCK", str(path))
    with pytest.raises(error, match=message):
        settings_of({})


def test_a_lock_is_a_files_path():
    with pytest.raises(ValueError, match="option 'lock': expected a file's path, found 3"):
        stitch.jax.jit(loss, lock=3)


def test_the_users_file_may_name_a_lock(lock, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text(f'[jax]\nlock = "{lock}"\n')
    monkeypatch.setenv("STITCH_CONFIG", str(tmp_path / "config.toml"))
    assert settings_of({}).lock.path == str(lock)
    assert isinstance(numpy.asarray(compiled(loss)[0]), numpy.ndarray)
