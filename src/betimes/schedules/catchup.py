"""Catch-up: the plan for the occurrences since a schedule last woke.

There is one path, whatever the reason that some were missed: a restart, a suspended process, a late alarm, a pause.
Every occurrence up to now is either fired or in a skipped range with its reason; the next one is computed once and
carried by the event.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Literal

import msgspec

from betimes.core.instants import MINUTE, SECOND, Instant
from betimes.core.jitter import spread
from betimes.core.occurrences import Occurrences
from betimes.core.streams import StreamId
from betimes.schedules.model import COUNT_MAX, ScheduleDefinition, SkipReason, TicksSkipped, Upcoming
from betimes.schedules.nominal_time import NominalTime
from betimes.schedules.recurrence import Partition, Recurrence


class CatchupPlan(msgspec.Struct, frozen=True):
    """The ticks to fire, oldest first, the ranges to skip, and the instant up to which that settles everything."""

    fire: tuple[Instant, ...] = ()
    skipped: tuple[TicksSkipped, ...] = ()
    through_at: Instant | None = None
    next: Upcoming | None = None


class Timetable(msgspec.Struct, frozen=True):
    """A definition's occurrences between its start and its end, each due after its jitter.

    Schedules that tick alike have equal ones, so that what is found out for one can be kept for the others.
    """

    recurrence: Recurrence
    version: int
    starts_at: Instant | None
    ends_at: Instant | None
    max_catchup_ticks: int
    catchup_window_minutes: int
    catchup_keep: Literal["newest", "oldest"]
    jitter_seconds: int
    stream: StreamId | None
    """Whose jitter it is; of one without jitter, `None`."""

    @classmethod
    def of(cls, stream: StreamId, definition: ScheduleDefinition, version: int) -> Timetable:
        """Return the timetable of a version of a schedule's definition."""
        return cls(
            definition.recurrence,
            version,
            definition.starts_at,
            definition.ends_at,
            definition.max_catchup_ticks,
            definition.catchup_window_minutes,
            definition.catchup_keep,
            definition.jitter_seconds,
            stream if definition.jitter_seconds else None,
        )

    @property
    def calendar(self) -> Occurrences:
        """Return its occurrences; raise `ValueError` if the expression or the zone is not known (any more)."""
        return self.recurrence.occurrences()

    @property
    def is_shared(self) -> bool:
        """Return whether other schedules may have an equal one, so that what is found out is worth keeping."""
        return self.stream is None and self.recurrence.is_small

    def _next(self, at: Instant) -> Instant | None:
        tick_at = self.calendar.next(at if self.starts_at is None else max(at, self.starts_at - 1))
        return None if tick_at is None or (self.ends_at is not None and tick_at >= self.ends_at) else tick_at

    def _span(self, after: Instant, until: Instant) -> tuple[Instant, Instant]:
        return (
            after if self.starts_at is None else max(after, self.starts_at - 1),
            until if self.ends_at is None else min(until, self.ends_at - 1),
        )

    def upcoming(self, after: Instant) -> Upcoming | None:
        """Return the next occurrence; with its jitter it is due before the one after it."""
        jitter = self.jitter_seconds * SECOND
        tick_at = self._next(after)
        if tick_at is None or self.stream is None:
            return None if tick_at is None else Upcoming(tick_at, tick_at)
        # Jitter never reaches past the next occurrence: two ticks of one schedule keep their order.
        behind_at = self._next(tick_at) or tick_at + jitter
        span = min(jitter, behind_at - tick_at)
        return Upcoming(tick_at, tick_at + spread(span, *self.stream, tick_at))

    def due_until(self, after: Instant, now: Instant) -> Instant:
        """Return the instant up to which every occurrence is due: only the latest may still wait for its jitter."""
        if not self.jitter_seconds or now <= after:
            return now
        # Those before it are due: jitter ends where the next occurrence begins.
        latest = self.calendar.last(*self._span(after, now))
        if latest is None:
            return now
        upcoming = self.upcoming(latest - 1)
        return latest - 1 if upcoming and upcoming.due_at > now else now

    def skipped_range(self, reason: SkipReason, after: Instant, until: Instant) -> TicksSkipped | None:
        """Return the occurrences in `(after, until]` as one range, or `None` if there are none."""
        after, until = self._span(after, until)
        first = self.calendar.first(after, until)
        if first is None:
            return None
        # One more than is told, to see that there are more.
        count = self.calendar.count(first - 1, until, COUNT_MAX + 1)
        last = self.calendar.last(first - 1, until) or first
        return TicksSkipped(reason, first, last, count if count <= COUNT_MAX else None, self.version)

    def plan(self, floor_at: Instant, now: Instant) -> CatchupPlan:
        """Plan a wake: the occurrences in `(floor_at, now]` that are due.

        The window counts from when they were due, so that jitter takes nothing out of it.
        """
        until = self.due_until(floor_at, now)
        edge_at = now - self.catchup_window_minutes * MINUTE
        # Not before the floor and not past what is due: each occurrence falls on one side of the edge, and once.
        start = max(floor_at, min(self.due_until(floor_at, edge_at), until))
        fire, over = self._choose_ticks(start, until)
        outside = self.skipped_range("MISSED_OUTSIDE_WINDOW", floor_at, start) if start > floor_at else None
        ranges = tuple(found for found in (outside, over) if found)
        ends = [*fire[-1:], *(found.last for found in ranges)]
        return CatchupPlan(fire, ranges, max(ends, default=None), self.upcoming(until))

    def plan_pause(self, floor_at: Instant, now: Instant) -> CatchupPlan:
        """Plan for a schedule that is, or was, paused: skip every occurrence."""
        found = self.skipped_range("PAUSED", floor_at, now)
        return (
            CatchupPlan((), (found,), found.last, self.upcoming(now)) if found else CatchupPlan(next=self.upcoming(now))
        )

    def _choose_ticks(self, after: Instant, until: Instant) -> tuple[tuple[Instant, ...], TicksSkipped | None]:
        """Return the ticks to catch up within the limit, and the range of those over it."""
        limit = self.max_catchup_ticks
        after, until = self._span(after, until)
        calendar = self.calendar
        first_at = calendar.next(after)
        if first_at is None or first_at > until:
            return (), None
        # Nearly every wake finds one occurrence; that is answered without walking the calendar.
        if (calendar.next(first_at) or until + 1) > until:
            return (first_at,), None
        # One more than may be fired, to see whether any is over the limit.
        oldest = tuple(islice(calendar.between(after, until), limit + 1))
        if len(oldest) <= limit:
            return oldest, None
        if self.catchup_keep == "oldest":
            return oldest[:limit], self.skipped_range("OVER_CATCHUP_LIMIT", oldest[limit - 1], until)
        kept = tuple(calendar.newest(after, until, limit))
        return kept, self.skipped_range("OVER_CATCHUP_LIMIT", after, kept[0] - 1)


def nominal_time(definition: ScheduleDefinition, run_key: str, tick_at: Instant) -> NominalTime:
    """Return the nominal time of a tick; its partition is the one in which its interval begins."""
    recurrence = definition.recurrence
    find = _find_interval if recurrence.is_small else _find_interval.__wrapped__
    return NominalTime(run_key, tick_at, *find(recurrence, definition.partition or None, tick_at))


@lru_cache(maxsize=4_096)
def _find_interval(
    recurrence: Recurrence, partition: Partition | None, tick_at: Instant
) -> tuple[Instant | None, str | None]:
    """Return where the interval of a tick begins, and its partition; schedules that are due together often share it."""
    try:
        start_at = recurrence.occurrences().previous(tick_at)
    except ValueError:
        return None, None  # the zone is gone; only a tick by hand gets here, since alarms fail first
    if start_at is None or start_at < 0 or not partition:
        return start_at, None
    return start_at, recurrence.partition_key(partition, start_at)
