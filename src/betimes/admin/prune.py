"""Pruning on request: one bounded call after the other replaces old history by one checkpoint a stream.

A call looks for what can go, puts on record who asked and which streams it is about to change, and then changes them. A
tenant prunes its own history, a caller of the tenant `*` that of all. Expired keys and calls that ended are no history:
the store removes those of all tenants together, so that is left to `betimes prune`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from betimes.core.datetimes import Moment, instant
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, render
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import SUBJECTS_MAX, Note
from betimes.domain.operations.service import record_operation
from betimes.domain.paging import CursorPlace, PlaceText, cursor_of, place_of
from betimes.domain.requests import check_request
from betimes.domain.service import Service
from betimes.engine.pruning import PruneReport, find_checkpoint, put_checkpoint
from betimes.engine.replay import LedgerFinding, all_streams
from betimes.engine.tenants.model import DEPLOYMENT

EXAMINED_MAX = 5_000
"""Streams of one call."""
READ_MAX = 20_000
"""Segments that one call reads before it takes no further stream; a stream is always finished."""
FINDINGS_MAX = 20
WHAT_CHARS_MAX = 500


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: Moment
    """History older than this goes; not later than now."""
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
    """Those whose older history is one checkpoint now."""
    segments: int
    """Segments that went; each stream has one checkpoint in their place."""
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


class PrunePlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    tenant: PlaceText
    kind: PlaceText
    id: PlaceText


class Pruner(Service):
    """The history of one tenant, or of all for the tenant `*`."""

    async def prune(self, request: PruneRequest | Mapping[str, Any]) -> PruneOutcome:
        """Replace history older than an instant by one checkpoint a stream, for so many streams at most."""
        asked = check_request(request, PruneRequest)
        before_at = await self._demand_past(asked.before)
        named = ["prune", self.caller.tenant, before_at]
        report, found = PruneReport(), list[Segment]()
        place = place_of(asked.cursor, named, PrunePlace)
        last = await self._find(asked.limit, before_at, place, found, report)
        on_record = await self._record(asked, found) if found else None
        for one in found:
            await put_checkpoint(self.engine.store, one, report)
        more = cursor_of(named, PrunePlace(*last)) if last else None
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
        )

    async def _demand_past(self, before: datetime) -> Instant:
        before_at, now = instant(before), await self.engine.store.now()
        if before_at > now:
            message = f"not later than now, which is {render(now)}"
            raise Invalid(message, (("before", message),))
        return before_at

    async def _find(
        self, limit: int, before_at: Instant, place: PrunePlace | None, found: list[Segment], report: PruneReport
    ) -> StreamId | None:
        """Fill `found` with checkpoints up to a bound; return the last stream looked at, `None` if it was the last."""
        store, kinds, tenant = self.engine.store, self.engine.kinds, self.caller.tenant
        last = StreamId(place.tenant, place.kind, place.id) if place else None
        whose = None if tenant == DEPLOYMENT.tenant else tenant
        async for stream in all_streams(store, tenant=whose, kind=None, after=last):
            if report.examined >= limit or report.read >= READ_MAX or len(found) >= SUBJECTS_MAX:
                return last
            checkpoint = await find_checkpoint(store, kinds, stream, before_at, report)
            found += [checkpoint] if checkpoint else []
            last = stream
        return None

    async def _record(self, asked: PruneRequest, found: list[Segment]) -> str:
        is_everybody = self.caller.tenant == DEPLOYMENT.tenant
        names = [str(one.stream) if is_everybody else f"{one.stream.kind}:{one.stream.id}" for one in found]
        chosen = {"before": asked.before}
        return await record_operation(self, "history", "prune", names, note=asked.note, chosen_by=chosen)


def _finding_view(found: LedgerFinding) -> PruneFinding:
    return PruneFinding(*(found.stream or ("", "", "")), found.version, found.what[:WHAT_CHARS_MAX])
