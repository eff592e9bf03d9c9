"""The read model on SQLite: the tally, alarms to come, names and processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import asdict

from betimes.core.canonical import encode
from betimes.core.errors import Fenced
from betimes.core.instants import HOUR, MINUTE, Instant, seconds
from betimes.core.segments import Segment, segment_of
from betimes.core.streams import StreamId
from betimes.engine import read_model as contract
from betimes.engine.store import PAGE_MAX, StreamRow
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.rows import listed_stream

P = ParamSpec("P")
Result = TypeVar("Result")


class SqliteReadModel:
    """The part of the store that people's questions are answered from."""

    clock: Callable[[], Instant]
    _held: str | None

    async def _read(self, job: Callable[Concatenate[Connection, P], Result], *args: P.args, **kw: P.kwargs) -> Result:
        raise AssertionError("the store reads")

    async def _write(self, job: Callable[Concatenate[Connection, P], Result], *args: P.args, **kw: P.kwargs) -> Result:
        raise AssertionError("the store writes")

    async def _rows(self, name: str, **bindings: Any) -> Any:
        return await self._read(lambda connection: connection.json(name, bindings))

    # -- the tally

    async def tally_source(self, after: int, limit: int, by_events: Sequence[str] = ()) -> list[contract.TallySource]:
        kinds = encode(list(by_events))
        found = await self._rows("tally_source", after=after, limit=min(limit, PAGE_MAX), by_events=kinds)
        return [*map(contract.TallySource._make, found)]

    async def tally_position(self) -> contract.TallyPosition:
        return contract.TallyPosition(*await self._rows("tally_position"))

    async def take_tally(self, holder: str, lease_s: float) -> contract.TallyPosition | None:
        return await self._write(_take_tally, holder, seconds(lease_s), self.clock)

    async def add_tally(
        self, holder: str, lease_s: float, entries: Sequence[contract.TallyEntry], *, after: int, upto: int, at: Instant
    ) -> None:
        moved = {"holder": holder, "until": self.clock() + seconds(lease_s), "after": after, "upto": upto, "at": at}
        await self._write(_add_tally, moved, entries)

    async def trim_tally(self, *, minutes_from: Instant, hours_from: Instant, limit: int) -> int:
        return await self._write(_trim_tally, minutes_from, hours_from, limit)

    async def reset_tally(self) -> None:
        await self._write(_reset_tally)

    async def tally_counts(
        self, query: contract.TallyQuery, step: int, limit: int, *, by_reasons: bool = True
    ) -> list[contract.TallyCell]:
        grouped = {"by_reasons": by_reasons or None, "any_reasons": None if by_reasons else True}
        found = await self._rows("tally_counts", **_narrow(query), step=step, limit=limit, **grouped)
        return [contract.TallyCell(*columns) for columns in found]

    async def tally_ranges(self, query: contract.TallyQuery, before_seq: int, limit: int) -> list[contract.TallyRange]:
        found = await self._rows("tally_ranges", **_narrow(query), before_seq=before_seq, limit=limit)
        return [contract.TallyRange._make((*columns, tuple(kinds))) for *columns, kinds in found]

    async def segments_within(self, tenant: str, ranges: Sequence[contract.KindRange], limit: int) -> list[Segment]:
        asked = {"tenant": tenant, "ranges": encode(ranges), "limit": min(limit, PAGE_MAX)}
        return [segment_of(columns) for columns in await self._rows("segments_within", **asked)]

    # -- alarms, names, processes

    async def upcoming(self, query: contract.UpcomingQuery) -> list[contract.AlarmCount]:
        # A line of the query is left out when its parameter is `None`, so either case has a name of its own.
        either = {"sampled": query.sampled or None, "exact": None if query.sampled else True}
        name = "upcoming" if query.due_kind is None else "upcoming_due"
        found = await self._rows(name, **asdict(query) | either)
        return [contract.AlarmCount(*columns) for columns in found]

    async def upcoming_streams(
        self, tenant: str, since_at: Instant, until_at: Instant, limit: int, *, after: contract.AlarmPlace | None = None
    ) -> list[StreamRow]:
        place = {"at_after": after.at, "kind_after": after.kind, "id_after": after.id} if after else {}
        # The index then starts where the last page ended, instead of passing over all that was listed before.
        since = max(since_at, after.at) if after else since_at
        asked = {"tenant": tenant, "since_at": since, "until_at": until_at, "limit": min(limit, PAGE_MAX)}
        return [listed_stream(columns) for columns in await self._rows("upcoming_streams", **asked, **place)]

    async def snoozed_streams(self, tenant: str, limit: int, *, after: StreamId | None = None) -> list[StreamRow]:
        place = {"kind_after": after.kind, "id_after": after.id} if after else {}
        found = await self._rows("snoozed_streams", tenant=tenant, limit=min(limit, PAGE_MAX), **place)
        return [listed_stream(columns) for columns in found]

    async def names_like(
        self, tenant: str, kinds: Sequence[str], prefix: str, limit: int
    ) -> list[contract.NamedStream]:
        asked = {"kinds": encode(list(kinds)), "prefix": prefix, "prefix_end": contract.prefix_end(prefix)}
        return [
            contract.NamedStream(*found)
            for found in await self._rows("names_like", tenant=tenant, limit=limit, **asked)
        ]

    async def keys_like(
        self, tenant: str, collections: Sequence[str], prefix: str, limit: int
    ) -> list[contract.NamedKey]:
        asked = {"collections": encode(list(collections)), "prefix": prefix, "prefix_end": contract.prefix_end(prefix)}
        bounds = {"limit": limit, "looked_at": PAGE_MAX, "now": self.clock()}
        found = await self._rows("keys_like", tenant=tenant, **asked, **bounds)
        return [contract.NamedKey(*columns) for columns in found]

    async def tenant_backlog(self, tenant: str, limit: int) -> contract.TenantBacklog:
        now = self.clock()
        return contract.TenantBacklog(
            *await self._rows(
                "tenant_backlog", tenant=tenant, limit=limit, now=now, late_since=now - MINUTE, held=self._held
            )
        )

    async def executor_backlog(self, tenant: str, limit: int, executors_max: int) -> list[contract.ExecutorBacklog]:
        found = await self._rows("executor_backlog", tenant=tenant, limit=limit, executors_max=executors_max)
        return [contract.ExecutorBacklog(executor, *columns) for executor, by_kind in found for columns in by_kind]

    async def add_alarm_lags(self, entries: Sequence[contract.AlarmLagEntry], *, forget_before: Instant) -> None:
        await self._write(_add_alarm_lags, entries, forget_before)

    async def alarm_lags(self, tenant: str, since_at: Instant, until_at: Instant) -> list[contract.AlarmLagEntry]:
        found = await self._rows("alarm_lags", tenant=tenant, since_at=since_at, until_at=until_at)
        return [contract.AlarmLagEntry(*columns) for columns in found]

    async def beat(self, process: contract.ProcessRow, *, forget_before: Instant) -> None:
        row = {**process._asdict(), "executors": encode(list(process.executors))}
        await self._write(_beat, row, forget_before)

    async def processes(self, limit: int) -> list[contract.ProcessRow]:
        found = await self._rows("processes", limit=limit)
        return [contract.ProcessRow._make((*told[:3], tuple(told[3]), *told[4:])) for told in found]


def _narrow(query: contract.TallyQuery) -> dict[str, Any]:
    return {
        "tenant": query.tenant,
        "level": query.level,
        "since_at": query.since_at,
        "until_at": query.until_at,
        "kinds": encode(list(query.kinds)) if query.kinds else None,
        "outcomes": encode(list(query.outcomes)) if query.outcomes else None,
        "reason": query.reason,
    }


def _take_tally(
    connection: Connection, holder: str, lease: int, clock: Callable[[], Instant]
) -> contract.TallyPosition | None:
    now = clock()
    if not connection.change("take_tally", {"holder": holder, "now": now, "until": now + lease}):
        return None
    return contract.TallyPosition(*connection.json("tally_position", {}))


def _add_tally(connection: Connection, moved: dict[str, Any], entries: Sequence[contract.TallyEntry]) -> None:
    # The position moves first, and only for who holds the lease, so that nothing is counted twice.
    if not connection.change("move_tally", moved):
        raise Fenced(f"the tally has moved on from {moved['after']}, or {moved['holder']} lost its lease on it")
    connection.change_rows("add_tally", entries)


def _trim_tally(connection: Connection, minutes_from: Instant, hours_from: Instant, limit: int) -> int:
    connection.change("keep_tally_from", {"minutes_from": minutes_from, "hours_from": hours_from})
    gone = 0
    for level, kept_from in ((MINUTE, minutes_from), (HOUR, hours_from)):
        gone += connection.change("trim_tally", {"level": level, "kept_from": kept_from, "limit": limit})
    return gone


def _reset_tally(connection: Connection) -> None:
    connection.change("empty_tally", {})
    connection.change("reset_tally", {})


def _add_alarm_lags(connection: Connection, entries: Sequence[contract.AlarmLagEntry], before_at: Instant) -> None:
    connection.change_rows("add_alarm_lags", entries)
    connection.change("forget_alarm_lags", {"before_at": before_at})


def _beat(connection: Connection, row: dict[str, Any], before_at: Instant) -> None:
    connection.change("beat", row)
    connection.change("forget_processes", {"before_at": before_at})
