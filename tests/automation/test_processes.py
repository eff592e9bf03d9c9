"""Real processes and real time: ten thousand schedules due at one second, killed controllers, one that is suspended.

What happened is read from the ledger alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from betimes.core.instants import DAY, SECOND, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.targets import HandlerTarget
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.runs.model import run_id_of
from betimes.schedules.model import DefineSchedule, ScheduleDefinition
from betimes.testing.simulator.invariants import events_of
from tests.automation.controllers import Controllers
from tests.automation.fleet_worker import engine_on
from tests.automation.storm import Storm, rage
from tests.automation.suspending import suspend
from tests.crash.conftest import postgres, sqlite_place
from tests.crash.scene import Place
from tests.patience import HANGS_S

pytestmark = pytest.mark.crash

__all__ = ["postgres", "sqlite_place"]


AT_ONCE = 2_000
TARGET = HandlerTarget("nobody")
"""No process has this handler, so that the subject is ticking: the run is asked for, and waits."""


def once(at: Instant) -> str:
    """An expression that occurs at one instant, and then not for a year."""
    when = datetime.fromtimestamp(at // SECOND, UTC)
    return f"{when.second} {when.minute} {when.hour} {when.day} {when.month} *"


async def ledger(engine: Engine, kind: str) -> list[Segment]:
    found: list[Segment] = []
    while page := await engine.store.ledger(
        LedgerQuery(kind=kind, after=found[-1].seq if found else 0, limit=PAGE_MAX)
    ):
        found += page
    return found


def ticks(segments: list[Segment]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every tick with its run request, which is the event behind it."""
    for segment in segments:
        events = events_of(segment)
        for event, after in pairwise(events):
            if event["type"] == "ScheduleTicked":
                yield segment.stream.id, event, after


async def define(engine: Engine, n: int, cron: str) -> None:
    definition = ScheduleDefinition(target=TARGET, cron=cron)
    await engine.submit(Submission(stream=StreamId("acme", "schedule", f"s{n}"), command=DefineSchedule(definition)))


async def define_many(engine: Engine, count: int, due_at: Instant) -> Instant:
    """Define so many schedules that occur at one instant; return how long that took."""
    began_at = await engine.store.now()
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(define(engine, first + n, once(due_at)) for n in range(AT_ONCE)))
    return await engine.store.now() - began_at


async def define_ahead(engine: Engine, count: int) -> Instant:
    """Define so many schedules, due at one second that is still to come when all are there; return that second.

    How far ahead it must be depends on the machine, so a part of them is defined first for another day.
    """
    took = await define_many(engine, AT_ONCE, await engine.store.now() + 100 * DAY)
    due_at = (await engine.store.now() + 3 * took * (count // AT_ONCE)) // SECOND * SECOND + 5 * SECOND
    await define_many(engine, count, due_at)
    assert await engine.store.now() < due_at, "the machine became much slower meanwhile"
    return due_at


@pytest.mark.long
@pytest.mark.postgres
async def test_ten_thousand_schedules_due_at_one_second_fire_once_each_whoever_is_killed(
    postgres: Place, tmp_path: Path
) -> None:
    count, dice = 10_000, Random(7)
    async with engine_on(postgres, "maker") as engine:
        due_at = await define_ahead(engine, count)
        async with Controllers(postgres, tmp_path) as fleet:
            alive = await fleet.start_ready(4)
            asked = Watch(engine)
            await asked.until(1)
            for _ in range(4):
                await asyncio.sleep(dice.random() * 0.3)
                await alive.pop(dice.randrange(4)).killed()
                alive += await fleet.start_ready(1)
            await asked.until(count)
            await fleet.drain()
        schedules, runs = await ledger(engine, "schedule"), await ledger(engine, "run")
        assert Counter(name for name, _, _ in ticks(schedules)) == {f"s{n}": 1 for n in range(count)}
        for name, tick, request in ticks(schedules):
            assert tick["scheduled_for"] == due_at <= tick["fired_at"]
            assert request["run_id"] == run_id_of("acme", f"sched:{name}:{due_at // SECOND}")
        runs_asked = Counter(run.stream.id for run in runs for event in events_of(run) if event["type"] == "RunAsked")
        assert runs_asked == {request["run_id"]: 1 for _, _, request in ticks(schedules)}


class Watch:
    """Looks at the ledger until so many runs were asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen = self._after = 0

    async def until(self, count: int) -> None:
        async with asyncio.timeout(HANGS_S):
            while self._seen < count:
                page = await self._engine.store.ledger(LedgerQuery(kind="run", after=self._after, limit=PAGE_MAX))
                self._seen += sum("RunAsked" in segment.events for segment in page)
                self._after = page[-1].seq if page else self._after
                await asyncio.sleep(0 if page else 0.05)


async def test_a_controller_that_was_suspended_catches_up_as_after_a_pause(sqlite_place: Place, tmp_path: Path) -> None:
    found = await suspend(sqlite_place, tmp_path, 6)
    assert found.reasons == {"OVER_CATCHUP_LIMIT", "PAUSED"}
    assert found.leaves_nothing_out()
    assert found.is_sound


@pytest.mark.postgres
async def test_a_storm_of_messages_at_several_processes_evaluates_each_once(postgres: Place) -> None:
    outcome = await rage(Storm(place=postgres, messages=4_000), verified=True)
    assert outcome.wrong == []
    assert (outcome.sent, outcome.evaluated, outcome.runs, outcome.replayed) == (4_000, 2_800, 2_800, 1_200)
