"""How much is tuned: the server's work on fragments, begun and ended for a program that asked for it."""

import logging
import os
import threading
import time

from . import _activity, errors

_FULL_TRIALS = 100  # of `stitch zoo --effort full`
_ENDS = ("done", "failed", "cancelled")

log = logging.getLogger("stitch")

_lock = threading.Lock()
_to_end: list = []
_thread: threading.Thread | None = None


def begin(client, fragment, constraints: str, effort: str, budget_seconds: int) -> int | None:
    """Has the server tune a fragment in the background, for no longer than the budget (0: for as long as it takes). The
    job's number; None where there is none to wait for.

    `effort`: "none" (nothing is tuned), "quick", or "full": a hundred more candidates of its kernels, where the server
    measures. What others wait for as well is not ended. With STITCH_MODE=replay or off, or frozen, nothing is tuned.
    """
    if effort == "none" or _activity.makes_nothing():
        return None
    try:
        number, joined = client.tune(fragment, _FULL_TRIALS if effort == "full" else None, constraints)
    except errors.Error as error:
        log.info("a fragment is not tuned: %s", error)
        return None
    if budget_seconds and not joined:
        _end_later(client, number, budget_seconds)
    return number


def wait(client, number: int, budget_seconds: int) -> str:
    """Waits for a job's end, or the budget's (0: none); the job's state."""
    end = time.monotonic() + budget_seconds if budget_seconds else None
    while True:
        state, _ = client.job(number)
        if state in _ENDS or (end is not None and time.monotonic() >= end):
            return state
        time.sleep(0.05 if end is None else min(0.05, max(0.0, end - time.monotonic())))


def end(client, number: int) -> None:
    """Ends a job; what it has found stays."""
    try:
        client.cancel(number)
    except errors.Error as error:
        log.info("job %d is not ended: %s", number, error)


def _end_later(client, number: int, seconds: float) -> None:
    global _thread
    with _lock:
        _to_end.append((time.monotonic() + seconds, client, number))
        if _thread is None:
            _thread = threading.Thread(target=_end_all, name="stitch-budget", daemon=True)
            _thread.start()


def _end_all() -> None:
    global _thread
    while True:
        with _lock:
            now = time.monotonic()
            due = [entry for entry in _to_end if entry[0] <= now]
            for entry in due:
                _to_end.remove(entry)
            if not due and not _to_end:
                _thread = None
                return
        for _, client, number in due:
            end(client, number)
        time.sleep(0.1)


def _in_child() -> None:
    global _lock, _thread
    _lock, _thread = threading.Lock(), None  # neither a thread that is not there nor the parent's jobs
    _to_end.clear()


os.register_at_fork(after_in_child=_in_child)
