"""Streams of any kind as rows, and one with its state: people, accounts, intents, schedules, scores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import moment
from betimes.core.errors import Invalid, NotFound, Refused
from betimes.core.streams import ID_LAST, StreamId, checked_stream, segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import (
    InstantPlace,
    Page,
    check_filters,
    checked_limit,
    cursor_after,
    cursor_of,
    look_through,
    place_of,
    stream_at,
    wrong_parameter,
)
from betimes.domain.service import in_slices
from betimes.domain.struct_forms import From
from betimes.engine.replay import Replayed
from betimes.engine.store import StreamQuery, StreamRow
from betimes.ledger.known_names import check_names
from betimes.ledger.reader import LedgerReader, domain_of
from betimes.ledger.redaction import redact

VERIFIED_MAX = 10_000
"""Segments of a stream that are replayed at most when a caller asks."""
READ_MAX = 200
FINDINGS_MAX = 20


class StreamSummary(JsonView, frozen=True, kw_only=True):
    kind: str
    id: str
    domain: str
    status: str | None
    owner: str | None
    """The user or account it belongs to, if any."""
    version: int
    segment_id: str
    """Its last segment."""
    created_at: datetime
    updated_at: Annotated[datetime, From("at")]
    alarm_at: datetime | None
    due_at: datetime | None
    snooze_until: datetime | None
    """If its last wake failed, when the snooze ends."""
    snooze_error: str | None


class StreamDetail(StreamSummary, frozen=True, kw_only=True):
    state: Any
    """As deciders see it, without secrets; `null` if it was deleted."""


class StreamFinding(JsonView, frozen=True):
    version: int
    what: str


class StreamVerification(JsonView, frozen=True, kw_only=True):
    """The result of replaying one stream from its ledger."""

    kind: str
    id: str
    version: int
    segments: int
    """Segments that were replayed: all, or those since history was pruned."""
    sound: bool
    findings: list[StreamFinding]
    digest: str
    """Of the last segment; it stands for all before it."""
    verified_at: datetime


class StreamList(LedgerReader):
    """Lists streams."""

    @check_filters
    async def streams(
        self,
        *,
        kind: str | None = None,
        prefix: str | None = None,
        status: str | None = None,
        snoozed: bool | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[StreamSummary]:
        """List streams of a kind, the last created first, or by the beginning of their ids; or snoozed ones.

        People (`inbox`), accounts, runs, intents, schedules, sensors, scores: the last created first, or in the order
        of ids with `prefix`. `snoozed=true` lists those whose last wake failed.

        Parameters
        ----------
        kind
            Required, unless `snoozed` is true.
        prefix
            A prefix of the id; the list is then ordered by id.
        snoozed
            Whether the last wake failed and the alarm is snoozed.
        """
        checked_limit(limit)
        if kind is None and not snoozed:
            raise wrong_parameter("kind", "required, unless snoozed is asked for")
        check_names(kind=kind, status=status)
        filters = ["streams", self.caller.tenant, sorted(self._domains), kind, prefix, status, snoozed]
        if snoozed:
            return await self._snoozed(
                filters,
                limit,
                cursor,
                lambda row: (
                    kind in (None, row.stream.kind)
                    and row.stream.id.startswith(prefix or "")
                    and status in (None, row.status)
                ),
            )
        if kind not in self.kinds_of():
            return Page([])
        place = place_of(cursor, filters, InstantPlace)
        query = StreamQuery(
            tenant=self.caller.tenant,
            kind=kind,
            prefix=prefix,
            among=(status,) if status is not None and prefix is None else (),
            newest_first=prefix is None,
            after=stream_at(place, self.caller.tenant, kind) if place else None,
            after_created_at=place.at if place else None,
        )
        rows, last = await look_through(
            self.engine.store,
            query,
            limit,
            lambda row: (status in (None, row.status)) and (snoozed is None or row.snooze_until is None),
        )
        return Page([_summary(row) for row in rows], cursor_after(filters, last) if last else None)

    async def _snoozed(
        self, filters: list[Any], limit: int, cursor: str | None, is_wanted: Callable[[StreamRow], bool]
    ) -> Page[StreamSummary]:
        place = place_of(cursor, filters, InstantPlace)
        after = None
        if place:
            named, _, id = place.id.partition(":")
            after = StreamId(self.caller.tenant, named, id)
        rows = await self.engine.store.snoozed_streams(self.caller.tenant, limit + 1, after=after)
        # Chosen from a page that is cut already: it may come out short, and the cursor goes on all the same.
        wanted = [row for row in rows[:limit] if row.stream.kind in self.kinds_of() and is_wanted(row)]
        last = rows[limit - 1].stream if len(rows) > limit else None
        # A cursor names nothing that the caller may not see: then it leads on behind the last of that kind.
        last_id = last and (last.id if last.kind in self.kinds_of() else ID_LAST)
        more = cursor_of(filters, InstantPlace(0, f"{last.kind}:{last_id}")) if last else None
        return Page([_summary(row) for row in wanted], more)

    async def stream_detail(self, kind: str, id: str) -> StreamDetail:
        """Return a stream with its state, without secrets; or raise `NotFound`.

        With its state as deciders see it, without secrets.
        """
        row = await self._found_row(kind, id)
        state = self.engine.kinds.state_in(row.stream, row)
        return derive(StreamDetail, _summary(row), state=redact(state, kind))

    async def verify_stream(self, kind: str, id: str) -> StreamVerification:
        """Replay a stream's history and compare its row with it; raise `Refused` if it is too long for a request."""
        row = await self._found_row(kind, id)
        replayed = Replayed(row.stream, self.engine.kinds.of(row.stream))
        last: StreamRow | None = row
        while last and replayed.version < last.version:
            # The row comes with each page, because the stream may grow while it is replayed.
            last, page = await self.engine.store.history(row.stream, replayed.version, READ_MAX)
            # Counted from the first segment that is left; pruned ones need not be replayed.
            if page and row.version - page[0].version + replayed.segments >= VERIFIED_MAX:
                told = f"it has more than {VERIFIED_MAX:,} segments; `betimes verify` has no such limit"
                raise Refused("HISTORY_TOO_LONG", told)
            async for segment in in_slices(page):
                replayed.examine(segment)
            if not page:
                break
        if last:
            replayed.compare(last)
        findings = [derive(StreamFinding, found) for found in replayed.findings[:FINDINGS_MAX]]
        return StreamVerification(
            kind=kind,
            id=id,
            version=replayed.version,
            segments=replayed.segments,
            sound=not findings,
            findings=findings,
            digest=replayed.digest,
            verified_at=moment(await self.engine.store.now()),
        )

    async def _found_row(self, kind: str, id: str) -> StreamRow:
        unknown = NotFound(f"there is no stream {kind[:40]}:{id[:80]}")
        if kind not in self.kinds_of() or kind not in DOMAIN_OF:
            raise unknown
        try:
            stream = checked_stream(self.caller.tenant, kind, id)
        except Invalid:
            raise unknown from None
        # Behind every version: the row is wanted, and none of its segments.
        row, _ = await self.engine.store.history(stream, 2**31 - 1, 1)
        if row is None or row.version == 0:
            raise unknown
        return row


def _summary(row: StreamRow) -> StreamSummary:
    return derive(
        StreamSummary,
        row,
        row.stream,
        domain=domain_of(row.stream.kind),
        segment_id=segment_handle(row.stream, row.version),
        snooze_error=row.snooze_error or None,
    )
