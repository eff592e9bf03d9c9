"""Worlds that take over what the control did come to the same as worlds that decide everything themselves."""

from __future__ import annotations

import msgspec
import pytest

from betimes.app.betimes import Betimes
from betimes.backtest.lockstep import Lockstep, PartResult
from betimes.backtest.plan import Candidate, Plan
from betimes.backtest.traffic import pages, reach_of
from betimes.core.policies import Policy, merge
from betimes.core.segments import Recorded
from betimes.engine.jobs import Job
from betimes.engine.memo import DecisionMemo, MemoTable
from tests.backtest.recordings import POLICY, TRAFFIC, policy, recorded

CANDIDATES = (
    Candidate("same", POLICY),
    Candidate("notifications", merge(POLICY, {"notifications": {"score_defer_s": 60, "jitter_s": 0}})),
    Candidate("runs", merge(POLICY, {"runs": {"daily_run_budget": 1}})),
    Candidate("nothing", {}),
)


class Counted(MemoTable):
    """Counts what was found in it."""

    def __init__(self) -> None:
        super().__init__()
        self.found = 0

    def is_the_same_by(self, lesson: DecisionMemo, policy: Policy) -> bool:
        same = super().is_the_same_by(lesson, policy)
        self.found += same
        return same


class Forgetful(MemoTable):
    def note(self, job: Job, version: int, lesson: DecisionMemo, recorded: Recorded) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("seed", range(3))
async def test_worlds_come_to_the_same_whether_they_learn_or_not(seed: int) -> None:
    async with recorded(*TRAFFIC.values(), policy, seed=seed, steps=40) as live:
        counted = Counted()
        learning, deciding = await _rehearsed(live.bt, counted), await _rehearsed(live.bt, Forgetful())
    assert counted.found > 100
    assert msgspec.json.encode(learning) == msgspec.json.encode(deciding)


async def _rehearsed(bt: Betimes, recollection: MemoTable) -> PartResult:
    engine = bt.engine
    plan = Plan(candidates=CANDIDATES)
    lockstep = Lockstep(engine.kinds, engine.book, engine.settings, plan, recollection=recollection)
    async for page in pages(engine.store, None):
        for segment in page:
            lockstep.read(segment)
    reach = await reach_of(engine.store, None)
    return lockstep.finish(reach.ends_at)
