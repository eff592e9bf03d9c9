"""Verdicts of the past, newest first: the events of the live stream, page by page.

The tally says between which positions of the ledger there is a verdict that is wanted, so that what lies between is not
read. A page looks at a bounded number of segments; it may be short, or empty, and still not be the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from betimes.catalogue import Area
from betimes.core.datetimes import Moment, instant
from betimes.core.segments import Segment
from betimes.domain.paging import NumberPlace, Page, check_filters, checked_limit, cursor_of, place_of
from betimes.domain.requests import check_request
from betimes.engine.read_model import LEVELS, SeqRange, TallyPosition, TallyQuery
from betimes.engine.store import LedgerQuery
from betimes.ledger.known_names import check_names
from betimes.ledger.reader import LedgerReader
from betimes.ledger.verdict_feed import DecodedSegment, VerdictEvent

LOOKED_AT_MAX = 1_000
RANGES_MAX = 500
READ_MAX = 200
SEQ_MAX = 2**62
ALWAYS = 2**61


class VerdictFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    domain: Area | None = None
    outcome: str | None = None
    reason: str | None = None
    id: str | None = None
    since: Moment | None = None
    until: Moment | None = None


class _PageWalk:
    """How far back one page has looked, and may."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.left = LOOKED_AT_MAX
        self.is_end = False
        """Whether everything was looked at."""


class VerdictList(LedgerReader):
    """Lists verdicts."""

    @check_filters
    async def verdicts(
        self, filters: VerdictFilters | Mapping[str, Any] | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[VerdictEvent]:
        """List verdicts, newest first."""
        filters = check_request(filters or {}, VerdictFilters)
        check_names(outcome=filters.outcome, reason=filters.reason)
        checked_limit(limit)
        named = ["verdicts", self.caller.tenant, sorted(self._domains), filters]
        place = place_of(cursor, named, NumberPlace) or NumberPlace(SEQ_MAX)
        look = _PageWalk(place.number + (place.row > 1))
        found: list[VerdictEvent] = []
        last = place
        async for segment in self._look_back(filters, look):
            for position, event in reversed(DecodedSegment(self.engine, segment).events):
                if segment.seq == place.number and position.number >= place.row:
                    continue
                if not _is_wanted(filters, event):
                    continue
                if len(found) == limit:
                    return Page(found, cursor_of(named, last))
                found.append(event)
                last = NumberPlace(segment.seq, position.number)
        return Page(found, None if look.is_end else cursor_of(named, NumberPlace(max(look.before, 0))))

    def _look_back(self, filters: VerdictFilters, look: _PageWalk) -> AsyncIterator[Segment]:
        if filters.id is not None:
            return self._of_one(filters, filters.id, look)
        return self._by_ranges(filters, look)

    async def _of_one(self, filters: VerdictFilters, id: str, look: _PageWalk) -> AsyncIterator[Segment]:
        """Yield segments of the streams that have this id; of each kind no more than are read at once."""
        found: list[Segment] = []
        floor = 0
        for kind in self.kinds_of(filters.domain):
            page = await self.engine.store.ledger(self._page_query(filters, look.before, READ_MAX, kind=kind, id=id))
            found += page
            if len(page) == READ_MAX:
                floor = max(floor, page[-1].seq)
        for segment in sorted(found, key=lambda one: -one.seq):
            if segment.seq < floor:
                break
            look.before = segment.seq
            yield segment
        look.is_end = floor == 0

    async def _by_ranges(self, filters: VerdictFilters, look: _PageWalk) -> AsyncIterator[Segment]:
        kinds = frozenset(self.kinds_of(filters.domain))
        ranges, floor = await self._ranges(filters, tuple(kinds), look.before)
        for first, last in ranges:
            upper = min(look.before, last + 1)
            while upper > max(first, floor):
                size = min(READ_MAX, upper - max(first, floor), look.left)
                page = await self.engine.store.ledger(self._page_query(filters, upper, size))
                for segment in page:
                    if segment.seq < max(first, floor):
                        break
                    look.before = upper = segment.seq
                    if segment.stream.kind in kinds:
                        yield segment
                else:
                    look.left -= len(page)
                    if look.left <= 0:
                        return
                    if len(page) == size:
                        continue
                break
            look.before = min(look.before, max(first, floor))
        look.before = min(look.before, max(floor, 0))
        look.is_end = floor == 0

    async def _ranges(self, filters: VerdictFilters, kinds: tuple[str, ...], before: int) -> tuple[list[SeqRange], int]:
        """Return where there is anything, the last first, and the position below which nobody looked."""
        store = self.engine.store
        position = await store.tally_position()
        ranges = [SeqRange(position.seq + 1, SEQ_MAX)] if before > position.seq else []
        floor = 0
        for level, since_at, until_at in _spans(filters, position):
            query = TallyQuery(
                self.caller.tenant, level, since_at, until_at, kinds or ("",), filters.outcome, filters.reason
            )
            found = await store.tally_ranges(query, before, RANGES_MAX + 1)
            ranges += found[:RANGES_MAX]
            if len(found) > RANGES_MAX:
                # Segments of two neighbouring minutes may stand in any order: nobody looks below the next one's end.
                floor = max(floor, min(one.first for one in found[:RANGES_MAX]), found[-1].last + 1)
        return sorted(ranges, key=lambda one: -one.last), floor

    def _page_query(
        self, filters: VerdictFilters, before: int, size: int, *, kind: str | None = None, id: str | None = None
    ) -> LedgerQuery:
        return LedgerQuery(
            after=before,
            backwards=True,
            tenant=self.caller.tenant,
            kind=kind,
            id=id,
            since_at=instant(filters.since),
            until_at=instant(filters.until),
            limit=size,
        )


def _spans(filters: VerdictFilters, position: TallyPosition) -> list[tuple[int, int, int]]:
    """Return the levels of the tally with the time that each covers: minutes, before them hours, then days."""
    since, until = instant(filters.since) or 0, instant(filters.until) or ALWAYS
    parts = ((position.minutes_from, ALWAYS), (position.hours_from, position.minutes_from), (0, position.hours_from))
    spans = [
        (level, max(since // level * level, first), min(until, last))
        for level, (first, last) in zip(LEVELS, parts, strict=True)
    ]
    return [span for span in spans if span[1] < span[2]]


def _is_wanted(filters: VerdictFilters, event: VerdictEvent) -> bool:
    if filters.outcome not in (None, event.outcome) or filters.domain not in (None, event.domain):
        return False
    return filters.reason is None or filters.reason in event.reasons
