"""Backtests of what was recorded while the clock moved: a send is applied a little later than it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.app.betimes import Betimes
from betimes.backtest.plan import Candidate, Plan
from tests.backtest.recordings import POLICY, TRAFFIC, TickingClock, holds, policy, recorded
from tests.backtest.test_holds import START, Diary

BRIEF = {"debounce_seconds": 90, "cooldown_seconds": 60, "debounce_mode": "trailing"}
THINK = {
    "schedule_id": "think",
    "cron": "30 8 * * *",
    "timezone": "UTC",
    "target": {"kind": "trigger", "trigger_type": "BRIEF", "account_id": "acme"},
}


async def test_what_a_schedule_sent_is_rehearsed_at_the_instant_it_was_applied(tmp_path: Path) -> None:
    clock = TickingClock(START)
    async with Betimes(f"sqlite:///{tmp_path}/b.db", clock=clock, workers=False) as bt:
        diary = Diary(bt, clock)
        clock.ticks = True
        await bt.apply_policy({"runs": {"registry": {"BRIEF": BRIEF}}})
        await bt.schedules.create(THINK)
        await bt.schedules.trigger("think")
        await diary.advance("2026-03-25T12:00:00Z")
        control = (await diary.backtest()).control
        assert control.verdicts > 10
        assert control.reproduced
        assert control.identical == control.segments


@pytest.mark.parametrize("seed", range(6))
async def test_a_recording_under_a_clock_that_moves_is_reproduced(seed: int) -> None:
    async with recorded(*TRAFFIC.values(), policy, holds, seed=seed, steps=60, ticks=True) as live:
        report = await live.bt.backtest(Plan(candidates=(Candidate("same", POLICY),)))
    assert report.control.reproduced, report.control.differences
    assert report.control.identical == report.control.segments
    assert report.control.verdicts > 20
