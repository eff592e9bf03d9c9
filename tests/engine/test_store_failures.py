"""A store that fails at the worst moment: what was answered is what was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from betimes.core.errors import Conflict
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import Changes, LockRequest
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.sample import SAMPLE, SECTIONS, Knock


def knocking(tenant: str, visitor: str) -> Submission:
    return Submission(stream=StreamId(tenant, "gate", "front"), command=Knock(visitor))


class StumblingTx(MemoryTx):
    """What becomes of a commit is up to its store."""

    def __init__(self, store: StumblingStore) -> None:
        super().__init__(store.database, store.clock)
        self.store = store

    async def commit(self, changes: Changes) -> None:
        if not self.store.stumbles:
            await super().commit(changes)
            return
        self.store.stumbles -= 1
        if self.store.writes:
            await super().commit(changes)
        raise self.store.error


class StumblingStore(MemoryStore):
    """Raises at so many commits, having written them or not."""

    stumbles = 0
    writes = False
    error: Exception = Conflict("the database broke the transaction off")

    def transaction(self) -> MemoryTx:
        return StumblingTx(self)


class BusyStore(StumblingStore):
    """After a conflict, somebody else holds a stream for the length of one look."""

    looks_left = -1
    held = StreamId("acme", "gate", "front")

    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[MemoryTx]:
        if self.looks_left == 1:
            self.database.holders[self.held] = self
        elif self.looks_left == 0:
            self.database.release(self)
        self.looks_left -= 1
        async with super().begin(ask) as tx:
            yield tx


async def test_commands_of_a_stream_keep_their_order_after_a_conflict() -> None:
    store = BusyStore(VirtualClock())
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS) as engine:
        await engine.submit(knocking("acme", "ann"))
        store.stumbles, store.looks_left = 1, 2
        answers = await asyncio.gather(engine.submit(knocking("acme", "bob")), engine.submit(knocking("acme", "cid")))
        assert [answer.version for answer in answers] == [2, 3]


async def test_a_commit_that_breaks_after_writing_is_not_done_again() -> None:
    store = StumblingStore(VirtualClock())
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS) as engine:
        await engine.submit(knocking("acme", "ann"))
        store.stumbles, store.writes, store.error = 1, True, KeyError("a bug in a driver")
        answer = await engine.submit(knocking("acme", "bob"))
        assert answer.version == 2
        assert store.database.rows[answer.stream].version == 2
