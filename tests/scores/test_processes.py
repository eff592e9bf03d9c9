"""Sweepers that are real processes and are killed in the middle: every period is applied once, nothing is left."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from betimes.core.instants import DAY, HOUR
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.engine.store import PAGE_MAX, LedgerQuery, Store
from betimes.scores.service import NewScore, Scores
from tests.crash.conftest import place as place
from tests.crash.fleet import ROOT, Child
from tests.crash.scene import Place
from tests.scores.process import engine_on

pytestmark = pytest.mark.crash
SCORES = 1_200
BATCH = 20


async def start(name: str, where: Place) -> tuple[Process, Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.scores.process",
        name,
        str(BATCH),
        msgspec.json.encode(where).decode(),
        cwd=ROOT,
        stdout=PIPE,
        stdin=PIPE,
    )
    child = Child(name, process, asyncio.Condition())
    await child.says("ready")
    return process, child


def go(process: Process) -> None:
    assert process.stdin
    process.stdin.write(b"\n")


async def test_killed_sweepers_leave_nothing_half_done_and_nothing_twice(place: Place, tmp_path: Path) -> None:
    """AC-FR004-003, AC-T6.4"""
    async with engine_on(place, "importer") as engine:
        scores = Scores(engine, Caller("acme"))
        neglected = datetime.now(UTC) - timedelta(hours=29)
        made = [NewScore(user_id=f"u{n}", created_at=neglected, last_interaction_at=neglected) for n in range(SCORES)]
        await scores.create_many(made)
        sweepers = [await start(f"sweeper{n}", place) for n in range(3)]
        try:
            for process, _ in sweepers:
                go(process)
            for _, child in sweepers[:2]:
                await child.says("batch", 3)
                await child.killed()
            await sweepers[2][1].says("done")
        finally:
            for _, child in sweepers:
                await child.killed()
        last = await scores.sweep()
        assert last.complete
        periods = await applied(engine.store)
        assert len(periods) == SCORES
        for chain in periods.values():
            assert all(before[1] == after[0] for before, after in pairwise(chain)), "no period twice, none left out"
            overdue = Fraction(800_000 * (chain[-1][1] - chain[0][0]), HOUR)
            assert sum(amount for _, _, amount in chain) == int(overdue)
        assert (await verify(engine.store, engine.kinds)).is_sound


async def applied(store: Store) -> dict[StreamId, list[tuple[int, int, int]]]:
    """The periods applied to each score, as the ledger has them."""
    periods: dict[StreamId, list[tuple[int, int, int]]] = {}
    after = 0
    while segments := await store.ledger(LedgerQuery(after=after, kind="score", limit=PAGE_MAX)):
        after = segments[-1].seq
        for segment in segments:
            for event in msgspec.json.decode(segment.events):
                if event["type"] == "Decayed":
                    assert 0 < event["to_at"] - event["from_at"] < DAY
                    period = (event["from_at"], event["to_at"], event["amount"])
                    periods.setdefault(segment.stream, []).append(period)
    return periods
