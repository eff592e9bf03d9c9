"""Occurrences: ascending instants that a schedule ticks at, and how they are searched and combined.

`after` and `before` are what a kind of occurrence knows; everything else follows from them. Intervals keep real time,
several expressions are one calendar in which an instant occurs once, and whole local days can be left out. Every search
is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from heapq import merge
from itertools import islice, takewhile

import msgspec

from betimes.core import zones
from betimes.core.instants import DAY, LAST, SECOND, Instant

EXCLUDED_MAX = 50 * 366 * DAY
"""Time in which everything is excluded; nothing is left after that."""
_EPOCH_DAY = date(1970, 1, 1)
_LATEST = LAST - DAY
"""Of an interval: every zone can still show it."""


class Occurrences(msgspec.Struct, frozen=True):
    """Instants in order, each once."""

    def after(self, at: Instant) -> Iterator[Instant]:
        """Yield those later than the instant, ascending."""
        raise TypeError(f"{type(self).__name__} does not implement `after`")

    def before(self, at: Instant) -> Iterator[Instant]:
        """Yield those earlier than the instant, descending."""
        raise TypeError(f"{type(self).__name__} does not implement `before`")

    def next(self, at: Instant) -> Instant | None:
        """Return the first one later than the instant."""
        return next(self.after(at), None)

    def previous(self, at: Instant) -> Instant | None:
        """Return the last one earlier than the instant."""
        return _previous(self, at)

    def between(self, after: Instant, until: Instant) -> Iterator[Instant]:
        """Yield those in `(after, until]`."""
        return takewhile(lambda tick: tick <= until, self.after(after))

    def first(self, after: Instant, until: Instant) -> Instant | None:
        return next(self.between(after, until), None)

    def last(self, after: Instant, until: Instant) -> Instant | None:
        return next(iter(self.newest(after, until, 1)), None)

    def newest(self, after: Instant, until: Instant, limit: int) -> list[Instant]:
        """Return the last `limit` in `(after, until]`, oldest first, without walking through all of them."""
        return list(islice(takewhile(lambda tick: tick > after, self.before(until + 1)), limit))[::-1]

    def count(self, after: Instant, until: Instant, limit: int) -> int:
        """Return how many there are in `(after, until]`, counted up to `limit`."""
        return sum(1 for _ in islice(self.between(after, until), limit))


@lru_cache(maxsize=16_384)
def _previous(occurrences: Occurrences, at: Instant) -> Instant | None:
    """Schedules that are due together often share an expression, and each asks for where its interval began."""
    return next(occurrences.before(at), None)


class Interval(Occurrences, frozen=True):
    """Every so many seconds of real time, the first at the anchor."""

    seconds: int
    anchor_at: Instant

    def after(self, at: Instant) -> Iterator[Instant]:
        step = self.seconds * SECOND
        # An anchor that is still to come is itself the first.
        return iter(range(self.anchor_at + max(0, (at - self.anchor_at) // step + 1) * step, _LATEST, step))

    def before(self, at: Instant) -> Iterator[Instant]:
        step = self.seconds * SECOND
        last = self.anchor_at + (min(at, _LATEST) - 1 - self.anchor_at) // step * step
        return iter(range(last, self.anchor_at - 1, -step))

    def previous(self, at: Instant) -> Instant | None:
        """Return the start of the interval that ends here, also of the first: it is as long as the others."""
        return next(self.before(at), self.anchor_at - self.seconds * SECOND)


class Several(Occurrences, frozen=True):
    """The occurrences of any of the parts."""

    parts: tuple[Occurrences, ...]

    def after(self, at: Instant) -> Iterator[Instant]:
        return _once_each(merge(*(part.after(at) for part in self.parts)))

    def before(self, at: Instant) -> Iterator[Instant]:
        return _once_each(merge(*(part.before(at) for part in self.parts), reverse=True))


def _once_each(ticks: Iterator[Instant]) -> Iterator[Instant]:
    last = None
    for tick in ticks:
        if tick != last:
            yield tick
        last = tick


class Excluding(Occurrences, frozen=True):
    """The occurrences on other local days than these."""

    inner: Occurrences
    zone: str
    dates: frozenset[date]
    weekdays: frozenset[int]
    """0 is Monday."""

    def after(self, at: Instant) -> Iterator[Instant]:
        # Since the last tick that was not excluded: it is the time without any that is bounded, not the walk.
        since = at
        while at - since <= EXCLUDED_MAX:
            for tick in self.inner.after(at):
                if (day := self._excluded_day(tick)) is not None:
                    # The rest of the day is passed over at once: an expression may match every second of it.
                    at = max(tick, self._begin_of(day + 1, tick)[0] * SECOND - 1)
                    break
                since = tick
                yield tick
            else:
                return

    def before(self, at: Instant) -> Iterator[Instant]:
        since = at
        while since - at <= EXCLUDED_MAX:
            for tick in self.inner.before(at):
                if (day := self._excluded_day(tick)) is not None:
                    # As in `after`: on to the day before at once, from the latest second at which this one may begin.
                    at = min(tick, self._begin_of(day, tick)[1] * SECOND)
                    break
                since = tick
                yield tick
            else:
                return

    def _excluded_day(self, tick: Instant) -> int | None:
        """Return the number of the local day on which this falls, if it is one of those left out."""
        second = tick // SECOND
        day = (second + zones.offset_at(self.zone, second)) // 86_400
        found = _EPOCH_DAY + timedelta(days=day)
        return day if found.weekday() in self.weekdays or found in self.dates else None

    def _begin_of(self, day: int, tick: Instant) -> tuple[int, int]:
        """Return the earliest and the latest second at which a local day next to this tick may begin.

        They differ if the offset changes in between; then some of what lies between is looked at one by one.
        """
        begin = day * 86_400 - zones.offset_at(self.zone, tick // SECOND)
        other = day * 86_400 - zones.offset_at(self.zone, begin)
        return min(begin, other), max(begin, other)
