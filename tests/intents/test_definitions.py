"""Definitions as scenarios: what is refused, all of it at once, and what a change leads to."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.deciders import Send
from betimes.core.instants import parse, render
from betimes.intents.check_times import next_checks, next_cron, read_instant
from betimes.intents.model import (
    ChangeIntent,
    ClaimIntent,
    Defined,
    DefineIntent,
    DeleteIntent,
    DisableIntent,
    EnableIntent,
    ForgetIntent,
    IntentCounted,
    IntentDefined,
    IntentDeleted,
    IntentDisabled,
    IntentEnabled,
    IntentState,
    IntentUncounted,
    OwnerState,
)
from betimes.intents.owners import OWNER as OWNERS
from betimes.testing.scenarios import Scenario, given
from tests.intents.stories import HOUR, MINUTE, NINE, OWNER, body, fired, made, nothing


def problems(scenario: Scenario[IntentState]) -> dict[str, str]:
    assert isinstance(scenario.decision.reply, Defined)
    scenario.then_nothing()
    return {problem.path: problem.message for problem in scenario.decision.reply.problems}


def refused(trigger_type: str = "price", **fields: Any) -> dict[str, str]:
    return problems(nothing().when(DefineIntent(body(trigger_type, **fields))))


def state(scenario: Scenario[IntentState]) -> IntentState:
    assert scenario.state
    return scenario.state


# -- what is refused


def test_every_rule_that_is_broken_is_named_at_once() -> None:
    full = OwnerState({f"i{n}": 1 for n in range(25)})
    wrong = {
        "intent_id": "other",
        "user_id": "ann",
        "trigger_type": "price",
        "schedule": {"cron": "* * * *", "interval_minutes": 4, "timezone": "Mars/Base", "check_interval_minutes": 1},
        "condition": {"expression": "NVDA <", "cooldown_hours": 169, "fire_mode": "twice"},
        "action_type": "dance",
        "action_priority": "urgent",
        "metadata": {"text": "x" * 5_000},
        "max_executions": 0,
        "colour": "red",
    }
    found = problems(nothing().with_others({OWNER: full}).when(DefineIntent(wrong)))
    assert found.keys() == {
        "intent_id",
        "user_id",
        "schedule.interval_minutes",
        "schedule.check_interval_minutes",
        "schedule.timezone",
        "condition.expression",
        "condition.cooldown_hours",
        "condition.fire_mode",
        "action_type",
        "action_priority",
        "action_context",
        "metadata",
        "max_executions",
        "colour",
        "schedule.cron",
    }
    assert found["schedule.timezone"] == "no such zone: Mars/Base"
    assert found["condition.expression"] == "position 7: expected a number"
    assert found["action_context"] == "is required"
    assert "which is the limit" in found["user_id"]


@pytest.mark.parametrize(
    ("trigger_type", "fields", "paths"),
    [
        ("cron", {"schedule": {"cron": "* * *", "timezone": "Mars/Base"}}, ["schedule.cron", "schedule.timezone"]),
        ("cron", {"schedule": {"cron": "* * * * *", "timezone": "Mars/Base"}}, ["schedule.cron", "schedule.timezone"]),
        (
            "once",
            {"schedule": {"trigger_at": "soon", "timezone": "Mars/Base"}, "expires_at": "2020-01-01T00:00"},
            ["expires_at", "schedule.timezone", "schedule.trigger_at"],
        ),
        ("once", {"schedule": {"trigger_at": "2026-01-05T20:00", "timezone": "Mars/Base"}}, ["schedule.timezone"]),
        ("price", {"condition": {"cooldown_hours": 0}}, ["condition", "condition.cooldown_hours"]),
        (
            "price",
            {"condition": {"ticker": "A B", "operator": "<", "value": "1e30"}},
            ["condition.ticker", "condition.value"],
        ),
    ],
)
def test_one_mistake_does_not_hide_another(trigger_type: str, fields: dict[str, Any], paths: list[str]) -> None:
    found = nothing().when(DefineIntent(body(trigger_type, **fields))).decision.reply.problems
    assert sorted({problem.path for problem in found}) == paths


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"schedule": {"interval_minutes": 30, ".": 1}}, "schedule.."),
        ({"a.b": 1}, "a.b"),
        ({"schedule.": 1}, "schedule."),
        ({"condition": {"expression.x": 1}}, "condition.expression.x"),
        ({"gate": {"trigger_type": "A", "a.b": 1}}, "gate.a.b"),
        ({"": 1}, ""),
    ],
)
def test_a_name_that_is_not_known_may_look_like_a_path(fields: dict[str, Any], path: str) -> None:
    assert refused("interval", **fields).keys() == {path}


def test_decimals_are_counted_however_many_there_are() -> None:
    for value in ("1.0000001", "1." + "0" * 40 + "1", "0." + "0" * 40 + "1"):
        assert refused(condition={"ticker": "NVDA", "operator": "<", "value": value}).keys() == {"condition.value"}
    made(condition={"ticker": "NVDA", "operator": "<", "value": "999999999999999.999999"})
    made(condition={"ticker": "NVDA", "operator": "<", "value": "1.000000" + "0" * 40})


def test_a_limit_that_is_reached_already_is_no_limit_of_an_enabled_intent() -> None:
    twice = made("interval").when(fired("success")).when(fired("success"))
    assert problems(twice.when(ChangeIntent({"max_executions": 2}, "ann"))).keys() == {"max_executions"}
    assert state(twice.when(ChangeIntent({"max_executions": 3}, "ann"))).definition.max_executions == 3
    assert state(twice.when(ChangeIntent({"max_executions": 2, "enabled": False}, "ann"))).enabled is False


def test_what_python_takes_for_the_same_is_a_change_all_the_same() -> None:
    for before, after in ((1, True), (0, False), (1, 1.0)):
        changed = made(metadata={"flag": before}).when(ChangeIntent({"metadata": {"flag": after}}, "ann"))
        flag = state(changed).definition.metadata["flag"]
        assert (flag, type(flag), state(changed).version) == (after, type(after), 2)


@pytest.mark.parametrize(
    ("trigger_type", "fields", "path"),
    [
        ("cron", {"schedule": {}}, "schedule.cron"),
        ("interval", {"schedule": {}}, "schedule.interval_minutes"),
        ("once", {"schedule": {}}, "schedule.trigger_at"),
        ("cron", {"schedule": {"cron": "*/30 * 8 * * *"}}, "schedule.cron"),
        ("cron", {"schedule": {"cron": "*/14 * * * *"}}, "schedule.cron"),
        ("cron", {"schedule": {"cron": "*/10 * 1 1 *"}}, "schedule.cron"),
        ("cron", {"schedule": {"cron": "0 0 30 2 *"}}, "schedule.cron"),
        ("once", {"schedule": {"trigger_at": "2026-01-05T09:00:00Z"}}, "schedule.trigger_at"),
        ("once", {"schedule": {"trigger_at": "yesterday"}}, "schedule.trigger_at"),
        ("once", {"schedule": {"trigger_at": "2026-01-05T09:30:00", "timezone": "Asia/Tokyo"}}, "schedule.trigger_at"),
        ("price", {"expires_at": "2026-01-05T08:59:59Z"}, "expires_at"),
        ("price", {"condition": None}, "condition"),
        ("price", {"condition": {"cooldown_hours": 3}}, "condition"),
        ("price", {"condition": {"ticker": "NVDA", "operator": "<"}}, "condition.value"),
        ("price", {"condition": {"ticker": "N V", "operator": "<", "value": 1}}, "condition.ticker"),
        ("price", {"condition": {"ticker": "NVDA", "operator": "<", "value": 1.1234567}}, "condition.value"),
        ("price", {"condition": {"ticker": "NVDA", "operator": "~", "value": 1}}, "condition.operator"),
        ("silence", {"condition": {"threshold_hours": 0}}, "condition.threshold_hours"),
        ("silence", {"condition": {"ticker": "NVDA"}}, "condition.threshold_hours"),
        ("portfolio", {"condition": {"operator": "<", "value": 1}}, "condition.metric"),
        ("price", {"condition": {"expression": "NVDA < 130", "cooldown_hours": 0}}, "condition.cooldown_hours"),
        ("price", {"gate": {"trigger_type": "lower"}}, "gate.trigger_type"),
        ("price", {"gate": {}}, "gate.trigger_type"),
        ("price", {"user_id": "ann\n"}, "user_id"),
        ("price", {"user_id": 5}, "user_id"),
        ("price", {"enabled": "yes"}, "enabled"),
        ("price", {"schedule": []}, "schedule"),
        ("price", {"action_context": ""}, "action_context"),
    ],
)
def test_a_broken_rule_is_named_by_its_path_and_only_once(trigger_type: str, fields: dict[str, Any], path: str) -> None:
    assert list(refused(trigger_type, **fields)) == [path]


@pytest.mark.parametrize(
    ("cron", "first"),
    [
        ("@daily", 15),
        ("@hourly", 1),
        ("0 10 ? * *", 1),
        ("0 10 * * ?", 1),
        ("0 22-2 * * *", 13),
        ("0 10 5W 1 *", 1),
        ("0 10 * * MON-SUN", 1),
    ],
)
def test_a_cron_is_read_as_a_schedule_reads_it(cron: str, first: int) -> None:
    assert state(made("cron", schedule={"cron": cron})).next_check_at == NINE + first * HOUR


@pytest.mark.parametrize("cron", ["@reboot", "0 8 32W * *", "*/10 22-21 * * *", "* 22-2 * * *", "? 8 * * *"])
def test_a_cron_that_a_schedule_knows_is_still_held_to_the_bounds(cron: str) -> None:
    assert list(refused("cron", schedule={"cron": cron})) == ["schedule.cron"]


def test_a_cron_of_ninety_six_fires_a_day_a_minute_apart_is_allowed() -> None:
    made("cron", schedule={"cron": "*/15 * * * *"})
    made("cron", schedule={"cron": "0 0-59 8 * * *"})


@pytest.mark.parametrize(
    ("trigger_type", "fields", "count"),
    [("interval", {}, 5), ("interval", {"max_executions": 2}, 2), ("once", {}, 1), ("price", {"max_executions": 1}, 5)],
)
def test_what_is_foreseen_ends_with_the_last_execution(trigger_type: str, fields: dict[str, Any], count: int) -> None:
    definition = state(made(trigger_type, **fields)).definition
    assert len(next_checks(definition, NINE, 5)) == count


def test_reserved_names_are_no_ids() -> None:
    for name in ("pending", "claim", "check"):
        scenario = nothing()
        scenario.stream = scenario.stream._replace(id=name)
        assert list(problems(scenario.when(DefineIntent(body())))) == ["intent_id"]


def test_an_expression_wins_over_fields_with_a_warning() -> None:
    scenario = made(condition={"expression": "NVDA < 130", "ticker": "AMD", "operator": "<"})
    [warning] = scenario.decision.reply.warnings
    assert (warning.path, warning.message) == (
        "condition.expression",
        "the expression is used; ticker, operator are not looked at",
    )
    assert made(condition={"expression": "NVDA < 130"}).decision.reply.warnings == ()
    [warning] = made("cron", condition={"expression": "NVDA < 130"}).decision.reply.warnings
    assert warning.path == "condition"


def test_a_naive_instant_is_read_in_the_intents_zone() -> None:
    zone = {"timezone": "America/New_York"}
    scenario = made("once", schedule={"trigger_at": "2026-01-05T08:00:00", **zone}, expires_at="2026-01-05T09:00")
    assert state(scenario).next_check_at == NINE + 4 * HOUR
    assert state(scenario).definition.expires_at == NINE + 5 * HOUR


def test_read_only_fields_are_ignored_and_null_is_absent() -> None:
    scenario = made("interval", version=7, next_check="x", execution_count=4, expires_at=None, condition=None)
    assert state(scenario).version == 1


# -- what follows


def test_making_one_counts_it_and_plans_its_first_check() -> None:
    scenario = made("interval")
    scenario.then_also(OWNER, IntentCounted("subject", 1))
    assert state(scenario).next_check_at == NINE + 30 * MINUTE
    assert state(made("price")).next_check_at == NINE
    assert state(made("cron")).next_check_at == NINE + 23 * HOUR
    disabled = made("price", enabled=False)
    assert disabled.decision.also == {}
    assert state(disabled).next_check_at is None


def test_an_id_that_is_taken_is_not_made_again_but_may_be_replaced() -> None:
    scenario = made().when(DefineIntent(body())).then_refused("ALREADY_EXISTS")
    scenario.when(DefineIntent(body(), replaces=True, only_new=True)).then_refused("VERSION_MISMATCH")
    scenario.when(DefineIntent(body(), replaces=True, expected=2)).then_refused("VERSION_MISMATCH")
    scenario.when(DefineIntent(body(), replaces=True, expected=1)).then_nothing()
    scenario.when(DefineIntent(body("interval"), replaces=True))
    assert state(scenario).version == 2
    assert state(scenario).definition.trigger_type == "interval"
    nothing().when(DefineIntent(body(), expected=3)).then_refused("VERSION_MISMATCH")


def test_a_patch_changes_what_it_names_and_null_restores_the_default() -> None:
    scenario = made("interval", expires_at="2026-02-01T00:00:00Z", action_priority="high")
    patch = {"expires_at": None, "action_priority": None, "schedule": {"interval_minutes": 60}}
    scenario.at(NINE + MINUTE).when(ChangeIntent(patch, "ann", expected=1))
    definition = state(scenario).definition
    assert (definition.expires_at, definition.action_priority) == (None, "normal")
    assert state(scenario).next_check_at == NINE + 61 * MINUTE
    scenario.when(ChangeIntent({"action_context": "Other."}, "ann"))
    assert state(scenario).next_check_at == NINE + 61 * MINUTE
    assert state(scenario).version == 3
    found = problems(scenario.when(ChangeIntent({"action_context": None, "user_id": "bob"}, "ann")))
    assert found.keys() == {"action_context", "user_id"}
    scenario.when(ChangeIntent({}, "ann", expected=1)).then_refused("VERSION_MISMATCH")
    scenario.when(ChangeIntent({}, "bob")).then_refused("OWNER_MOVED")


def test_an_edit_leaves_a_live_claim_alone() -> None:
    scenario = made().when(ClaimIntent("w1")).when(ChangeIntent({"action_context": "Other."}, "ann"))
    scenario.when(fired("success", token=2)).then_verdict("NOW", "RECORDED")


def test_an_overdue_once_may_be_edited_but_not_enabled_again() -> None:
    late = made("once").at("2026-01-07T00:00:00Z").when(ChangeIntent({"action_context": "Other."}, "ann"))
    assert isinstance(late.decision.events[0], IntentDefined)
    late.when(DisableIntent())
    assert list(problems(late.when(EnableIntent("ann")))) == ["schedule.trigger_at"]


def test_enabling_starts_afresh_and_disabling_plans_nothing() -> None:
    scenario = made("interval").when(fired("failed")).when(DisableIntent()).then(IntentDisabled(2, NINE))
    scenario.then_effects(Send(OWNER, ForgetIntent("subject", 2)))
    scenario.when(DisableIntent()).then_nothing()
    scenario.when(EnableIntent("ann")).then(IntentEnabled(3, NINE, NINE + 30 * MINUTE))
    scenario.then_also(OWNER, IntentCounted("subject", 3))
    assert state(scenario).failure_count == 0
    scenario.when(EnableIntent("ann")).then_nothing()
    scenario.with_others({OWNER: OwnerState({"subject": 3})})
    scenario.when(ChangeIntent({"enabled": False}, "ann")).then_also(OWNER, IntentUncounted("subject"))


def test_what_was_executed_often_enough_is_enabled_only_with_a_higher_limit() -> None:
    scenario = made("interval", max_executions=1).when(fired("success"))
    assert list(problems(scenario.when(EnableIntent("ann")))) == ["max_executions"]
    scenario.when(ChangeIntent({"max_executions": 2, "enabled": True}, "ann"))
    assert state(scenario).enabled


def test_enabling_heeds_the_limit_and_the_policy_sets_it() -> None:
    full = {OWNER: OwnerState({"a": 1, "b": 1})}
    scenario = made(policy={"enabled_per_user_max": 2}, enabled=False).with_others(full)
    assert list(problems(scenario.when(EnableIntent("ann")))) == ["user_id"]
    own = {OWNER: OwnerState({"a": 1, "subject": 1})}
    scenario.with_others(own).when(EnableIntent("ann")).then(IntentEnabled(2, NINE, NINE))


def test_deleting_leaves_nothing_and_made_again_the_version_goes_on() -> None:
    scenario = made().when(DisableIntent()).when(DeleteIntent(expected=1)).then_refused("VERSION_MISMATCH")
    scenario.when(DeleteIntent(expected=2)).then(IntentDeleted(NINE))
    scenario.then_effects(Send(OWNER, ForgetIntent("subject", 3)))
    assert scenario.state is None
    scenario.when(DeleteIntent()).then_refused("NOT_FOUND")
    scenario.when(DefineIntent(body()))
    assert state(scenario).version == 4


def test_an_owner_forgets_what_was_disabled_unless_it_was_enabled_since() -> None:
    owner = given(OWNERS, IntentCounted("a", 3))
    owner.when(ForgetIntent("a", 2)).then_nothing()
    owner.when(ForgetIntent("b", 9)).then_nothing()
    owner.when(ForgetIntent("a", 4)).then(IntentUncounted("a"))
    assert owner.state == OwnerState({})


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2026-03-29T02:30:00", "Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("2026-03-29T02:00:00", "Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("2026-03-29T03:00:00", "Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("2026-10-25T02:30:00", "Europe/Berlin", "2026-10-25T00:30:00Z"),
        ("2026-10-04T02:10:00", "Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("2026-09-06T00:30:00", "America/Santiago", "2026-09-06T04:00:00Z"),
    ],
)
def test_a_local_time_that_the_clock_skips_is_the_first_after_the_gap_as_for_schedules(
    text: str, zone: str, instant: str
) -> None:
    assert render(read_instant(text, zone)) == instant
    minute, hour, day, month = int(text[14:16]), int(text[11:13]), int(text[8:10]), int(text[5:7])
    assert next_cron(f"{minute} {hour} {day} {month} *", zone, parse("2026-03-01T00:00:00Z")) == parse(instant)
