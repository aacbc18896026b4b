"""What `stitch.jax` did: counted for `report`, said once per reason."""

import atexit
import json
import logging
import threading

import jax

from .. import _native, _trace

log = logging.getLogger("stitch.jax")

_lock = threading.Lock()
_numbers = dict.fromkeys(("programs", "launches", "library_calls", "reference_steps", "calls"), 0)
_fell_back: dict = {}
_runs_before = 0


def reset(runs: int) -> None:
    """Forgets all counts, the runs until now too; reasons are said anew."""
    global _runs_before
    with _lock:
        for name in _numbers:
            _numbers[name] = 0
        _fell_back.clear()
        _runs_before = runs


def runs_before() -> int:
    return _runs_before


def count(name: str, by: int = 1) -> None:
    with _lock:
        _numbers[name] += by


def fell_back(function: str, reason: str) -> None:
    """A function that XLA runs itself; said when it is the first for its reason."""
    _trace.event("fallback", what=function, reason=reason, to="XLA")
    with _lock:
        entry = _fell_back.setdefault(reason, {"function": function, "reason": reason, "count": 0})
        entry["count"] += 1
        first = entry["count"] == 1
    if first:
        log.warning("XLA runs %s: %s", function, reason)


def misses() -> dict | None:
    """How often which fragments had no stored plan so far; None where JAX is not to explain what it does not find
    (`jax_explain_cache_misses`, JAX_EXPLAIN_CACHE_MISSES)."""
    if not jax.config.jax_explain_cache_misses:
        return None
    return {(each["fragment"], each["name"], each["reason"]): each["count"] for each in json.loads(_native.sums())["missed"]}


def explain_misses(function: str, before: dict | None) -> None:
    """Says why there were no plans for fragments of a function's program, of all that was missed since `before`."""
    now = misses() if before is not None else None
    for (fragment, name, reason), count in (now or {}).items():
        if count > before.get((fragment, name, reason), 0):
            log.warning("%s: no plan was stored for fragment %s (%s): %s", function, fragment or "?", name, reason)


def _tell_at_end() -> None:
    if any(_numbers.values()):
        _trace.event("report", of="jax", **_numbers)


atexit.register(_tell_at_end)


def snapshot() -> dict:
    with _lock:
        return {**_numbers, "fell_back": [dict(entry) for entry in _fell_back.values()]}
