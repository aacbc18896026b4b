"""What a process does, for who looks at it later: where STITCH_TRACE names a folder, events go to the process's file
there (docs/tracing.md), in which the native library has its own. Phases are summed up, too, for `stitch.report`."""

import contextlib
import json
import os
import time

from . import _native


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


def since(name: str, began: int, /, **fields) -> None:
    """A stretch of work that began at `began` (of `now`) and ends now."""
    _native.count_phase(name, now() - began, "error" in fields)
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


def _members(fields: dict) -> str:
    return json.dumps(fields, default=str, separators=(",", ":"))[1:-1]
