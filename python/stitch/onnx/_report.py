"""What `stitch.onnx` did: counted for `report`, said once per reason."""

import logging
import os
import threading

from .. import _trace

log = logging.getLogger("stitch.onnx")

_NAMES = ("sessions", "runs", "onnxruntime_runs")
_lock = threading.Lock()
_numbers = dict.fromkeys(_NAMES, 0)
_fell_back: dict = {}


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def reset() -> None:
    """Begins the report's counts anew; reasons are said again."""
    with _lock:
        _numbers.update(dict.fromkeys(_NAMES, 0))
        _fell_back.clear()


def count(name: str) -> None:
    with _lock:
        _numbers[name] += 1


def fell_back(model: str, reason: str) -> None:
    """A model that onnxruntime runs; said when it is the first for its reason."""
    _trace.event("fallback", what=model, reason=reason, to="onnxruntime")
    with _lock:
        entry = _fell_back.setdefault(reason, {"model": model, "reason": reason, "count": 0})
        entry["count"] += 1
        first = entry["count"] == 1
    if first:
        log.warning("onnxruntime runs the model: %s", reason)


def report() -> dict:
    """What sessions did since the process began, or since `reset`: how many there were, their `runs` and those of
    onnxruntime (`onnxruntime_runs`), and the models that `fell_back` to it, with the reason."""
    with _lock:
        return {**_numbers, "fell_back": [dict(entry) for entry in _fell_back.values()]}
