"""Schedules and sensors under simulation: definitions that change while they tick, messages that come again.

The oracle (`oracle`) reads the ledger alone. Expressions are of the form `*/N * * * * *`, so that it can count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from betimes.core.deciders import EffectCall, Wake
from betimes.core.instants import SECOND
from betimes.core.policies import Body
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.domain.targets import HandlerTarget, TriggerTarget
from betimes.engine.jobs import Submission
from betimes.engine.tenants.model import SetPolicy
from betimes.schedules.backfill_model import (
    AdvanceBackfill,
    CancelBackfill,
    PauseBackfill,
    ResumeBackfill,
    StartBackfill,
    backfill_stream,
)
from betimes.schedules.model import (
    DefineSchedule,
    DeleteSchedule,
    DisableSchedule,
    EnableSchedule,
    ScheduleDefinition,
    ShelveSchedule,
    TriggerSchedule,
    schedule_stream,
)
from betimes.sensors.model import (
    EVALUATIONS,
    DefineSensor,
    DisableSensor,
    EnableSensor,
    Evaluated,
    Evaluation,
    HandlerEvaluator,
    Message,
    ReceiveMessage,
    ResetCursor,
    RunRequest,
    SensorDefinition,
    message_key,
)
from betimes.testing.simulator import Workload, World
from betimes.testing.simulator.workload import nothing_due
from betimes.testing.simulator.world import START_AT
from tests.automation.oracle import check_automation
from tests.automation.worlds import DECIDERS, SECTIONS

TENANT = "acme"
ENDS_AT = START_AT + 90 * SECOND


class Clients:
    """One client: a few errands, one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/client {number}")
        self.number = number
        self._errands = 0

    async def go(self) -> None:
        await self.define()
        for _ in range(self.random.randint(3, 6)):
            await self.world.pause(self.random.choice((0.5, 4.0, 15.0)))
            errand = self.random.choices(
                (self.define, self.switch, self.delete, self.trigger, self.backfill, self.messages, self.sense),
                (3, 3, 1, 2, 2, 4, 4),
            )[0]
            await errand()

    def _schedule(self) -> StreamId:
        return schedule_stream(TENANT, f"s{self.random.randrange(1 + self.world.seed % 2)}")

    def _definition(self) -> ScheduleDefinition:
        random = self.random
        return ScheduleDefinition(
            cron=f"*/{random.choice((5, 10, 30))} * * * * *",
            target=random.choice((HandlerTarget("brief"), HandlerTarget("brief"), TriggerTarget("DAILY", "acct"))),
            max_catchup_ticks=random.choice((1, 3, 100)),
            catchup_window_minutes=random.choice((1, 10)),
            catchup_keep=random.choice(("newest", "oldest")),
            jitter_seconds=random.choice((0, 0, 3)),
            overlap=random.choice(("allow", "allow", "skip")),
            enabled=random.random() < 0.8,
            ends_at=ENDS_AT,
        )

    async def _do(self, stream: StreamId, command: Any, **keyed: Any) -> Any:
        return await self.world.insist(Submission(stream=stream, command=command, **keyed))

    async def define(self) -> None:
        definition = self._definition()
        await self._do(self._schedule(), (DefineSchedule if definition.enabled else ShelveSchedule)(definition))

    async def switch(self) -> None:
        schedule = self._schedule()
        await self._do(schedule, DisableSchedule())
        await self.world.pause(6.0)
        await self._do(schedule, EnableSchedule())

    async def delete(self) -> None:
        await self._do(self._schedule(), DeleteSchedule())

    async def trigger(self) -> None:
        schedule = self._schedule()
        await asyncio.gather(*(self._do(schedule, TriggerSchedule()) for _ in range(2)))

    async def backfill(self) -> None:
        """Some of what is past, with what was fired already among it."""
        self._errands += 1
        schedule, stream = self._schedule(), backfill_stream(TENANT, f"b{self.number}.{self._errands}")
        row = self.world.server.database.rows.get(schedule)
        if row is None or row.state is None:
            return
        version = msgspec.json.decode(row.state)["version"]
        to_at = self.world.now() - 20 * SECOND
        start = StartBackfill(schedule.id, to_at - 60 * SECOND, to_at, self.random.choice((1, 3)), 0, version)
        await self._do(stream, start, key=stream.id)
        if self.random.random() < 0.3:
            await self._do(stream, PauseBackfill())
            await self.world.pause(2.0)
            await self._do(stream, self.random.choice((ResumeBackfill(), CancelBackfill())))

    async def messages(self) -> None:
        """Each of them once or more, at one worker or at two."""
        sensor = StreamId(TENANT, "sensor", f"push{self.random.randrange(2)}")
        evaluator = HandlerEvaluator("orders") if sensor.id == "push1" else None
        await self._do(
            sensor,
            DefineSensor(SensorDefinition(sensor_type="push", target=HandlerTarget("brief"), evaluator=evaluator)),
        )
        for _ in range(3):
            name = f"m{self.random.randrange(8)}"
            asked = Submission(
                stream=sensor,
                command=ReceiveMessage(Message(name, self.number)),
                key=message_key(sensor.id, name),
                collection=EVALUATIONS,
                request=sensor.id,
            )
            await asyncio.gather(*(self.world.insist(asked) for _ in range(self.random.choice((1, 2)))))

    async def sense(self) -> None:
        """A poll sensor, evaluated by hand between its polls, paused, resumed, its cursor moved on."""
        random, sensor = self.random, StreamId(TENANT, "sensor", "poll")
        await self._do(
            sensor,
            DefineSensor(
                SensorDefinition(
                    sensor_type="poll",
                    target=HandlerTarget("brief"),
                    evaluator=HandlerEvaluator("orders"),
                    interval_seconds=random.choice((20, 45)),
                    timeout_seconds=random.choice((2, 6)),
                    max_errors=30,
                )
            ),
        )
        await self.world.pause(0.5)
        row = self.world.server.database.rows.get(sensor)
        seen = int(msgspec.json.decode(row.state).get("state_version", 1)) if row and row.state else 1
        expected = max(1, seen - random.choice((0, 0, 1)))
        self._errands += 1
        name = f"sensor_eval:poll:manual:{self.number}.{self._errands}"
        by_hand = Evaluated(name, expected, Evaluation((RunRequest(f"{name}.run"),), cursor=1_000 * expected))
        moves = (ResetCursor(5_000), DisableSensor(), by_hand)
        await self._do(sensor, random.choice(moves), key=name, collection=EVALUATIONS)
        await self.world.pause(3.0)
        await self._do(sensor, EnableSensor())


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    for number in range(world.random.randint(1, 3)):
        yield Clients(world, number).go()


async def brief(call: EffectCall) -> None:
    return None


async def orders(call: EffectCall) -> Any:
    """Counts on from the cursor and asks for a run at each step."""
    body = call.payload["body"]
    if "message" in body:
        return {"run_requests": [{"run_key": f"{body['sensor_id']}.{body['message']['message_id']}"}]}
    number = (body["cursor"] or 0) + 1
    await asyncio.sleep(2.0)  # so that the sensor may move meanwhile
    return {"cursor": number, "run_requests": [{"run_key": f"poll.{number}"}]}


def policy(random: Random) -> Body:
    """A trigger is allowed at once; nobody claims its run, which is abandoned soon."""
    daily = {
        "debounce_seconds": 0,
        "cooldown_seconds": 0,
        "max_per_account_per_hour": None,
        "max_per_tenant_per_hour": None,
    }
    return {"runs": {"registry": {"DAILY": daily}, "start_deadline_seconds": random.choice((3, 20))}}


def is_settled(world: World) -> bool:
    """Nothing ticks any more and no run is open; poll sensors go on for ever, between two polls."""
    rows = world.server.database.rows
    waiting = any(row.alarm_at is not None and stream.kind != "sensor" for stream, row in rows.items())
    return not waiting and nothing_due(world)


AUTOMATION = Workload(
    name="automation",
    deciders=DECIDERS,
    sections=SECTIONS,
    clients=clients,
    check=check_automation,
    policy=policy,
    executors={"handler:brief": brief, "evaluator:orders": orders},
    is_settled=is_settled,
    settle_s=4 * 3_600,
    fails_on=(Wake, DefineSchedule, EnableSchedule, ReceiveMessage, AdvanceBackfill),
    may_write_nothing=(
        SetPolicy,
        DefineSchedule,
        ShelveSchedule,
        EnableSchedule,
        DisableSchedule,
        TriggerSchedule,
        RunFinished,
        AdvanceBackfill,
        DefineSensor,
        EnableSensor,
        DisableSensor,
    ),
)
