"""A world to test in: a store, a clock that stands still, and one or two engines with the sample domain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.deciders import Command
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store
from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from tests.patience import HANGS_S
from tests.stores.backends import Backend

GATE = StreamId("acme", "gate", "front")
TALLY = StreamId("acme", "tally", "all")


class World:
    """What a test needs at hand."""

    def __init__(self, engine: Engine, other: Engine, clock: VirtualClock, reports: list[Report]) -> None:
        self.engine = engine
        self.other = other
        """A second process on the same database."""
        self.clock = clock
        self.reports = reports

    @property
    def store(self) -> Store:
        return self.engine.store

    async def knock(self, visitor: str, gate: StreamId = GATE, *, key: str | None = None) -> Recorded:
        return await self.submit(Knock(visitor), gate, key=key)

    async def submit(self, command: Command, stream: StreamId = GATE, *, key: str | None = None) -> Recorded:
        return await self.engine.submit(Submission(stream=stream, command=command, key=key, actor="test"))

    async def state(self, stream: StreamId = GATE) -> Any:
        row = (await self.store.load([stream])).get(stream)
        return self.engine.kinds.of(stream).state(stream, row.schema, row.state) if row else None

    def reported(self) -> list[str]:
        return [report.what for report in self.reports]


async def until(world: World, holds: Callable[[Any], bool]) -> None:
    """Wait for a running engine to bring the gate to a state."""
    async with asyncio.timeout(HANGS_S):
        while not holds(await world.state()):  # noqa: ASYNC110 — the state is in a database, which signals nobody
            await asyncio.sleep(0)


@asynccontextmanager
async def world(
    backend: Backend,
    folder: Path,
    *,
    policy: Mapping[str, Any] | None = None,
    executors: Mapping[str, Executor] | None = None,
    settings: EngineSettings | None = None,
    deciders: Any = SAMPLE,
    sections: Mapping[str, type[msgspec.Struct]] = SECTIONS,
    body: Mapping[str, Any] | None = None,
) -> AsyncIterator[World]:
    """Two engines on one fresh database; `policy` is the gates' section, `body` a whole policy."""
    clock = VirtualClock()
    reports: list[Report] = []
    async with AsyncExitStack() as stack:
        pair = await stack.enter_async_context(backend.pair(clock, folder))
        engines = [
            await stack.enter_async_context(
                Engine(
                    store,
                    deciders,
                    name=name,
                    sections=sections,
                    policy={"gates": dict(policy or {})} if body is None else body,
                    executors=executors,
                    settings=settings or EngineSettings(),
                    report=reports.append,
                )
            )
            for name, store in (("one", pair.one), ("two", pair.two))
        ]
        yield World(engines[0], engines[1], clock, reports)
