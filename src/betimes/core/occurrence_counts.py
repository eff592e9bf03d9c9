"""Counts of occurrences in steps of time, without going through all of them.

An interval is counted by division. A calendar is counted day by day: on a day that matches, every time of day of the
expression occurs, and those of a step are found by bisection. Several calendars together, and those without certain
days, are walked. Days and occurrences looked at are bounded; what lies behind the bound is estimated from what lies
before it, and marked as such.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from betimes.core import zones
from betimes.core.calendar import Calendar
from betimes.core.cron import Wall, times_of_day
from betimes.core.instants import SECOND, Instant
from betimes.core.occurrences import Interval, Occurrences

_DAY_S = 86_400


class StepGrid(NamedTuple):
    """Steps of one length from an instant on; the last may be shorter."""

    since_at: Instant
    until_at: Instant
    length: int

    @property
    def size(self) -> int:
        return -(-(self.until_at - self.since_at) // self.length)

    def number_of(self, at: Instant) -> int:
        """Return the number of the step, from 0, that an instant lies in."""
        return (at - self.since_at) // self.length


class StepCounts(NamedTuple):
    """How much occurs in each step."""

    counts: list[int]
    is_estimated: bool
    """Whether the later ones were estimated from the earlier ones."""
    work: int
    """Days and occurrences that were looked at."""


class _Count:
    """A count under way: between two instants, and how much may still be looked at."""

    def __init__(self, grid: StepGrid, first_at: Instant, last_at: Instant, work_max: int) -> None:
        self.grid, self.first_at, self.last_at = grid, first_at, last_at
        self.counts = [0] * grid.size
        self.work, self.work_max = 0, work_max
        self.counted_until = last_at

    def may_look(self, at: Instant) -> bool:
        """Return whether one more may be looked at; if not, it was counted until this instant."""
        if self.work < self.work_max:
            self.work += 1
            return True
        self.counted_until = min(self.counted_until, max(at, self.first_at))
        return False

    def result(self) -> StepCounts:
        is_estimated = self.counted_until < self.last_at
        if is_estimated:
            self._estimate()
        return StepCounts(self.counts, is_estimated, self.work)

    def _estimate(self) -> None:
        """Let what is left occur as often as what was counted."""
        begin, total = self.counted_until, sum(self.counts)
        span = max(begin - self.first_at, 1)
        added = 0
        for number in range(self.grid.number_of(begin), self.grid.number_of(self.last_at - 1) + 1):
            end = min(self.grid.since_at + (number + 1) * self.grid.length, self.last_at)
            # Of the running total, so that what rounding leaves out of one step comes with a later one.
            expected = (end - begin) * total // span
            self.counts[number] += expected - added
            added = expected


def count_steps(
    occurrences: Occurrences, grid: StepGrid, first_at: Instant, last_at: Instant, work_max: int
) -> StepCounts:
    """Return how many there are in each step, of those from `first_at` until before `last_at`."""
    first_at, last_at = max(first_at, grid.since_at), min(last_at, grid.until_at)
    if isinstance(occurrences, Calendar):
        return _count_calendar_once(occurrences, grid, first_at, last_at, max(work_max, 1))
    count = _Count(grid, first_at, last_at, max(work_max, 1))
    if first_at < last_at:
        match occurrences:
            case Interval():
                _count_interval(occurrences, count)
            case _:
                _walk(occurrences, count)
    return count.result()


@lru_cache(maxsize=256)
def _count_calendar_once(
    calendar: Calendar, grid: StepGrid, first_at: Instant, last_at: Instant, work_max: int
) -> StepCounts:
    """Count a calendar that many schedules of one list share; the counts must not be changed."""
    count = _Count(grid, first_at, last_at, work_max)
    if first_at < last_at:
        _count_calendar(calendar, count)
    return count.result()


def _walk(occurrences: Occurrences, count: _Count) -> None:
    for at in occurrences.after(count.first_at - 1):
        if at >= count.last_at or not count.may_look(at):
            return
        count.counts[count.grid.number_of(at)] += 1


def _count_interval(interval: Interval, count: _Count) -> None:
    length = interval.seconds * SECOND

    def before(at: Instant) -> int:
        # The anchor is the first, so before it there are none.
        return max(0, -(-(at - interval.anchor_at) // length))

    grid = count.grid
    # The first and the last step may be cut by the bounds, so each is clipped to them.
    for number in range(grid.number_of(count.first_at), grid.number_of(count.last_at - 1) + 1):
        begin = grid.since_at + number * grid.length
        count.counts[number] = before(min(begin + grid.length, count.last_at)) - before(max(begin, count.first_at))


def _count_calendar(calendar: Calendar, count: _Count) -> None:
    """Count piece by piece of the time line, in each of which local time runs evenly."""
    times, wall = times_of_day(calendar.cron), Wall(calendar.cron)
    # Occurrences are whole seconds, so both bounds go up to the next one.
    start, end = -(-count.first_at // SECOND), -(-count.last_at // SECOND)
    for piece in zones.pieces(calendar.zone, start):
        if piece.start >= end:
            return
        local = piece.start + piece.offset
        # a skipped time that occurs right after the gap counts once, also if that instant matches by itself
        if piece.start >= start and calendar.fires_after_gap(piece, wall) and wall.at_or_after(local) != local:
            count.counts[count.grid.number_of(piece.start * SECOND)] += 1
        low, high = calendar.local_span(piece)
        low, high = max(low, start + piece.offset), min(high, end + piece.offset)
        for day in _matching_days(wall, low, high):
            begin = day - piece.offset
            if not count.may_look(max(begin, start) * SECOND):
                return
            _count_day(times, begin, (max(low - day, 0), min(high - day, _DAY_S)), count)


def _matching_days(wall: Wall, low: int, high: int) -> Iterator[int]:
    """Yield the first local second of every day in `[low, high)` that has a match; it may lie before `low`."""
    day = low // _DAY_S * _DAY_S
    while day < high:
        # Days without a match are jumped over at once, however many there are.
        match = wall.at_or_after(day)
        day = match // _DAY_S * _DAY_S
        if day < high:
            yield day
        day += _DAY_S


def _count_day(times: list[int], begin: int, span: tuple[int, int], count: _Count) -> None:
    """Count the times of a day that begins at this second, from one second of it until before another."""
    grid, place, last = count.grid, bisect_left(times, span[0]), bisect_left(times, span[1])
    while place < last:
        number = grid.number_of((begin + times[place]) * SECOND)
        end = -(-(grid.since_at + (number + 1) * grid.length) // SECOND)
        behind = bisect_left(times, end - begin, place, last)
        count.counts[number] += behind - place
        place = behind
