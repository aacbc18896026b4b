"""How much is tuned: the server's work on fragments, begun and ended for a program that asked for it."""

import dataclasses
import logging
import os
import threading
import time

from . import _activity, errors

_FULL_TRIALS = 100  # of `stitch zoo --effort full`
_ENDS = ("done", "failed", "cancelled")

log = logging.getLogger("stitch")

_lock = threading.Lock()
_ending = threading.Lock()  # held until what is due has been ended
_to_end: list = []
_thread: threading.Thread | None = None


@dataclasses.dataclass(frozen=True)
class Wish:
    """What a server is to do for better plans than it has at once: effort and budget as of `begin`."""

    effort: str
    budget_seconds: int

    @property
    def is_asked_for(self) -> bool:
        """Whether it has to be asked for by itself: a look-up begins what is quick, and ends none of it."""
        return self.effort == "full" or (self.effort == "quick" and self.budget_seconds > 0)

    @property
    def is_look_ups(self) -> bool:
        """Whether the look-up begins it, where plans had to be predicted."""
        return self.effort == "quick" and not self.is_asked_for


def begin(client, fragment, constraints: str, effort: str, budget_seconds: int) -> int | None:
    """Has the server tune a fragment in the background, for no longer than the budget (0: for as long as it takes). The
    job's number; None where there is none to wait for.

    `effort`: "none" (nothing is tuned), "quick", or "full": a hundred more candidates of its kernels, where the server
    measures. What others wait for as well is not ended. With STITCH_MODE=replay or off, or frozen, nothing is tuned.
    """
    return _begun(client, effort, budget_seconds, 1, lambda trials: client.tune(fragment, trials, constraints))


def begin_model(client, model, fragments: int, constraints: str, effort: str, budget_seconds: int) -> int | None:
    """The same of a whole graph with so many different fragments."""
    count = max(1, fragments)
    return _begun(client, effort, budget_seconds, count, lambda trials: client.tune_model(model, trials or 0, constraints))


def _begun(client, effort: str, budget_seconds: int, fragments: int, ask) -> int | None:
    if effort == "none" or _activity.makes_nothing():
        return None
    try:
        try:
            number, joined = ask(_FULL_TRIALS * fragments if effort == "full" else None)
        except errors.InvalidArgument:
            if effort != "full":
                raise
            number, joined = ask(None)  # a server that does not measure tries no more candidates
    except errors.Error as error:
        log.info("nothing is tuned: %s", error)
        return None
    if budget_seconds and not joined:
        _end_later(client, number, budget_seconds)
    return number


def wait(client, number: int, budget_seconds: int) -> str:
    """Waits for a job's end, or the budget's (0: none), with which the job has ended if nobody else waits for it; the
    job's state when it was last asked for."""
    end = time.monotonic() + budget_seconds if budget_seconds else None
    while True:
        state, _ = client.job(number)
        if state in _ENDS:
            return state
        if end is not None and time.monotonic() >= end:
            _end_due()  # the thread that does so may be late, and ends with the process
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


def _end_due() -> None:
    """Ends the jobs whose budget is over."""
    with _ending:
        with _lock:
            now = time.monotonic()
            due = [entry for entry in _to_end if entry[0] <= now]
            for entry in due:
                _to_end.remove(entry)
        for _, client, number in due:
            end(client, number)


def _end_all() -> None:
    global _thread
    while True:
        _end_due()
        with _lock:
            if not _to_end:
                _thread = None
                return
        time.sleep(0.1)


def _in_child() -> None:
    global _lock, _ending, _thread
    # Neither a thread that is not there nor the parent's jobs.
    _lock, _ending, _thread = threading.Lock(), threading.Lock(), None
    _to_end.clear()


os.register_at_fork(after_in_child=_in_child)
