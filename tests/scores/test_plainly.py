"""A sweep decides without a job around each score, and writes what a command to each score would have written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.errors import Refused
from betimes.core.instants import HOUR
from betimes.core.segments import Segment
from betimes.engine.jobs import Submission
from betimes.engine.store import LedgerQuery, StreamQuery
from betimes.scores.model import SetStatus, SweepScore, score_stream
from betimes.scores.service import NewScore, Scores
from tests.engine.worlds import World
from tests.scores.worlds import scores_world
from tests.stores.backends import Backend

COUNT = 120


def any_score(random: Random, number: int, now: int) -> NewScore:
    """In any chapter, fresh or long neglected, near a threshold or the floor, swept before or not."""
    neglected = random.randrange(0, 400 * HOUR)
    created, points = now - neglected, Decimal(random.choice((1, 3, 20, 21, 40, 41, 60, 100)))
    swept = random.choice((None, now - random.randrange(0, neglected + 1)))
    return NewScore(
        user_id=f"u{number:03}",
        score=points + Decimal(random.randrange(0, 10**6)).scaleb(-6) * (points < 100),
        chapter=random.randrange(1, 6),
        created_at=moment(created),
        last_decay_applied_at=None if swept is None else moment(swept),
    )


@asynccontextmanager
async def filled(backend: Backend, folder: Path, seed: int) -> AsyncIterator[tuple[World, Scores]]:
    random = Random(seed)
    async with scores_world(backend, folder) as (w, scores):
        await scores.create_many([any_score(random, number, w.clock()) for number in range(COUNT)])
        for number in range(0, COUNT, 10):
            paused = SetStatus("boss_fight", timeout_s=random.choice((60, 10**6)))
            with suppress(Refused):  # what it owed takes it to the floor
                await w.submit(paused, score_stream("acme", f"u{number:03}"))
        w.clock.advance(random.choice((120, 3_600, 90_000)))
        yield w, scores


async def written(w: World) -> tuple[list[tuple[Any, ...]], list[Segment]]:
    """Rows and segments, without what names the turn that wrote them."""
    rows = await w.store.streams(StreamQuery(kind="score", limit=1_000))
    segments = await w.store.ledger(LedgerQuery(kind="score", limit=1_000))
    plain = [replace(segment, seq=0, turn="", prev="", digest="", actor="") for segment in segments]
    return (
        sorted(tuple(row._replace(digest="")) for row in rows),
        sorted(plain, key=lambda segment: (segment.stream, segment.version)),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_a_sweep_writes_what_a_command_to_each_score_would(
    backend: Backend, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    async with filled(backend, tmp_path_factory.mktemp("swept"), seed) as (w, scores):
        until_at = w.clock()
        swept = await scores.sweep()
        by_sweep = await written(w)
    async with filled(backend, tmp_path_factory.mktemp("each"), seed) as (w, _):
        due = await w.store.streams(StreamQuery(kind="score", due_before=until_at, limit=1_000))
        for row in due:
            await w.engine.submit(Submission(stream=row.stream, command=SweepScore(until_at), actor="test"))
        by_command = await written(w)
    assert swept.decayed > 20
    assert swept.game_overs > 0
    assert by_sweep == by_command
