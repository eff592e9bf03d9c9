"""When a cron expression occurs in a zone.

The expression speaks of local time. The time line is cut where the zone's offset changes; within a piece local time
runs evenly, and `cronsim` says which of its seconds match. That leaves the two things that happen between pieces:

- a **gap**: local times that are skipped. `run_after`: whatever would have occurred in it occurs once, right after it;
  `skip`: not at all.
- an **overlap**: local times that happen twice. `first`, `last` or `both` of them occur.

By default a fixed local time (neither minute nor hour begin with `*`) has `run_after` and `first`, and everything else
keeps real time: `skip` and `both`. Occurrences are whole seconds, ascending, and do not depend on where one starts to
look. Every search here is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

from betimes.core import zones
from betimes.core.cron import NEVER, Wall, check_cron, is_fixed
from betimes.core.instants import SECOND, Instant
from betimes.core.occurrences import Occurrences

Gap: TypeAlias = Literal["run_after", "skip"]
Overlap: TypeAlias = Literal["first", "last", "both"]
_TWO_DAYS_S = 2 * 86_400
"""Further than any offset and any gap reach."""
STRETCHES_MAX = 4
"""Of a calendar, remembered between searches: those before and behind what is due now, and a few more."""


class Calendar(Occurrences, frozen=True):
    """A cron expression in a zone, with what happens where local time jumps."""

    cron: str
    zone: str
    gap: Gap
    overlap: Overlap

    def after(self, at: Instant) -> Iterator[Instant]:
        """Occurrences later than the instant; none is left after 50 years without any."""
        start = at // SECOND + 1
        # First along what earlier searches found, then on from where that ends.
        known = _match_memo(self)
        while (found := known.at_or_after(start)) is not None:
            yield found * SECOND
            start = found + 1
        for second in self._seconds(start):
            if second >= start:  # the end of a gap may come twice
                known.learn(start, second)
                yield second * SECOND
                start = second + 1

    def next(self, at: Instant) -> Instant | None:
        """Return the first occurrence later than the instant; one that was found lately without a search."""
        found = _match_memo(self).at_or_after(at // SECOND + 1)
        return next(self.after(at), None) if found is None else found * SECOND

    def before(self, at: Instant) -> Iterator[Instant]:
        """Yield occurrences earlier than the instant, descending; none is left after 50 years without any."""
        # The last whole second before the instant: expressions know no fractions.
        end = -(-at // SECOND) - 1
        for second in self._seconds_back(end):
            if second <= end:  # the end of a gap may come twice
                yield second * SECOND
                end = second - 1

    def _seconds(self, start: int) -> Iterator[int]:
        """Matching seconds from `start` on, ascending; the end of a gap may come twice."""
        wall = Wall(self.cron)
        at = start
        while True:
            for piece in zones.pieces(self.zone, at):
                yield from self._in_piece(piece, start, wall)
                if piece.after < piece.offset:
                    continue  # the next piece repeats local times from before the match found last
                if wall.match == NEVER:
                    return
                # A match is a local time, and the offset it will have is not known yet: so two days early.
                at = max(piece.end, wall.match - _TWO_DAYS_S)
                if at > piece.end:
                    break  # nothing matches for a while: go there at once
            else:
                return

    def _seconds_back(self, end: int) -> Iterator[int]:
        """Matching seconds up to `end`, descending; the end of a gap may come twice."""
        wall = Wall(self.cron)
        at = end
        while True:
            for piece in zones.pieces_back(self.zone, at):
                yield from self._in_piece_back(piece, end, wall)
                # The piece before repeats local times from behind the match found last.
                if piece.before > piece.offset:
                    continue
                if wall.match_before == -NEVER:
                    return
                at = min(piece.start - 1, wall.match_before + _TWO_DAYS_S)
                if at < piece.start - 1:
                    break
            else:
                return

    def _in_piece(self, piece: zones.Piece, start: int, wall: Wall) -> Iterator[int]:
        if piece.start >= start and self.fires_after_gap(piece, wall):
            yield piece.start
        low, high = self.local_span(piece)
        local = wall.at_or_after(max(low, start + piece.offset))
        while local < high:
            yield local - piece.offset
            local = wall.at_or_after(local + 1)

    def _in_piece_back(self, piece: zones.Piece, end: int, wall: Wall) -> Iterator[int]:
        low, high = self.local_span(piece)
        local = wall.at_or_before(min(high - 1, end + piece.offset))
        while local >= low:
            yield local - piece.offset
            local = wall.at_or_before(local - 1)
        # The end of the gap is the first second of the piece, so going back it comes last.
        if piece.start <= end and self.fires_after_gap(piece, wall):
            yield piece.start

    def local_span(self, piece: zones.Piece) -> tuple[int, int]:
        """Return the local seconds `[low, high)` of a piece, less those of which the other repetition counts."""
        low, high = piece.start + piece.offset, piece.end + piece.offset
        if self.overlap == "first":
            # Up to there the local time was shown once already, before the clock was put back.
            low = max(low, piece.start + piece.before)
        elif self.overlap == "last":
            # From there on it will be shown once more, after the clock is put back.
            high = min(high, piece.end + piece.after)
        return low, high

    def fires_after_gap(self, piece: zones.Piece, wall: Wall) -> bool:
        """Return whether a local time that was skipped right before this piece matches."""
        # Only a clock that is put forward leaves a gap.
        if piece.offset <= piece.before or self.gap != "run_after":
            return False
        # Once at the end of the gap, however many of the local times in it match.
        return wall.at_or_after(piece.start + piece.before) < piece.start + piece.offset


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
def _match_memo(calendar: Calendar) -> _Known:
    return _Known()


def calendar_of(cron: str, zone: str, gap: Gap | None = None, overlap: Overlap | None = None) -> Calendar:
    """Return the calendar of a cron; left out, gap and overlap go by its kind. Raise `ValueError` if it is no cron."""
    check_cron(cron)
    zones.zone(zone)
    # A time of day is kept once on a day with a jump; what runs every so often goes by real time.
    fixed = is_fixed(cron)
    return Calendar(cron, zone, gap or ("run_after" if fixed else "skip"), overlap or ("first" if fixed else "both"))
