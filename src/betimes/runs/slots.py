"""A tenant's slots: when one more run fits among those that happened and those that are promised.

Both are windows of (second, count). A run at second `t` fits if, with it, no hour ending at `t` or later holds more
than the cap: neither those already run nor those promised lose theirs.

Alarms ring a little late. A promised run is charged to the window at the instant it was promised, not when its alarm
rang, so promises an hour apart stay exactly an hour apart and a late alarm breaks none of those behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

from betimes.core.instants import SECOND, Instant, epoch_down, epoch_up
from betimes.core.windows import Window

PROMISED_SECONDS_MAX = 2_000
"""Different seconds promised at once, at most; triggers beyond that are refused."""
PROMISE_KEPT_S = 5
"""How long a promise is kept in the state after its hour is over. Recorded histories fold with this number."""


def first_free_at(taken: Window, promised: Window, from_at: Instant, cap: int, span_s: int) -> Instant:
    """Return the first instant at or after `from_at` at which one more fits; a later one is a whole second."""
    slots = _Slots(taken, promised, cap, span_s)
    if slots.fits(epoch_down(from_at), epoch_up(from_at)):
        return from_at
    return slots.first_free_s(epoch_up(from_at)) * SECOND


class _Slots:
    def __init__(self, taken: Window, promised: Window, cap: int, span_s: int) -> None:
        self._span_s = span_s
        self._enters, self._entered = _running_totals((*taken, *promised))
        self._leaves = [second + span_s for second in self._enters]
        self._cap = cap

    def fits(self, from_s: int, to_s: int) -> bool:
        """Return whether one more fits at an instant between two seconds, by the strictest reading of both."""
        return self._inside(from_s, to_s) < self._cap and self._next_full(to_s) is None

    def first_free_s(self, candidate: int) -> int:
        while True:
            if self._inside(candidate, candidate) >= self._cap:
                must_leave = self._entered[bisect_right(self._enters, candidate)] - self._cap + 1
                candidate = self._leaves[bisect_left(self._entered, must_leave) - 1]
            elif (full := self._next_full(candidate)) is not None:
                candidate = full + 1
            else:
                return candidate

    def _inside(self, from_s: int, to_s: int) -> int:
        """Count those that have come by one second and not gone by the other."""
        return self._entered[bisect_right(self._enters, to_s)] - self._entered[bisect_right(self._leaves, from_s)]

    def _next_full(self, second: int) -> int | None:
        """Return the first second at which one that comes at this one is still counted and there is no room for it."""
        start = bisect_right(self._enters, second)
        end = bisect_left(self._enters, second + self._span_s)
        return next((at for at in self._enters[start:end] if self._inside(at, at) >= self._cap), None)


def _running_totals(pairs: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the seconds in order, and how many there are before each and at the end."""
    ordered = sorted(pairs)
    return [second for second, _ in ordered], [0, *accumulate(count for _, count in ordered)]


def with_one(window: Window, second: int) -> Window:
    """Return the window with one more at this second, which may lie before others."""
    counts = dict(window)
    counts[second] = counts.get(second, 0) + 1
    return tuple(sorted(counts.items()))


def without_one(window: Window, second: int) -> Window:
    """Return the window with one less at this second."""
    return tuple((at, count - (at == second)) for at, count in window if at != second or count > 1)
