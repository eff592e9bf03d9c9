"""Evaluations: from an evaluator's answer to the segment that records it, with the runs it asks for."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.checks import Problem, examine, list_problems
from betimes.core.deciders import Decision, View
from betimes.core.instants import SECOND, Instant
from betimes.domain.definition_rules import target_problems
from betimes.domain.run_requests import RunRequested, RunRequests, WantedRun
from betimes.domain.targets import Target, permits
from betimes.sensors.model import (
    CURSOR_CHARS_MAX,
    Evaluation,
    EvaluationRef,
    EvaluationStatus,
    RunDefaults,
    RunRequest,
    SensorDefinition,
    SensorEvaluated,
    SensorState,
)
from betimes.sensors.policy import AutomationPolicy
from betimes.sensors.rules import RULES, EvaluationAttempt, EvaluationCase

_STATUS: dict[str, EvaluationStatus] = {
    "STALE_CURSOR": "skipped_stale_cursor",
    "EVALUATION_ERROR": "error",
    "NO_CHANGE": "no_change",
    "TRIGGERED": "triggered",
}


def read_answer(answer: Any, definition: SensorDefinition) -> tuple[Evaluation | None, str]:
    """Return the evaluation that an evaluator's answer holds, or `None` and the reason why it holds none."""
    found = examine(msgspec.to_builtins(answer) if isinstance(answer, Evaluation) else answer or {}, Evaluation)
    if found.found.total:
        return None, f"the evaluator's answer is not an evaluation: {list_problems(found.found.first)}"
    evaluation = found.value
    limit = definition.max_run_requests
    if len(evaluation.run_requests) > limit:
        return None, f"{len(evaluation.run_requests)} run requests are over max_run_requests, which is {limit}"
    if evaluation.cursor is not msgspec.UNSET and len(encode(evaluation.cursor)) > CURSOR_CHARS_MAX:
        return None, f"the cursor is over {CURSOR_CHARS_MAX:,} characters"
    for place, request in enumerate(evaluation.run_requests):
        for path, message in _target_problems(request.target, definition) if request.target else ():
            return None, f"run_requests[{place}].{path}: {message}"
    return evaluation, ""


def _target_problems(target: Target, definition: SensorDefinition) -> tuple[Problem, ...]:
    """Refuse a target that the definition does not allow: whoever operates the evaluator may have no key at all."""
    if not any(permits(allowed, target) for allowed in (definition.target, *(definition.allowed_targets or ()))):
        return (("target", "is neither the sensor's target nor one of its allowed_targets"),)
    return target_problems("target", target)


def run_keys(answer: Any) -> tuple[str, ...]:
    """Return the run keys that an answer names; one that is no evaluation may name some too."""
    requests = answer.run_requests if isinstance(answer, Evaluation) else _request_list(answer)
    keys = (request.run_key if isinstance(request, RunRequest) else _run_key(request) for request in requests)
    return tuple(key for key in keys if key)


def _request_list(answer: Any) -> list[Any]:
    requests = answer.get("run_requests") if isinstance(answer, dict) else None
    return requests if isinstance(requests, list) else []


def _run_key(request: Any) -> str:
    key = request.get("run_key") if isinstance(request, dict) else None
    return key if isinstance(key, str) else ""


def record_evaluation(
    view: View[SensorState], state: SensorState, attempt: EvaluationAttempt, policy: AutomationPolicy, now: Instant
) -> Decision:
    """Record an evaluation: one segment with the runs it asks for, if it counts."""
    evaluation = attempt.evaluation or Evaluation()
    verdict = RULES.judge(EvaluationCase(attempt, state.state_version, len(evaluation.run_requests)))
    event = _evaluated_event(state, attempt, evaluation, _STATUS[verdict.reasons[0]], now)
    if attempt.expected is not None:
        event = _with_next_poll(event, state, evaluation, policy)
        event = event if attempt.is_open else replace(event, next_at=None)
    requests = RunRequests(view.stream, view.others, now, authority=state.authority)
    requested: tuple[RunRequested, ...] = ()
    if event.status == "triggered":
        requested = tuple(_request_run(requests, request, state.definition) for request in evaluation.run_requests)
        # On record, so that what the requests left out can be told after the definition has changed.
        event = replace(event, defaults=_run_defaults(state.definition))
    return Decision(
        (event, *requested),
        also=requests.also,
        effects=tuple(requests.effects),
        verdict=verdict,
        reply=EvaluationRef(view.version + 1),
    )


def _evaluated_event(
    state: SensorState, attempt: EvaluationAttempt, evaluation: Evaluation, status: EvaluationStatus, now: Instant
) -> SensorEvaluated:
    return SensorEvaluated(
        attempt.evaluation_id,
        attempt.cause,
        status,
        now,
        state.version,
        attempt.message_id,
        attempt.received,
        attempt.duration_ms,
        attempt.expected,
        error=attempt.error if status == "error" else "",
        # Said by an evaluator, so it is cut rather than refused.
        note=(evaluation.status or "")[:200],
    )


def _with_next_poll(
    event: SensorEvaluated, state: SensorState, evaluation: Evaluation, policy: AutomationPolicy
) -> SensorEvaluated:
    """Return the event of a poll with the sensor's cursor, state version and next poll after it."""
    cursor, version, errors = state.cursor, state.state_version, state.consecutive_errors
    interval = state.definition.interval_seconds * SECOND
    pause = interval
    # A stale one moves neither cursor nor version: it was made from a state that is gone.
    if event.status in ("triggered", "no_change"):
        cursor = cursor if evaluation.cursor is msgspec.UNSET else evaluation.cursor
        version, errors = version + 1, 0
    elif event.status == "error":
        errors += 1
        pause = pause_after(errors, interval, policy)
    broken = event.status == "error" and errors >= state.definition.max_errors
    moved = replace(event, cursor_before=state.cursor, cursor=cursor, state_version=version)
    return replace(moved, errors=errors, is_broken=broken, next_at=event.at + pause)


def pause_after(errors: int, interval: int, policy: AutomationPolicy) -> int:
    """Return the backoff of a poll sensor after so many errors in a row; in microseconds, like its interval."""
    # Bounded: 2**40 times the shortest is past any backoff, and a sensor may fail for years.
    grown = policy.backoff_min_s * SECOND << min(errors - 1, 40)
    return max(interval, min(interval + grown, policy.backoff_max_s * SECOND))


def _request_run(requests: RunRequests, request: RunRequest, definition: SensorDefinition) -> RunRequested:
    return replace(
        requests.ask(wanted_run(request, definition)),
        target=request.target,
        asset_selection=request.asset_selection,
        partition_selection=request.partition_selection,
        payload=request.payload,
    )


def wanted_run(request: RunRequest, definition: SensorDefinition) -> WantedRun:
    """Return the run that an evaluator asks for; fields it leaves out are the sensor's."""
    return WantedRun(
        request.run_key,
        definition.target if request.target is None else request.target,
        definition.asset_selection if request.asset_selection is None else request.asset_selection,
        definition.partition_selection if request.partition_selection is None else request.partition_selection,
        definition.payload if request.payload is None else request.payload,
    )


def _run_defaults(definition: SensorDefinition) -> RunDefaults:
    return RunDefaults(
        definition.target, definition.payload, definition.asset_selection, definition.partition_selection
    )
