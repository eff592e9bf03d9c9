"""A tenant's slots: when one more run fits among those that happened and those that are promised.

Both are windows of (second, count). A run at second `t` fits if, with it, no hour ending at `t` or later holds more
than the cap: neither those already run nor those promised lose theirs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from betimes.core.instants import SECOND, Instant, epoch_down, epoch_up
from betimes.core.windows import Window

PROMISED_SECONDS_MAX = 2_000
"""Different seconds promised at once; whoever comes later has no slot within sight."""


def first_free_at(taken: Window, promised: Window, from_at: Instant, cap: int, span_s: int) -> Instant:
    """The first instant at or after `from_at` at which one more fits; a later one is a whole second."""
    slots = _Slots(taken, promised, cap, span_s)
    if slots.fits(epoch_down(from_at), epoch_up(from_at)):
        return from_at
    return slots.first_free_s(epoch_up(from_at)) * SECOND


class _Slots:
    def __init__(self, taken: Window, promised: Window, cap: int, span_s: int) -> None:
        pairs = sorted((*taken, *promised))
        self._seconds = [second for second, _ in pairs]
        self._sums = [0, *accumulate(count for _, count in pairs)]
        self._cap = cap
        self._span_s = span_s

    def fits(self, from_s: int, to_s: int) -> bool:
        """Whether one more fits at an instant between two seconds, by the strictest reading of both."""
        return self._inside(from_s, to_s) < self._cap and self._next_full(to_s) is None

    def first_free_s(self, candidate: int) -> int:
        while True:
            if self._inside(candidate, candidate) >= self._cap:
                last_to_leave = self._until(candidate) - self._cap + 1
                candidate = self._seconds[bisect_left(self._sums, last_to_leave) - 1] + self._span_s
            elif (full := self._next_full(candidate)) is not None:
                candidate = full + 1
            else:
                return candidate

    def _until(self, second: int) -> int:
        """How many there are up to and including this second."""
        return self._sums[bisect_right(self._seconds, second)]

    def _inside(self, from_s: int, to_s: int) -> int:
        return self._until(to_s) - self._until(from_s - self._span_s)

    def _next_full(self, second: int) -> int | None:
        """The first second within a span of this one whose window has no room for one more."""
        start = bisect_right(self._seconds, second)
        end = bisect_left(self._seconds, second + self._span_s)
        return next((at for at in self._seconds[start:end] if self._inside(at, at) >= self._cap), None)


def with_one(window: Window, second: int) -> Window:
    """The window with one more at this second, which may lie before others."""
    counts = dict(window)
    counts[second] = counts.get(second, 0) + 1
    return tuple(sorted(counts.items()))


def without_one(window: Window, second: int) -> Window:
    """The window with one less at this second."""
    return tuple((at, count - (at == second)) for at, count in window if at != second or count > 1)
