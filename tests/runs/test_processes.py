"""Runs with real processes: a storm on a new account, and a process that dies between commit and call."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX
from betimes.runs.decide import DECIDERS
from betimes.runs.model import account_stream
from betimes.runs.service import Runs
from tests.crash.conftest import place, postgres
from tests.crash.fleet import ROOT, Child
from tests.crash.scene import Place
from tests.runs.process import POLICY, Orders
from tests.runs.scenes import SECTIONS

__all__ = ["place", "postgres"]
pytestmark = pytest.mark.crash


class Processes:
    """Processes of a test, on one database; none is left behind."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._news = asyncio.Condition()
        self.children: list[Child] = []

    async def start(self, **orders: Any) -> Child:
        told = Orders(name=f"p{len(self.children)}", place=self._place, **orders)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.runs.process", msgspec.json.encode(told).decode(), cwd=ROOT, stdout=PIPE
        )
        self.children.append(Child(told.name, process, self._news))
        return self.children[-1]

    async def kill_all(self) -> None:
        for child in self.children:
            child.kill()
        await asyncio.gather(*(child.ended() for child in self.children))


@asynccontextmanager
async def processes(place: Place) -> AsyncIterator[Processes]:
    fleet = Processes(place)
    try:
        yield fleet
    finally:
        await fleet.kill_all()


@asynccontextmanager
async def observing(place: Place) -> AsyncIterator[Runs]:
    async with Engine(place.store(), DECIDERS, name="observer", sections=SECTIONS, policy=POLICY) as engine:
        yield Runs(engine, Caller("acme"))


async def test_a_thousand_triggers_from_eight_processes_for_a_new_account_give_one_run(postgres: Place) -> None:
    async with processes(postgres) as fleet:
        keys = [f"k{number}" for number in range(1_000)]
        children = [await fleet.start(triggers=tuple(keys[place::8])) for place in range(8)]
        for child in children:
            await child.says("done")
        said = Counter[str]()
        for child in children:
            said.update({word: times for word, times in child.said.items() if word.startswith("verdict ")})
        assert said["verdict ALLOW WITHIN_LIMITS"] == 1
        assert said.total() == 1_000
    async with observing(postgres) as runs:
        _, history = await runs.engine.store.history(account_stream("acme", "new"), 0, PAGE_MAX)
        recorded = Counter(segment.key.key for segment in history if segment.key)
        assert recorded == Counter(keys), "each is recorded once"
        assert len((await runs.runs()).items) == 1


async def test_a_process_killed_between_commit_and_call_leaves_an_abandoned_run(place: Place, tmp_path: Path) -> None:
    journal = tmp_path / "calls"
    journal.touch()
    async with processes(place) as fleet:
        doomed = await fleet.start(
            triggers=("k1",), trigger_type="CALLED", works=True, dies_when_called=True, journal=str(journal)
        )
        assert await doomed.ended() == -9
        heir = await fleet.start(works=True, journal=str(journal))
        await heir.says("report call_abandoned")
        await fleet.start(triggers=("k1", "k2"), trigger_type="CALLED", journal=str(journal))
        await heir.says("called")
    async with observing(place) as runs:
        first = await runs.trigger_status("k1")
        second = await runs.trigger_status("k2")
        assert (await runs.run(first.run_id or "")).status == "abandoned"
        assert journal.read_text().split() == [second.run_id], "the abandoned one was never called, the next one was"
