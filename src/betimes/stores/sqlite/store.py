"""The store on one SQLite file: a writer thread whose transactions queue, and a reader thread that never waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from os import PathLike, fspath
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, Unpack

from betimes.core.canonical import encode
from betimes.core.errors import BetimesError, Unavailable, UnsafeDurability
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine import store as contract
from betimes.engine.audit import StoreAudit
from betimes.engine.clock_report import ClockReport
from betimes.stores.sqlite import audit
from betimes.stores.sqlite import maintenance as upkeep
from betimes.stores.sqlite import reader as reading
from betimes.stores.sqlite.connection import Connection, Durability
from betimes.stores.sqlite.connection_thread import ConnectionThread
from betimes.stores.sqlite.failures import LOCK_TIMEOUT_S
from betimes.stores.sqlite.migrations import migrate
from betimes.stores.sqlite.read_model import SqliteReadModel
from betimes.stores.sqlite.steady_clock import SteadyClock
from betimes.stores.sqlite.transaction import SqliteTx, seen_keys

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class _Opened(NamedTuple):
    """The parts of an open store: the writer, whose turn it is with it, and the reader."""

    writer: ConnectionThread
    turn: asyncio.Lock
    reader: ConnectionThread


class SqliteStore(SqliteReadModel):
    """A file, or a `file:` URI, and the clock its transactions read.

    `durability="relaxed"` lets a power cut take the last commits (never part of one) and accepts file systems on which
    SQLite cannot keep its write-ahead log.
    """

    def __init__(
        self, path: str | PathLike[str], *, clock: Callable[[], Instant] | None = None, durability: Durability = "full"
    ) -> None:
        self.path = fspath(path)
        self.clock = clock or SteadyClock()
        self.durability = durability
        self._opened: _Opened | None = None
        self._held: str | None = None

    async def open(self) -> None:
        if self._opened:
            return
        if self.path in ("", ":memory:"):
            raise UnsafeDurability("a SQLite store needs a file; for one in memory use betimes.stores.memory")
        # A connection of its own, for a moment: the others may not create the file.
        maker = self._connection_thread("maker", create=True)
        try:
            await maker.run(lambda connection: migrate(connection, self.clock()))
        finally:
            await maker.close()
        # What the writer keeps to undo a statement is small; migrations and readers may sort more than fits in memory.
        writer = self._connection_thread("writer", temp_in_memory=True)
        self._opened = _Opened(writer, asyncio.Lock(), self._connection_thread("reader"))

    def _connection_thread(self, name: str, *, create: bool = False, temp_in_memory: bool = False) -> ConnectionThread:
        connect = partial(Connection, self.path, self.durability, create=create, temp_in_memory=temp_in_memory)
        return ConnectionThread(name, self.path, connect)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened:
            # Whoever is inside a transaction ends it first.
            async with opened.turn:
                # Before the checkpoint, which cannot move what an open snapshot still reads.
                await opened.reader.close()
                # A log that cannot be moved now is read by whoever opens the file next; nothing depends on this.
                with suppress(BetimesError):
                    await opened.writer.run(Connection.checkpoint)
                await opened.writer.close()

    @property
    def _open(self) -> _Opened:
        if not self._opened:
            raise Unavailable(f"the store on {self.path} is not open; await its open() first")
        return self._opened

    def pass_over(self, held: Mapping[str, Sequence[str]]) -> None:
        names = [f"{tenant}/{kind}" for tenant, kinds in held.items() for kind in kinds]
        self._held = encode(names) if names else None

    async def check_writable(self) -> None:
        async with self._turn() as writer:
            await writer.run(upkeep.check_writable)

    async def now(self) -> Instant:
        return self.clock()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[ConnectionThread]:
        """The writer, when everybody in this process who asked before has had it."""
        writer, turn = await self._take_turn()
        try:
            yield writer
        finally:
            turn.release()

    async def _take_turn(self) -> tuple[ConnectionThread, asyncio.Lock]:
        writer, turn, _ = self._open
        # Most often nobody has it; then a time-out would cost more than the lock.
        if turn.locked():
            await self._wait_for(turn)
        else:
            await turn.acquire()
        return writer, turn

    async def _wait_for(self, turn: asyncio.Lock) -> None:
        try:
            async with asyncio.timeout(LOCK_TIMEOUT_S):
                await turn.acquire()
        except TimeoutError as error:
            message = f"{self.path} was held by another transaction of this process for {LOCK_TIMEOUT_S:g} s; try again"
            raise Unavailable(message) from error

    def begin(self, ask: contract.LockRequest) -> SqliteTx:
        return SqliteTx(self._take_turn, self.clock, lambda tx: tx.start(ask))

    def begin_due(
        self, index: contract.DueIndex, kinds: Sequence[str], limit: int, **bounds: Unpack[contract.DueBounds]
    ) -> SqliteTx:
        def start(tx: SqliteTx) -> Awaitable[None]:
            return tx.start_due(index, kinds, limit, self._held, **bounds)

        return SqliteTx(self._take_turn, self.clock, start)

    async def _read(
        self, job: Callable[Concatenate[Connection, _P], _Result], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        return await self._open.reader.run(lambda connection: job(connection, *args, **kwargs))

    async def _write(
        self, job: Callable[Concatenate[Connection, _P], _Result], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        """One short transaction in one visit to the writer's thread."""

        # A job that raises is undone by the thread, so there is no rollback here.
        def whole(connection: Connection) -> _Result:
            connection.begin()
            result = job(connection, *args, **kwargs)
            connection.commit()
            return result

        async with self._turn() as writer:
            return await writer.run(whole)

    async def next_due(
        self,
        index: contract.DueIndex,
        kinds: Sequence[str],
        executors: Sequence[str] = (),
        *,
        tenant: str | None = None,
    ) -> Instant | None:
        return await self._read(reading.next_due, index, kinds, executors, tenant, self._held)

    async def due_tenants(
        self, index: contract.OwedIndex, names: Sequence[str], *, after: str = "", limit: int
    ) -> contract.DueTenants:
        return await self._read(reading.due_tenants, index, names, after, limit, self._held, self.clock())

    async def waiting_sends(self, limit: int, **bounds: Unpack[contract.SendBounds]) -> list[contract.WaitingSend]:
        return await self._read(reading.waiting_sends, limit, self._held, **bounds)

    async def effects(self, query: contract.EffectQuery) -> list[contract.EffectRow]:
        return await self._read(reading.effects, query)

    async def load(self, streams: Sequence[StreamId]) -> dict[StreamId, contract.Row]:
        return await self._read(reading.load, streams)

    async def seen(self, key: KeyId) -> contract.SeenKey | None:
        return (await self._read(seen_keys, [key], self.clock())).get(key)

    async def streams(self, query: contract.StreamQuery) -> list[contract.StreamRow]:
        return await self._read(reading.streams, query)

    async def history(
        self, stream: StreamId, after_version: int, limit: int
    ) -> tuple[contract.StreamRow | None, list[Segment]]:
        return await self._read(reading.history, stream, after_version, limit)

    async def ledger(self, query: contract.LedgerQuery) -> list[Segment]:
        return await self._read(reading.ledger, query)

    async def policy(self, fingerprint: str) -> str | None:
        return await self._read(reading.policy, fingerprint)

    def watch_clock(self, step_max_s: float, hold_s: float) -> None:
        if isinstance(self.clock, SteadyClock):
            self.clock.set_bounds(step_max_s, hold_s)

    async def clock_report(self) -> ClockReport:
        # Before the clock is read, or a commit in between would seem to come from the future.
        high_water_at = await self._read(reading.high_water)
        now = self.clock()
        steady = self.clock if isinstance(self.clock, SteadyClock) else None
        return ClockReport(now, high_water_at, steady.held if steady else 0, steady.steps if steady else 0)

    async def audit(self, *, keys_since: Instant | None) -> StoreAudit:
        return await self._read(audit.audit, self.clock(), keys_since)

    async def backlog(self, kinds: Sequence[str]) -> contract.Backlog:
        return await self._read(reading.backlog, kinds, self._held, self.clock())

    async def snooze(self, stream: StreamId, version: int, until: Instant, error: str = "") -> None:
        await self._write(upkeep.snooze, stream, version, until, error)

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[contract.Lease]:
        return await self._write(upkeep.lease_calls, executors, limit, shares, self._held, self.clock)

    async def renew_lease(self, effect: EffectId, fence: int) -> None:
        await self._write(upkeep.renew_lease, effect, fence, self.clock)

    async def revive_effect(self, effect: EffectId) -> bool:
        return await self._write(upkeep.revive_effect, effect, self.clock)

    async def discard_effect(self, effect: EffectId) -> bool:
        return await self._write(upkeep.discard_effect, effect)

    async def revive_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return await self._write(upkeep.revive_effects, effects, self.clock)

    async def discard_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        return await self._write(upkeep.discard_effects, effects)

    async def replace_history(self, checkpoint: Segment) -> int:
        return await self._write(upkeep.replace_history, checkpoint, self.clock)

    async def forget(self, *, before_at: Instant, limit: int) -> int:
        return await self._write(upkeep.forget, before_at, limit, self.clock)
