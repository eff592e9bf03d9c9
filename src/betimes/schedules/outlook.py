"""The outlook of a schedule: its next tick, and all its ticks between two instants."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from betimes.core.instants import Instant
from betimes.core.outlooks import WaitingItem
from betimes.schedules.model import ScheduleState


def waiting_ticks(schedule: ScheduleState) -> Iterator[WaitingItem]:
    """Yield the next tick."""
    if schedule.next and schedule.status == "active":
        yield WaitingItem(at=schedule.next.due_at, what="tick")


def ticks_between(schedule: ScheduleState, since_at: Instant, until_at: Instant) -> Iterator[Instant]:
    """Yield the nominal instants of an active schedule from one instant until before another."""
    definition = schedule.definition
    if schedule.status != "active":
        return
    first = max(since_at, definition.starts_at or 0)
    last = until_at if definition.ends_at is None else min(until_at, definition.ends_at)
    yield from takewhile(lambda at: at < last, definition.recurrence.occurrences().after(first - 1))
