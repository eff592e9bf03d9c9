"""Batches of many streams: all or nothing, and sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.core.errors import Unknown
from betimes.engine.engine import Engine
from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.engine.virtual_clock import VirtualClock
from betimes.scores.decide import DECIDERS
from betimes.scores.service import Scores
from betimes.scores.sweep import SweepResult
from betimes.stores.postgres.transaction import PostgresTx
from betimes.stores.sqlite.transaction import SqliteTx
from tests.engine.worlds import World
from tests.scores.scene import SECTIONS
from tests.scores.test_service import overdue
from tests.scores.worlds import ACME, scores_world
from tests.stores.backends import BACKENDS, Backend

COUNT = 138
LARGE = EngineSettings(batch_max=192)


async def all_swept_once(w: World) -> None:
    report = await verify(w.store, w.engine.kinds, kind="score")
    assert report.is_sound, report.findings[:3]
    assert report.segments == 2 * COUNT


async def test_a_large_batch_is_one_commit_and_sound(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path, settings=LARGE) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(COUNT)])
        told: list[SweepResult] = []
        result = await scores.sweep(progress=told.append)
        assert result == SweepResult(COUNT, COUNT, 0, 0, 0, 0, complete=True)
        assert [one.processed for one in told] == [COUNT, COUNT]
        await all_swept_once(w)


async def test_whoever_observes_commits_is_told_of_all_that_was_written(backend: Backend, tmp_path: Path) -> None:
    async with backend.pair(VirtualClock("2026-02-01T00:00:00Z"), tmp_path) as pair:
        seen: list[str] = []
        engine = Engine(
            pair.one,
            DECIDERS,
            name="one",
            sections=SECTIONS,
            settings=LARGE,
            observe=lambda written: seen.extend(segment.handle for segment, _, _ in written),
        )
        async with engine:
            scores = Scores(engine, ACME)
            await scores.create_many([overdue(f"u{n}", 5) for n in range(COUNT)])
            seen.clear()
            assert (await scores.sweep()).decayed == COUNT
        assert len(seen) == len(set(seen)) == COUNT


@pytest.mark.parametrize("arrives", [True, False], ids=["arrived", "did not arrive"])
@pytest.mark.parametrize("store", [SqliteTx, pytest.param(PostgresTx, marks=pytest.mark.postgres)])
async def test_a_lost_answer_to_a_large_batch_is_looked_up(
    store: Any, arrives: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = store.commit, list[bool]()

    async def forgetful(self: Any, changes: Any) -> None:
        if not lost and any(stream.kind == "score" for stream in self.rows):
            lost.append(True)
            if arrives:
                await commit(self, changes)
            raise Unknown("no answer")
        await commit(self, changes)

    async with scores_world(backend_of(store), tmp_path, settings=LARGE) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(COUNT)])
        monkeypatch.setattr(store, "commit", forgetful)
        assert (await scores.sweep()).decayed == COUNT
        assert lost
        await all_swept_once(w)


def backend_of(store: Any) -> Backend:
    return BACKENDS[1] if store is SqliteTx else BACKENDS[2]
