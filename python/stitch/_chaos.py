"""Faults on purpose: with STITCH_CHAOS=SEED what servers are asked for fails at random, so that whoever has a program can
see that it gives the framework's own results whatever becomes of ours.

A number of SEED and of how many calls came before decides of each call, so that a run with one thread is repeated by its
seed. Nothing here waits for longer than a moment, and nothing that runs is touched: what is there is right.
"""

import collections
import logging
import os
import random
import threading
import time

from . import errors

_log = logging.getLogger("stitch")
_MOMENT_SECONDS = 0.02
_FAULTS = {
    "unavailable": errors.ServerUnavailable,
    "timeout": errors.Timeout,
    "corrupt": errors.CorruptError,
    "not_found": errors.PlanMissing,
    "resource_exhausted": errors.ResourceExhausted,
}
# Of a hundred calls. What is left is answered as ever.
_SHARES = {
    "unavailable": 4,
    "timeout": 12,
    "corrupt": 12,
    "not_found": 8,
    "resource_exhausted": 4,
    "late": 10,
    "damaged": 15,
}

_lock = threading.Lock()
_done: collections.Counter = collections.Counter()
_calls = 0


def counts() -> dict:
    """What was done to calls since the process began, by kind; empty where nobody asked for it."""
    with _lock:
        return dict(_done)


def answered(name: str, call):
    """The answer of `call`, which asks a server for `name`, or a fault in its place. Errors: those of the fault."""
    seed = os.environ.get("STITCH_CHAOS", "0")
    if seed in ("", "0"):
        return call()
    kind, numbers = _drawn(seed)
    if kind in _FAULTS:
        raise _FAULTS[kind](f"STITCH_CHAOS={seed}: {name} fails on purpose ({kind})")
    if kind == "late":
        time.sleep(_MOMENT_SECONDS)
    answer = call()
    if kind != "damaged":
        return answer
    if isinstance(answer, bytes):  # a program's document, whose hashes tell
        return _damaged(answer, numbers)
    raise errors.CorruptError(f"STITCH_CHAOS={seed}: {name} came damaged on purpose")


def _drawn(seed: str) -> tuple[str, random.Random]:
    global _calls
    with _lock:
        if not _done:
            _log.warning("STITCH_CHAOS=%s: what servers are asked for fails on purpose", seed)
        numbers = random.Random(f"{seed} {_calls}")
        _calls += 1
        kind = numbers.choices([*_SHARES, "answered"], [*_SHARES.values(), 100 - sum(_SHARES.values())])[0]
        _done[kind] += 1
    return kind, numbers


def _damaged(document: bytes, numbers: random.Random) -> bytes:
    """With one bit changed, or cut off."""
    place = numbers.randrange(len(document))
    if numbers.random() < 0.25:
        return document[:place]
    wrong = bytearray(document)
    wrong[place] ^= 1 << numbers.randrange(8)
    return bytes(wrong)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not there may hold the parent's


os.register_at_fork(after_in_child=_in_child)
