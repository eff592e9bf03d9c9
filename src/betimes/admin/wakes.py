"""Ringing the alarm of one stream by hand: of one that is snoozed because its wake failed, mostly."""

from __future__ import annotations

from datetime import datetime

from betimes.core.datetimes import moment
from betimes.core.errors import BetimesError, NotFound, StoreError
from betimes.core.instants import render
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domain.json_view import JsonView
from betimes.domain.operations.service import record_operation
from betimes.domain.service import Service
from betimes.engine.store import StreamRow


class WakeView(JsonView, frozen=True, kw_only=True):
    kind: str
    id: str
    rung: bool
    """Whether its alarm was due and its wake succeeded."""
    why: str | None
    """Why it was not rung; `null` if it was."""
    error: str | None
    """Why the wake failed again."""
    alarm_at: datetime | None
    """Its next alarm."""
    snoozed_until: datetime | None
    """The end of the snooze, if the wake failed."""
    segment_id: str | None
    """The segment that the wake wrote; `null` if it was not rung."""


class Wakes(Service):
    """The alarms of a tenant's streams."""

    async def wake(self, kind: str, id: str, *, note: str | None = None) -> WakeView:
        """End a stream's snooze and ring its alarm, if that is due; say what it fails with."""
        stream = await self._found(kind, id)
        await record_operation(self, "streams", "wake", [f"{kind}:{id}"], note=note)
        before = await self._row(stream)
        recorded, error = await self._ring(stream, note or self.caller.note)
        row = await self._row(stream)
        is_moved = row.version > before.version
        is_rung = is_moved and error is None
        if is_rung:
            self.last = recorded  # in place of the record that it was asked for
        return WakeView(
            kind=kind,
            id=id,
            rung=is_rung,
            why=None if is_rung else self._why_held(stream) or _why_not(before, error),
            error=error,
            alarm_at=moment(row.alarm_at),
            snoozed_until=moment(row.snooze_until),
            segment_id=f"{kind}:{id}:{row.version}" if is_moved else None,
        )

    async def _ring(self, stream: StreamId, note: str) -> tuple[Recorded | None, str | None]:
        """Wake a stream; return what is recorded of it, or what it fails with."""
        caller = self.caller
        try:
            return await self.engine.wake(stream, actor=caller.actor, correlation=caller.correlation, note=note), None
        # The store's trouble says nothing about the stream.
        except StoreError:
            raise
        except BetimesError as failure:
            return None, str(failure)

    def _why_held(self, stream: StreamId) -> str | None:
        hold = self.engine.holds.by_tenant.get(stream.tenant)
        is_held = hold is not None and self.engine.is_held(stream.tenant, stream.kind)
        return f"It is held until {render(hold.until_at)}: {hold.reason}." if hold and is_held else None

    async def _found(self, kind: str, id: str) -> StreamId:
        unknown = NotFound(f"there is no stream {kind[:40]}:{id[:80]}")
        if kind not in self.engine.kinds.names:
            raise unknown
        stream = self.stream(kind, id)
        if not await self.engine.store.load([stream]):
            raise unknown
        return stream

    async def _row(self, stream: StreamId) -> StreamRow:
        row, _ = await self.engine.store.history(stream, 0, 1)
        if row is None:
            raise NotFound(f"there is no stream {stream.kind}:{stream.id}")
        return row


def _why_not(row: StreamRow, error: str | None) -> str:
    """Return why a stream was not rung, in a sentence."""
    if error is not None:
        return f"Its wake failed: {error}"
    if row.alarm_at is None:
        return "It has no alarm: nothing in it waits for a time."
    return f"It is not due: its alarm is at {render(row.alarm_at)}."
