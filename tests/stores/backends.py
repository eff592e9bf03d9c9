"""The stores the conformance suite runs against: one entry each, with two connections to a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from betimes.engine.store import Store
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryDatabase, MemoryStore
from betimes.stores.sqlite import SqliteStore
from betimes.testing.conformance import Pair, Traits
from tests.postgres import empty_schema, patient_store, raw_connection, server_dsn

WAITING = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())"

# Given the clock and an empty folder, a context with both connections open.
Opener = Callable[[VirtualClock, Path], AbstractAsyncContextManager[Pair]]


class Backend(NamedTuple):
    """One store under test."""

    id: str
    pair: Opener
    traits: Traits
    marks: tuple[pytest.MarkDecorator, ...] = ()


@asynccontextmanager
async def opened(one: Store, two: Store, clock: VirtualClock) -> AsyncIterator[Pair]:
    """Both connections open, and closed whatever happens."""
    await one.open()
    try:
        await two.open()
        try:
            yield Pair(one, two, clock)
        finally:
            await two.close()
    finally:
        await one.close()


def memory_pair(clock: VirtualClock, folder: Path) -> AbstractAsyncContextManager[Pair]:
    database = MemoryDatabase()
    return opened(MemoryStore(clock, database), MemoryStore(clock, database), clock)


def sqlite_pair(clock: VirtualClock, folder: Path) -> AbstractAsyncContextManager[Pair]:
    path = folder / "betimes.db"
    return opened(SqliteStore(path, clock=clock), SqliteStore(path, clock=clock), clock)


@asynccontextmanager
async def postgres_pair(clock: VirtualClock, folder: Path) -> AsyncIterator[Pair]:
    async with empty_schema() as schema:
        one, two = (patient_store(server_dsn(), clock=clock, schema=schema) for _ in range(2))
        async with opened(one, two, clock) as pair, raw_connection() as other:

            async def is_waiting() -> bool:
                return bool(await other.fetchval(WAITING))

            yield pair._replace(is_waiting=is_waiting)


BACKENDS = [
    Backend("memory", memory_pair, Traits(locks_rows=True)),
    Backend("sqlite", sqlite_pair, Traits(locks_rows=False)),
    Backend("postgres", postgres_pair, Traits(locks_rows=True), (pytest.mark.postgres,)),
]
