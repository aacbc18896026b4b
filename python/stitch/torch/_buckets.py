"""Extents that a plan is made for instead of those that a call has: at least as many rows, and few different ones.

What a plan takes hardly changes while its rows are few bytes (it takes a launch, then), and is proportional to them
beyond. Buckets stand at equal ratios of such a time, as close as the number of plans allows, and where it is flat at
ratios of four: nobody waits for what rows are appended there. Only numbers: bench/buckets reads this without PyTorch.
"""

import bisect
import math

LAUNCH_BYTES = 1 << 20
"""What moves in the time of a launch: less than on a large GPU (9 MB on an H100), as much as on a small one."""
_FEW = 4
_CLOSE = 1 + 1 / 16
"""The ratio below which another plan saves nothing that could be measured."""


class Buckets:
    """The bucket of an extent: it depends on the extent, and on what is given here, alone.

    `row_bytes`: what one more row is to read and write. `largest`: the most that the extent may be, where that is
    known: then there are at most `most` buckets, and every extent has one. Else they are powers of four up to `LAUNCH_BYTES`,
    and of two beyond.
    """

    def __init__(self, row_bytes: int, largest: int | None, most: int):
        row_bytes = max(1, row_bytes)
        self._is_bounded = largest is not None
        if largest is None:
            flat = 1 << max(0, (LAUNCH_BYTES // row_bytes).bit_length() - 1)
            self._all = [*_fourths(flat), flat]
        else:
            self._all = _up_to(largest, row_bytes, most)

    def __call__(self, extent: int) -> int:
        """At least the extent; itself where it is more than the largest was said to be."""
        if extent <= self._all[-1]:
            return self._all[bisect.bisect_left(self._all, extent)]
        return extent if self._is_bounded else 1 << (extent - 1).bit_length()


def _fourths(extent: int) -> list:
    """A fourth of an extent, a fourth of that, and so on, the least first."""
    found = []
    while (extent := extent // _FEW) >= 1:
        found.insert(0, extent)
    return found


def _up_to(largest: int, row_bytes: int, most: int) -> list:
    """As many as are allowed, with those below the first ratio's."""
    for count in range(most, 0, -1):
        ratio = ((LAUNCH_BYTES + largest * row_bytes) / (LAUNCH_BYTES + row_bytes)) ** (1 / count)
        if ratio < _CLOSE and count > 1:
            continue
        times = [(LAUNCH_BYTES + row_bytes) * ratio**step for step in range(1, count)]
        steps = {_aligned(math.ceil((time - LAUNCH_BYTES) / row_bytes)) for time in times}
        found = [*sorted(bucket for bucket in steps if bucket < largest), largest]
        found = _fourths(found[0])[-(most // 3) :] + found if most >= 3 else found
        if len(found) <= most:
            break
    return found[-most:]


def _aligned(extent: int) -> int:
    """Up to a multiple of a thirty-second of it, more or less: rows that lie side by side stay whole vectors."""
    step = 1 << max(0, extent.bit_length() - 6)
    return -(-extent // step) * step
