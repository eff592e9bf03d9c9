"""Trailing debounce: a burst is waited out and leads to one run at its end."""

from __future__ import annotations

from typing import Any

from betimes.runs.model import RequestRun, RunAdmitted, RunAllowed, TriggerOutcome
from betimes.testing.scenarios import Scenario
from tests.runs.scenes import HOUR, MINUTE, NINE, SECOND, account, entry, run_of


def bursting(**settings: Any) -> Scenario[Any]:
    settings = {"debounce_seconds": 60, "debounce_mode": "trailing", **settings}
    return account(registry={"EDIT": entry(**settings), "OTHER": entry(), "SLOW": entry(cooldown_seconds=300)})


def edit(**fields: Any) -> RequestRun:
    return RequestRun("EDIT", **fields)


def seen(scenario: Scenario[Any]) -> tuple[int, ...]:
    """The segments whose payloads the run sees."""
    ((admitted,),) = [events for stream, events in scenario.decision.also.items() if stream.kind == "run"]
    assert isinstance(admitted, RunAdmitted)
    return admitted.segments


def test_the_first_is_held_until_the_window_ends_and_runs_then() -> None:
    scenario = bursting().when(edit(), key="k1").then_verdict("LATER", "DEBOUNCED", until=NINE + MINUTE)
    assert scenario.decision.reply == TriggerOutcome("deferred", run_of("k1").id)
    scenario.wakes().then(RunAllowed("k1", "EDIT", run_of("k1").id, NINE + MINUTE)).then_alarm(None)


def test_later_ones_join_it_and_push_its_end_out() -> None:
    scenario = bursting().when(edit(), key="k1").at(NINE + 40 * SECOND).when(edit(), key="k2")
    scenario.then_verdict("LATER", "DEBOUNCED", until=NINE + 100 * SECOND).then_alarm(NINE + 100 * SECOND)
    assert scenario.decision.reply == TriggerOutcome("joined", run_of("k1").id), "the same run"
    scenario.wakes().then(RunAllowed("k1", "EDIT", run_of("k1").id, NINE + 100 * SECOND)).then_alarm(None)
    assert scenario.state
    assert not scenario.state.waiting


def test_max_wait_bounds_how_long_a_busy_account_can_push_it_out() -> None:
    scenario = bursting(debounce_max_wait_seconds=90)
    for place in range(4):
        scenario.at(NINE + place * 25 * SECOND).when(edit(), key=f"k{place}")
    scenario.then_alarm(NINE + 90 * SECOND).wakes().then_verdict("NOW", "WITHIN_LIMITS")


def test_keep_last_runs_with_the_newest_payload() -> None:
    scenario = bursting().when(edit(), key="k1").when(edit(), key="k2").when(edit(), key="k3").wakes()
    assert seen(scenario) == (3,)


def test_an_older_out_of_order_event_never_replaces_a_newer_one() -> None:
    scenario = bursting().when(edit(scheduled_at=NINE), key="k1")
    scenario.when(edit(scheduled_at=NINE - HOUR), key="k2").wakes()
    assert seen(scenario) == (1,)


def test_keep_all_runs_with_every_payload_up_to_a_hundred() -> None:
    scenario = bursting(debounce_keep="all").when(edit(), key="k1").when(edit(), key="k2").wakes()
    assert seen(scenario) == (1, 2)
    scenario = bursting(debounce_keep="all")
    for place in range(103):
        scenario.when(edit(), key=f"k{place}")
    assert seen(scenario.wakes()) == tuple(range(4, 104)), "the newest hundred"


def test_the_hold_is_not_the_retry_so_it_may_be_deferred_once() -> None:
    scenario = bursting(cooldown_seconds=300).when(edit(), key="k1").at(NINE + 30 * SECOND)
    scenario.when(RequestRun("OTHER"), key="o").then_verdict("NOW", "WITHIN_LIMITS")
    scenario.wakes().then_verdict("LATER", "COOLDOWN", until=NINE + 330 * SECOND)
    scenario.at(NINE + 100 * SECOND).when(edit(), key="k2").then_verdict("LATER", "COOLDOWN", until=NINE + 330 * SECOND)
    assert scenario.decision.reply == TriggerOutcome("joined", run_of("k1").id), "what comes meanwhile joins it"
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS")
    assert seen(scenario) == (4,), "with the payload that joined it"


def test_the_second_deferral_of_a_held_trigger_exhausts_it() -> None:
    scenario = bursting(cooldown_seconds=300).when(edit(), key="k1").at(NINE + 30 * SECOND)
    scenario.when(RequestRun("OTHER"), key="o").wakes().then_verdict("LATER", "COOLDOWN", until=NINE + 330 * SECOND)
    scenario.at(NINE + 329 * SECOND).when(RequestRun("OTHER"), key="o2").then_verdict("NOW", "WITHIN_LIMITS")
    scenario.wakes().then_verdict("NEVER", "RETRY_EXHAUSTED", "COOLDOWN").then_alarm(None)


def test_a_new_burst_after_the_run_is_a_new_run() -> None:
    scenario = bursting().when(edit(), key="k1").wakes().at(NINE + 70 * SECOND).when(edit(), key="k2")
    scenario.then_verdict("LATER", "DEBOUNCED", until=NINE + 130 * SECOND)
    assert scenario.decision.reply == TriggerOutcome("deferred", run_of("k2").id)


def test_at_most_sixty_four_wait_held_ones_too() -> None:
    scenario = bursting().when(RequestRun("SLOW"), key="s").at(NINE + SECOND)
    for place in range(64):
        scenario.when(RequestRun("SLOW"), key=f"s{place}")
    scenario.when(edit(), key="k").then_verdict("NEVER", "RETRY_EXHAUSTED", "DEBOUNCED")


def test_what_is_held_is_said_to_pass_when_the_gate_lets_it_pass() -> None:
    scenario = bursting(cooldown_seconds=300).when(RequestRun("OTHER"), key="o").at(NINE + 10 * SECOND)
    scenario.when(edit(), key="k1").then_verdict("LATER", "DEBOUNCED", until=NINE + 70 * SECOND)
    assert passes_at(scenario) == NINE + 300 * SECOND
    scenario.wakes().then_verdict("LATER", "COOLDOWN", until=NINE + 300 * SECOND)
    scenario.when(edit(), key="k2")
    assert passes_at(scenario) == NINE + 300 * SECOND
    assert passes_at(bursting().when(edit(), key="k1")) == NINE + MINUTE
    assert passes_at(bursting().when(edit(budget_remaining=0), key="k1")) is None, "time alone will not do it"


def passes_at(scenario: Scenario[Any]) -> int | None:
    verdict = scenario.decision.verdict
    assert verdict
    return verdict.would_pass_at
