"""Senders that are real processes and are killed in the middle: nothing is lost, nothing is decided twice."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.replay import verify
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.notifications.service import Notifications
from tests.crash.conftest import place as place
from tests.crash.fleet import ROOT, Child
from tests.crash.scene import Place
from tests.notifications.process import COUNT, engine_on
from tests.patience import HANGS_S

pytestmark = pytest.mark.crash


async def start(name: str, journal: Path, where: Place) -> Child:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.notifications.process",
        name,
        str(journal),
        msgspec.json.encode(where).decode(),
        cwd=ROOT,
        stdout=PIPE,
    )
    return Child(name, process, asyncio.Condition())


async def test_killed_senders_lose_nothing_and_decide_nothing_twice(place: Place, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for number, sent in enumerate((15, 60)):
        child = await start(f"sender{number}", journal, place)
        await child.says("sent", sent)
        await child.killed()
    child = await start("last", journal, place)
    await child.says("done")
    await child.killed()
    async with engine_on(place, "reader", journal) as engine:
        await _settled(engine)
        service = Notifications(engine, Caller("acme"))
        for n in range(COUNT):
            found = await service.notification(f"e{n}")
            assert (found.outcome, found.status) == ("NOW", "delivered"), found
        decided = await _decided(engine)
        assert decided == Counter({f"e{n}": 1 for n in range(COUNT)})
        assert (await verify(engine.store, engine.kinds)).is_sound
    lines = [line.split() for line in journal.read_text().splitlines()]
    assert {event_id for _, event_id in lines} == {f"e{n}" for n in range(COUNT) if n % 3}
    assert len(set(map(tuple, lines))) == len({event_id for _, event_id in lines}), "one id on every attempt"


async def _settled(engine: Engine) -> None:
    """Until no call is open; one that was under way when its process was killed is free again when its lease ends."""
    async with asyncio.timeout(HANGS_S):
        while (await engine.backlog()).effects_pending:
            await engine.tick()


async def _decided(engine: Engine) -> Counter[str]:
    counted: Counter[str] = Counter()
    after = 0
    while segments := await engine.store.ledger(LedgerQuery(after=after, kind="inbox", limit=PAGE_MAX)):
        after = segments[-1].seq
        counted.update(segment.key.key for segment in segments if segment.key)
    return counted
