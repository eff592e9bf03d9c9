"""Verdicts of the past, newest first: the events of the live stream, page by page.

The tally says between which positions of the ledger there is a verdict that is wanted, so that what lies between is not
read. A page looks at a bounded number of segments; it may be short, or empty, and still not be the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from betimes.core.datetimes import instant
from betimes.core.segments import Segment
from betimes.domain.paging import NumberPlace, Page, check_filters, checked_limit, cursor_of, place_of
from betimes.domain.service import check_request
from betimes.engine.read_model import KindRange, TallyQuery
from betimes.engine.store import LedgerQuery
from betimes.ledger.known_names import check_names, split_names
from betimes.ledger.reader import LedgerReader, When
from betimes.ledger.tally import outcomes_in, tally_source
from betimes.ledger.verdict_feed import DecodedSegment, FeedFilters, VerdictEvent
from betimes.ledger.verdict_ranges import SEQ_MAX, VerdictRanges

LOOKED_AT_MAX = 800
READ_MAX = 200
ALWAYS = 2**61


class VerdictFilters(FeedFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: When = None
    until: When = None


class _PageWalk:
    """How far back one page has looked, and may."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.left = LOOKED_AT_MAX
        self.is_end = False
        """Whether everything was read."""


class VerdictList(LedgerReader):
    """Lists verdicts."""

    @check_filters
    async def verdicts(
        self, filters: VerdictFilters | Mapping[str, Any] | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[VerdictEvent]:
        """List verdicts, newest first.

        Verdicts as the live stream sent them, newest first. A page looks at a bounded number of segments: it may be
        short and still not be the last.
        """
        filters = check_request(filters or {}, VerdictFilters)
        check_names(outcomes=split_names(filters.outcome), reason=filters.reason)
        checked_limit(limit)
        named = ["verdicts", self.caller.tenant, sorted(self._domains), filters]
        place = place_of(cursor, named, NumberPlace) or NumberPlace(SEQ_MAX)
        # A segment that has more events to show is read once more.
        look = _PageWalk(place.number + (place.row > 1))
        found: list[VerdictEvent] = []
        last = place
        by_ranges = filters.id is None
        async for segment in self._by_ranges(filters, look, limit + 1) if by_ranges else self._of_one(filters, look):
            if not self._may_be_wanted(filters, segment):
                continue
            for position, event in reversed(DecodedSegment(self.engine, segment).events):
                if segment.seq == place.number and position.number >= place.row:
                    continue
                if filters.domain not in (None, event.domain) or not filters.fits(event.outcome, event.reasons):
                    continue
                if len(found) == limit:
                    return Page(found, cursor_of(named, last))
                found.append(event)
                last = NumberPlace(segment.seq, position.number)
        return Page(found, None if look.is_end else cursor_of(named, NumberPlace(max(look.before, 0))))

    def _may_be_wanted(self, filters: VerdictFilters, segment: Segment) -> bool:
        """Return whether the segment has such an outcome; it is decoded only as far as it is counted."""
        if filters.outcome is None and filters.reason is None:
            return True
        return any(filters.fits(*decided) for decided in outcomes_in(self.engine.kinds, tally_source(segment)))

    async def _of_one(self, filters: VerdictFilters, look: _PageWalk) -> AsyncIterator[Segment]:
        """Yield segments of the streams that have this id; of each kind no more than are read at once."""
        found: list[Segment] = []
        floor = 0
        for kind in self.kinds_of(filters.domain):
            query = LedgerQuery(
                after=look.before,
                backwards=True,
                tenant=self.caller.tenant,
                kind=kind,
                id=filters.id,
                since_at=instant(filters.since),
                until_at=instant(filters.until),
                limit=READ_MAX,
            )
            page = await self.engine.store.ledger(query)
            found += page
            if len(page) == READ_MAX:
                # Below this position there is more of this kind, so the order of all kinds is not known.
                floor = max(floor, page[-1].seq)
        for segment in sorted(found, key=lambda one: -one.seq):
            if segment.seq < floor:
                break
            look.before = segment.seq
            yield segment
        look.is_end = floor == 0

    async def _by_ranges(self, filters: VerdictFilters, look: _PageWalk, wanted: int) -> AsyncIterator[Segment]:
        """Yield segments of the ranges that the tally names, as long as the page may look at more."""
        store, kinds = self.engine.store, self.kinds_of(filters.domain) or ("",)
        since_at, until_at = instant(filters.since) or 0, instant(filters.until) or ALWAYS
        query = TallyQuery(
            self.caller.tenant, 0, since_at, until_at, kinds, split_names(filters.outcome), filters.reason
        )
        ranges = VerdictRanges(store, query, await store.tally_position(), look.before)
        await ranges.load()
        while look.left > 0:
            taken = await ranges.take(wanted)
            async for segment in self._within(taken, look):
                if since_at <= segment.at < until_at:
                    yield segment
            if look.left > 0:
                look.before = min(look.before, ranges.next_last + 1)
            if not taken:
                look.is_end = ranges.next_last == 0
                return

    async def _within(self, ranges: list[KindRange], look: _PageWalk) -> AsyncIterator[Segment]:
        while ranges and look.left > 0:
            size = min(READ_MAX, look.left)
            page = await self.engine.store.segments_within(self.caller.tenant, ranges, size)
            look.left -= len(page)
            for segment in page:
                if segment.seq < look.before:
                    look.before = segment.seq
                    yield segment
            if len(page) < size:
                return
            ranges = [one._replace(last=min(one.last, look.before - 1)) for one in ranges if one.first < look.before]
