"""Fires as scenarios: cooldown, the next check, failures, and the last time."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.deciders import Decision, Send
from betimes.intents.model import (
    ChangeIntent,
    ClaimExpired,
    ClaimIntent,
    ClaimReleased,
    DisableIntent,
    FireCooled,
    Fired,
    ForgetIntent,
    IntentDisabled,
    IntentFired,
    IntentState,
    ReleaseClaim,
    RenewClaim,
)
from betimes.testing.scenarios import Scenario
from tests.intents.stories import HOUR, MINUTE, NINE, OWNER, fired, made

CLAIM = ClaimIntent("w1")


def reply(scenario: Scenario[IntentState]) -> Fired:
    assert isinstance(scenario.decision.reply, Fired)
    return scenario.decision.reply


def state(scenario: Scenario[IntentState]) -> IntentState:
    assert scenario.state
    return scenario.state


# -- the cooldown


@pytest.mark.parametrize("trigger_type", ["price", "silence", "portfolio"])
@pytest.mark.parametrize("status", ["success", "failed", "gate_blocked", "condition_not_met"])
def test_a_condition_that_fired_is_cooling_whatever_is_reported(trigger_type: str, status: str) -> None:
    scenario = made(trigger_type).when(fired("success")).at(NINE + 6 * HOUR + 30 * MINUTE).when(fired(status))
    scenario.then(FireCooled(NINE + 6 * HOUR + 30 * MINUTE, NINE + 24 * HOUR))
    scenario.then_verdict("LATER", "COOLDOWN_ACTIVE", until=NINE + 24 * HOUR)
    assert reply(scenario).status == "cooldown_active"
    assert reply(scenario).execution_count == 1
    assert reply(scenario).next_check_at == NINE + 24 * HOUR


def test_a_cooldown_ends_at_the_exact_instant() -> None:
    made().when(fired("success")).at(NINE + 24 * HOUR - 1).when(fired("success")).then_verdict(
        "LATER", "COOLDOWN_ACTIVE"
    )
    made().when(fired("success")).at(NINE + 24 * HOUR).when(fired("success")).then_verdict("NOW", "RECORDED")


@pytest.mark.parametrize("trigger_type", ["cron", "interval"])
def test_what_goes_by_the_clock_never_cools(trigger_type: str) -> None:
    scenario = made(trigger_type).when(fired("success")).at(NINE + MINUTE).when(fired("success"))
    scenario.then_verdict("NOW", "RECORDED")
    assert reply(scenario).last_condition_fire_at is None
    assert reply(scenario).execution_count == 2


def test_a_cooling_fire_clears_its_claim_and_waits_for_the_end() -> None:
    scenario = made().when(fired("success")).at(NINE + HOUR).when(CLAIM).when(fired("success", token=3))
    assert state(scenario).claim is None
    assert state(scenario).last_status == "success"
    scenario.when(CLAIM).then_refused("NOT_DUE")


def test_only_success_starts_a_cooldown() -> None:
    for status in ("failed", "gate_blocked", "condition_not_met"):
        scenario = made().when(fired(status))
        assert state(scenario).last_condition_fire_at is None
    assert state(made().when(fired("success"))).last_condition_fire_at == NINE


def test_a_shorter_cooldown_is_honoured() -> None:
    scenario = made(condition={"expression": "NVDA < 130", "cooldown_hours": 1}).when(fired("success"))
    scenario.at(NINE + HOUR).when(fired("success")).then_verdict("NOW", "RECORDED")


# -- the next check


@pytest.mark.parametrize(
    ("trigger_type", "fields", "after_s"),
    [
        ("cron", {}, 23 * 3600),
        ("cron", {"schedule": {"cron": "0 8 * * *", "timezone": "America/New_York"}}, 4 * 3600),
        ("interval", {}, 30 * 60),
        ("price", {}, 5 * 60),
        ("portfolio", {}, 15 * 60),
        ("portfolio", {"schedule": {"check_interval_minutes": 7}}, 7 * 60),
        ("silence", {"schedule": {"check_interval_minutes": 90}}, 90 * 60),
    ],
)
def test_after_success_it_is_looked_at_again_when_its_kind_says(
    trigger_type: str, fields: dict[str, Any], after_s: int
) -> None:
    scenario = made(trigger_type, **fields).when(fired("success"))
    scenario.then(IntentFired("success", NINE, NINE + after_s * 1_000_000))


@pytest.mark.parametrize("status", ["gate_blocked", "condition_not_met"])
@pytest.mark.parametrize(("trigger_type", "minutes"), [("cron", 5), ("once", 5), ("price", 5), ("portfolio", 15)])
def test_what_led_to_nothing_is_checked_again_after_the_check_interval(
    status: str, trigger_type: str, minutes: int
) -> None:
    made(trigger_type).when(fired(status)).then(IntentFired(status, NINE, NINE + minutes * MINUTE))  # type: ignore[arg-type]


def test_failures_back_off_to_six_hours_and_the_tenth_in_a_row_disables() -> None:
    scenario = made("interval")
    pauses = []
    for _ in range(9):
        scenario.when(fired("failed", error_message="no"))
        next_at = state(scenario).next_check_at
        assert next_at
        pauses.append((next_at - scenario.now) // MINUTE)
        scenario.at(next_at)
    assert pauses == [15, 30, 60, 120, 240, 360, 360, 360, 360]
    scenario.when(fired("failed")).then(
        IntentFired("failed", scenario.now), IntentDisabled(2, scenario.now, "FAILURES")
    )
    assert isinstance(scenario.outcome, Decision)
    forgotten, told = scenario.outcome.effects
    assert forgotten == Send(OWNER, ForgetIntent("subject", 2))
    assert isinstance(told, Send)
    assert (told.to.kind, told.to.id, told.key) == ("inbox", "ann", "intent-disabled:subject:11")
    assert reply(scenario).was_disabled_reason == "FAILURES"
    assert not reply(scenario).enabled


def test_anything_but_a_failure_starts_the_count_again() -> None:
    scenario = made("interval").when(fired("failed")).when(fired("failed")).when(fired("gate_blocked"))
    assert state(scenario).failure_count == 0
    scenario.when(fired("failed")).then(IntentFired("failed", NINE, NINE + 15 * MINUTE))


def test_the_occasion_stays_while_a_failure_is_tried_again_and_moves_when_it_is_over() -> None:
    scenario = made("interval").at(NINE + 30 * MINUTE)
    assert state(scenario).occasion_at == NINE + 30 * MINUTE
    scenario.when(fired("failed"))
    assert state(scenario).next_check_at == NINE + 45 * MINUTE
    assert state(scenario).occasion_at == NINE + 30 * MINUTE
    scenario.at(NINE + 45 * MINUTE).when(fired("success"))
    assert state(scenario).occasion_at == state(scenario).next_check_at == NINE + 75 * MINUTE


# -- the last time


def test_once_is_over_when_it_succeeded() -> None:
    scenario = made("once").when(fired("failed"))
    assert state(scenario).enabled
    scenario.when(fired("success")).then(IntentFired("success", NINE), IntentDisabled(2, NINE, "ONCE_DONE"))
    assert reply(scenario).next_check_at is None


def test_fire_mode_once_is_over_when_it_succeeded() -> None:
    scenario = made(condition={"expression": "NVDA < 130", "fire_mode": "once"}).when(fired("condition_not_met"))
    assert state(scenario).enabled
    assert reply(scenario.when(fired("success"))).was_disabled_reason == "FIRE_MODE_ONCE"


def test_it_is_over_when_it_was_executed_so_often() -> None:
    scenario = made("interval", max_executions=2).when(fired("success")).when(fired("gate_blocked"))
    assert state(scenario).enabled
    assert reply(scenario.when(fired("success"))).was_disabled_reason == "MAX_EXECUTIONS"


def test_it_expires_by_its_alarm_and_not_only_at_the_next_fire() -> None:
    scenario = made("interval", expires_at="2026-01-05T10:00:00Z").then_alarm(NINE + HOUR).wakes()
    scenario.then(IntentDisabled(2, NINE + HOUR, "EXPIRED")).then_alarm(None)
    scenario.then_effects(Send(OWNER, ForgetIntent("subject", 2)))
    scenario.when(fired("success")).then_refused("DISABLED")


def test_a_fire_after_the_expiry_comes_too_late_however_late_the_alarm_is() -> None:
    made("interval", expires_at="2026-01-05T10:00:00Z").at(NINE + 2 * HOUR).when(fired("success")).then_refused(
        "DISABLED"
    )


# -- claims and fires


def test_a_fire_clears_the_claim_it_matched() -> None:
    scenario = made().when(CLAIM).when(fired("condition_not_met", token=2))
    assert state(scenario).claim is None
    assert scenario.decision.events == (IntentFired("condition_not_met", NINE, NINE + 5 * MINUTE, "w1"),)


@pytest.mark.parametrize("token", [1, 3, 99])
def test_a_token_that_is_not_the_live_claims_is_refused(token: int) -> None:
    made().when(CLAIM).when(fired("success", token=token)).then_refused("CLAIM_LOST")


def test_a_token_is_refused_also_when_nobody_claimed_since() -> None:
    made().when(fired("success", token=1)).then_refused("CLAIM_LOST")
    released = made().when(CLAIM).when(ReleaseClaim(2)).then(ClaimReleased(NINE))
    released.when(fired("success", token=2)).then_refused("CLAIM_LOST")
    expired = made().when(CLAIM).at(NINE + 5 * MINUTE)
    expired.when(fired("success", token=2)).then_refused("CLAIM_LOST")
    expired.when(RenewClaim(2)).then_refused("CLAIM_LOST")
    expired.when(ReleaseClaim(2)).then_refused("CLAIM_LOST")


def test_without_a_token_nobody_fires_over_a_live_claim() -> None:
    scenario = made().when(CLAIM).when(fired("success")).then_refused("CLAIM_LOST")
    scenario.at(NINE + 5 * MINUTE).when(fired("condition_not_met")).then_verdict("NOW", "RECORDED")


def test_a_claim_that_ran_out_frees_its_intent_at_the_instant_it_ran_out() -> None:
    ended_at = NINE + 5 * MINUTE
    expiry = ClaimExpired(ended_at, "w1", ended_at)
    made().when(CLAIM).then_alarm(ended_at).wakes().then(expiry).then_alarm(None)
    late = made().when(CLAIM).at(NINE + 3 * HOUR).wakes()
    late.then(expiry)
    assert (state(late).failure_count, state(late).last_error) == (0, "CLAIM_EXPIRED")
    assert (state(late).next_check_at, state(late).occasion_at) == (ended_at, NINE)
    late.when(CLAIM).then_verdict("NOW", "DUE")


def test_from_the_second_claim_in_a_row_on_that_runs_out_it_is_a_failure() -> None:
    scenario = made().when(CLAIM).wakes().when(CLAIM)
    ended_at = scenario.now + 5 * MINUTE
    scenario.wakes().then(
        ClaimExpired(ended_at, "w1", ended_at),
        IntentFired("failed", ended_at, ended_at + 15 * MINUTE, "w1", "CLAIM_EXPIRED"),
    )
    third = scenario.at(ended_at + 15 * MINUTE).when(CLAIM).wakes()
    assert state(third).next_check_at == third.now + 30 * MINUTE
    assert (state(third).failure_count, state(third).expiry_count) == (2, 3)


@pytest.mark.parametrize("ended", ["fired", "released"])
def test_a_claim_that_was_settled_starts_the_row_again(ended: str) -> None:
    scenario = made().when(CLAIM).wakes().when(CLAIM)
    token = scenario.version
    scenario.when(fired("failed", token) if ended == "fired" else ReleaseClaim(token))
    assert state(scenario).expiry_count == 0
    check_at = state(scenario).next_check_at
    assert check_at
    scenario.at(max(check_at, scenario.now)).when(CLAIM).wakes()
    assert state(scenario).failure_count == (ended == "fired")


def test_an_intent_that_kills_its_workers_is_not_offered_for_ever() -> None:
    scenario = made("interval")
    for _ in range(11):
        check_at = state(scenario).next_check_at
        assert check_at
        scenario.at(check_at).when(CLAIM).wakes()
    assert state(scenario).was_disabled_reason == "FAILURES"


def test_disabling_leaves_a_live_claim_alone_and_its_fire_plans_nothing() -> None:
    scenario = made().when(CLAIM).when(DisableIntent()).when(fired("success", token=2))
    scenario.then(IntentFired("success", NINE, None, "w1"))
    assert reply(scenario).enabled is False
    assert reply(scenario).next_check_at is None
    assert reply(scenario).execution_count == 1
    scenario.when(fired("success")).then_refused("DISABLED")


def test_expiry_leaves_a_live_claim_alone() -> None:
    scenario = made("interval", expires_at="2026-01-05T09:31:00Z").at(NINE + 30 * MINUTE).when(CLAIM)
    scenario.at(NINE + 32 * MINUTE).when(fired("success", token=2)).then_verdict("NOW", "RECORDED")
    assert state(scenario).was_disabled_reason == "EXPIRED"


def test_a_claim_on_a_disabled_intent_that_runs_out_plans_nothing() -> None:
    scenario = made().when(CLAIM).when(DisableIntent()).wakes()
    scenario.then(ClaimExpired(NINE + 5 * MINUTE, "w1")).then_alarm(None)


def test_a_cooling_fire_on_a_disabled_intent_plans_nothing() -> None:
    scenario = made().when(fired("success")).at(NINE + HOUR).when(CLAIM).when(DisableIntent())
    scenario.when(fired("success", token=3)).then(FireCooled(NINE + HOUR))
    assert state(scenario).next_check_at is None


def test_whatever_comes_first_of_claim_and_intent_ends_first() -> None:
    scenario = made("interval", expires_at="2026-01-05T09:31:00Z").at(NINE + 30 * MINUTE).when(CLAIM)
    scenario.at(NINE + HOUR).wakes().then(IntentDisabled(2, NINE + 31 * MINUTE, "EXPIRED"))
    scenario.wakes().then(ClaimExpired(NINE + 35 * MINUTE, "w1"))


# -- plans that were made under a claim

TOMORROW = NINE + 23 * HOUR
"""Eight o'clock on the sixth."""
TEN_DAILY = ChangeIntent({"schedule": {"cron": "0 10 * * *"}}, "ann")


@pytest.mark.parametrize("status", ["success", "failed", "gate_blocked", "condition_not_met"])
def test_a_report_under_an_older_claim_leaves_a_plan_that_was_made_since(status: str) -> None:
    claimed = made("cron").at(TOMORROW).when(CLAIM).at(TOMORROW + MINUTE).when(TEN_DAILY)
    ended = claimed.when(fired(status, 2))
    assert (state(ended).next_check_at, state(ended).occasion_at) == (TOMORROW + 2 * HOUR,) * 2
    assert (state(ended).claim, state(ended).last_status) == (None, status)


def test_a_claim_that_runs_out_leaves_a_plan_that_was_made_since() -> None:
    claimed = made("cron").at(TOMORROW).when(CLAIM).at(TOMORROW + MINUTE).when(TEN_DAILY)
    ended = claimed.at(TOMORROW + 5 * MINUTE).wakes()
    assert (state(ended).next_check_at, state(ended).failure_count) == (TOMORROW + 2 * HOUR, 0)


def test_once_that_was_put_off_while_it_was_claimed_is_not_over() -> None:
    later = ChangeIntent({"schedule": {"trigger_at": "2026-01-07T08:00:00Z"}}, "ann")
    ended = made("once").at(TOMORROW).when(CLAIM).at(TOMORROW + MINUTE).when(later).when(fired("success", 2))
    assert (state(ended).enabled, state(ended).next_check_at) == (True, TOMORROW + 24 * HOUR)
    again = ended.at(TOMORROW + 24 * HOUR).when(fired("success"))
    assert (state(again).was_disabled_reason, state(again).execution_count) == ("ONCE_DONE", 2)
