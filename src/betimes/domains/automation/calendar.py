"""When a cron expression occurs in a zone.

The expression speaks of local time. The time line is cut where the zone's offset changes; within a piece local time
runs evenly, and `cronsim` says which of its seconds match. What remains are the two things that happen between pieces:

- a **gap**: local times that are skipped. `run_after`: whatever would have occurred in it occurs once, right after it;
  `skip`: not at all.
- an **overlap**: local times that happen twice. `first`, `last` or `both` of them occur.

By default a fixed local time (neither minute nor hour begin with `*`) has `run_after` and `first`, and everything else
keeps real time: `skip` and `both`. Occurrences are whole seconds, ascending, and do not depend on where one starts to
look. Every search here is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

import msgspec
from cronsim import CronSim, CronSimError

from betimes.core import zones
from betimes.core.instants import SECOND, Instant

Gap: TypeAlias = Literal["run_after", "skip"]
Overlap: TypeAlias = Literal["first", "last", "both"]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 — local time is naive on purpose
_NEVER = 1 << 62
_TWO_DAYS_S = 2 * 86_400
"""Further than any offset and any gap reach."""
STRETCHES_MAX = 4
"""Of a calendar, remembered between searches: those before and behind what is due now, and a few more."""


class Calendar(msgspec.Struct, frozen=True):
    """A cron expression in a zone, with what happens where local time jumps."""

    cron: str
    zone: str
    gap: Gap
    overlap: Overlap

    def after(self, at: Instant) -> Iterator[Instant]:
        """Occurrences later than the instant; none is left after 50 years without any."""
        start = at // SECOND + 1
        known = _known(self)
        while (found := known.at_or_after(start)) is not None:
            yield found * SECOND
            start = found + 1
        for second in self._seconds(start):
            if second >= start:  # the end of a gap may come twice
                known.learn(start, second)
                yield second * SECOND
                start = second + 1

    def between(self, after: Instant, until: Instant) -> Iterator[Instant]:
        """Occurrences in `(after, until]`."""
        for tick in self.after(after):
            if tick > until:
                return
            yield tick

    def first(self, after: Instant, until: Instant) -> Instant | None:
        return next(self.between(after, until), None)

    def last(self, after: Instant, until: Instant) -> Instant | None:
        return next(iter(self.newest(after, until, 1)), None)

    def newest(self, after: Instant, until: Instant, limit: int) -> list[Instant]:
        """The last `limit` occurrences in `(after, until]`, oldest first, without walking through all of them."""
        if self.count(after, until, limit) < limit:
            return list(self.between(after, until))
        enough, too_late = after, until
        while too_late - enough > SECOND:
            middle = (enough + too_late) // 2
            if self.count(middle, until, limit) < limit:
                too_late = middle
            else:
                enough = middle
        return list(islice(self.between(enough, until), limit))

    def count(self, after: Instant, until: Instant, limit: int) -> int:
        """How many there are in `(after, until]`, counted up to `limit`."""
        return sum(1 for _ in islice(self.between(after, until), limit))

    def _seconds(self, start: int) -> Iterator[int]:
        """Matching seconds from `start` on, ascending; the end of a gap may come twice."""
        wall = _Wall(self.cron)
        at = start
        while True:
            for piece in zones.pieces(self.zone, at):
                yield from self._in_piece(piece, start, wall)
                if wall.match == _NEVER:
                    return
                at = max(piece.end, wall.match - _TWO_DAYS_S)
                if at > piece.end:
                    break  # nothing matches for a while: go there at once
            else:
                return

    def _in_piece(self, piece: zones.Piece, start: int, wall: _Wall) -> Iterator[int]:
        before, offset = piece.before, piece.offset
        low, high = max(piece.start, start) + offset, piece.end + offset
        if offset > before and piece.start >= start and self.gap == "run_after":
            if wall.at_or_after(piece.start + before) < piece.start + offset:
                yield piece.start
        elif offset < before and self.overlap == "first":
            low = max(low, piece.start + before)
        if piece.after < offset and self.overlap == "last":
            high = piece.end + piece.after
        local = wall.at_or_after(low)
        while local < high:
            yield local - offset
            local = wall.at_or_after(local + 1)


class _Known:
    """The stretches of a calendar that were walked last, each empty up to the occurrence at its end.

    Schedules that are due together often share an expression, and a wake asks for the same stretch twice: to see that
    nothing more is due, and for what comes next. It only saves walking; with or without it the answers are the same.
    """

    def __init__(self) -> None:
        self._stretches: tuple[tuple[int, int], ...] = ()  # replaced as a whole, so that threads may share it

    def at_or_after(self, start: int) -> int | None:
        for low, found in self._stretches:
            if low <= start <= found:
                return found
        return None

    def learn(self, start: int, found: int) -> None:
        self._stretches = ((start, found), *self._stretches[: STRETCHES_MAX - 1])


@lru_cache(maxsize=16_384)
def _known(calendar: Calendar) -> _Known:
    return _Known()


def forget_walks() -> None:
    """Answer from scratch; for tests that compare."""
    _known.cache_clear()


class _Wall:
    """A clock on the wall and the expression's matches on it, in seconds of local time."""

    def __init__(self, cron: str) -> None:
        self._simulated = copy(_parsed(cron))
        self._from = 0
        self.match = -1

    def at_or_after(self, local: int) -> int:
        """The first match at or after a local second, or `_NEVER`."""
        if self._from <= local <= self.match:
            return self.match
        if local != self.match + 1:
            self._simulated.dt = _EPOCH + timedelta(seconds=local - 1)
        self._from = local
        try:
            found = next(self._simulated) - _EPOCH
            self.match = found.days * 86_400 + found.seconds
        except (StopIteration, OverflowError):
            self.match = _NEVER
        return self.match


def calendar_of(cron: str, zone: str, gap: Gap | None = None, overlap: Overlap | None = None) -> Calendar:
    """The calendar of an expression, by kind of cron where nothing else is said; `ValueError` if there is none."""
    check_cron(cron)
    zones.zone(zone)
    fixed = is_fixed(cron)
    return Calendar(cron, zone, gap or ("run_after" if fixed else "skip"), overlap or ("first" if fixed else "both"))


def is_fixed(cron: str) -> bool:
    """Whether the expression names local times of day: neither its minute nor its hour begins with `*`."""
    *_, minute, hour, _day, _month, _weekday = cron.split()
    return not minute.startswith("*") and not hour.startswith("*")


def check_cron(cron: str) -> None:
    """`ValueError` saying what is wrong with an expression."""
    _parsed(cron)


@lru_cache(maxsize=16_384)
def _parsed(cron: str) -> CronSim:
    try:
        return CronSim(cron, _EPOCH)
    except (CronSimError, AssertionError, ValueError) as error:
        raise ValueError(
            f"{cron[:100]!r} is not a cron expression of 5 fields, or of 6 with seconds first: {error or 'bad step'}"
        ) from None
