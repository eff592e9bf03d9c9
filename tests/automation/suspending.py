"""A controller that is suspended over many ticks, then a pause over several: one path, every second recorded once.

The schedule ticks every second; SIGSTOP stands for a laptop that is closed or a machine that is migrated. The test
suspends for seconds, `make soak ARGS=suspended` for the minute after which leases and connections are given up too.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.instants import SECOND
from betimes.core.streams import StreamId
from betimes.domain.targets import HandlerTarget
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.schedules.model import DefineSchedule, DisableSchedule, EnableSchedule, ScheduleDefinition
from betimes.testing.simulator.invariants import events_of
from tests.automation.controllers import Controllers
from tests.automation.fleet_worker import engine_on
from tests.crash.scene import TENANT, Place

STREAM = StreamId(TENANT, "schedule", "s0")
CATCHUP = 2


class Recorded(msgspec.Struct, frozen=True):
    """What the ledger says of the schedule."""

    fired: list[int]
    skipped: list[dict[str, Any]]
    is_sound: bool

    @property
    def reasons(self) -> set[str]:
        return {one["reason"] for one in self.skipped}

    @property
    def covered(self) -> list[int]:
        """Every occurrence, as often as it was recorded."""
        ranges = (range(one["first"], one["last"] + 1, SECOND) for one in self.skipped)
        return sorted([*self.fired, *(at for one in ranges for at in one)])

    def leaves_nothing_out(self) -> bool:
        covered = self.covered
        return covered == list(range(covered[0], covered[-1] + 1, SECOND))

    @property
    def wrong(self) -> list[str]:
        """What is not as it must be after a suspension over more ticks than are caught up with."""
        checks = (
            ("the states are not those of the ledger", not self.is_sound),
            ("an occurrence is missing or recorded twice", not self.leaves_nothing_out()),
            (f"the ranges are {self.reasons}", self.reasons != {"OVER_CATCHUP_LIMIT", "PAUSED"}),
        )
        return [name for name, is_so in checks if is_so]


async def suspend(place: Place, folder: Path, seconds: int) -> Recorded:
    """A controller suspended for so long, then a schedule paused for three seconds."""
    async with engine_on(place, "maker") as engine, Controllers(place, folder) as fleet:
        definition = ScheduleDefinition(cron="* * * * * *", target=HandlerTarget("brief"), max_catchup_ticks=CATCHUP)
        await engine.submit(Submission(stream=STREAM, command=DefineSchedule(definition)))
        [controller] = await fleet.start_ready(1)
        await controller.says("called", 2)
        controller.send(signal.SIGSTOP)
        await controller.stopped()
        await passed(engine, seconds)
        controller.send(signal.SIGCONT)
        await controller.says_more("called", CATCHUP + 1)
        await engine.submit(Submission(stream=STREAM, command=DisableSchedule()))
        await passed(engine, 3)
        await engine.submit(Submission(stream=STREAM, command=EnableSchedule()))
        await controller.says_more("called", 2)
        await fleet.drain()
        return await _recorded(engine)


async def passed(engine: Engine, seconds: int) -> None:
    """Let real time pass, which is the subject here."""
    until_at = await engine.store.now() + seconds * SECOND
    await asyncio.sleep(seconds)
    while await engine.store.now() < until_at:  # noqa: ASYNC110 — a clock signals nobody
        await asyncio.sleep(0.05)


async def _recorded(engine: Engine) -> Recorded:
    events: list[dict[str, Any]] = []
    after = 0
    while page := await engine.store.ledger(LedgerQuery(kind="schedule", after=after, limit=PAGE_MAX)):
        after = page[-1].seq
        events += [event for segment in page for event in events_of(segment)]
    fired = [event["scheduled_for"] for event in events if event["type"] == "ScheduleTicked"]
    skipped = [event for event in events if event["type"] == "TicksSkipped"]
    return Recorded(fired, skipped, (await verify(engine.store, engine.kinds)).is_sound)
