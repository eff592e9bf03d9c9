"""Several saturated processes on one database: each gets its share."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from betimes.core.segments import Segment
from betimes.testing.sample import GatePolicy
from tests.crash.fleet import Fleet
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules
from tests.crash.workload import Workload

pytestmark = pytest.mark.crash

RULES = Rules(GatePolicy(cooldown_s=0, per_hour=1_000_000))
SATURATED = Workload(seed=11, at_once=64, tenants=1, gates=200)
SHARE_MIN = 0.3


def commits(segments: list[Segment], names: list[str]) -> Counter[str]:
    """Transactions of each process while all of them were at work; each has one instant."""
    ours = [segment for segment in segments if segment.actor in names]
    spans = [[segment.at for segment in ours if segment.actor == name] for name in names]
    start, end = max(map(min, spans)), min(map(max, spans))
    return Counter(actor for actor, at in {(segment.actor, segment.at) for segment in ours} if start <= at <= end)


async def saturate(place: Place, folder: Path, processes: int, answers: int) -> Counter[str]:
    """Let processes work until the slowest has so many answers; return how often each committed meanwhile."""
    async with Fleet(place, folder) as fleet:
        children = await fleet.start_ready(processes, rules=RULES, load=SATURATED)
        await asyncio.gather(*(child.says("answered", answers) for child in children))
        await fleet.drain()
    outcome = await reconcile(place, folder, RULES)
    return commits(outcome.segments, [child.name for child in children])


@pytest.mark.long
async def test_two_saturated_processes_on_one_file_get_a_fair_share_each(sqlite_place: Place, tmp_path: Path) -> None:
    counts = await saturate(sqlite_place, tmp_path, 2, answers=4_000)
    least = min(counts.values()) / counts.total()
    print(f"commits: {dict(counts)}, least share {least:.0%}")
    assert least >= SHARE_MIN


@pytest.mark.postgres
async def test_three_processes_on_one_server_all_commit(postgres: Place, tmp_path: Path) -> None:
    counts = await saturate(postgres, tmp_path, 3, answers=1_000)
    print(f"commits: {dict(counts)}")
    assert len(counts) == 3
    assert min(counts.values()) >= 0.1 * counts.total()
