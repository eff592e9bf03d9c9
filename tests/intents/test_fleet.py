"""Real processes on PostgreSQL: two hundred workers over ten thousand intents, killed at random; and one that sleeps.

What happened is read from the ledger alone. Real time is the subject: claims of a few seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import PAGE_MAX, LedgerQuery, StreamQuery
from betimes.intents.model import DefineIntent, IntentState
from tests.crash.fleet import ROOT, Child, Fleet
from tests.crash.scene import Place
from tests.intents.fleet_worker import Orders, engine_on
from tests.intents.stories import body

pytestmark = [pytest.mark.crash, pytest.mark.postgres]

INTENTS, PROCESSES, WORKERS, KILLS = 10_000, 8, 25, 6
ONCE = {"expression": "NVDA < 130", "fire_mode": "once"}


class IntentFleet(Fleet):
    """Processes that work off intents."""

    async def start(self, **orders: Any) -> Child:
        name = f"w{next(self._numbers)}"
        told = Orders(name=name, place=self.place, **orders)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.intents.fleet_worker",
            msgspec.json.encode(told).decode(),
            cwd=ROOT,
            stdout=PIPE,
        )
        child = Child(name, process, self._news)
        self.children.append(child)
        return child


@asynccontextmanager
async def intents_on(place: Place, number: int) -> AsyncIterator[Engine]:
    """So many due intents, each of which may fire once."""
    async with engine_on(place, "maker") as engine:
        for first in range(0, number, 1_000):
            await asyncio.gather(
                *(
                    engine.submit(
                        Submission(
                            stream=StreamId("acme", "intent", f"i{n}"),
                            command=DefineIntent(body(user_id=f"u{n // 20}", condition=ONCE)),
                        )
                    )
                    for n in range(first, min(first + 1_000, number))
                )
            )
        yield engine


async def lives(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Every intent's events, in order."""
    events: dict[str, list[dict[str, Any]]] = {}
    after = 0
    while segments := await engine.store.ledger(LedgerQuery(kind="intent", after=after, limit=PAGE_MAX)):
        for segment in segments:
            events.setdefault(segment.stream.id, []).extend(msgspec.json.decode(segment.events))
        after = segments[-1].seq
    return events


def retold(events: list[dict[str, Any]]) -> list[str]:
    """Claims by their worker, and what became of each."""
    told = []
    for event in events:
        match event["type"]:
            case "IntentClaimed":
                told.append(f"claimed {event['worker']}")
            case "ClaimExpired":
                told.append(f"lost {event['worker']}")
            case "IntentFired" if event["status"] == "failed":
                assert event["error"] == "CLAIM_EXPIRED", "the second in a row counts as a failure"
            case "IntentFired":
                told.append(f"{event['status']} {event['worker']}")
            case "IntentDefined" | "IntentDisabled":
                pass
            case other:
                told.append(other)
    return told


def assert_lost_when_they_ended(events: list[dict[str, Any]]) -> None:
    """A claim is taken from nobody before its end, however slow its process is."""
    claim = None
    for event in events:
        if event["type"] == "IntentClaimed":
            claim = event
        elif event["type"] == "ClaimExpired":
            assert claim is not None
            assert event["at"] == claim["expires_at"], events


@pytest.mark.long
async def test_two_hundred_workers_fire_ten_thousand_intents_once_each_while_processes_are_killed(
    postgres: Place, tmp_path: Path
) -> None:
    dice = Random(3)
    async with intents_on(postgres, INTENTS) as engine, IntentFleet(postgres, tmp_path) as fleet:
        alive = await fleet.start_ready(PROCESSES, workers=WORKERS)
        killed: set[str] = set()
        for _ in range(KILLS):
            await fleet.says_more("claimed", dice.randint(20, 60))
            victim = alive.pop(dice.randrange(len(alive)))
            await victim.killed()
            killed.add(victim.name)
            alive.append(await fleet.start(workers=WORKERS))
        while await engine.store.streams(StreamQuery(kind="intent", status="enabled.price", limit=1)):
            await fleet.says_more("idle", 1)
        await fleet.drain()
        stories = await lives(engine)
        lost: list[str] = []
        assert len(stories) == INTENTS
        for intent_id, events in stories.items():
            *earlier, claimed, ended = retold(events)
            winner = claimed.removeprefix("claimed ")
            assert ended == f"success {winner}", (intent_id, events)
            assert len(earlier) % 2 == 0, (intent_id, events)
            for begun, end in zip(earlier[::2], earlier[1::2], strict=True):
                loser = begun.removeprefix("claimed ")
                assert end == f"lost {loser}", (intent_id, events)
                lost.append(loser.split(".")[0])
            assert_lost_when_they_ended(events)
            tokens = [event["token"] for event in events if event["type"] == "IntentClaimed"]
            assert tokens == sorted(set(tokens))
        assert killed & set(lost), "no process was killed while it held a claim"
        alive_too = sum(name not in killed for name in lost)  # by processes that got no time for as long as a claim
        print(f"{INTENTS} intents, {len(killed)} processes killed, {len(lost)} claims lost, {alive_too} by others")
        while not (await engine.tick()).complete:  # what a killed process left unsaid
            pass
        owners = await engine.store.streams(StreamQuery(kind="owner", limit=PAGE_MAX))
        assert {row.state for row in owners} == {'{"enabled":{}}'}


async def test_a_worker_stopped_longer_than_its_claim_is_refused_and_changes_nothing(
    postgres: Place, tmp_path: Path
) -> None:
    async with intents_on(postgres, 1) as engine, IntentFleet(postgres, tmp_path) as fleet:
        stream = StreamId("acme", "intent", "i0")
        sleeper = await fleet.start(workers=1, waits=True, lease_s=1)
        await sleeper.says("claimed")
        sleeper.send(signal.SIGSTOP)
        await sleeper.stopped()
        [other] = await fleet.start_ready(1, workers=1, lease_s=3_600)
        await other.says("fired")
        before = await engine.store.load([stream])
        sleeper.send(signal.SIGUSR1)
        sleeper.send(signal.SIGCONT)
        await sleeper.says("failed CLAIM_LOST")
        assert await engine.store.load([stream]) == before
        state: IntentState = engine.kinds.of(stream).state(stream, before[stream].schema, before[stream].state)
        assert (state.execution_count, state.failure_count, state.was_disabled_reason) == (1, 0, "FIRE_MODE_ONCE")
        [events] = (await lives(engine)).values()
        assert retold(events) == ["claimed w1.0", "lost w1.0", "claimed w2.0", "success w2.0"]
        await fleet.drain()
