"""Shadow mode: judged, recorded and charged as it would be; the run starts whatever the verdict."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Decision
from betimes.runs.model import RequestRun, RunAllowed, RunDeferred, RunSkipped, WouldRun
from betimes.testing.scenarios import Scenario
from tests.runs.scenes import MINUTE, NINE, SECOND, account, entry, run_of, signal


def shadowed(**settings: Any) -> Scenario[Any]:
    return account(registry={"SIGNAL_ARRIVED": {"mode": "shadow", **settings}})


def would_be(scenario: Scenario[Any]) -> tuple[str, tuple[str, ...]]:
    assert isinstance(scenario.outcome, Decision)
    verdict = scenario.outcome.reply.shadow
    return verdict.answer, verdict.reasons


def test_a_would_be_allow_counts() -> None:
    scenario = shadowed().when(signal(), key="k1").then_verdict("NOW", "WITHIN_LIMITS")
    assert would_be(scenario) == ("NOW", ("WITHIN_LIMITS",))
    assert scenario.state
    assert scenario.state.last_allowed_at == NINE


def test_a_would_be_skip_starts_and_costs_nothing() -> None:
    scenario = shadowed().when(signal(), key="k1").at(NINE + 30 * SECOND).when(signal(), key="k2")
    scenario.then(RunAllowed("k2", "SIGNAL_ARRIVED", run_of("k2").id, NINE + 30 * SECOND, charged=False))
    scenario.then_verdict("NOW", "WITHIN_LIMITS")
    assert would_be(scenario) == ("NEVER", ("DEBOUNCED",))
    assert scenario.state
    assert scenario.state.last_allowed_at == NINE
    verdict = scenario.decision.verdict
    assert verdict
    assert [(step.reason, step.shadow) for step in verdict.trace] == [("DEBOUNCED", True)]


def test_a_would_be_deferral_starts_now_and_its_retry_starts_nothing() -> None:
    scenario = shadowed().when(signal(), key="k1").at(NINE + 2 * MINUTE).when(signal(), key="k2")
    assert [type(event) for event in scenario.decision.events] == [RunAllowed, RunDeferred]
    assert would_be(scenario) == ("LATER", ("COOLDOWN",))
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS").then_effects().then_alarm(None)
    (event,) = scenario.decision.events
    assert isinstance(event, WouldRun)
    assert (event.key, event.charged) == ("k2", True)
    assert not scenario.decision.also
    assert scenario.state
    assert scenario.state.last_allowed_at == NINE + 5 * MINUTE, "as enforcement would have it"


def test_the_numbers_are_those_enforcement_would_give() -> None:
    minutes = (0, 1, 3, 4, 5, 6, 11, 12, 30, 31)
    states = []
    for mode in ("enforce", "shadow"):
        scenario = account(mode=mode)
        for minute in minutes:
            scenario.at(NINE + minute * MINUTE).when(signal(), key=f"k{minute}")
        while scenario.alarm_at:
            scenario.wakes()
        state = scenario.state
        assert state
        states.append((state.last_allowed_at, state.allowed_by_type, state.allowed_today))
    assert states[0] == states[1]


def test_a_burst_in_shadow_mode_starts_every_run_at_once_and_counts_one() -> None:
    settings = {"debounce_mode": "trailing", "cooldown_seconds": 0}
    scenario = shadowed(**settings)
    for place in range(3):
        scenario.when(signal(), key=f"k{place}")
        assert isinstance(scenario.decision.events[0], RunAllowed)
        assert would_be(scenario) == ("LATER", ("DEBOUNCED",))
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS").then_alarm(None)
    assert scenario.state
    assert scenario.state.allowed_today.count == 1


def test_an_unknown_type_does_not_start_in_shadow_mode_either() -> None:
    scenario = account(mode="shadow", registry={"KNOWN": entry()})
    scenario.when(signal(), key="k").then_verdict("NOW", "WITHIN_LIMITS")
    scenario.when(RequestRun("NO_SUCH"), key="x").then(RunSkipped("x", "NO_SUCH", "UNKNOWN_TRIGGER_TYPE", NINE))


BURSTS = {"debounce_seconds": 60, "cooldown_seconds": 0, "debounce_mode": "trailing"}


def switched(scenario: Scenario[Any], mode: str) -> Scenario[Any]:
    scenario.policy = account(registry={"SIGNAL_ARRIVED": {**BURSTS, "mode": mode}}).policy
    return scenario


def test_what_is_enforced_does_not_join_a_burst_that_starts_nothing() -> None:
    scenario = shadowed(**BURSTS).when(signal(), key="k1").at(NINE + 10 * SECOND)
    switched(scenario, "enforce").when(signal(), key="k2").then_verdict("LATER", "DEBOUNCED", until=NINE + 70 * SECOND)
    assert scenario.decision.reply.status == "deferred"
    assert isinstance(scenario.wakes().decision.events[0], WouldRun)
    scenario.wakes().then(RunAllowed("k2", "SIGNAL_ARRIVED", run_of("k2").id, NINE + 70 * SECOND))


def test_what_has_started_in_shadow_mode_does_not_join_a_burst_that_will_start() -> None:
    scenario = switched(shadowed(), "enforce").when(signal(), key="k1").at(NINE + 10 * SECOND)
    switched(scenario, "shadow").when(signal(), key="k2")
    assert [type(event) for event in scenario.decision.events] == [RunAllowed, RunDeferred]
    assert scenario.state
    assert [due.segments for due in scenario.state.waiting] == [(1,), (2,)]


def test_a_burst_for_which_there_is_no_room_to_wait_starts_in_shadow_mode_all_the_same() -> None:
    registry = {"SIGNAL_ARRIVED": {**BURSTS, "mode": "shadow"}, "SLOW": entry(cooldown_seconds=300)}
    scenario = account(registry=registry).when(RequestRun("SLOW"), key="s").at(NINE + SECOND)
    for place in range(64):
        scenario.when(RequestRun("SLOW"), key=f"s{place}")
    scenario.when(signal(), key="k")
    scenario.then(RunAllowed("k", "SIGNAL_ARRIVED", run_of("k").id, NINE + SECOND, charged=False))
    assert would_be(scenario) == ("NEVER", ("RETRY_EXHAUSTED", "DEBOUNCED"))
