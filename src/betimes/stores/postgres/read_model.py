"""The read model on PostgreSQL: the tally, alarms to come, names and processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from betimes.core.canonical import encode
from betimes.core.errors import Fenced
from betimes.core.instants import Instant, seconds
from betimes.core.segments import Segment, segment_of
from betimes.core.streams import StreamId
from betimes.engine.read_model import (
    AlarmCount,
    AlarmLagEntry,
    AlarmPlace,
    ExecutorBacklog,
    KindRange,
    NamedKey,
    NamedStream,
    ProcessRow,
    TallyCell,
    TallyEntry,
    TallyPosition,
    TallyQuery,
    TallyRange,
    TallySource,
    TenantBacklog,
    UpcomingQuery,
    prefix_end,
)
from betimes.engine.store import PAGE_MAX, StreamRow
from betimes.stores.postgres import rows
from betimes.stores.postgres.sessions import Sessions
from betimes.stores.postgres.statements import Prepared

LAG_ARRAYS = ("tenants", "ats", "bounds", "counts", "mosts")
ENTRY_ARRAYS = ("levels", "tenants", "ats", "kinds", "outcomes", "reasons", "counts", "firsts", "lasts")


class PostgresReadModel:
    """The part of the store that people's questions are answered from."""

    _sessions: Sessions
    _held: list[str] | None

    def _statement(self, name: str, **values: Any) -> Prepared:
        raise AssertionError("the store knows its schema and clock")

    async def _rows(self, name: str, **values: Any) -> list[rows.Record]:
        return await self._sessions.rows(self._statement(name, **values))

    # -- the tally

    async def tally_source(self, after: int, limit: int, by_events: Sequence[str] = ()) -> list[TallySource]:
        asked = {"after": after, "limit": min(limit, PAGE_MAX), "by_events": list(by_events)}
        async with self._sessions.session() as session:
            settled = await session.value(self._statement("settled_seq"))
            page = self._statement("tally_source", settled=settled, **asked)
            return [TallySource(*record) for record in await session.rows(page)]

    async def tally_position(self) -> TallyPosition:
        return TallyPosition(*(await self._rows("tally_position"))[0])

    async def take_tally(self, holder: str, lease_s: float) -> TallyPosition | None:
        taken = await self._sessions.write(self._statement("take_tally", holder=holder, lease=seconds(lease_s)))
        return TallyPosition(*taken[0]) if taken else None

    async def add_tally(
        self, holder: str, lease_s: float, entries: Sequence[TallyEntry], *, after: int, upto: int, at: Instant
    ) -> None:
        columns = [list(column) for column in zip(*entries, strict=True)] if entries else [[] for _ in ENTRY_ARRAYS]
        statement = self._statement(
            "add_tally",
            holder=holder,
            lease=seconds(lease_s),
            after=after,
            upto=upto,
            at=at,
            **dict(zip(ENTRY_ARRAYS, columns, strict=True)),
        )
        if not await self._sessions.write(statement):
            raise Fenced(f"the tally has moved on from {after}, or {holder} lost its lease on it")

    async def trim_tally(self, *, minutes_from: Instant, hours_from: Instant, limit: int) -> int:
        kept = {"minutes_from": minutes_from, "hours_from": hours_from}
        return int((await self._sessions.write(self._statement("trim_tally", **kept, limit=limit)))[0][0])

    async def reset_tally(self) -> None:
        await self._sessions.write(self._statement("reset_tally"))

    async def tally_counts(
        self, query: TallyQuery, step: int, limit: int, *, by_reasons: bool = True
    ) -> list[TallyCell]:
        grouped = {"by_reasons": by_reasons or None, "any_reasons": None if by_reasons else True}
        found = await self._rows("tally_counts", **_narrow(query), step=step, limit=limit, **grouped)
        return [TallyCell(*record) for record in found]

    async def tally_ranges(self, query: TallyQuery, before_seq: int, limit: int) -> list[TallyRange]:
        found = await self._rows("tally_ranges", **_narrow(query), before_seq=before_seq, limit=limit)
        return [TallyRange._make((*columns, tuple(kinds))) for *columns, kinds in found]

    async def segments_within(self, tenant: str, ranges: Sequence[KindRange], limit: int) -> list[Segment]:
        kinds, firsts, lasts = ([list(column) for column in zip(*ranges, strict=True)]) if ranges else ([], [], [])
        asked = {"kinds": kinds, "firsts": firsts, "lasts": lasts, "tenant": tenant, "limit": min(limit, PAGE_MAX)}
        async with self._sessions.session() as session:
            settled = await session.value(self._statement("settled_seq"))
            page = self._statement("segments_within", settled=settled, **asked)
            return [segment_of(record) for record in await session.rows(page)]

    # -- alarms, names, processes

    async def upcoming(self, query: UpcomingQuery) -> list[AlarmCount]:
        name = "upcoming" if query.due_kind is None else "upcoming_due"
        found = await self._rows(name, **asdict(query) | {"sampled": query.sampled or None})
        return [AlarmCount(*record) for record in found]

    async def upcoming_streams(
        self, tenant: str, since_at: Instant, until_at: Instant, limit: int, *, after: AlarmPlace | None = None
    ) -> list[StreamRow]:
        at, kind, id = after or (None, None, None)
        since = max(since_at, after.at) if after else since_at
        asked = {"tenant": tenant, "since_at": since, "until_at": until_at, "limit": min(limit, PAGE_MAX)}
        found = await self._rows("upcoming_streams", **asked, after_at=at, after_kind=kind, after_id=id)
        return [rows.stream_row(record) for record in found]

    async def snoozed_streams(self, tenant: str, limit: int, *, after: StreamId | None = None) -> list[StreamRow]:
        place = {"after_kind": after and after.kind, "after_id": after and after.id}
        found = await self._rows("snoozed_streams", tenant=tenant, limit=min(limit, PAGE_MAX), **place)
        return [rows.stream_row(record) for record in found]

    async def names_like(self, tenant: str, kinds: Sequence[str], prefix: str, limit: int) -> list[NamedStream]:
        asked = {"kinds": list(kinds), "prefix": prefix, "prefix_end": prefix_end(prefix)}
        return [NamedStream(*record) for record in await self._rows("names_like", tenant=tenant, limit=limit, **asked)]

    async def keys_like(self, tenant: str, collections: Sequence[str], prefix: str, limit: int) -> list[NamedKey]:
        asked = {"collections": list(collections), "prefix": prefix, "prefix_end": prefix_end(prefix)}
        bounds = {"limit": limit, "looked_at": PAGE_MAX}
        found = await self._rows("keys_like", tenant=tenant, **asked, **bounds)
        return [NamedKey(*record) for record in found]

    async def tenant_backlog(self, tenant: str, limit: int) -> TenantBacklog:
        [(*counts, orphaned)] = await self._rows("tenant_backlog", tenant=tenant, limit=limit, held=self._held)
        return TenantBacklog._make((*counts, msgspec.json.decode(orphaned, type=dict[str, dict[str, int]])))

    async def executor_backlog(self, tenant: str, limit: int, executors_max: int) -> list[ExecutorBacklog]:
        found = await self._rows("executor_backlog", tenant=tenant, limit=limit, executors_max=executors_max)
        return [ExecutorBacklog(*record) for record in found]

    async def add_alarm_lags(self, entries: Sequence[AlarmLagEntry], *, forget_before: Instant) -> None:
        # In one order, so that two processes that add to the same hours do not wait in a circle.
        columns = [list(column) for column in zip(*sorted(entries), strict=True)] or [[]] * len(LAG_ARRAYS)
        arrays = dict(zip(LAG_ARRAYS, columns, strict=True))
        await self._sessions.write(self._statement("add_alarm_lags", **arrays, forget_before=forget_before))

    async def alarm_lags(self, tenant: str, since_at: Instant, until_at: Instant) -> list[AlarmLagEntry]:
        found = await self._rows("alarm_lags", tenant=tenant, since_at=since_at, until_at=until_at)
        return [AlarmLagEntry(*record) for record in found]

    async def beat(self, process: ProcessRow, *, forget_before: Instant) -> None:
        told = [*process[:3], encode(list(process.executors)), *process[4:]]
        row = {f"told_{field}": value for field, value in zip(ProcessRow._fields, told, strict=True)}
        await self._sessions.write(self._statement("beat", **row, forget_before=forget_before))

    async def processes(self, limit: int) -> list[ProcessRow]:
        found = await self._rows("processes", limit=limit)
        return [ProcessRow._make((*told[:3], tuple(msgspec.json.decode(told[3])), *told[4:])) for told in found]


def _narrow(query: TallyQuery) -> dict[str, Any]:
    return {
        "tenant": query.tenant,
        "level": query.level,
        "since_at": query.since_at,
        "until_at": query.until_at,
        "kinds": list(query.kinds) or None,
        "outcomes": list(query.outcomes) or None,
        "reason": query.reason,
    }
