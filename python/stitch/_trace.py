"""What a process does, for who looks at it later: where STITCH_TRACE names a folder, events go to the process's file
there (docs/tracing.md), in which the native library has its own."""

import contextlib
import json
import os
import threading
import time

from . import _native

_seconds: dict = {}
_lock = threading.Lock()


def enabled() -> bool:
    """Whether somebody wants events now."""
    return bool(os.environ.get("STITCH_TRACE"))


def now() -> int:
    """The clock that `since` wants."""
    return time.monotonic_ns() // 1000


def event(name: str, /, **fields) -> None:
    """Something that took place. `fields`: text, numbers, truth values; never contents of arrays."""
    if enabled():
        _native.trace(name, _members(fields))


def took(name: str, began: int) -> None:
    """Counts the time of a stretch of work, which is traced elsewhere if it is."""
    with _lock:
        _seconds[name] = _seconds.get(name, 0.0) + (now() - began) * 1e-6


def seconds() -> dict:
    """What stretches of work took, by name, whether somebody traces or not; those of several threads are added up."""
    with _lock:
        return dict(_seconds)


def since(name: str, began: int, /, **fields) -> None:
    """A stretch of work that began at `began` (of `now`) and ends now."""
    took(name, began)
    if enabled():
        _native.trace(name, _members(fields), began)


@contextlib.contextmanager
def phase(name: str, /, **fields):
    """A stretch of work; an exception that ends it is noted. What is put into the dictionary that it gives is told too."""
    began = now()
    try:
        yield fields
    except Exception as error:
        fields["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        since(name, began, **fields)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def _members(fields: dict) -> str:
    return json.dumps(fields, default=str, separators=(",", ":"))[1:-1]
