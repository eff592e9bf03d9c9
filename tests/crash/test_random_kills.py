"""Eight processes, killed at random and replaced: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.fleet import Fleet
from tests.crash.killing import RULES, kill_and_replace
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place

pytestmark = pytest.mark.crash

KILLS = 20


async def test_processes_killed_at_random_lose_nothing_and_repeat_nothing(place: Place, tmp_path: Path) -> None:
    async with Fleet(place, tmp_path) as fleet:
        await kill_and_replace(fleet, seed=7, kills=KILLS)
    outcome = await reconcile(place, tmp_path, RULES)
    assert outcome.admissions > 100
    assert outcome.unanswered > 0
