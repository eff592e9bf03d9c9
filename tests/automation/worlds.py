"""A world with schedules, sensors and runs: engines, a clock, evaluators, and the services of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import PolicyBook
from betimes.domain.hooks import Hooks
from betimes.domain.service import Caller
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine
from betimes.engine.virtual_clock import VirtualClock
from betimes.runs.domain import DOMAIN as RUNS
from betimes.runs.policy import RunsPolicy
from betimes.schedules.domain import DOMAIN as SCHEDULES
from betimes.schedules.service import Schedules
from betimes.sensors.domain import DOMAIN as SENSORS
from betimes.sensors.evaluators import Evaluators
from betimes.sensors.policy import AutomationPolicy
from betimes.sensors.service import Sensors
from tests.definition_requests import schedule_request, sensor_request
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

DECIDERS = (*SCHEDULES.deciders, *SENSORS.deciders, *RUNS.deciders)
SECTIONS: dict[str, type[msgspec.Struct]] = {"automation": AutomationPolicy, "runs": RunsPolicy, "hooks": Hooks}
BOOK = PolicyBook(SECTIONS)
HANDLER = {"kind": "handler", "name": "brief"}
MONDAY_NINE = "2026-01-05T09:00:00Z"


class Automation:
    """What a test needs at hand."""

    def __init__(self, world: World, evaluators: Evaluators) -> None:
        self.world = world
        self.clock: VirtualClock = world.clock
        self.schedules = Schedules(world.engine, Caller("acme", "ann"))
        self.elsewhere = Schedules(world.other, Caller("acme", "bob"))
        self.sensors = Sensors(world.engine, Caller("acme", "ann"), evaluate=evaluators)
        self.sensors_elsewhere = Sensors(world.other, Caller("acme", "bob"), evaluate=evaluators)
        self.called: list[Any] = []
        """What the handler was given."""

    @property
    def engine(self) -> Engine:
        return self.world.engine

    async def schedule(self, schedule_id: str = "brief", cron: str = "*/5 * * * *", **fields: Any) -> None:
        body = {"schedule_id": schedule_id, "cron": cron, "target": HANDLER, **fields}
        await self.schedules.create(schedule_request(body))

    async def sensor(self, sensor_id: str = "orders", **fields: Any) -> None:
        body = {"sensor_id": sensor_id, "sensor_type": "push", "target": HANDLER, **fields}
        await self.sensors.create(sensor_request(body))

    async def settle(self, *, other: bool = False) -> None:
        """Ring and carry out everything that is due now."""
        engine = self.world.other if other else self.engine
        while not (await engine.tick(limit=10_000)).complete:
            pass

    async def go(self, by_s: float) -> None:
        self.clock.advance(by_s)
        await self.settle()


def epoch(at: Instant) -> int:
    return at // SECOND


@asynccontextmanager
async def automation_world(
    backend: Backend,
    folder: Path,
    *,
    evaluators: Evaluators | None = None,
    executors: Mapping[str, Executor] | None = None,
    body: Mapping[str, Any] | None = None,
) -> AsyncIterator[Automation]:
    called: list[Any] = []

    async def brief(call: EffectCall) -> None:
        called.append(call.payload)

    evaluators = evaluators or Evaluators()
    executors = {"handler:brief": brief, **evaluators.executors(), **(executors or {})}
    async with world(backend, folder, deciders=DECIDERS, sections=SECTIONS, body=body or {}, executors=executors) as w:
        automation = Automation(w, evaluators)
        automation.called = called
        yield automation
