"""Why, in a line: what people read is true of what was decided."""

from __future__ import annotations

from typing import Any

from betimes.runs.model import RequestRun
from betimes.runs.sentences import sentence
from betimes.testing.scenarios import Scenario
from tests.runs.scenes import MINUTE, NINE, SECOND, account, entry, share_quota, signal


def said(scenario: Scenario[Any]) -> str:
    assert scenario.decision.verdict
    return sentence("acct", scenario.decision.verdict, scenario.now)


def test_what_may_run() -> None:
    assert said(account().when(signal(), key="k1")) == "It is within all limits."


def test_a_cooldown_names_its_start_and_its_end_to_the_microsecond() -> None:
    scenario = account().at(NINE + 1).when(signal(), key="k1").at(NINE + 2 * MINUTE).when(signal(), key="k2")
    ends = "09:05:00.000001Z"
    start = f"acct ran at 09:00:00.000001Z; its cooldown of 5 minutes ends at {ends}."
    assert said(scenario) == f"{start} It is judged again at {ends}."


def test_another_day_is_named() -> None:
    late = NINE + 15 * 60 * MINUTE - MINUTE
    scenario = account().at(late).when(signal(), key="k1").at(late + 61 * SECOND).when(signal(), key="k2")
    assert said(scenario).startswith("acct ran at 2026-01-05T23:59:00Z; its cooldown of 5 minutes ends at 00:04:00Z.")


def test_what_is_dropped() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + 1_500_000).when(signal(), key="k2")
    assert said(scenario) == (
        "acct ran for this type of trigger 1.5 seconds ago; there must be at least 1 minute between two. "
        "This one is dropped."
    )


def test_what_shares_the_run_of_one_that_waits() -> None:
    registry = {"EDIT": entry(debounce_seconds=60, debounce_mode="trailing", cooldown_seconds=300), "OTHER": entry()}
    scenario = account(registry=registry).when(RequestRun("EDIT"), key="k1").at(NINE + SECOND)
    assert said(scenario.when(RequestRun("EDIT"), key="k2")) == (
        "It waits 1 minute in case more triggers of this type follow. It is judged again at 09:01:01Z."
    )
    scenario.when(RequestRun("OTHER"), key="o").wakes().when(RequestRun("EDIT"), key="k3")
    assert said(scenario) == (
        "acct has a waiting trigger of this type (the account ran too recently); this one shares its run. "
        "It is judged again at 09:05:01Z."
    )


def test_a_retry_that_is_used_up_names_what_it_would_wait_for() -> None:
    scenario = account().when(signal(), key="s").at(NINE + MINUTE)
    scenario.when(RequestRun("POSTURE_CHANGE"), key="a").when(RequestRun("LIFECYCLE_STATE_CHANGE"), key="b")
    assert said(scenario.wakes().wakes()) == (
        "It would have to wait again (the account ran too recently), and has no retry left."
    )


def test_no_slot_within_a_day_though_another_limit_binds_first() -> None:
    scenario = account(registry={"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=1, cooldown_seconds=300)})
    for place in range(27):
        scenario.when(signal(), key=f"k{place}")
        share_quota(scenario)
    scenario.then_verdict("NEVER", "TENANT_HOURLY_CAP")
    assert said(scenario) == "The tenant has used up its runs of this type for the hour. No slot is free within a day."
