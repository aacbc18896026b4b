"""What the back end did: counted for `report`, said once per reason."""

import atexit
import logging
import os
import threading

from .. import _trace

log = logging.getLogger("stitch.torch")

_lock = threading.Lock()
_COUNTS = (
    "graphs", "operators", "operators_ours", "operators_library", "products_ours", "kernel_calls", "eager_calls", "inductor_calls",
    "launches", "bytes", "updated_bytes",
)  # fmt: skip


class _Counts:
    def __init__(self):
        self.numbers = dict.fromkeys(_COUNTS, 0)
        self.fell_back = {}
        self.failed = {}
        self.refused = {}
        self.seconds_before = _trace.seconds()


_counts = _Counts()


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)


def reset() -> None:
    """Forgets all counts; reasons are said anew."""
    global _counts
    with _lock:
        _counts = _Counts()


def count(name: str, by: int = 1) -> None:
    with _lock:
        _counts.numbers[name] += by


def ran(launches: int, bytes_moved: int) -> None:
    """A piece ran in our kernels: once for all that is counted of it, since it is in every call's way."""
    with _lock:
        numbers = _counts.numbers
        numbers["kernel_calls"] += 1
        numbers["launches"] += launches
        numbers["bytes"] += bytes_moved


def fell_back(op: str, reason: str, where: str) -> None:
    """An operator that PyTorch runs although it is none of the library's; said when it is the first of its reason."""
    _trace.event("fallback", what=op, reason=reason, to="PyTorch", where=where)
    with _lock:
        entry = _counts.fell_back.setdefault((op, reason), {"op": op, "reason": reason, "where": where, "count": 0})
        entry["count"] += 1
        first = entry["count"] == 1
    if first:
        log.warning("%s stays with PyTorch: %s%s", op, reason, f" ({where})" if where else "")


def failed(kind: str, message: str) -> None:
    """Something of ours did not work, and PyTorch runs instead; said when it is the first of its kind."""
    with _lock:
        entry = _counts.failed.setdefault(kind, {"kind": kind, "message": message, "count": 0})
        entry["count"] += 1
        first = entry["count"] == 1
    if first:  # some of them come with every call
        _trace.event("fallback", what=kind, reason=message, to="PyTorch")
    if first:
        log.warning("%s; PyTorch runs these operators instead", message)


def refused(message: str) -> None:
    """A saved plan is not used: the server is asked instead. Said when it is the first for its reason."""
    with _lock:
        entry = _counts.refused.setdefault(message, {"message": message, "count": 0})
        entry["count"] += 1
        first = entry["count"] == 1
    if first:
        _trace.event("fallback", what="a saved plan", reason=message, to="server")
        log.warning("a saved plan is not used: %s", message)


def snapshot() -> dict:
    with _lock:
        result = dict(_counts.numbers)
        result["fell_back"] = [dict(entry) for entry in _counts.fell_back.values()]
        result["failed"] = [dict(entry) for entry in _counts.failed.values()]
        result["refused"] = [dict(entry) for entry in _counts.refused.values()]
        before = _counts.seconds_before
    result["seconds"] = {name: took - before.get(name, 0.0) for name, took in _trace.seconds().items()}
    ours, others = result["operators_ours"], sum(entry["count"] for entry in result["fell_back"])
    result["share"] = ours / (ours + others) if ours + others else None
    return result


def _tell_at_end() -> None:
    """The process's counts in its trace, and how often it fell back beyond the first time."""
    found = snapshot()
    if not found["graphs"]:
        return
    for entry in found["failed"]:
        if entry["count"] > 1:
            more = entry["count"] - 1
            _trace.event("fallback", what=entry["kind"], reason=entry["message"], to="PyTorch", count=more)
    _trace.event("report", of="torch", **{name: found[name] for name in (*_COUNTS, "share")})


atexit.register(_tell_at_end)


def some_of(names: list) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
