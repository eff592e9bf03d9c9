"""Real processes and real time: ten thousand schedules due at one second, killed controllers, one that is stopped.

What happened is read from the ledger alone.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from betimes.core.instants import SECOND, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domains.automation.model import DefineSchedule, DisableSchedule, EnableSchedule, ScheduleDefinition
from betimes.domains.automation.sensor_model import EVALUATIONS, DefineSensor, Message, ReceiveMessage, SensorDefinition
from betimes.domains.runs.model import run_id_of
from betimes.domains.targets import CommandTarget, HandlerTarget, StreamName
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.testing.simulator.invariants import events_of
from tests.automation.fleet_worker import Orders, engine_on
from tests.crash.conftest import postgres, sqlite_place
from tests.crash.fleet import ROOT, Child, Fleet
from tests.crash.scene import Place

pytestmark = pytest.mark.crash

__all__ = ["postgres", "sqlite_place"]


def target(n: int = 0) -> CommandTarget:
    """A command, so that the subject is ticking: its stream refuses it, and the run is asked for all the same."""
    return CommandTarget(StreamName("sensor", f"sink{n % 100}"), {"type": "ResetCursor"})


class Controllers(Fleet):
    """Processes that ring."""

    async def start(self, **orders: Any) -> Child:
        name = f"w{next(self._numbers)}"
        told = msgspec.json.encode(Orders(name=name, place=self.place, **orders)).decode()
        program = [sys.executable, "-m", "tests.automation.fleet_worker", told]
        process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=PIPE)
        child = Child(name, process, self._news)
        self.children.append(child)
        return child


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


async def define(engine: Engine, n: int, **fields: Any) -> None:
    definition = ScheduleDefinition(**{"target": target(n), **fields})
    await engine.submit(Submission(stream=StreamId("acme", "schedule", f"s{n}"), command=DefineSchedule(definition)))


@pytest.mark.postgres
async def test_ten_thousand_schedules_due_at_one_second_fire_once_each_whoever_is_killed(
    postgres: Place, tmp_path: Path
) -> None:
    count, dice = 10_000, Random(7)
    async with engine_on(postgres, "maker") as engine:
        due_at = (await engine.store.now() // SECOND + 20) * SECOND
        for first in range(0, count, 2_000):
            await asyncio.gather(*(define(engine, first + n, cron=once(due_at)) for n in range(2_000)))
        assert await engine.store.now() < due_at, "this machine is too slow to make them in time"
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
        async with asyncio.timeout(90):
            while self._seen < count:
                page = await self._engine.store.ledger(LedgerQuery(kind="run", after=self._after, limit=PAGE_MAX))
                self._seen += sum("RunAsked" in segment.events for segment in page)
                self._after = page[-1].seq if page else self._after
                await asyncio.sleep(0 if page else 0.05)


async def passed(engine: Engine, duration_s: int) -> None:
    """Let real time pass, which is the subject here."""
    until_at = await engine.store.now() + duration_s * SECOND
    await asyncio.sleep(duration_s)
    while await engine.store.now() < until_at:  # noqa: ASYNC110 — a clock signals nobody
        await asyncio.sleep(0.05)


async def test_a_controller_that_was_stopped_catches_up_as_after_a_pause(sqlite_place: Place, tmp_path: Path) -> None:
    """Stopped by SIGSTOP over several ticks, then paused over several: one path, every second recorded once."""
    stream = StreamId("acme", "schedule", "s0")
    async with engine_on(sqlite_place, "maker") as engine, Controllers(sqlite_place, tmp_path) as fleet:
        await define(engine, 0, cron="* * * * * *", target=HandlerTarget("brief"), max_catchup_ticks=2)
        [controller] = await fleet.start_ready(1)
        await controller.says("called", 2)
        controller.send(signal.SIGSTOP)
        await controller.stopped()
        await passed(engine, 6)
        controller.send(signal.SIGCONT)
        await controller.says_more("called", 3)
        await engine.submit(Submission(stream=stream, command=DisableSchedule()))
        await passed(engine, 3)
        await engine.submit(Submission(stream=stream, command=EnableSchedule()))
        await controller.says_more("called", 2)
        await fleet.drain()
        history = await ledger(engine, "schedule")
        assert (await verify(engine.store, engine.kinds)).is_sound
    events = [event for segment in history for event in events_of(segment)]
    skipped = [event for event in events if event["type"] == "TicksSkipped"]
    fired = [tick["scheduled_for"] for _, tick, _ in ticks(history)]
    assert {event["reason"] for event in skipped} == {"OVER_CATCHUP_LIMIT", "PAUSED"}
    covered = [*fired, *(at for e in skipped for at in range(e["first"], e["last"] + 1, SECOND))]
    assert sorted(covered) == list(range(min(covered), max(covered) + 1, SECOND))


@pytest.mark.postgres
async def test_a_storm_of_messages_at_several_engines_evaluates_each_once(postgres: Place, tmp_path: Path) -> None:
    """Three in ten are repetitions, at another process than the first."""
    distinct, dice = 2_000, Random(3)
    sink = StreamId("acme", "sensor", "storm")
    engines = [engine_on(postgres, f"e{n}") for n in range(3)]
    for engine in engines:
        await engine.open()
    try:
        definition = SensorDefinition(sensor_type="push", target=target())
        await engines[0].submit(Submission(stream=sink, command=DefineSensor(definition)))
        ids = [*range(distinct), *(dice.randrange(distinct) for _ in range(distinct * 3 // 7))]
        dice.shuffle(ids)
        for first in range(0, len(ids), 300):
            await asyncio.gather(*(
                engines[place % 3].submit(Submission(
                    stream=sink, command=ReceiveMessage(Message(f"m{n}")), key=f"sensor_eval:storm:msg:m{n}",
                    collection=EVALUATIONS, request="storm",
                ))
                for place, n in enumerate(ids[first : first + 300])
            ))  # fmt: skip
        evaluated = Counter(
            event["message_id"]
            for segment in await ledger(engines[0], "sensor")
            for event in events_of(segment)
            if event["type"] == "SensorEvaluated"
        )
        assert evaluated == {f"m{n}": 1 for n in range(distinct)}
    finally:
        for engine in engines:
            await engine.close()
