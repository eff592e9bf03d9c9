"""What another policy would have done: each change is found, counted, and shown with both traces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from betimes.backtest.plan import Candidate, Plan, planned
from betimes.backtest.report import BacktestReport, CandidateReport, FlipLine
from betimes.core.errors import Invalid, PolicyInvalid, Refused
from betimes.core.instants import DAY, parse
from betimes.core.policies import merge
from betimes.engine.pruning import Retention, prune
from betimes.engine.store import LedgerQuery
from betimes.runs.views import TriggerRequest
from betimes.scores.service import NewScore, StatusChange
from tests.backtest.recordings import POLICY, TRAFFIC, Live, recorded
from tests.definition_requests import schedule_request

PLAIN: dict[str, Any] = {"notifications": {"jitter_s": 0, "thresholds": {"now_from": "0.5"}}}


async def tried(live: Live, change: dict[str, Any], **window: Any) -> CandidateReport:
    report = await live.bt.backtest(Plan(candidates=(Candidate("tried", merge(PLAIN, change)),), **window))
    assert report.control.reproduced
    return report.candidates[0]


def flips(candidate: CandidateReport) -> dict[str, int]:
    return {f"{line.before}→{line.after}": line.count for line in candidate.flips}


async def trigger(live: Live, account: str = "acct-1") -> str:
    key = live.next("key")
    asked = TriggerRequest(account_id=account, trigger_type="SIGNAL_ARRIVED", idempotency_key=key, payload={})
    return (await live.bt.runs.trigger(asked)).result


async def notify(live: Live, user: str = "ana", **fields: Any) -> str:
    body = {
        "event_id": live.next("event"),
        "user_id": user,
        "event_type": "MESSAGE",
        "title": "Hello",
        "message": f"Text {live.count}",
        "source": "test",
        "channels": ["in_app"],
        "priority_hint": "HIGH",
        **fields,
    }
    return (await live.bt.notifications.send(body)).outcome


async def test_a_budget_turns_runs_down_that_were_allowed() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(5):
            assert await trigger(live) == "ALLOW"
            await live.bt.advance(by_s=900)
        candidate = await tried(live, {"runs": {"daily_run_budget": 2}})
    assert candidate.flips == [FlipLine("runs", "ALLOW", "SKIP", 3)]
    assert (candidate.cost.runs_allowed.before, candidate.cost.runs_allowed.after) == (5, 2)
    assert [(one.kind, one.id, one.flips) for one in candidate.affected] == [("account", "acct-1", 3)]
    sample = candidate.samples[0]
    assert (sample.before.outcome, sample.after.outcome) == ("ALLOW", "SKIP")
    assert sample.after.reasons == ("BUDGET_EXHAUSTED",)
    assert [step.rule for step in sample.after.trace if step.matched] != []
    assert sample.before.trace != sample.after.trace


async def test_a_shorter_cooldown_allows_what_was_deferred_and_rings_no_retry() -> None:
    """The alarm of a deferral belongs to the policy that deferred; another policy has alarms of its own."""
    async with recorded(policy=PLAIN, steps=0) as live:
        assert await trigger(live) == "ALLOW"
        await live.bt.advance(by_s=70)
        assert await trigger(live) == "DEFER"
        await live.bt.advance(by_s=900)
        entry = {"debounce_seconds": 60, "cooldown_seconds": 0, "max_per_account_per_hour": 12}
        candidate = await tried(live, {"runs": {"registry": {"SIGNAL_ARRIVED": entry}}})
    assert flips(candidate) == {"DEFER→ALLOW": 1}
    assert (candidate.cost.runs_allowed.before, candidate.cost.runs_allowed.after) == (2, 2)


async def test_state_differs_from_the_first_difference_on() -> None:
    """Caps count what the candidate itself let through, not what was recorded."""
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(6):
            assert await notify(live) == "NOW"
            await live.bt.advance(by_s=360)
        candidate = await tried(live, {"notifications": {"fatigue": {"hour": {"cap": 2, "span_s": 3_600}}}})
    assert flips(candidate) == {"NOW→LATER": 4}


async def test_who_would_have_been_woken_at_three_in_the_morning() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        quiet = [{"start": "22:00", "end": "07:00"}]
        await live.bt.notifications.set_preferences("ana", {"timezone": "Europe/Berlin", "quiet_hours": quiet})
        await live.bt.advance(to="2026-03-28T02:10:00Z")  # ten past three in Berlin
        assert await notify(live) == "LATER"
        await live.bt.advance(to="2026-03-28T09:00:00Z")
        candidate = await tried(live, {"notifications": {"shadow": ["quiet_hours"]}})
    assert flips(candidate) == {"LATER→NOW": 1}
    assert (candidate.hours_before[3], candidate.hours_after[3]) == (0, 1)
    assert (candidate.hours_before[7], candidate.hours_after[7]) == (1, 0)
    assert (candidate.cost.told_at_night.before, candidate.cost.told_at_night.after) == (0, 1)
    assert candidate.cost.people == 1
    assert ([line.user for line in candidate.nights], candidate.nights_changed) == (["ana"], 1)


async def test_what_a_schedule_causes_is_compared_by_its_key() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "acct-1"}
        body = {"schedule_id": "hourly", "cron": "0 * * * *", "target": target}
        await live.bt.schedules.put("hourly", schedule_request(body))
        await live.bt.advance(by_s=6 * 3_600)
        candidate = await tried(live, {"runs": {"daily_run_budget": 2}})
    assert candidate.flips[0].domain == "runs"
    assert flips(candidate)["ALLOW→SKIP"] >= 2


async def test_a_call_that_was_never_made_is_taken_as_done_and_counted() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(2):
            await notify(live, channels=["push"])
            await live.bt.advance(by_s=5)
        cap = {"burst": {"cap": 1, "span_s": 300}}
        await live.bt.apply_policy(merge(PLAIN, {"notifications": {"fatigue": cap}}))
        assert await notify(live, channels=["push"]) == "LATER"
        candidate = await tried(live, {})
    assert flips(candidate) == {"LATER→NOW": 1}
    assert candidate.fallbacks == {"deliver:push": 1, "enrichment": 1}


async def test_a_faster_decay_is_swept_when_a_sweep_was_recorded() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await live.bt.scores.create(NewScore(user_id="fern"))
        for _ in range(6):
            await live.bt.advance(by_s=6 * 3_600)
            await live.bt.scores.sweep()
        after = await tried(live, {"scores": _faster(live)})
    found = {line.outcome: (line.before, line.after) for line in after.outcomes if line.domain == "scores"}
    assert found["game_over"] == (0, 1)


async def test_a_score_that_only_a_candidate_has_due_is_a_changed_answer() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await live.bt.scores.create(NewScore(user_id="fern"))
        await live.bt.advance(by_s=20 * 3_600)
        await live.bt.scores.create(NewScore(user_id="moss"))
        await live.bt.advance(by_s=5 * 3_600)  # what fern owes is swept by the hour; moss owes nothing yet
        after = await tried(live, {"scores": _faster(live)})
    assert "moss" in {line.id for line in after.affected}
    assert flips(after)["nothing→game_over"] == 1


async def test_scores_that_were_swept_are_swept_once_under_a_candidate_too() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await live.bt.scores.create(NewScore(user_id="fern"))
        await live.bt.scores.set_status("fern", StatusChange(game_status="boss_fight"))
        await live.bt.scores.set_status("fern", StatusChange(game_status="active"))
        for _ in range(6):
            await live.bt.advance(by_s=6 * 3_600)
            await live.bt.scores.sweep()
        after = await tried(live, {"scores": {"max_decay_per_cycle": 19}})
    assert flips(after) == {}
    assert [line for line in after.outcomes if line.before != line.after] == []


def _faster(live: Live) -> dict[str, Any]:
    """The stages, each taking all there is in a few hours."""
    body = msgspec.json.decode(live.bt.engine.book.effective(PLAIN).body)["scores"]
    return {
        "max_decay_per_cycle": 100,
        "stages": [{**stage, "grace_hours": 1, "rate": 40, "daily_cap": 100} for stage in body["stages"]],
    }


async def test_a_tenants_overrides_can_be_tried_too() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(3):
            await trigger(live)
            await live.bt.advance(by_s=900)
        plan = planned({"mine": {"runs": {"daily_run_budget": 1}}}, overrides_of="default")
        report = await live.bt.backtest(plan)
    assert flips(report.candidates[0]) == {"ALLOW→SKIP": 2}


async def test_a_swept_parameter_is_a_candidate_for_each_value() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(4):
            await trigger(live)
            await live.bt.advance(by_s=900)
        report = await live.bt.backtest(planned({"": PLAIN}, sweep=["runs.daily_run_budget=1,2,null"]))
    found = {one.name: one.cost.runs_allowed.after for one in report.candidates}
    assert found == {"runs.daily_run_budget=1": 1, "runs.daily_run_budget=2": 2, "runs.daily_run_budget=null": 4}


async def test_only_the_domain_that_is_asked_for_is_reported() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await trigger(live)
        await notify(live)
        candidate = await tried(live, {"runs": {"daily_run_budget": 0}}, domain="notifications")
    assert candidate.flips == []
    assert {line.domain for line in candidate.outcomes} == {"notifications"}


async def test_a_window_reaches_no_further_than_the_ledger() -> None:
    """What a candidate puts off would come later; of later the ledger says nothing, and its days are not counted."""
    calm = {"notifications": {"fatigue": {"hour": {"cap": 1}}}}
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(3):
            await notify(live)
        wide = await tried(live, calm, since_at=live.clock() - 90 * DAY, until_at=live.clock() + 90 * DAY)
        assert (await tried(live, calm)).cost == wide.cost
    assert (wide.cost.told.before, wide.cost.told.after) == (3, 1)
    assert wide.cost.told_per_person_day.before == 3


async def test_an_alarm_at_the_end_of_the_window_is_not_in_it() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(2):
            await notify(live)
        await live.bt.advance(by_s=7_200)
        await notify(live)
        calm = {"notifications": {"fatigue": {"hour": {"cap": 1}}}}
        until_at = parse("2026-03-27T19:00:00Z")  # when what the cap puts off at 18:00 comes
        without, within = [(await tried(live, calm, until_at=at)).cost.told.after for at in (until_at, until_at + 1)]
    assert (without, within) == (1, 2)


async def test_changes_of_the_policy_in_the_window_do_not_reach_the_candidate() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await live.bt.apply_policy(merge(PLAIN, {"runs": {"daily_run_budget": 1}}))
        for _ in range(3):
            await trigger(live)
            await live.bt.advance(by_s=900)
        candidate = await tried(live, {"runs": {"daily_run_budget": 2}})
    assert flips(candidate) == {"SKIP→ALLOW": 1}


async def test_a_backtest_changes_nothing_and_says_the_same_twice() -> None:
    async with recorded(*TRAFFIC.values(), steps=40) as live:
        before = await live.bt.engine.store.ledger(_everything())
        plan = Plan(candidates=(Candidate("tried", merge(POLICY, {"runs": {"daily_run_budget": 1}})),))
        first, second = await live.bt.backtest(plan), await live.bt.backtest(plan)
        assert await live.bt.engine.store.ledger(_everything()) == before
    assert _bytes(first) == _bytes(second)
    assert first.candidates[0].flip_count > 0


def _everything() -> LedgerQuery:
    return LedgerQuery(limit=1_000)


def _bytes(report: BacktestReport) -> bytes:
    return msgspec.json.encode(report)


async def test_samples_are_bounded_and_everything_is_counted() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for number in range(12):
            await trigger(live, f"acct-{number}")
        candidate = await tried(live, {"runs": {"daily_run_budget": 0}}, samples_max=5)
    assert flips(candidate) == {"ALLOW→SKIP": 12}
    assert len(candidate.samples) == 5


async def test_a_bad_policy_is_refused_with_its_paths_before_anything_runs() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        with pytest.raises(PolicyInvalid) as refused:
            await live.bt.backtest(Plan(candidates=(Candidate("bad", {"runs": {"daily_run_budget": -1}}),)))
    assert [path for path, _ in refused.value.problems] == ["runs.daily_run_budget"]


async def test_nothing_to_try_and_an_empty_window_are_refused() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        with pytest.raises(Invalid, match="needs a policy"):
            await live.bt.backtest(Plan(candidates=()))
        with pytest.raises(Invalid, match="empty"):
            await live.bt.backtest(Plan(candidates=(Candidate("a", PLAIN),), since_at=2, until_at=1))


async def test_a_changed_segment_is_named() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        await trigger(live)
        database = live.bt.engine.store.database  # type: ignore[attr-defined]
        place = next(n for n, one in enumerate(database.segments) if one.stream.kind == "account")
        database.segments[place] = msgspec.structs.replace(database.segments[place], actor="somebody else")
        with pytest.raises(Refused, match=r"account:acct-1:1.*digest") as refused:
            await live.bt.backtest(Plan(candidates=(Candidate("a", PLAIN),)))
    assert refused.value.reason == "LEDGER_UNSOUND"


async def test_a_pruned_ledger_says_from_when_on_a_backtest_is_possible() -> None:
    async with recorded(policy=PLAIN, steps=0) as live:
        for _ in range(4):
            await trigger(live)
            await live.bt.advance(by_s=900)
        await live.bt.advance(by_s=10 * 86_400)
        for _ in range(2):
            await trigger(live)
            await live.bt.advance(by_s=900)
        await prune(live.bt.engine.store, live.bt.engine.kinds, Retention(history_days=1))
        plan = Plan(candidates=(Candidate("a", merge(PLAIN, {"runs": {"daily_run_budget": 1}})),))
        with pytest.raises(Refused, match="possible from") as refused:
            await live.bt.backtest(plan)
        assert refused.value.reason == "HISTORY_PRUNED"
        possible = str(refused.value).rpartition("--since ")[2]
        report = await live.bt.backtest(planned({"a": plan.candidates[0].policy}, since=possible))
    assert report.control.reproduced
    assert flips(report.candidates[0]) == {"ALLOW→SKIP": 1}
