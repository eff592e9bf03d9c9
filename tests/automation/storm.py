"""A storm of messages at one push sensor: several processes, three in ten a repetition, each evaluated once.

`rage` starts the processes and reads from the ledger what happened; a test lets it blow for seconds, `make soak` for a
million messages. `python -m tests.automation.storm ORDERS` is one of the processes: it sends its share, each message
under its key and again under the same key whenever the store was not to be had, and says at the end what it sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import msgspec

from betimes.core.errors import Overloaded, StoreError
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.targets import HandlerTarget
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.sensors.model import EVALUATIONS, DefineSensor, Message, ReceiveMessage, SensorDefinition, message_key
from betimes.testing.simulator.invariants import events_of
from tests.automation.worlds import DECIDERS, SECTIONS
from tests.crash.fleet import ROOT
from tests.crash.scene import TENANT, Place

SENSOR = StreamId(TENANT, "sensor", "storm")
SENDERS = 256
"""Messages that a process has under way."""
SETTINGS = EngineSettings(cache_chars_max=32 * 1024 * 1024)
"""A run is asked for once and not looked at again, so that there is little to remember."""


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    messages: int
    processes: int = 3
    seconds_max: float = 3_600.0
    """When this is over the processes stop; what they have sent by then counts."""
    seed: int = 3

    def numbers(self, process: int) -> list[int]:
        """What a process sends: a share of every distinct message once and three in ten of them again, shuffled."""
        dice, distinct = Random(self.seed), self.messages * 7 // 10
        numbers = [*range(distinct), *(dice.randrange(distinct) for _ in range(self.messages - distinct))]
        dice.shuffle(numbers)
        return numbers[process :: self.processes]


class Orders(msgspec.Struct, frozen=True):
    storm: Storm
    process: int


class Outcome(msgspec.Struct, frozen=True):
    sent: int
    distinct: int
    replayed: int
    """Answered with the first outcome."""
    evaluated: int
    runs: int
    seconds: float
    wrong: list[str]
    """Messages that were not evaluated once, or whose run was not asked for once; nothing when all is well."""


def engine_on(place: Place, name: str) -> Engine:
    return Engine(place.store(), DECIDERS, name=name, sections=SECTIONS, settings=SETTINGS)


async def rage(storm: Storm, *, verified: bool = False) -> Outcome:
    """Let it blow; what came of it."""
    async with engine_on(storm.place, "storm") as engine:
        definition = SensorDefinition(sensor_type="push", target=HandlerTarget("nobody"))
        await engine.submit(Submission(stream=SENSOR, command=DefineSensor(definition)))
        started_s = time.monotonic()
        told = await asyncio.gather(*(_process(storm, process) for process in range(storm.processes)))
        seconds = time.monotonic() - started_s
        sent = {number for process, told_of in enumerate(told) for number in storm.numbers(process)[: told_of["sent"]]}
        evaluated = Counter(
            [event["message_id"] async for event in _events(engine, "sensor") if event["type"] == "SensorEvaluated"]
        )
        runs = Counter([event["run_key"] async for event in _events(engine, "run") if event["type"] == "RunAsked"])
        wrong = [*_wrong(sent, evaluated, runs)]
        if verified and not (await verify(engine.store, engine.kinds)).is_sound:
            wrong.append("the ledger does not give the states")
    count, replayed = sum(one["sent"] for one in told), sum(one["replayed"] for one in told)
    if count - replayed != len(sent):
        wrong.append(f"{count} were sent, {len(sent)} of them distinct, and {replayed} answered as repetitions")
    return Outcome(count, len(sent), replayed, evaluated.total(), runs.total(), seconds, wrong)


def _wrong(sent: set[int], evaluated: Counter[str], runs: Counter[str]) -> Iterator[str]:
    expected = {f"m{number}" for number in sent}
    for name in expected ^ evaluated.keys() | {name for name, times in evaluated.items() if times != 1}:
        yield f"{name} was evaluated {evaluated[name]} times"
    keys = {f"sensor:storm:msg:{name}" for name in expected}
    for key in keys ^ runs.keys() | {key for key, times in runs.items() if times != 1}:
        yield f"the run {key} was asked for {runs[key]} times"


async def _events(engine: Engine, kind: str) -> AsyncIterator[dict[str, Any]]:
    after = 0
    while page := await _page(engine, kind, after):
        after = page[-1].seq
        for segment in page:
            for event in events_of(segment):
                yield event


async def _page(engine: Engine, kind: str, after: int) -> list[Segment]:
    return list(await engine.store.ledger(LedgerQuery(kind=kind, after=after, limit=PAGE_MAX)))


async def _process(storm: Storm, process: int) -> dict[str, int]:
    orders = msgspec.json.encode(Orders(storm, process)).decode()
    program = [sys.executable, "-m", "tests.automation.storm", orders]
    running = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=PIPE)
    try:
        said, _ = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
    assert running.returncode == 0, f"process {process} of the storm failed"
    told: dict[str, int] = json.loads(said)
    return told


# -- one process


async def send(orders: Orders) -> dict[str, int]:
    until_s = time.monotonic() + orders.storm.seconds_max
    waiting = iter(orders.storm.numbers(orders.process))
    counts = Counter(sent=0, replayed=0)

    async def sender(engine: Engine) -> None:
        for number in waiting:
            counts["sent"] += 1
            was_known = await _sent(engine, number)
            counts["replayed"] += was_known
            if time.monotonic() >= until_s:
                return

    async with engine_on(orders.storm.place, f"storm-{orders.process}") as engine:
        await asyncio.gather(*(sender(engine) for _ in range(SENDERS)))
    return dict(counts)


async def _sent(engine: Engine, number: int) -> bool:
    """Send a message until it is answered; whether it was known."""
    submission = Submission(
        stream=SENSOR,
        command=ReceiveMessage(Message(f"m{number}")),
        key=message_key(SENSOR.id, f"m{number}"),
        collection=EVALUATIONS,
        request=SENSOR.id,
    )
    while True:
        try:
            return (await engine.submit(submission)).replayed
        except (StoreError, Overloaded):
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(send(msgspec.json.decode(sys.argv[1], type=Orders)))))
