"""Rehearsed in one process or in several, a backtest says the same."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

from betimes.backtest.control import Control
from betimes.backtest.lockstep import Lockstep, PartResult
from betimes.backtest.part_runner import rehearse_part
from betimes.backtest.partition import Entangled, Links, Lookout, entangled_tenants, split_links, survey_links
from betimes.backtest.plan import Candidate, Plan
from betimes.backtest.report import BacktestReport, build_report
from betimes.backtest.tally import WorldTally
from betimes.core.errors import Refused
from betimes.core.policies import merge
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.runs.views import TriggerRequest
from betimes.scores.service import NewScore
from tests.backtest.recordings import POLICY, TRAFFIC, Live, notifications, recorded, runs

TIGHT = Candidate("tight", merge(POLICY, {"runs": {"daily_run_budget": 1}}))
SHARED = Candidate("shared", {"runs": {"tenant_daily_run_budget": 3}})


def _bytes(report: BacktestReport) -> bytes:
    return msgspec.json.encode(report)


def stream(kind: str, id: str, tenant: str = "acme") -> StreamId:
    return StreamId(tenant, kind, id)


def test_streams_that_met_stay_together() -> None:
    links = Links()
    for one in ("a", "b", "c", "d"):
        links.add(stream("inbox", one))
    links.join(stream("inbox", "a"), stream("inbox", "c"))
    links.join(stream("inbox", "c"), stream("inbox", "d"))
    parts = split_links(links, 2)
    places = {one: parts.part_of(stream("inbox", one)) for one in ("a", "b", "c", "d")}
    assert places["a"] == places["c"] == places["d"] != places["b"]
    assert parts.part_of(stream("inbox", "never seen")) is None


def test_a_tenant_can_be_kept_whole() -> None:
    links = Links()
    for one in range(10):
        links.add(stream("inbox", f"u{one}"))
        links.add(stream("inbox", f"u{one}", "other"))
    parts = split_links(links, 3, whole=["acme"])
    assert len({parts.part_of(stream("inbox", f"u{one}")) for one in range(10)}) == 1
    assert len({parts.part_of(stream("inbox", f"u{one}", "other")) for one in range(10)}) > 1


def test_a_part_that_comes_upon_anothers_stream_says_so() -> None:
    links = Links()
    links.add(stream("inbox", "a"))
    links.add(stream("inbox", "b"))
    parts = split_links(links, 2)
    mine, other = (0, "b") if parts.part_of(stream("inbox", "a")) == 0 else (0, "a")
    lookout = Lookout(parts, mine)
    with pytest.raises(Entangled):
        lookout.first_look(stream("inbox", other))


def test_parts_that_both_made_one_stream_are_found_afterwards() -> None:
    quota = stream("quota", "acme")
    made, looked = _result([(quota, True)]), _result([(quota, False)])
    assert entangled_tenants([made, looked]) == {"acme"}
    assert entangled_tenants([looked, looked]) == set()
    assert entangled_tenants([made]) == set()


def _result(looked_at: list[tuple[StreamId, bool]]) -> PartResult:
    return PartResult(Control(), WorldTally(), [], looked_at=looked_at)


async def test_people_are_independent_of_each_other_and_accounts_with_a_shared_budget_are_not() -> None:
    async with recorded(runs, notifications, steps=120) as live:
        links = await survey_links(live.bt.engine.store, live.bt.engine.kinds, Plan(candidates=(TIGHT,)))
    accounts = {links.root(one) for one in links.streams if one.kind == "account"}
    assert len(accounts) == 1
    assert len({links.root(one) for one in links.streams}) > 1


@pytest.mark.parametrize("count", [2, 3])
async def test_parts_together_say_what_the_whole_says(count: int) -> None:
    plan = Plan(candidates=(TIGHT,))
    async with recorded(*TRAFFIC.values(), steps=60) as live:
        whole = await live.bt.backtest(plan)
        assert _bytes(await _in_parts(live, plan, count)) == _bytes(whole)


async def _in_parts(live: Live, plan: Plan, count: int) -> BacktestReport:
    engine = live.bt.engine
    parts = split_links(await survey_links(engine.store, engine.kinds, plan), count)
    results = [
        await rehearse_part(engine.store, Lockstep(engine.kinds, engine.book, engine.settings, plan, lookout=lookout))
        for lookout in (Lookout(parts, part) for part in range(count))
    ]
    assert entangled_tenants(results) == set()
    return build_report(plan, results, engine.kinds)


async def test_a_part_whose_traffic_ends_early_goes_on_to_the_end_of_the_window() -> None:
    """Ana hears nothing more in the ledger; what a candidate puts off for her comes before Bob's last message."""
    async with recorded(steps=0, policy={}) as live:
        for user in ("ana", "ana", "bob", "bob"):
            await _notify(live, user)
            await live.bt.advance(by_s=1_800)
        calm = {"notifications": {"fatigue": {"hour": {"cap": 1}}, "jitter_s": 0}}
        plan = Plan(candidates=(Candidate("calm", calm),))
        whole = await live.bt.backtest(plan)
        assert _bytes(await _in_parts(live, plan, 2)) == _bytes(whole)
    assert whole.candidates[0].flip_count


async def test_a_part_without_traffic_in_the_window_is_rehearsed_in_it_all_the_same() -> None:
    """Ana's message was put off before the window; the candidate lets it come within it."""
    policy = {"notifications": {"score_defer_s": 86_400, "thresholds": {"now_from": "0.99"}, "jitter_s": 0}}
    async with recorded(steps=0, policy=policy) as live:
        await _notify(live, "ana")
        await live.bt.advance(by_s=60)
        since_at = live.clock()
        await live.bt.advance(by_s=7_200)
        await _notify(live, "bob")
        sooner = merge(policy, {"notifications": {"score_defer_s": 3_600}})
        plan = Plan(candidates=(Candidate("sooner", sooner),), since_at=since_at)
        whole = await live.bt.backtest(plan)
        assert _bytes(await _in_parts(live, plan, 2)) == _bytes(whole)


async def test_a_sweep_of_one_part_finds_what_is_due_in_another() -> None:
    """Only Ann's score is due at the recorded sweep, Bob's as well under the candidate."""
    async with recorded(steps=0, policy={}) as live:
        await live.bt.scores.create(NewScore(user_id="ann"))
        await live.bt.advance(by_s=20 * 3_600)
        await live.bt.scores.create(NewScore(user_id="bob"))
        await live.bt.advance(by_s=10 * 3_600)
        body = msgspec.json.decode(live.bt.engine.book.effective({}).body)["scores"]
        sooner = {"scores": {"stages": [{**stage, "grace_hours": 1} for stage in body["stages"]]}}
        plan = Plan(candidates=(Candidate("sooner", sooner),))
        whole = await live.bt.backtest(plan)
        assert _bytes(await _in_parts(live, plan, 2)) == _bytes(whole)
    decays = {line.outcome: (line.before, line.after) for line in whole.candidates[0].outcomes}["decay"]
    assert decays[1] > decays[0] > 0


async def test_of_changes_at_one_instant_the_same_are_shown() -> None:
    policy = {"notifications": {"thresholds": {"now_from": "0.02", "never_below": "0.01"}}}
    async with recorded(steps=0, policy=policy) as live:
        for user in ("zoe", "ana", "zoe", "ana"):
            await _notify(live, user)
        calm = merge(policy, {"notifications": {"fatigue": {"hour": {"cap": 1}}}})
        plan = Plan(candidates=(Candidate("calm", calm),), samples_max=1)
        whole = await live.bt.backtest(plan)
        assert _bytes(await _in_parts(live, plan, 2)) == _bytes(whole)
    assert (len(whole.candidates[0].samples), whole.candidates[0].flip_count) == (1, 2)


async def _notify(live: Live, user: str) -> None:
    await live.bt.notifications.send(
        {
            "event_id": live.next("event"),
            "user_id": user,
            "event_type": "MESSAGE",
            "title": "Hello",
            "source": "test",
            "message": f"Text {live.count}",
            "channels": ["in_app"],
            "priority_hint": "HIGH",
        }
    )


@pytest.mark.crash
async def test_processes_say_what_one_process_says(tmp_path: Path) -> None:
    plan = Plan(candidates=(TIGHT, SHARED))
    told: list[float] = []
    async with recorded(*TRAFFIC.values(), steps=60, url=f"sqlite:///{tmp_path}/betimes.db") as live:
        one = await live.bt.backtest(plan, jobs=1)
        two = await live.bt.backtest(plan, jobs=2, progress=told.append)
    assert _bytes(one) == _bytes(two)
    assert one.control.reproduced
    assert 0 < max(told) <= 1


@pytest.mark.crash
async def test_accounts_that_a_candidate_ties_together_are_rehearsed_together(tmp_path: Path) -> None:
    """Under the recorded policy accounts never met; the candidate gives their tenant a common budget."""
    async with recorded(steps=0, policy={}, url=f"sqlite:///{tmp_path}/betimes.db") as live:
        for number in range(12):
            await _trigger(live, f"acct-{number}")
        plan = Plan(candidates=(SHARED,))
        report = await live.bt.backtest(plan, jobs=2)
        alone = await live.bt.backtest(plan, jobs=1)
    assert report.candidates[0].cost.runs_allowed.after == 3
    assert _bytes(report) == _bytes(alone)


async def _trigger(live: Live, account: str, tenant: str = "default") -> None:
    asked = TriggerRequest(
        account_id=account, trigger_type="SIGNAL_ARRIVED", idempotency_key=live.next("k"), payload={}
    )
    await live.bt.for_caller(Caller(tenant, "test")).runs.trigger(asked)


@pytest.mark.crash
async def test_a_refusal_in_another_process_reaches_the_caller(tmp_path: Path) -> None:
    path = f"{tmp_path}/betimes.db"
    async with recorded(runs, steps=20, url=f"sqlite:///{path}") as live:
        with apsw.Connection(path) as connection:
            connection.execute("UPDATE ledger SET actor = 'somebody else' WHERE kind = 'account' AND version = 1")
        with pytest.raises(Refused, match="digest"):
            await live.bt.backtest(Plan(candidates=(TIGHT,)), jobs=2)
