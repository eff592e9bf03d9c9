"""Sensors as scenarios: messages, polls, cursors, and what comes too late."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from betimes.core.deciders import Call, Event, Settled, Wake
from betimes.core.instants import DAY, HOUR, SECOND, parse
from betimes.core.streams import StreamId
from betimes.domain.run_requests import RunRequested
from betimes.domain.targets import HandlerTarget, TriggerTarget
from betimes.runs.model import RunConflicted, RunState, run_id_of, run_stream
from betimes.sensors.decide import SENSOR
from betimes.sensors.model import (
    DefineSensor,
    DeleteSensor,
    DisableSensor,
    EnableSensor,
    Evaluated,
    Evaluation,
    EvaluationStarted,
    HandlerEvaluator,
    Message,
    MessageReceived,
    ReceiveMessage,
    ResetCursor,
    RotateSecret,
    RunRequest,
    Secret,
    SensorDefinition,
    SensorEvaluated,
    SensorState,
    ShelveSensor,
    WebhookEvaluator,
)
from betimes.sensors.policy import AutomationPolicy
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
SECTIONS = {"automation": AutomationPolicy}
STREAM = StreamId("tenant", "sensor", "subject")


def sensor(**fields: Any) -> Scenario[SensorState]:
    definition = SensorDefinition(**{"sensor_type": "poll", "target": HandlerTarget("brief"), **fields})
    return given(SENSOR, sections=SECTIONS).when(DefineSensor(definition))


def poll(**fields: Any) -> Scenario[SensorState]:
    return sensor(evaluator=HandlerEvaluator("orders"), **fields)


def push(**fields: Any) -> Scenario[SensorState]:
    return sensor(sensor_type="push", **fields)


def of(scenario: Scenario[SensorState], kind: type[Event]) -> list[Any]:
    return [event for event in scenario.decision.events if isinstance(event, kind)]


def evaluated(scenario: Scenario[SensorState]) -> SensorEvaluated:
    [event] = of(scenario, SensorEvaluated)
    assert isinstance(event, SensorEvaluated)
    return event


def state(scenario: Scenario[SensorState]) -> SensorState:
    assert scenario.state
    return scenario.state


def answer(scenario: Scenario[SensorState], effect: str = "", **result: Any) -> Scenario[SensorState]:
    """The evaluator answers what is out, or what is named."""
    flight = state(scenario).in_flight
    return scenario.when(
        Settled(effect or (flight.effect if flight else ""), "evaluator:orders", "done", result=result)
    )


def asks(*keys: str) -> list[dict[str, Any]]:
    return [{"run_key": key} for key in keys]


# -- polling


def test_a_poll_calls_the_evaluator_with_cursor_and_version() -> None:
    scenario = poll().then_alarm(NINE).wakes()
    body = {"sensor_id": "subject", "cursor": None, "state_version": 1}
    scenario.then_effects(
        Call("evaluator:orders", {"timeout_s": 10, "body": body}, at_most_once=True, lease_s=15, report_to=STREAM)
    )
    [started] = of(scenario, EvaluationStarted)
    assert started.evaluation_id == f"sensor_eval:subject:poll:{NINE // SECOND}"
    scenario.then_alarm(NINE + 10 * SECOND)


def test_an_http_evaluator_is_called_by_its_address() -> None:
    scenario = sensor(evaluator=WebhookEvaluator("https://example.com/x")).wakes()
    [call] = scenario.decision.effects
    assert isinstance(call, Call)
    assert (call.executor, call.payload["url"]) == ("evaluator", "https://example.com/x")


def test_an_accepted_evaluation_moves_cursor_and_version_and_asks_for_its_runs_in_one_segment() -> None:
    scenario = answer(poll().wakes(), cursor="c1", run_requests=asks("a", "b"))
    event = evaluated(scenario)
    assert (event.status, event.cursor_before, event.cursor) == ("triggered", None, "c1")
    assert (event.expected_state_version, event.state_version) == (1, 2)
    assert [(r.run_key, r.outcome) for r in of(scenario, RunRequested)] == [("a", "requested"), ("b", "requested")]
    assert len(scenario.decision.effects) == 2
    scenario.then_verdict("NOW", "TRIGGERED").then_alarm(NINE + 30 * SECOND)


def test_an_evaluation_without_runs_is_no_change() -> None:
    scenario = answer(poll().wakes(), cursor=7)
    assert (evaluated(scenario).status, state(scenario).cursor, state(scenario).state_version) == ("no_change", 7, 2)
    scenario.then_verdict("NEVER", "NO_CHANGE")


def test_a_cursor_that_is_left_out_stays_and_null_empties_it() -> None:
    scenario = answer(poll().wakes(), cursor="c1")
    assert state(answer(scenario.wakes())).cursor == "c1"
    assert state(answer(scenario.wakes(), cursor=None)).cursor is None


MOVES = [
    ResetCursor("elsewhere"),
    Evaluated("m1", 1, Evaluation(cursor="by hand")),
    DefineSensor(
        SensorDefinition(
            sensor_type="poll", target=HandlerTarget("x"), evaluator=HandlerEvaluator("orders"), interval_seconds=5
        )
    ),
]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: type(move).__name__)
def test_an_evaluation_is_stale_once_the_version_has_moved(move: Any) -> None:
    scenario = poll().wakes()
    effect = state(scenario).in_flight.effect  # type: ignore[union-attr]
    scenario.when(move)
    before = state(scenario)
    assert before.state_version == 2
    answer(scenario, effect, cursor="stale", run_requests=asks("a"))
    assert evaluated(scenario).status == "skipped_stale_cursor"
    assert of(scenario, RunRequested) == []
    scenario.then_effects().then_verdict("NEVER", "STALE_CURSOR")
    assert (state(scenario).cursor, state(scenario).state_version) == (before.cursor, 2)


def test_what_was_out_when_a_sensor_was_paused_and_resumed_lands_as_stale() -> None:
    scenario = poll().wakes()
    effect = state(scenario).in_flight.effect  # type: ignore[union-attr]
    scenario.when(DisableSensor())
    assert state(scenario).state_version == 2
    scenario.then_alarm(None).when(EnableSensor())
    assert state(scenario).state_version == 3
    scenario.then_alarm(NINE).wakes()
    answer(scenario, effect, cursor="stale", run_requests=asks("a"))
    assert (evaluated(scenario).status, of(scenario, RunRequested)) == ("skipped_stale_cursor", [])
    assert state(scenario).in_flight
    assert state(answer(scenario, cursor="fresh")).cursor == "fresh"


def test_one_evaluation_at_a_time_and_silence_is_an_error_at_the_deadline() -> None:
    scenario = poll().wakes()
    effect = state(scenario).in_flight.effect  # type: ignore[union-attr]
    scenario.then_alarm(NINE + 10 * SECOND).wakes()
    assert (evaluated(scenario).status, state(scenario).consecutive_errors) == ("error", 1)
    assert state(scenario).state_version == 1
    answer(scenario, effect, cursor="late", run_requests=asks("a"))
    assert (evaluated(scenario).status, of(scenario, RunRequested)) == ("skipped_stale_cursor", [])
    assert state(scenario).cursor is None


def test_errors_back_off_to_an_hour_and_then_break_the_sensor() -> None:
    scenario = answer(poll(max_errors=20).wakes(), cursor="kept")
    pauses = []
    for _ in range(20):
        scenario.wakes()
        flight = state(scenario).in_flight
        assert flight
        scenario.when(Settled(flight.effect, "evaluator:orders", "failed", error="boom"))
        assert state(scenario).cursor == "kept"
        pauses.append((scenario.alarm_at - scenario.now) // SECOND if scenario.alarm_at else None)
    assert pauses[:4] == [31, 32, 34, 38]
    assert pauses[12:] == [3_600] * 7 + [None]
    assert (state(scenario).status, state(scenario).last_error) == ("error", "boom")
    scenario.when(EnableSensor()).then_alarm(scenario.now)
    assert (state(scenario).status, state(scenario).consecutive_errors) == ("active", 0)


def test_one_good_evaluation_ends_a_row_of_errors() -> None:
    scenario = poll().wakes().wakes()
    assert state(scenario).consecutive_errors == 1
    answer(scenario.wakes())
    assert (state(scenario).consecutive_errors, state(scenario).last_error) == (0, "")


def test_too_many_run_requests_are_an_error_that_names_the_limit() -> None:
    scenario = answer(poll(max_run_requests=2).wakes(), cursor="c", run_requests=asks("a", "b", "c"))
    assert "max_run_requests, which is 2" in evaluated(scenario).error
    assert (of(scenario, RunRequested), state(scenario).cursor) == ([], None)


@pytest.mark.parametrize(
    "result",
    [
        "text",
        {"run_requests": [{"no_key": 1}]},
        {"run_requests": [{"run_key": "a", "target": {"kind": "trigger", "trigger_type": "X"}}]},
        {"cursor": "x" * 70_000},
        {"surprise": 1},
    ],
)
def test_an_answer_that_is_no_evaluation_is_an_error(result: Any) -> None:
    scenario = poll().wakes()
    flight = state(scenario).in_flight
    assert flight
    scenario.when(Settled(flight.effect, "evaluator:orders", "done", result=result))
    assert evaluated(scenario).status == "error"
    assert of(scenario, RunRequested) == []


def test_a_manual_evaluation_works_in_any_status() -> None:
    scenario = poll().when(DisableSensor())
    scenario.when(Evaluated("m1", 2, Evaluation((RunRequest("a"),), cursor="c"), duration_ms=5))
    event = evaluated(scenario)
    assert (event.cause, event.status, event.duration_ms) == ("manual", "triggered", 5)
    scenario.then_alarm(None)
    assert (state(scenario).status, state(scenario).cursor) == ("paused", "c")


def test_a_push_sensor_is_not_evaluated_by_hand() -> None:
    push().when(Evaluated("m1", 1, Evaluation())).then_refused("NOT_A_POLL_SENSOR")


# -- run keys


def run_of(key: str) -> StreamId:
    return run_stream("tenant", run_id_of("tenant", key))


def test_the_same_run_key_twice_in_one_evaluation_is_one_run() -> None:
    scenario = answer(poll().wakes(), run_requests=asks("a", "a"))
    assert [r.outcome for r in of(scenario, RunRequested)] == ["requested", "duplicate"]
    assert len(scenario.decision.effects) == 1


def test_two_requests_under_one_key_that_differ_conflict() -> None:
    requests = [{"run_key": "a"}, {"run_key": "a", "payload": {"x": 1}}]
    scenario = answer(poll().wakes(), run_requests=requests)
    assert [r.outcome for r in of(scenario, RunRequested)] == ["requested", "conflict"]
    assert isinstance(scenario.decision.also[run_of("a")][1], RunConflicted)


def test_a_run_key_is_the_tenants() -> None:
    first = answer(poll().wakes(), run_requests=asks("a"))
    print_ = of(first, RunRequested)[0].fingerprint
    known = {run_of("a"): RunState("succeeded", run_key="a", fingerprint=print_)}
    same = answer(poll().with_others(known).wakes(), run_requests=asks("a"))
    assert [r.outcome for r in of(same, RunRequested)] == ["duplicate"]
    same.then_effects()
    other = answer(poll(target=HandlerTarget("other")).with_others(known).wakes(), run_requests=asks("a"))
    assert [r.outcome for r in of(other, RunRequested)] == ["conflict"]
    other.then_effects()
    assert len(other.decision.also[run_of("a")]) == 1


def test_a_run_request_may_name_a_target_that_the_sensor_allows() -> None:
    target = {"kind": "handler", "name": "other"}
    allowing = poll(allowed_targets=(HandlerTarget("other"),))
    scenario = answer(allowing.wakes(), run_requests=[{"run_key": "a", "target": target, "payload": {"n": 1}}])
    [call] = scenario.decision.effects
    assert isinstance(call, Call)
    assert (call.executor, call.payload["payload"]) == ("handler:other", {"n": 1})


# -- push


def test_a_message_asks_for_its_run_in_the_same_turn() -> None:
    scenario = push(payload={"p": 1}).when(ReceiveMessage(Message("m-1", {"n": 2}, {"k": "v"})), key="k")
    event = evaluated(scenario)
    assert (event.evaluation_id, event.status, event.cause) == ("sensor_eval:subject:msg:m-1", "triggered", "message")
    [requested] = of(scenario, RunRequested)
    assert requested.run_key == "sensor:subject:msg:m-1"
    [call] = scenario.decision.effects
    assert isinstance(call, Call)
    message = {"message_id": "m-1", "data": {"n": 2}, "attributes": {"k": "v"}}
    assert call.payload["payload"] == {"p": 1, "message": message}
    scenario.then_alarm(None)


def test_with_an_evaluator_a_message_is_accepted_first_and_evaluated_later() -> None:
    scenario = push(evaluator=HandlerEvaluator("orders")).when(ReceiveMessage(Message("m-1")), key="k")
    scenario.then(MessageReceived("m-1", NINE))
    [call] = scenario.decision.effects
    assert isinstance(call, Call)
    assert (call.at_most_once, call.attempts_max, call.report_to) == (False, 8, STREAM)
    scenario.when(Settled("sensor:subject:2:0", "evaluator:orders", "done", result={"run_requests": asks("a")}))
    event = evaluated(scenario)
    assert (event.status, event.received) == ("triggered", 2)
    assert [r.run_key for r in of(scenario, RunRequested)] == ["a"]


def test_a_message_whose_evaluator_failed_for_good_is_recorded_as_an_error() -> None:
    scenario = push(evaluator=HandlerEvaluator("orders")).when(ReceiveMessage(Message("m-1")), key="k")
    scenario.when(Settled("sensor:subject:2:0", "evaluator:orders", "dead", error="boom"))
    assert (evaluated(scenario).status, evaluated(scenario).error) == ("error", "boom")
    scenario.when(Settled("sensor:subject:2:0", "evaluator:orders", "done", result={"run_requests": asks("a")}))
    assert evaluated(scenario).status == "triggered"


def test_a_paused_sensor_takes_no_messages() -> None:
    push().when(DisableSensor()).when(ReceiveMessage(Message("m-1"))).then_refused("SENSOR_PAUSED")


def test_a_poll_sensor_takes_no_messages() -> None:
    poll().when(ReceiveMessage(Message("m-1"))).then_refused("NOT_A_PUSH_SENSOR")


def test_an_answer_to_a_deleted_sensor_means_nothing_to_its_successor() -> None:
    scenario = push(evaluator=HandlerEvaluator("orders")).when(ReceiveMessage(Message("m-1")), key="k")
    again = SensorDefinition(sensor_type="push", target=HandlerTarget("x"), evaluator=HandlerEvaluator("orders"))
    scenario.when(DeleteSensor()).when(DefineSensor(again))
    scenario.when(Settled("sensor:subject:2:0", "evaluator:orders", "done", result={"run_requests": asks("a")}))
    scenario.then_nothing()


# -- definitions


def test_definitions_have_versions() -> None:
    scenario = poll()
    other = msgspec.structs.replace(state(scenario).definition, interval_seconds=5)
    scenario.when(DefineSensor(other, if_version=2)).then_refused("VERSION_MISMATCH")
    scenario.when(DefineSensor(other, if_version=0)).then_refused("ALREADY_EXISTS")
    scenario.when(DefineSensor(other, if_version=1))
    assert (state(scenario).version, state(scenario).state_version) == (2, 2)
    scenario.when(DefineSensor(other)).then_nothing()
    scenario.when(ShelveSensor(msgspec.structs.replace(other, enabled=False))).then_alarm(None)
    assert (state(scenario).version, state(scenario).status) == (3, "paused")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"evaluator": None}, "evaluator"),
        ({"evaluator": HandlerEvaluator("x"), "auth": "token"}, "auth"),
        ({"evaluator": HandlerEvaluator("x"), "target": TriggerTarget("X")}, "target.account_id"),
    ],
)
def test_a_sensor_that_cannot_work_is_refused(fields: dict[str, Any], named: str) -> None:
    assert named in str(sensor(**fields).then_refused("INVALID").outcome)


def test_the_type_of_a_sensor_stays() -> None:
    changed = SensorDefinition(sensor_type="push", target=HandlerTarget("brief"))
    poll().when(DefineSensor(changed)).then_refused("INVALID")


def test_an_old_secret_lives_a_day_beside_the_new_one() -> None:
    definition = SensorDefinition(sensor_type="push", target=HandlerTarget("x"), auth="signature")
    scenario = given(SENSOR, sections=SECTIONS).when(DefineSensor(definition, secret="one"))
    assert state(scenario).secrets == (Secret("one"),)
    scenario.at(NINE + HOUR).when(RotateSecret("two"))
    assert state(scenario).secrets == (Secret("two"), Secret("one", NINE + HOUR + DAY))
    scenario.when(RotateSecret("three"))
    assert [known.secret for known in state(scenario).secrets] == ["three", "two"]


def test_a_wake_of_a_deleted_sensor_is_nothing() -> None:
    scenario = poll().when(DeleteSensor())
    assert scenario.alarm_at is None
    scenario.when(Wake()).then_nothing()
