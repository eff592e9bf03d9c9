"""An alarm whose stream another process holds is looked for again in a moment, not all the time."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

from betimes.core.instants import Instant, parse, seconds
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from betimes.testing.simulator import SeededLoop

GATE = StreamId("acme", "gate", "front")
START_AT = parse("2026-01-05T09:00:00Z")


class CountingStore(MemoryStore):
    """Counts how often it is asked for what is due."""

    looks = 0

    def begin_due(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> AbstractAsyncContextManager[MemoryTx]:
        self.looks += 1
        return super().begin_due(*args, **kwargs)


def test_a_stream_held_elsewhere_is_not_looked_for_all_the_time() -> None:
    loop = SeededLoop(Random(1))

    def clock() -> Instant:
        return START_AT + seconds(loop.time())

    async def main() -> None:
        store = CountingStore(clock)
        async with Engine(store, SAMPLE, name="one", sections=SECTIONS) as engine:
            for visitor in ("ann", "bob"):
                await engine.submit(Submission(stream=GATE, command=Knock(visitor)))
            engine.start_workers()
            await asyncio.sleep(59.9)
            holder = store.database.holders[GATE] = object()
            store.looks = 0
            await asyncio.sleep(5)
            assert 0 < store.looks < 200
            store.database.release(holder)
            await asyncio.sleep(0.1)
            assert store.database.rows[GATE].alarm_at is None, "it rings as soon as it can"

    loop.run(main())
