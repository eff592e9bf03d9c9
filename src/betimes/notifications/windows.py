"""Deliveries of the last day as a sorted tuple of instants: sliding counts, exact to the microsecond."""

from __future__ import annotations

from bisect import bisect_right

from betimes.core.instants import DAY, SECOND, Instant
from betimes.notifications.model import DELIVERIES_MAX

Instants = tuple[Instant, ...]


def count(instants: Instants, now: Instant, span_s: int) -> int:
    """Return how many lie in `(now - span, now]`."""
    return len(instants) - bisect_right(instants, now - span_s * SECOND)


def free_at(instants: Instants, now: Instant, span_s: int, cap: int) -> Instant:
    """Return the first instant from `now` on with fewer than `cap` inside, if nothing more happens."""
    # There is room again when the oldest of the last `cap` has left.
    return now if count(instants, now, span_s) < cap else instants[-cap] + span_s * SECOND


def add(instants: Instants, at: Instant) -> Instants:
    """Add one, and drop those older than a day."""
    kept = instants[bisect_right(instants, at - DAY) :]
    return (*kept, at)[-DELIVERIES_MAX:]
