"""The order of admission, sentence by sentence: idempotency, registry, debounce, gate, and what each leads to."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from betimes.core.deciders import Call, Refusal
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.core.verdicts import Step, Verdict
from betimes.runs.admission_request import saturation_of
from betimes.runs.decide import repeat_command
from betimes.runs.model import (
    First,
    RepeatRequest,
    ReportActions,
    RequestRepeated,
    RequestRun,
    RunAdmitted,
    RunAllowed,
    RunDeferred,
    RunSkipped,
    RunState,
    TriggerOutcome,
    WaitingTrigger,
)
from tests.runs.scenes import HOUR, MINUTE, NINE, SECOND, account, brief, entry, run_of, signal

DAY_START = NINE - 9 * HOUR


def test_the_key_is_required() -> None:
    account().when(signal()).then_refused("KEY_REQUIRED")


def test_a_fresh_trigger_is_allowed_and_its_run_is_made_in_the_same_turn() -> None:
    scenario = account().when(signal(), key="k1")
    scenario.then(RunAllowed("k1", "SIGNAL_ARRIVED", run_of("k1").id, NINE)).then_verdict("NOW", "WITHIN_LIMITS")
    admitted = RunAdmitted("acct", "SIGNAL_ARRIVED", "k1", "claim", (1,), NINE + 24 * HOUR, NINE)
    scenario.then_also(run_of("k1"), admitted)
    assert scenario.decision.reply == TriggerOutcome("allowed", run_of("k1").id)


def test_a_key_seen_before_is_skipped_with_the_first_verdict_attached_and_changes_nothing() -> None:
    matched = Step("cooldown", "COOLDOWN", (10, 300))
    first = Verdict("LATER", ("COOLDOWN",), "runs", until=NINE, trace=(Step("debounce"), Step("budget"), matched))
    recorded = Recorded(StreamId("tenant", "account", "acct"), 3, NINE, "p", first, TriggerOutcome("deferred", "run_1"))
    command = repeat_command(signal(), recorded)
    explained = Verdict("LATER", ("COOLDOWN",), "runs", until=NINE, trace=(matched,))
    bare = First("account:acct:3", NINE, "p", explained)
    assert command == RepeatRequest("SIGNAL_ARRIVED", bare)
    scenario = account().when(signal(), key="k1")
    before = scenario.state
    scenario.when(command).then(RequestRepeated("SIGNAL_ARRIVED", "account:acct:3"))
    scenario.then_verdict("NEVER", "DUPLICATE_IDEMPOTENCY_KEY")
    assert scenario.decision.reply.first == bare
    assert scenario.state == before


def test_an_unknown_type_is_skipped_and_recorded() -> None:
    scenario = account().when(RequestRun("NO_SUCH"), key="k1")
    scenario.then(RunSkipped("k1", "NO_SUCH", "UNKNOWN_TRIGGER_TYPE", NINE)).then_verdict(
        "NEVER", "UNKNOWN_TRIGGER_TYPE"
    )


def test_an_unknown_type_is_refused_when_the_caller_is_strict() -> None:
    account().when(RequestRun("NO_SUCH", strict=True), key="k1").then_refused("UNKNOWN_TRIGGER_TYPE")


def test_debounce_skips_a_second_firing_of_the_same_type() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + 59 * SECOND).when(signal(), key="k2")
    scenario.then(RunSkipped("k2", "SIGNAL_ARRIVED", "DEBOUNCED", NINE + 59 * SECOND))
    scenario.then_verdict("NEVER", "DEBOUNCED")
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at == NINE + 300 * SECOND


def test_debounce_and_cooldown_admit_at_the_exact_instant() -> None:
    scenario = account(registry={"SIGNAL_ARRIVED": {"cooldown_seconds": 60}}).when(signal(), key="k1")
    scenario.at(NINE + 60 * SECOND - 1).when(signal(), key="k2").then_verdict("NEVER", "DEBOUNCED")
    scenario.at(NINE + 60 * SECOND).when(signal(), key="k3").then_verdict("NOW", "WITHIN_LIMITS")


def test_debounce_is_per_type_and_cooldown_is_for_all() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + MINUTE)
    scenario.when(RequestRun("POSTURE_CHANGE"), key="k2").then_verdict("LATER", "COOLDOWN", until=NINE + 5 * MINUTE)


def test_a_deferral_debounces_nothing() -> None:
    """Debounce counts from the last allowed run of the type."""
    scenario = account(registry={"SIGNAL_ARRIVED": {"debounce_seconds": 600}})
    scenario.when(RequestRun("POSTURE_CHANGE"), key="p").at(NINE + MINUTE)
    scenario.when(signal(), key="k1").then_verdict("LATER", "COOLDOWN")
    scenario.at(NINE + 2 * MINUTE).when(signal(), key="k2").then_verdict("LATER", "COOLDOWN")


def test_an_exhausted_budget_comes_before_the_cooldown() -> None:
    scenario = account(daily_run_budget=1).when(signal(), key="k1").at(NINE + 2 * MINUTE)
    scenario.when(signal(), key="k2").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at == DAY_START + 24 * HOUR


def test_the_smallest_budget_holds() -> None:
    scenario = account(daily_run_budget=5).when(signal(budget_remaining=0), key="k1")
    scenario.then_verdict("NEVER", "BUDGET_EXHAUSTED")
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at is None, "the caller's own never resets"
    account(daily_run_budget=0).when(signal(budget_remaining=9), key="k1").then_verdict("NEVER", "BUDGET_EXHAUSTED")


def test_a_budget_is_new_every_utc_day() -> None:
    scenario = account(daily_run_budget=1).when(signal(), key="k1").at("2026-01-05T23:59:59Z")
    scenario.when(signal(), key="k2").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    scenario.at("2026-01-06T00:00:00Z").when(signal(), key="k3").then_verdict("NOW", "WITHIN_LIMITS")


def test_a_budget_of_nothing_is_not_said_to_pass_tomorrow() -> None:
    for nothing in (account(daily_run_budget=0), account(tenant_daily_run_budget=0)):
        scenario = nothing.when(signal(), key="k1").then_verdict("NEVER", "BUDGET_EXHAUSTED")
        assert scenario.decision.verdict
        assert scenario.decision.verdict.would_pass_at is None


@pytest.mark.parametrize("runs", [{}, {"tiers": {"free": {"daily_run_budget": 0}}, "tier": "free"}])
@pytest.mark.parametrize("tier_from", ["policy", "request"])
def test_an_unknown_tier_is_no_way_around_a_budget(runs: dict[str, Any], tier_from: str) -> None:
    scenario = account(**runs, tier_from=tier_from).when(signal(tenant_tier="fre"), key="k")
    scenario.then_refused("UNKNOWN_TIER")
    assert isinstance(scenario.outcome, Refusal)
    assert scenario.outcome.message == f"no such tier: fre; known: {'free' if runs else 'none'}"


def test_the_tier_is_the_tenants_own_unless_the_policy_leaves_it_to_the_caller() -> None:
    tiers = {"free": {"daily_run_budget": 0}, "pro": {"daily_run_budget": 9}}
    own = account(tiers=tiers, tier="free").when(signal(tenant_tier="pro"), key="k")
    own.then_verdict("NEVER", "BUDGET_EXHAUSTED")
    asked = account(tiers=tiers, tier="free", tier_from="request").when(signal(tenant_tier="pro"), key="k")
    asked.then_verdict("NOW", "WITHIN_LIMITS")


def test_a_tier_that_was_dropped_while_a_trigger_waited_is_the_tenants_own_again() -> None:
    tiers = {"free": {"daily_run_budget": 1}, "pro": {"daily_run_budget": 9}}
    registry = {"SIGNAL_ARRIVED": entry(cooldown_seconds=60)}
    scenario = account(tiers=tiers, tier="free", tier_from="request", registry=registry)
    scenario.when(signal(tenant_tier="pro"), key="k1").when(signal(tenant_tier="pro"), key="k2")
    scenario.policy = account(tiers={"free": tiers["free"]}, tier="free", registry=registry).policy
    scenario.wakes().then_verdict("NEVER", "BUDGET_EXHAUSTED")


def test_a_tier_has_values_of_its_own() -> None:
    tiers = {"free": {"daily_run_budget": 0}, "pro": {"max_per_account_per_hour": 2}}
    asked = account(tiers=tiers, tier_from="request")
    asked.when(signal(tenant_tier="free"), key="k").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    account(tiers=tiers, tier="free").when(signal(), key="k").then_verdict("NEVER", "BUDGET_EXHAUSTED")
    pro = account(tiers=tiers, tier="pro", registry={"SIGNAL_ARRIVED": entry()})
    for place, answer in enumerate(("NOW", "NOW", "LATER")):
        pro.when(signal(), key=f"k{place}")
        assert pro.decision.verdict
        assert pro.decision.verdict.answer == answer


def test_the_thirteenth_in_an_hour_is_deferred_to_the_second_the_first_leaves_and_allowed_then() -> None:
    scenario = account(registry={"SIGNAL_ARRIVED": entry(max_per_account_per_hour=12)})
    for place in range(12):
        scenario.at(NINE + place * MINUTE).when(signal(), key=f"k{place}").then_verdict("NOW", "WITHIN_LIMITS")
    scenario.when(signal(), key="k12").then_verdict("LATER", "ACCOUNT_HOURLY_CAP", until=NINE + HOUR)
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS")
    assert scenario.now == NINE + HOUR


def test_an_hour_cap_counts_only_runs_of_its_own_type() -> None:
    scenario = account(registry={"SIGNAL_ARRIVED": entry(), "TIME_RITUAL_DAILY_BRIEF": {"cooldown_seconds": 0}})
    for place in range(5):
        scenario.when(signal(), key=f"k{place}").then_verdict("NOW", "WITHIN_LIMITS")
    scenario.when(brief(), key="b").then_verdict("NOW", "WITHIN_LIMITS")


def test_the_first_match_names_the_reason_and_the_latest_limit_the_instant() -> None:
    registry = {"SIGNAL_ARRIVED": entry(cooldown_seconds=60, max_per_account_per_hour=1)}
    scenario = account(registry=registry).when(signal(), key="k1").at(NINE + 30 * SECOND)
    scenario.when(signal(), key="k2").then_verdict("LATER", "COOLDOWN", until=NINE + HOUR)


def test_saturation_skips_only_what_nothing_else_postpones() -> None:
    scenario = account().when(signal(action_saturation_score=Decimal(1)), key="k1")
    scenario.then_verdict("NEVER", "MARGINAL_VALUE_LOW")
    account().when(signal(action_saturation_score=Decimal("0.999")), key="k1").then_verdict("NOW", "WITHIN_LIMITS")
    cooling = account().when(signal(), key="k1").at(NINE + 2 * MINUTE)
    cooling.when(signal(action_saturation_score=Decimal(2)), key="k2").then_verdict("LATER", "COOLDOWN")


def test_reported_actions_saturate_until_the_day_is_over() -> None:
    scenario = account(action_cap=3).when(ReportActions(2, NINE)).when(signal(), key="k1")
    scenario.then_verdict("NOW", "WITHIN_LIMITS").when(ReportActions(1, NINE)).at(NINE + HOUR).when(signal(), key="k2")
    scenario.then_verdict("NEVER", "MARGINAL_VALUE_LOW")
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at == DAY_START + 24 * HOUR
    scenario.at("2026-01-06T00:00:00Z").when(signal(), key="k3").then_verdict("NOW", "WITHIN_LIMITS")


def test_a_score_the_caller_sends_holds_instead_of_the_reported_actions() -> None:
    scenario = account(action_cap=1).when(ReportActions(1, NINE))
    scenario.when(signal(action_saturation_score=Decimal("0.5")), key="k1").then_verdict("NOW", "WITHIN_LIMITS")


@pytest.mark.parametrize(
    ("actions", "cap", "score"), [(1, 3, "0.333333"), (99_999, 100_000, "0.99999"), (3, 3, "1"), (30, 3, "10")]
)
def test_saturation_has_six_places_and_reaches_one_with_the_cap(actions: int, cap: int, score: str) -> None:
    assert str(saturation_of(actions, cap)) == score


def test_the_gate_sees_the_state_before_the_trigger_is_stamped() -> None:
    account(registry={"SIGNAL_ARRIVED": {"cooldown_seconds": 2_592_000}}).when(signal(), key="k").then_verdict(
        "NOW", "WITHIN_LIMITS"
    )


def test_a_refused_trigger_costs_nothing() -> None:
    scenario = account(daily_run_budget=9).when(signal(), key="k1")
    charged = scenario.state
    assert charged
    for second, refused in ((10, signal()), (120, signal(budget_remaining=0))):
        scenario.at(NINE + second * SECOND).when(refused, key=f"r{second}")
        assert scenario.decision.verdict
        assert scenario.decision.verdict.answer == "NEVER"
    after = scenario.state
    assert after
    assert (after.allowed_by_type, after.allowed_today) == (charged.allowed_by_type, charged.allowed_today)
    assert after.last_allowed_at == charged.last_allowed_at


def test_a_deferral_is_an_event_with_an_alarm_at_its_end() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + 2 * MINUTE).when(signal(), key="k2")
    until, now = NINE + 5 * MINUTE, NINE + 2 * MINUTE
    due = WaitingTrigger("k2", "SIGNAL_ARRIVED", until, now, "COOLDOWN", (2,), now)
    scenario.then(RunDeferred(due, now)).then_alarm(until)
    assert scenario.decision.promised_at == until
    assert scenario.decision.reply == TriggerOutcome("deferred", run_of("k2").id)


def test_the_handler_of_the_entry_is_called_at_most_once_and_reports_to_the_run() -> None:
    registry = {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "brief"}}}
    scenario = account(registry=registry).when(signal(correlation="c-1"), key="k1")
    detail = {
        "tenant_id": "tenant",
        "account_id": "acct",
        "trigger_type": "SIGNAL_ARRIVED",
        "scheduled_at": "2026-01-05T09:00:00Z",
        "idempotency_key": "k1",
        "correlation_id": "c-1",
        "run_id": run_of("k1").id,
    }
    scenario.then_effects(Call("handler:brief", detail, at_most_once=True, report_to=run_of("k1")))


def test_a_webhook_handler_gets_the_envelope_with_the_source_that_was_set() -> None:
    handler = {"kind": "webhook", "url": "https://example.org/run"}
    scenario = account(registry={"SIGNAL_ARRIVED": {"handler": handler}})
    scenario.when(signal(), key="k1")
    (call,) = scenario.decision.effects
    assert isinstance(call, Call)
    assert (call.executor, call.at_most_once, call.report_to) == ("webhook", True, run_of("k1"))
    assert call.payload["url"] == "https://example.org/run"
    assert (call.payload["body"]["source"], call.payload["body"]["detail-type"]) == ("betimes", "RUN_DECISION")


def test_a_key_whose_run_is_still_kept_admits_no_second_run_even_when_the_key_is_forgotten() -> None:
    scenario = account().with_others({run_of("k1"): RunState("succeeded", key="k1")})
    scenario.when(signal(), key="k1").then_verdict("NEVER", "DUPLICATE_IDEMPOTENCY_KEY")
