"""Sliding windows: how many happened in `(now - span, now]`, and when there is room again.

A window is a tuple of `(second, count)` pairs in ascending order, so it holds at most one pair per second of
its span. An event counts from the whole second at or after it, so a cap is never exceeded by rounding.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TypeAlias

from betimes.core.instants import SECOND, Instant, epoch_down, epoch_up

Window: TypeAlias = tuple[tuple[int, int], ...]
_second = itemgetter(0)


def count(window: Window, now: Instant, span_s: int) -> int:
    """Return the count inside `(now - span_s, now]`."""
    oldest = epoch_down(now) - span_s
    total = 0
    for second, n in window:
        if second > oldest:
            total += n
    return total


def add(window: Window, at: Instant, span_s: int, n: int = 1) -> Window:
    """Return the window with `n` more at `at`, without what has left it."""
    second, oldest = epoch_up(at), epoch_down(at) - span_s
    kept = window if not window or window[0][0] > oldest else window[bisect_right(window, oldest, key=_second) :]
    # An event that comes late counts in the last second too: pairs stay in order, and no cap opens sooner for it.
    if kept and kept[-1][0] >= second:
        return (*kept[:-1], (kept[-1][0], kept[-1][1] + n))
    return (*kept, (second, n))


def free_at(window: Window, now: Instant, span_s: int, cap: int) -> Instant:
    """Return the first instant at or after `now` with fewer than `cap` (at least 1) inside, if nothing more happens."""
    excess = count(window, now, span_s) - cap + 1
    if excess <= 0:
        return now
    oldest = epoch_down(now) - span_s
    for second, n in window:
        if second > oldest:
            excess -= n
            if excess <= 0:
                return (second + span_s) * SECOND
    raise ValueError(f"the cap is {cap}; it must be at least 1")
