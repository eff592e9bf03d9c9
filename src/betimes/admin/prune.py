"""Pruning on request: one bounded call after the other replaces old history by one checkpoint a stream.

A call looks for what can go, puts on record who asked and which streams it is about to change, and then changes them.
Of a stream with a very long history it replaces the oldest part, and the next call goes on with the same stream. A
tenant prunes its own history, a caller of the tenant `*` that of all. Expired keys and calls that ended are no history:
the store removes those of all tenants together, so that is left to `betimes prune`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from betimes.core.datetimes import Moment, instant
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, render
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import SUBJECTS_MAX, Note
from betimes.domain.operations.service import record_operation
from betimes.domain.paging import CursorPlace, PlaceText, cursor_of, place_of
from betimes.domain.service import Service, check_request
from betimes.engine.pruning import FoundCheckpoint, PruneReport, find_checkpoint
from betimes.engine.replay import LedgerFinding, all_streams
from betimes.engine.tenants.model import DEPLOYMENT

EXAMINED_MAX = 5_000
"""Streams of one call."""
READ_MAX = 20_000
"""Segments that one call reads before it takes no further stream; a last one adds `PART_MAX` at most."""
FINDINGS_MAX = 20
WHAT_CHARS_MAX = 500


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: Moment
    """History before this is replaced; not later than now."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=EXAMINED_MAX)] = 1_000
    """Streams to look at."""
    cursor: str | None = None
    """The `next_cursor` of the call before, with the same `before`."""
    note: Note | None = None
    """Why, for the record."""


class PruneFinding(JsonView, frozen=True):
    """A stream that was left as it is, because its history does not verify."""

    tenant: str
    kind: str
    id: str
    version: int
    what: str


class PruneOutcome(JsonView, frozen=True, kw_only=True):
    before: datetime
    examined: int
    """Streams that were looked at."""
    streams: int
    """Streams whose older history is one checkpoint now."""
    segments: int
    """Segments that were removed; each stream has one checkpoint instead."""
    kept: int
    """Streams that were left because a repeat of an idempotency key would still be answered from their history."""
    unsound: int
    """Findings of streams that were left because their history does not verify."""
    findings: list[PruneFinding]
    """The first of them."""
    complete: bool
    """Whether all streams were looked at; if not, call again with `next_cursor`."""
    next_cursor: str | None
    segment_id: str | None
    """Of the record of it; `None` if nothing could go."""
    unfinished: bool = False
    """Whether only the oldest part of the last stream's history was read. The next call continues with that stream;
    after a dry run, which changes nothing, with the stream after it, so a dry run counts too few."""


class PrunePlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    tenant: PlaceText
    kind: PlaceText
    id: PlaceText
    again: bool = False
    """Whether the stream itself is looked at again."""


class Search:
    """The range of one call, and what it found there."""

    def __init__(self) -> None:
        self.report = PruneReport()
        self.found: list[FoundCheckpoint] = []
        self.last: StreamId | None = None
        self.is_complete = False

    @property
    def has_more(self) -> bool:
        """Whether the last stream's history goes on after what was found of it."""
        return bool(self.found) and self.found[-1].has_more


class Pruner(Service):
    """The history of one tenant, or of all for the tenant `*`."""

    async def prune(self, request: PruneRequest | Mapping[str, Any]) -> PruneOutcome:
        """Replace history older than an instant by one checkpoint a stream, for so many streams at most.

        The history of each stream before `before` becomes one checkpoint with the state it led to. This cannot be
        undone. A dry run counts what would go. A tenant's key prunes that tenant, a key of `*` all. When `complete`
        is false, call again with `next_cursor`.
        """
        asked = check_request(request, PruneRequest)
        before_at = await self._demand_past(asked.before)
        named = ["prune", self.caller.tenant, before_at]
        search = Search()
        await self._find(asked.limit, before_at, place_of(asked.cursor, named, PrunePlace), search)
        report, found = search.report, search.found
        on_record = await self._record(asked, found) if found else None
        for one in found:
            gone = await self.engine.store.replace_history(one.segment)
            report.segments += gone
            report.streams += gone > 0
        more = None if search.is_complete else cursor_of(named, await self._place_after(search))
        return PruneOutcome(
            before=asked.before,
            examined=report.examined,
            streams=report.streams,
            segments=report.segments,
            kept=len(found) - report.streams,
            unsound=len(report.findings),
            findings=[_finding_view(one) for one in report.findings[:FINDINGS_MAX]],
            complete=more is None,
            next_cursor=more,
            segment_id=on_record,
            unfinished=search.has_more,
        )

    async def _demand_past(self, before: datetime) -> Instant:
        before_at, now = instant(before), await self.engine.store.now()
        if before_at > now:
            message = f"must not be later than now, which is {render(now)}"
            raise Invalid(message, (("before", message),))
        return before_at

    async def _find(self, limit: int, before_at: Instant, place: PrunePlace | None, search: Search) -> None:
        """Look for checkpoints up to a bound, or up to the first stream whose history is too long for one call."""
        store, kinds, report = self.engine.store, self.engine.kinds, search.report
        async for stream in self._streams_after(place):
            if report.examined >= limit or report.read >= READ_MAX or len(search.found) >= SUBJECTS_MAX:
                return
            report.examined += 1
            search.last = stream
            if checkpoint := await find_checkpoint(store, kinds, stream, before_at, report):
                search.found.append(checkpoint)
            if search.has_more:
                return
        search.is_complete = True

    async def _streams_after(self, place: PrunePlace | None) -> AsyncIterator[StreamId]:
        last = StreamId(place.tenant, place.kind, place.id) if place else None
        whose = None if self.caller.tenant == DEPLOYMENT.tenant else self.caller.tenant
        # A cursor is nothing that a caller could not have written: it opens no other tenant's stream.
        if place and last and place.again and whose in (None, last.tenant):
            yield last
        async for stream in all_streams(self.engine.store, tenant=whose, kind=None, after=last):
            yield stream

    async def _place_after(self, search: Search) -> PrunePlace:
        """Return where the next call goes on: with the same stream, if there is more and this call has moved it on.

        A dry run moves nothing, and neither does a call that left the history to a live key.
        """
        assert search.last  # a call that is not complete has looked at one
        if not search.has_more:
            return PrunePlace(*search.last)
        _, page = await self.engine.store.history(search.last, 0, 1)
        upto = search.found[-1].segment.version
        return PrunePlace(*search.last, again=bool(page) and page[0].version == upto)

    async def _record(self, asked: PruneRequest, found: list[FoundCheckpoint]) -> str:
        is_everybody = self.caller.tenant == DEPLOYMENT.tenant
        streams = [one.segment.stream for one in found]
        names = [str(one) if is_everybody else f"{one.kind}:{one.id}" for one in streams]
        chosen = {"before": asked.before}
        return await record_operation(self, "history", "prune", names, note=asked.note, chosen_by=chosen)


def _finding_view(found: LedgerFinding) -> PruneFinding:
    return PruneFinding(*(found.stream or ("", "", "")), found.version, found.what[:WHAT_CHARS_MAX])
