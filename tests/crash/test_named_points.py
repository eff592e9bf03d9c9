"""A process killed at each instant that matters: whoever comes after finds either all of a step or nothing of it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import get_args

import pytest

from betimes.testing.sample import GatePolicy
from tests.crash.fleet import Fleet
from tests.crash.perils import Peril, Point
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules
from tests.crash.workload import Workload

pytestmark = pytest.mark.crash

LOAD = Workload(seed=3, at_once=3, tenants=1, gates=4, shared=0)
MANY_GATES = Workload(seed=3, at_once=3, tenants=1, gates=400, shared=0)
"""So many that alarms come due at gates where nobody is knocking; elsewhere they ring ahead of the next command."""
NOBODY_WAITS = Rules(GatePolicy(cooldown_s=0, per_hour=1_000_000, greet=True, tally=True), lease_s=1)
OF_ALARMS: tuple[Point, ...] = ("picked", "waking", "woken")
OF_EFFECTS: tuple[Point, ...] = ("sending", "sent", "leased", "called", "settling", "settled")
"""After the answer of the command they come from: by then, on a busy machine, nobody may be waiting for one."""
INSIDE_COMMIT: tuple[Point, ...] = ("committing", "committed")


@pytest.mark.parametrize("point", get_args(Point))
async def test_a_process_killed_at_a_point_leaves_nothing_half_done(place: Place, tmp_path: Path, point: Point) -> None:
    if place.path and point in INSIDE_COMMIT:
        pytest.skip("a commit on SQLite is one step")
    rules, load, nth = (Rules(), MANY_GATES, 1) if point in OF_ALARMS else (NOBODY_WAITS, LOAD, 3)
    async with Fleet(place, tmp_path) as fleet:
        victim = await fleet.start(rules=rules, load=load, peril=Peril(point, nth))
        await victim.says(f"at {point}")
        assert await victim.ended() == -signal.SIGKILL
    outcome = await reconcile(place, tmp_path, rules)
    assert outcome.answered > 0
    assert outcome.unanswered > 0 or point in OF_EFFECTS
