"""The single bounded retry, sentence by sentence."""

from __future__ import annotations

import itertools
from hashlib import sha256

from betimes.core.deciders import Call, Send
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.runs.model import RequestRun, RunAllowed, RunRefused, RunSkipped, RunState
from tests.runs.scenes import HOUR, MINUTE, NINE, SECOND, account, brief, entry, run_of, signal

FIVE_PAST = NINE + 5 * MINUTE


def retry_key(key: str, until: int) -> str:
    return sha256(f"{key}|retry|{until // SECOND}".encode()).hexdigest()


def test_a_deferred_trigger_is_allowed_at_its_retry_under_its_first_run_id() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + 2 * MINUTE).when(signal(), key="k2").wakes()
    allowed = RunAllowed("k2", "SIGNAL_ARRIVED", run_of("k2").id, FIVE_PAST, retry_key=retry_key("k2", FIVE_PAST))
    scenario.then(allowed).then_verdict("NOW", "WITHIN_LIMITS").then_alarm(None)


def test_a_second_deferral_becomes_retry_exhausted() -> None:
    scenario = account().when(signal(), key="s").at(NINE + MINUTE)
    scenario.when(RequestRun("POSTURE_CHANGE"), key="a").when(RequestRun("LIFECYCLE_STATE_CHANGE"), key="b")
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS")
    scenario.wakes().then_verdict("NEVER", "RETRY_EXHAUSTED", "COOLDOWN").then_alarm(None)
    skipped = RunSkipped("b", "LIFECYCLE_STATE_CHANGE", "RETRY_EXHAUSTED", FIVE_PAST, retry_key("b", FIVE_PAST))
    scenario.then(skipped)


def test_those_due_together_are_served_rarest_type_first_then_oldest() -> None:
    scenario = account().when(signal(), key="s").at(NINE + MINUTE)
    for key, command in (("sig", signal()), ("old", RequestRun("POSTURE_CHANGE")), ("brief", brief())):
        scenario.when(command, key=key)
    scenario.at(NINE + 2 * MINUTE).when(RequestRun("POSTURE_CHANGE"), key="young")
    served = []
    for _ in range(4):
        scenario.wakes()
        (event,) = scenario.decision.events
        served.append((event.key, type(event)))  # type: ignore[attr-defined]
    assert served == [("brief", RunAllowed), ("old", RunSkipped), ("young", RunSkipped), ("sig", RunSkipped)]


def test_what_waited_is_served_before_a_command_that_arrives_at_that_instant() -> None:
    scenario = account().when(signal(), key="s").at(NINE + MINUTE).when(brief(), key="b")
    scenario.at(FIVE_PAST).when(signal(), key="late").then_verdict("LATER", "COOLDOWN", until=NINE + 10 * MINUTE)
    assert scenario.state
    assert "TIME_RITUAL_DAILY_BRIEF" in scenario.state.last_allowed_at_by_type


def test_at_most_sixty_four_wait() -> None:
    scenario = account(registry={"SIGNAL_ARRIVED": {"debounce_seconds": 0}}).when(signal(), key="s").at(NINE + MINUTE)
    for place in range(64):
        scenario.when(signal(), key=f"k{place}").then_verdict("LATER", "COOLDOWN")
    scenario.when(signal(), key="k64").then_verdict("NEVER", "RETRY_EXHAUSTED", "COOLDOWN")


def test_a_retry_is_debounced_by_a_run_of_its_type_that_came_in_between() -> None:
    registry = {"SIGNAL_ARRIVED": entry(debounce_seconds=600, cooldown_seconds=300), "POSTURE_CHANGE": entry()}
    scenario = account(registry=registry).when(RequestRun("POSTURE_CHANGE"), key="p").at(NINE + MINUTE)
    scenario.when(signal(), key="k1").when(signal(), key="k2").then_verdict("LATER", "COOLDOWN", until=FIVE_PAST)
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS").wakes().then_verdict("NEVER", "DEBOUNCED")


def test_a_type_that_left_the_registry_meanwhile_is_skipped_at_its_retry() -> None:
    scenario = account(registry={"CUSTOM": entry(cooldown_seconds=60)}).when(signal(), key="s").at(NINE + SECOND)
    scenario.when(RequestRun("CUSTOM"), key="c").then_verdict("LATER", "COOLDOWN")
    scenario.policy = account().policy
    scenario.wakes().then_verdict("NEVER", "UNKNOWN_TRIGGER_TYPE").then_alarm(None)
    retry = retry_key("c", NINE + MINUTE)
    scenario.then(RunSkipped("c", "CUSTOM", "UNKNOWN_TRIGGER_TYPE", NINE + MINUTE, retry))


def test_the_callers_budget_holds_for_the_retry_too() -> None:
    scenario = account().when(signal(), key="s").at(NINE + MINUTE).when(brief(budget_remaining=1), key="b")
    assert scenario.state
    assert scenario.state.waiting[0].budget_remaining == 1


def test_a_daily_brief_runs_every_day_among_signals_every_five_minutes() -> None:
    """For thirty days, whether the signal or the retry comes first."""
    for signal_first in (True, False):
        scenario = account()
        briefs: list[int] = []
        for tick in range(30 * 288):
            scenario.at(NINE + tick * 5 * MINUTE)
            arrivals = [(signal(), f"s{tick}")]
            if tick % 288 == 0:
                arrivals.insert(1 if signal_first else 0, (brief(), f"b{tick}"))
            for command, key in arrivals:
                scenario.when(command, key=key)
            last = scenario.state.last_allowed_at_by_type.get("TIME_RITUAL_DAILY_BRIEF") if scenario.state else None
            if last and (not briefs or briefs[-1] != last):
                briefs.append(last)
        assert len(briefs) == 30
        assert all(later - earlier >= 20 * HOUR for earlier, later in itertools.pairwise(briefs))


# -- who else is told

HOOKS = [
    {"on": ["RUN_DECISION"], "target": {"kind": "handler", "name": "asked"}},
    {"on": ["RUN_DECISION_DEFERRED"], "target": {"kind": "webhook", "url": "https://example.org/deferred"}},
]


def test_every_deferral_is_published_in_the_seeds_shape() -> None:
    scenario = account(hooks=HOOKS).when(signal(), key="k1").then_effects().at(NINE + 2 * MINUTE)
    scenario.when(signal(correlation="c"), key="k2")
    detail = {
        "tenant_id": "tenant",
        "account_id": "acct",
        "trigger_type": "SIGNAL_ARRIVED",
        "defer_until_epoch": FIVE_PAST // SECOND,
        "retry_after_seconds": 180,
        "original_idempotency_key": "k2",
        "correlation_id": "c",
    }
    body = {"source": "betimes", "detail-type": "RUN_DECISION_DEFERRED", "detail": detail}
    scenario.then_effects(Call("webhook", {"url": "https://example.org/deferred", "body": body}))


def test_a_retry_is_published_as_a_run_decision_under_its_own_key() -> None:
    scenario = account(hooks=HOOKS).when(signal(), key="k1").at(NINE + 2 * MINUTE).when(signal(), key="k2").wakes()
    (call,) = scenario.decision.effects
    assert isinstance(call, Call)
    assert call.executor == "handler:asked"
    assert call.payload["detail-type"] == "RUN_DECISION"
    assert call.payload["detail"]["idempotency_key"] == retry_key("k2", FIVE_PAST)
    names = ["tenant_id", "account_id", "trigger_type", "scheduled_at", "idempotency_key"]
    assert list(call.payload["detail"]) == names, "no correlation, so none is published"


def test_a_trigger_from_outside_is_not_published_and_one_that_a_schedule_asks_for_is() -> None:
    account(hooks=HOOKS).when(signal(), key="k1").then_effects()
    scenario = account(hooks=HOOKS).when(signal(run_id=run_of("k1").id), key="k1")
    assert [effect.executor for effect in scenario.decision.effects if isinstance(effect, Call)] == ["handler:asked"]


def test_what_a_hook_asks_for_causes_no_hooks() -> None:
    scenario = account(hooks=HOOKS).when(signal(), key="k1").at(NINE + 2 * MINUTE)
    scenario.when(signal(by_hook=True), key="k2").then_verdict("LATER", "COOLDOWN").then_effects()
    scenario.wakes().then_effects()


ASKER = StreamId("tenant", "schedule", "daily")
ASKED = RunState("asked", run_key="k2", asked_by=ASKER, tell=True)


def test_whoever_asked_for_a_run_that_is_skipped_is_told() -> None:
    scenario = account().with_others({run_of("k2"): ASKED}).when(signal(), key="k1").at(NINE + 30 * SECOND)
    scenario.when(signal(run_id=run_of("k2").id), key="k2").then_verdict("NEVER", "DEBOUNCED")
    scenario.then_also(run_of("k2"), RunRefused("DEBOUNCED", NINE + 30 * SECOND))
    scenario.then_effects(Send(ASKER, RunFinished(run_of("k2").id, "k2", "skipped", "DEBOUNCED")))


def test_whoever_asked_for_a_run_that_is_given_up_at_its_retry_is_told() -> None:
    scenario = account().with_others({run_of("k2"): ASKED}).when(signal(), key="k1").at(NINE + MINUTE)
    scenario.when(RequestRun("POSTURE_CHANGE", run_id=run_of("k2").id), key="k2").when(brief(), key="b")
    scenario.wakes().then_verdict("NOW", "WITHIN_LIMITS").wakes().then_verdict("NEVER", "RETRY_EXHAUSTED", "COOLDOWN")
    scenario.then_effects(Send(ASKER, RunFinished(run_of("k2").id, "k2", "skipped", "RETRY_EXHAUSTED")))
