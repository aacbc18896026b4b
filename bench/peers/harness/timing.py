"""From a profiler's events on the device to times of iterations.

Between iterations a kernel runs over a buffer of twice the L2, so that each starts with a cold cache; in the profile
these kernels also separate one iteration from the next. Times in µs.
"""
import dataclasses
import re
import statistics

# PyTorch's and XLA's names of the flushing kernels (torch.bitwise_not; population_count): no case has these operators.
FLUSH = re.compile(r"bitwise_not|popcnt|population_count|flush_cache", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Event:
    name: str
    start: float
    duration: float


class NotSeparable(Exception):
    """The profile does not show the iterations apart."""


def iterations(events, expected):
    """The events of each iteration: what lies between two flushes. At least half of the expected ones must be there."""
    parts, current = [], None
    for event in sorted(events, key=lambda e: e.start):
        if FLUSH.search(event.name):
            current = []
            parts.append(current)
        elif current is not None:
            current.append(event)
    full = [part for part in parts if part]
    if not expected / 2 <= len(full) <= expected:
        names = sorted({event.name[:60] for event in events})[:6]
        raise NotSeparable(f"{len(full)} iterations seen of {expected}, {len(events)} events, {names}")
    return full


def summed(parts):
    """What is reported of some iterations: `busy_us` is the sum of the kernels' durations, `span_us` from the first
    kernel's start to the last one's end, `kernels` the number of launches (copies and fills count)."""
    ends = [max(e.start + e.duration for e in part) for part in parts]
    starts = [min(e.start for e in part) for part in parts]
    return {"busy_us": [round(sum(e.duration for e in part), 3) for part in parts],
            "span_us": [round(end - start, 3) for start, end in zip(starts, ends, strict=True)],
            "kernels": round(statistics.median(len(part) for part in parts))}


def spread(samples):
    """Median and quartiles of a list."""
    if len(samples) < 2:
        return {"median": samples[0], "low": samples[0], "high": samples[0]}
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high}
