"""A sweep that is cut off in the middle: every score is swept or not, all is sound, and the next one finishes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.scores.service import Scores
from betimes.scores.sweep import SweepResult
from betimes.stores.postgres.transaction import PostgresTx
from betimes.stores.sqlite.transaction import SqliteTx
from tests.engine.worlds import World
from tests.scores.test_large_batches import backend_of
from tests.scores.test_service import overdue
from tests.scores.test_sweep import decays
from tests.scores.worlds import ACME, scores_world
from tests.stores.backends import Backend

COUNT = 80
BATCH = 32
SMALL = EngineSettings(batch_max=BATCH)


async def _ended(task: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError):
        await task


async def _swept_or_not(w: World) -> None:
    """What was swept was swept once, and another process sweeps exactly the rest."""
    scores = Scores(w.other, ACME)
    before = await decays(w)
    assert len(before) == len(set(before))
    assert len(before) % BATCH == 0 or len(before) == COUNT, "whole batches"
    assert (await verify(w.store, w.engine.kinds, kind="score")).is_sound
    left = COUNT - len(before)
    assert await scores.sweep() == SweepResult(left, left, 0, 0, 0, 0, complete=True)
    report = await verify(w.store, w.engine.kinds, kind="score")
    assert report.is_sound, report.findings[:3]
    assert report.segments == 2 * COUNT


@pytest.mark.parametrize("steps", [1, 4, 20, 90])
async def test_a_sweep_cancelled_at_any_step_leaves_whole_batches(backend: Backend, steps: int, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path, settings=SMALL) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(COUNT)])
        sweeping = asyncio.create_task(scores.sweep(batch=BATCH))
        for _ in range(steps):
            await asyncio.sleep(0)
        sweeping.cancel()
        await _ended(sweeping)
        await w.engine._queue.idle.wait()  # the batch under way is not the caller's to stop
        await _swept_or_not(w)


@pytest.mark.parametrize("store", [SqliteTx, pytest.param(PostgresTx, marks=pytest.mark.postgres)])
async def test_a_process_stopped_before_it_commits_leaves_whole_batches(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, commits, at_second = store.commit, list[int](), asyncio.Event()

    async def stopping(self: Any, changes: Any) -> None:
        commits.append(len(changes.streams))
        if len(commits) == 2:
            at_second.set()
            await asyncio.Event().wait()  # until it is cancelled
        await commit(self, changes)

    async with scores_world(backend_of(store), tmp_path, settings=SMALL) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(COUNT)])
        with monkeypatch.context() as patched:
            patched.setattr(store, "commit", stopping)
            sweeping = asyncio.create_task(scores.sweep(batch=BATCH))
            await at_second.wait()
            queue = w.engine._tasks[0]
            queue.cancel()
            await _ended(queue)
            sweeping.cancel()
            await _ended(sweeping)
        assert len(await decays(w)) == BATCH, "the first batch, and nothing of the second"
        await _swept_or_not(w)
