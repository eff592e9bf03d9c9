"""A connection to an in-memory database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import islice
from typing import Unpack

from msgspec.structs import replace

from betimes.core.errors import Fenced
from betimes.core.instants import MINUTE, SECOND, Instant, earliest
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine import store as contract
from betimes.stores.memory.database import MemoryDatabase
from betimes.stores.memory.effects import MemoryEffect
from betimes.stores.memory.read_model import MemoryReadModel
from betimes.stores.memory.shares import in_shares
from betimes.stores.memory.transaction import MemoryTx


class MemoryStore(MemoryReadModel):
    """A connection to a `MemoryDatabase`, with its clock."""

    def __init__(self, clock: Callable[[], Instant], database: MemoryDatabase | None = None) -> None:
        self.clock = clock
        self.database = database or MemoryDatabase()
        self._held: frozenset[tuple[str, str]] = frozenset()

    def pass_over(self, held: Mapping[str, Sequence[str]]) -> None:
        self._held = frozenset((tenant, kind) for tenant, kinds in held.items() for kind in kinds)

    def _is_held(self, name: StreamId | EffectId) -> bool:
        return bool(self._held) and name[:2] in self._held

    async def open(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Do nothing: the database lives as long as it is referenced."""

    async def check_writable(self) -> None:
        """Memory has no lock to wait for."""

    async def now(self) -> Instant:
        return self.clock()

    def transaction(self) -> MemoryTx:
        """A transaction that holds nothing yet."""
        return MemoryTx(self.database, self.clock)

    @asynccontextmanager
    async def begin(self, ask: contract.LockRequest) -> AsyncIterator[MemoryTx]:
        tx = self.transaction()
        try:
            await tx.start(ask)
            yield tx
        finally:
            self.database.release(tx)

    def presume(self, ask: contract.LockRequest) -> AbstractAsyncContextManager[MemoryTx] | None:
        return self._begin_presumed(ask) if contract.is_presumable(ask) else None

    @asynccontextmanager
    async def _begin_presumed(self, ask: contract.LockRequest) -> AsyncIterator[MemoryTx]:
        tx = self.transaction()
        tx.presume(ask)
        try:
            yield tx
        finally:
            self.database.release(tx)

    @asynccontextmanager
    async def begin_due(
        self,
        index: contract.DueIndex,
        kinds: Sequence[str],
        limit: int,
        *,
        after: contract.Reached | None = None,
        until_at: Instant | None = None,
        tenant: str | None = None,
        shares: Mapping[str, int] | None = None,
    ) -> AsyncIterator[MemoryTx]:
        tx = self.transaction()
        try:
            tx.now = self.clock()
            until = tx.now if until_at is None else min(until_at, tx.now)
            due = self._due(index, kinds, tenant)
            for at, stream in due if shares is None else in_shares(due, shares):
                if len(tx.rows) == limit:
                    break
                # Locked last, so that nothing is held that is not picked.
                if at <= until and (after is None or at >= after.at) and tx.try_lock(stream):
                    tx.rows[stream] = self.database.rows[stream].row()
            await asyncio.sleep(0)
            yield tx
        finally:
            self.database.release(tx)

    def _due(
        self, index: contract.DueIndex, kinds: Sequence[str], tenant: str | None = None
    ) -> list[tuple[Instant, StreamId]]:
        return sorted(
            (at, row.stream)
            for row in self.database.rows.values()
            if row.stream.kind in kinds
            and not self._is_held(row.stream)
            and tenant in (None, row.stream.tenant)
            and (at := self._wakes_at(row) if index == "alarm" else row.due_at) is not None
        )

    def _wakes_at(self, row: contract.StreamWrite) -> Instant | None:
        return None if row.alarm_at is None else max(row.alarm_at, self.database.snoozes.get(row.stream, row.alarm_at))

    async def next_due(
        self,
        index: contract.DueIndex,
        kinds: Sequence[str],
        executors: Sequence[str] = (),
        *,
        tenant: str | None = None,
    ) -> Instant | None:
        calls = [call.next_attempt_at for call in self._calls(executors, tenant)]
        return earliest(*(at for at, _ in self._due(index, kinds, tenant)[:1]), *calls)

    def _calls(self, executors: Sequence[str], tenant: str | None) -> list[MemoryEffect]:
        effects = self.database.effects.values()
        called = [e for e in effects if e.write.executor in executors and not self._is_held(e.write.id)]
        return [e for e in called if tenant in (None, e.write.id.tenant)]

    async def snooze(self, stream: StreamId, version: int, until: Instant, error: str = "") -> None:
        if stream in self.database.rows and self.database.version(stream) == version:
            self.database.snoozes[stream] = until
            self.database.snooze_errors[stream] = error

    async def due_tenants(
        self, index: contract.OwedIndex, names: Sequence[str], *, after: str = "", limit: int
    ) -> contract.DueTenants:
        now = self.clock()
        waiting: dict[str, Instant] = {}
        if index == "call":
            owed = [(e.next_attempt_at, e.write.id.tenant) for e in self._calls(names, None)]
        else:
            owed = [(at, stream.tenant) for at, stream in self._due(index, names)]
        for at, tenant in owed:
            if at is not None and tenant > after:
                waiting[tenant] = min(at, waiting.get(tenant, at))
        looked_at = sorted(waiting)[:limit]
        due = tuple(tenant for tenant in looked_at if waiting[tenant] <= now)
        return contract.DueTenants(due, looked_at[-1] if len(looked_at) == limit else "", len(looked_at))

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[contract.Lease]:
        now = self.clock()
        due = [call for call in self._calls(executors, None) if call.is_due(now)]
        due.sort(key=lambda e: (e.next_attempt_at or 0, e.write.id))
        left = Counter(shares or {})
        # The limit is applied at the end, since calls of tenants without a share are passed over.
        taken: list[MemoryEffect] = []
        for call in due:
            tenant = call.write.id.tenant
            if shares is None or left[tenant] > 0:
                left[tenant] -= 1
                taken.append(call)
        return [call.lease(now) for call in taken[:limit]]

    async def renew_lease(self, effect: EffectId, fence: int) -> None:
        held = self.database.effects.get(effect)
        if not held or held.fence != fence or held.status != "leased":
            raise Fenced(f"the lease on effect {effect.handle} was lost")
        held.next_attempt_at = self.clock() + held.write.lease_s * SECOND

    async def waiting_sends(self, limit: int, **bounds: Unpack[contract.SendBounds]) -> list[contract.WaitingSend]:
        tenant, kinds, after = bounds.get("tenant"), bounds.get("kinds"), bounds.get("after")
        waiting = (
            ids
            for source, ids in self.database.sends.items()
            if tenant in (None, source.tenant) and not self._is_held(source)
        )
        writes = (self.database.effects[id].write for ids in waiting for id in ids)
        sends = [contract.WaitingSend(s.id, s.to, s.payload, s.created_at) for s in writes if s.to]
        found = [
            send
            for send in sends
            if send.created_at < bounds["created_before"]
            and (kinds is None or send.to.kind in kinds)
            and (after is None or _send_age(send) > _send_age(after))
        ]
        return sorted(found, key=_send_age)[:limit]

    async def effects(self, query: contract.EffectQuery) -> list[contract.EffectRow]:
        rows = [self.database.effects[id].row() for id in sorted(self.database.effects)]
        if query.newest_first:
            rows.sort(key=lambda row: (row.created_at, row.id), reverse=True)
        elif query.oldest_first:
            rows.sort(key=lambda row: (row.created_at, row.id))
        return [row for row in rows if _effect_fits(row, query)][: min(query.limit, contract.PAGE_MAX)]

    async def revive_effect(self, effect: EffectId) -> bool:
        return self.database.revive(effect, self.clock())

    async def discard_effect(self, effect: EffectId) -> bool:
        held = self.database.effects.get(effect)
        return held is not None and held.status == "dead" and self.database.effects.pop(effect) is held

    async def revive_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return [effect for effect in effects if await self.revive_effect(effect)]

    async def discard_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return [effect for effect in effects if await self.discard_effect(effect)]

    async def load(self, streams: Sequence[StreamId]) -> dict[StreamId, contract.Row]:
        rows = self.database.rows
        return {stream: rows[stream].row() for stream in streams if stream in rows}

    async def seen(self, key: KeyId) -> contract.SeenKey | None:
        return self.database.live_key(key, self.clock())

    async def streams(self, query: contract.StreamQuery) -> list[contract.StreamRow]:
        rows = (self._stream_row(row) for row in self.database.rows.values() if row.version > 0)
        fitting = [row for row in rows if _stream_fits(row, query)]
        if query.due_before is not None:
            fitting.sort(key=lambda row: (row.due_at or 0, row.stream))
        elif query.listed_before is not None:
            fitting.sort(key=lambda row: (row.listed_at or 0, row.stream))
        elif query.newest_first:
            fitting.sort(key=lambda row: (row.created_at, row.stream), reverse=True)
        else:
            fitting.sort(key=lambda row: row.stream)
        return fitting[: min(query.limit, contract.PAGE_MAX)]

    def _stream_row(self, row: contract.StreamWrite) -> contract.StreamRow:
        return contract.StreamRow(
            row.stream,
            row.version,
            row.schema,
            row.state,
            row.at,
            row.alarm_at,
            row.status,
            row.owner,
            row.due_at,
            row.digest,
            self.database.snoozes.get(row.stream),
            self.database.created.get(row.stream, row.at),
            row.listed_at,
            self.database.snooze_errors.get(row.stream),
        )

    async def history(
        self, stream: StreamId, after_version: int, limit: int
    ) -> tuple[contract.StreamRow | None, list[Segment]]:
        row = self.database.rows.get(stream)
        later = [s for s in self.database.histories.get(stream, ()) if s.version > after_version]
        return (self._stream_row(row) if row else None), later[: min(limit, contract.PAGE_MAX)]

    async def ledger(self, query: contract.LedgerQuery) -> list[Segment]:
        db = self.database
        found = db.segments if query.key is None else db.by_key.get(query.key, [])
        ordered = reversed(found) if query.backwards else iter(found)
        return list(islice((s for s in ordered if _segment_fits(s, query)), min(query.limit, contract.PAGE_MAX)))

    async def policy(self, fingerprint: str) -> str | None:
        return self.database.policies.get(fingerprint)

    async def replace_history(self, checkpoint: Segment) -> int:
        stream, version = checkpoint.stream, checkpoint.version
        now, db = self.clock(), self.database
        if any(k.stream == stream and k.version <= version and k.expires_at > now for k in db.keys.values()):
            return 0
        gone = [s for s in db.histories.get(stream, ()) if s.version <= version]
        if not gone:
            return 0
        placed = replace(checkpoint, seq=gone[-1].seq)
        db.histories[stream] = [placed, *db.histories[stream][len(gone) :]]
        # Segments are listed in three places, and the checkpoint takes the number of the last one that goes.
        lost = {s.seq for s in gone}
        for key in {s.key.key for s in gone if s.key}:
            db.by_key[key] = [s for s in db.by_key[key] if s.seq not in lost]
        db.segments = sorted([placed, *(s for s in db.segments if s.seq not in lost)], key=lambda s: s.seq)
        return len(gone)

    async def forget(self, *, before_at: Instant, limit: int) -> int:
        db, now = self.database, self.clock()
        keys = [k for k, used in db.keys.items() if used.expires_at <= now][:limit]
        ended = [
            i
            for i, e in db.effects.items()
            # Dead letters stay until somebody retries or discards them.
            if e.finished_at is not None and e.finished_at < before_at and e.status != "dead"
        ]
        for key in keys:
            del db.keys[key]
        for id in ended[:limit]:
            del db.effects[id]
        return len(keys) + len(ended[:limit])

    async def backlog(self, kinds: Sequence[str]) -> contract.Backlog:
        now = self.clock()
        effects = self.database.effects.values()
        due = [at for at, _ in self._due("alarm", kinds) if at <= now]
        calls = [e for e in effects if e.write.executor != contract.SEND and not self._is_held(e.write.id)]
        stale = Counter(call.write.executor for call in calls if call.is_due(now - MINUTE))
        snoozed = sum(until > now for stream, until in self.database.snoozes.items() if stream.kind in kinds)
        return contract.Backlog(
            len(due),
            min(due, default=None),
            snoozed,
            sum(e.status in ("pending", "leased") for e in effects),
            sum(e.status == "dead" for e in effects),
            dict(stale),
        )


def _stream_fits(row: contract.StreamRow, query: contract.StreamQuery) -> bool:
    return (
        (row.state is not None or query.tombstones)
        and query.tenant in (None, row.stream.tenant)
        and query.kind in (None, row.stream.kind)
        and query.owner in (None, row.owner)
        and query.status in (None, row.status)
        and (query.prefix is None or row.stream.id.startswith(query.prefix))
        # As in the databases, where the index of due streams by status has only those with an owner.
        and (not query.among or (row.status in query.among and (query.due_before is None or row.owner != "")))
        and _after_stream(row, query)
    )


def _after_stream(row: contract.StreamRow, query: contract.StreamQuery) -> bool:
    """Return whether a row comes after the place a page begins at; the id decides among those of one instant."""
    if query.due_before is not None:
        if row.due_at is None or row.due_at > query.due_before:
            return False
        return query.after is None or (row.due_at, row.stream) > (query.after_due_at or 0, query.after)
    if query.listed_before is not None:
        if row.listed_at is None or row.listed_at > query.listed_before:
            return False
        return query.after is None or (row.listed_at, row.stream) > (query.after_listed_at or 0, query.after)
    if query.newest_first:
        return query.after is None or (row.created_at, row.stream) < (query.after_created_at or 0, query.after)
    return query.after is None or row.stream > query.after


def _segment_fits(segment: Segment, query: contract.LedgerQuery) -> bool:
    # Backwards, 0 stands for the end, not for a place.
    ahead = segment.seq < (query.after or segment.seq + 1) if query.backwards else segment.seq > query.after
    return ahead and query.selects(segment)


def _send_age(send: contract.WaitingSend) -> tuple[Instant, EffectId]:
    return send.created_at, send.id


def _effect_fits(row: contract.EffectRow, query: contract.EffectQuery) -> bool:
    return (
        query.tenant in (None, row.id.tenant)
        and query.source in (None, row.id.source)
        and query.version in (None, row.id.version)
        and query.executor in (None, row.executor)
        and query.status in (None, row.status)
        and _after_effect(row, query)
    )


def _after_effect(row: contract.EffectRow, query: contract.EffectQuery) -> bool:
    if query.after is None:
        return True
    if query.newest_first:
        return (row.created_at, row.id) < (query.after_created_at or 0, query.after)
    if query.oldest_first:
        return (row.created_at, row.id) > (query.after_created_at or 0, query.after)
    return row.id > query.after
