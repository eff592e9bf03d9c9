"""The recorded policy, rehearsed, decides what was recorded: of every domain, of all together, from any instant on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.backtest.plan import Candidate, Plan
from betimes.core.instants import DAY, MINUTE, parse
from betimes.engine.tenants.model import tenant_stream
from betimes.runs.views import TriggerRequest
from tests.backtest.recordings import POLICY, START, TRAFFIC, Live, holds, policy, recorded

HASTY = {"notifications": {"score_defer_s": 60, "jitter_s": 0}}
SAME = Plan(candidates=(Candidate("same", POLICY),))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", TRAFFIC)
async def test_the_recorded_policy_reproduces_every_verdict(domain: str, seed: int) -> None:
    async with recorded(TRAFFIC[domain], seed=seed, steps=50) as live:
        report = await live.bt.backtest(SAME)
    assert report.control.reproduced
    assert report.control.segments > 10
    assert report.control.identical == report.control.segments
    assert report.control.refused == {}
    (same,) = report.candidates
    assert (same.flip_count, same.fallbacks, same.refused, same.gone) == (0, {}, {}, 0)
    assert [line for line in same.outcomes if line.before != line.after] == []


@pytest.mark.parametrize("seed", range(6))
async def test_all_domains_together_while_the_policy_changes(seed: int) -> None:
    async with recorded(*TRAFFIC.values(), policy, seed=seed, steps=60) as live:
        report = await live.bt.backtest(SAME)
    assert report.control.reproduced
    assert report.control.identical == report.control.segments
    assert report.control.verdicts > 50


@pytest.mark.parametrize("seed", range(8))
async def test_holds_are_rehearsed(seed: int) -> None:
    """Nothing that was held fires before its hold ends, in the control and under a candidate."""
    async with recorded(*TRAFFIC.values(), holds, holds, seed=seed, steps=80) as live:
        report = await live.bt.backtest(SAME)
        half = (parse(START) + live.clock()) // 2
        late = await live.bt.backtest(Plan(candidates=SAME.candidates, since_at=half))
    for one in (report, late):
        assert one.control.reproduced
        assert one.control.identical == one.control.segments
        (same,) = one.candidates
        assert (same.flip_count, same.fallbacks, same.refused, same.gone) == (0, {}, {}, 0)


@pytest.mark.parametrize("seed", range(3))
async def test_a_window_begins_with_the_streams_as_they_were(seed: int) -> None:
    """What waited when the window began is judged inside it as it was."""
    async with recorded(*TRAFFIC.values(), seed=seed, steps=60) as live:
        whole = await live.bt.backtest(SAME)
        half = (parse(START) + live.clock()) // 2
        late = await live.bt.backtest(Plan(candidates=SAME.candidates, since_at=half))
        middle = await live.bt.backtest(
            Plan(candidates=SAME.candidates, since_at=half, until_at=half + (live.clock() - half) // 2)
        )
    assert late.control.reproduced
    assert late.control.identical == late.control.segments
    assert middle.control.reproduced
    assert 0 < middle.control.segments < late.control.segments < whole.control.segments
    assert late.candidates[0].flip_count == 0


async def test_alarms_that_rang_late_are_reproduced_all_the_same() -> None:
    """A deployment driven by a cron that ticks every few minutes rings every alarm late."""
    async with recorded(TRAFFIC["notifications"], TRAFFIC["automation"], steps=5) as live:
        bt, clock = live.bt, live.clock
        for _ in range(60):
            await TRAFFIC["notifications"](live)
            clock.advance(by_s=live.random.randrange(1, 300))
            await bt.tick()
        report = await bt.backtest(SAME)
    assert report.control.reproduced
    assert report.control.identical == report.control.segments
    assert report.candidates[0].flip_count == 0


async def test_a_recording_on_disk(tmp_path: Path) -> None:
    async with recorded(*TRAFFIC.values(), url=f"sqlite:///{tmp_path}/betimes.db", steps=40) as live:
        report = await live.bt.backtest(SAME)
    assert report.control.reproduced
    assert report.control.identical == report.control.segments


async def test_of_one_tenant_only_that_tenant_is_read() -> None:
    async with recorded(TRAFFIC["runs"], steps=20) as live:
        own = await live.bt.backtest(Plan(candidates=SAME.candidates, tenant="default"))
        other = await live.bt.backtest(Plan(candidates=SAME.candidates, tenant="nobody"))
    assert own.control.reproduced
    assert own.control.verdicts > 10
    assert (other.control.verdicts, other.control.reproduced) == (0, True)


async def test_an_empty_ledger_is_an_empty_report() -> None:
    async with recorded(TRAFFIC["runs"], steps=0) as live:
        report = await live.bt.backtest(SAME)
    assert (report.control.segments, report.candidates[0].flips) == (0, [])


async def test_what_is_due_after_the_last_segment_is_no_difference() -> None:
    """The window ends with the ledger; alarms beyond it were not rung by anybody."""
    async with recorded(TRAFFIC["notifications"], steps=20) as live:
        end = live.clock() + 10 * MINUTE
        report = await live.bt.backtest(Plan(candidates=SAME.candidates, until_at=end))
    assert report.control.reproduced


async def test_a_recording_made_in_real_time_by_many_at_once(tmp_path: Path) -> None:
    """Batches, alarms a few milliseconds late and calls under way are reproduced like everything else."""
    bt = Betimes(f"sqlite:///{tmp_path}/live.db", policy=HASTY, report=lambda report: None)

    @bt.run("QUICK", debounce_seconds=1, cooldown_seconds=0)
    async def think(call: Any) -> None:
        await asyncio.sleep(0)

    async def submit(number: int) -> None:
        trigger = TriggerRequest(
            account_id=f"acct-{number % 7}", trigger_type="QUICK", idempotency_key=f"key-{number}", payload={}
        )
        await bt.runs.trigger(trigger)
        note = {
            "event_id": f"event-{number}",
            "user_id": f"user-{number % 5}",
            "event_type": "UPDATE",
            "title": "Hi",
            "message": f"Text {number}",
            "source": "test",
            "channels": ["push"],
        }
        await bt.notifications.send(note)

    async with bt:
        await asyncio.gather(*(submit(number) for number in range(200)))
        while not (await bt.tick()).complete:
            pass
        state = await bt.mine.runs.state(tenant_stream("default"))
        report = await bt.backtest(Plan(candidates=(Candidate("same", state.policy, "default"),)))
    assert report.control.verdicts >= 400
    assert report.control.reproduced
    assert report.control.identical == report.control.segments
    assert report.candidates[0].flip_count == 0


async def test_a_key_is_forgotten_when_the_engine_forgets_it() -> None:
    """Of the keys in use some are promised for longer, and some were used before the window."""
    limits = {"debounce_seconds": 0, "cooldown_seconds": 86_400}
    async with recorded(steps=0, policy={"runs": {"registry": {"DAILY": limits}}}) as live:
        for account, key in (("one", "a"), ("one", "b"), ("two", "c")):  # b waits for a day
            await _daily(live, account, key)
        since_at = live.clock() + DAY // 2
        await live.bt.advance(by_s=7 * 86_400 + 60)
        await _daily(live, "two", "c")
        reports = [await live.bt.backtest(Plan(candidates=SAME.candidates, since_at=at)) for at in (None, since_at)]
    for report in reports:
        assert report.control.reproduced
        assert report.control.identical == report.control.segments


async def _daily(live: Live, account: str, key: str) -> None:
    asked = TriggerRequest(account_id=account, trigger_type="DAILY", idempotency_key=key, payload={})
    await live.bt.runs.trigger(asked)
