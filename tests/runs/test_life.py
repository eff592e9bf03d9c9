"""A run's life: allowed, started once, over; claimed with a lease and a token; or only told how its target ended."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.deciders import Send, Settled
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished, TargetSettled
from betimes.runs.decide import RUN
from betimes.runs.fold import run_index
from betimes.runs.model import (
    ClaimRun,
    CompleteRun,
    HandlerKind,
    RenewRun,
    RunAdmitted,
    RunAsked,
    RunConflicted,
    RunEnded,
    RunRefused,
    RunStarted,
    RunState,
    StartRun,
    TargetEnded,
)
from betimes.testing.scenarios import Scenario, given
from tests.runs.scenes import HOUR, MINUTE, NINE, SECOND, SECTIONS

ASKER = StreamId("tenant", "schedule", "daily")
DAY = 24 * HOUR


def run(handler: HandlerKind = "claim", *before: object) -> Scenario[RunState]:
    admitted = RunAdmitted("acct", "SIGNAL_ARRIVED", "k1", handler, (1,), NINE + DAY, NINE)
    return given(RUN, *before, admitted, sections=SECTIONS)  # type: ignore[arg-type]


def asked(tell: bool = True) -> RunAsked:
    return RunAsked("sched:daily:1", "f", "notification", ASKER, NINE, tell)


def test_a_run_that_is_not_there_is_not_found() -> None:
    given(RUN, sections=SECTIONS).when(StartRun("e")).then_refused("NOT_FOUND")


def test_a_handlers_run_starts_once() -> None:
    scenario = run("python").when(StartRun("account:acct:1:0", "w1")).then(RunStarted(NINE, "w1", "account:acct:1:0"))
    scenario.when(StartRun("account:acct:1:0", "w2")).then_refused("NOT_STARTABLE")


@pytest.mark.parametrize(
    ("status", "became"), [("done", "succeeded"), ("failed", "failed"), ("dead", "failed"), ("abandoned", "abandoned")]
)
def test_how_the_call_ended_is_how_the_run_ended(status: Any, became: Any) -> None:
    scenario = run("python").when(StartRun("e")).when(Settled("e", "handler:x", status, result={"n": 1}, error="why"))
    scenario.then(RunEnded(became, NINE, 3, {"n": 1}, "why")).then_alarm(None)


def test_a_call_that_ends_after_its_run_was_abandoned_changes_nothing() -> None:
    scenario = (
        run("python")
        .at(NINE + DAY)
        .wakes()
        .then(RunEnded("abandoned", NINE + DAY, 2, None, "nobody started it in time"))
    )
    scenario.when(StartRun("e")).then_refused("NOT_STARTABLE")
    scenario.when(Settled("e", "handler:x", "done")).then_nothing()


def test_a_run_nobody_starts_within_its_deadline_is_abandoned() -> None:
    run().then_alarm(NINE + DAY).wakes().then_alarm(None)


def test_a_worker_claims_with_a_lease_and_a_token_and_completes() -> None:
    scenario = run().when(ClaimRun("w1", 60))
    scenario.then(RunStarted(NINE, "w1", claim_token=1, lease_expires_at=NINE + MINUTE)).then_alarm(NINE + MINUTE)
    scenario.when(CompleteRun(1, "succeeded", {"ok": True})).then(RunEnded("succeeded", NINE, 3, {"ok": True}))
    assert scenario.state
    assert run_index(scenario.state).due_at is None


def test_a_run_is_claimed_at_most_once() -> None:
    scenario = run().when(ClaimRun("w1", 60)).when(ClaimRun("w2", 60)).then_refused("ALREADY_CLAIMED")
    scenario.wakes().when(ClaimRun("w2", 60)).then_refused("NOT_CLAIMABLE")
    run("python").when(ClaimRun("w", 60)).then_refused("NOT_CLAIMABLE")


def test_a_renewed_lease_lasts_longer() -> None:
    scenario = run().when(ClaimRun("w1", 60)).at(NINE + 50 * SECOND).when(RenewRun(1, 60))
    scenario.then_alarm(NINE + 110 * SECOND)


def test_an_expired_lease_abandons_the_run_and_a_late_report_is_lost() -> None:
    scenario = run().when(ClaimRun("w1", 60)).at(NINE + MINUTE)
    scenario.when(CompleteRun(1, "succeeded")).then_refused("CLAIM_LOST")
    assert scenario.state
    assert scenario.state.status == "abandoned"
    scenario.when(RenewRun(1, 60)).then_refused("CLAIM_LOST")


def test_a_wrong_token_changes_nothing() -> None:
    run().when(ClaimRun("w1", 60)).when(CompleteRun(2, "failed")).then_refused("CLAIM_LOST")
    run("python").when(StartRun("e")).when(CompleteRun(0, "failed")).then_refused("CLAIM_LOST")


def test_only_runs_that_wait_for_a_worker_are_due_for_claims() -> None:
    assert run_index(RunState("allowed", allowed_at=NINE)).due_at == NINE
    assert run_index(RunState("allowed", handler="python", allowed_at=NINE)).due_at is None
    assert run_index(RunState("started", allowed_at=NINE)).due_at is None
    assert run_index(RunState("asked")).due_at is None


def test_whoever_asked_for_the_run_is_told_when_it_is_over() -> None:
    scenario = run("python", asked()).when(StartRun("e")).when(Settled("e", "handler:x", "done"))
    scenario.then_effects(Send(ASKER, RunFinished("subject", "sched:daily:1", "succeeded")))
    assert scenario.state
    assert scenario.state.run_key == "sched:daily:1"
    run("python", asked(tell=False)).when(Settled("e", "x", "done")).then_effects()


def test_a_run_with_another_target_learns_how_that_ended() -> None:
    scenario = given(RUN, asked(), sections=SECTIONS).when(TargetSettled("delivered"))
    scenario.then(TargetEnded("delivered", NINE))
    scenario.then_effects(Send(ASKER, RunFinished("subject", "sched:daily:1", "delivered")))
    scenario.when(TargetSettled("failed")).then_nothing()
    called = given(RUN, asked(), sections=SECTIONS).when(Settled("e", "webhook", "dead", error="410"))
    called.then(TargetEnded("dead", NINE, "410"))


def test_a_conflict_is_counted_and_the_first_stays() -> None:
    scenario = given(RUN, asked(), RunConflicted("g", ASKER, NINE), sections=SECTIONS)
    assert scenario.state
    assert (scenario.state.fingerprint, scenario.state.conflict_count) == ("f", 1)


def test_a_run_the_gate_refused_is_over() -> None:
    scenario = given(RUN, asked(), RunRefused("DEBOUNCED", NINE), sections=SECTIONS)
    assert scenario.state
    assert (scenario.state.status, scenario.state.reason) == ("skipped", "DEBOUNCED")
    scenario.when(StartRun("e")).then_refused("NOT_STARTABLE")
