"""A world with the runs domain: engines, a clock, handlers, and the service of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from betimes.domain.service import Caller
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine
from betimes.runs.decide import DECIDERS
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest, TriggerVerdict
from betimes.runs.worker import RunStarter
from tests.engine.worlds import World, world
from tests.runs.scenes import SECTIONS
from tests.stores.backends import Backend


class RunsWorld:
    """What a test needs at hand."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.runs = Runs(world.engine, Caller("acme", "ann", "corr-1"))
        self.elsewhere = Runs(world.other, Caller("acme", "bob"))

    @property
    def engine(self) -> Engine:
        return self.world.engine

    async def trigger(
        self, key: str, type: str = "SIGNAL_ARRIVED", account: str = "acct", **rest: Any
    ) -> TriggerVerdict:
        return await self.runs.trigger(
            TriggerRequest(account_id=account, trigger_type=type, idempotency_key=key, **rest)
        )


@asynccontextmanager
async def runs_world(
    backend: Backend,
    folder: Path,
    *,
    runs: Mapping[str, Any] | None = None,
    hooks: list[Any] | None = None,
    executors: Mapping[str, Executor] | None = None,
) -> AsyncIterator[RunsWorld]:
    starter = RunStarter("worker-1")
    body = {"runs": dict(runs or {}), "hooks": hooks or []}
    wrapped = starter.wrap(executors or {})
    async with world(backend, folder, deciders=DECIDERS, sections=SECTIONS, body=body, executors=wrapped) as w:
        starter.engine = w.engine
        yield RunsWorld(w)
