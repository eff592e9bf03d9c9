"""From an evaluator's answer to what is recorded of it: accepted, stale or an error, with the runs it asks for.

Whether an evaluation is stale is decided here, under the lock and before anything is written: if the sensor has moved
since the evaluation began, it is recorded and none of its run requests is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import examine, list_problems
from betimes.core.deciders import Decision, View
from betimes.core.instants import SECOND, Instant
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.domain.targets import Target, permits
from betimes.schedules.checks import target_problems
from betimes.schedules.model import RunRequested
from betimes.schedules.run_requests import Requests, Wanted
from betimes.sensors.model import (
    CURSOR_CHARS_MAX,
    Evaluation,
    EvaluationCause,
    EvaluationRef,
    EvaluationStatus,
    RunDefaults,
    RunRequest,
    SensorDefinition,
    SensorEvaluated,
    SensorState,
)
from betimes.sensors.policy import AutomationPolicy


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation that has come back, or has failed."""

    evaluation_id: str
    cause: EvaluationCause
    expected: int | None = None
    """The state version it began with; a message has none."""
    is_open: bool = True
    """Whether anybody still waits for it."""
    evaluation: Evaluation | None = None
    error: str = ""
    message_id: str = ""
    received: int = 0
    duration_ms: int = 0


class Case(msgspec.Struct, frozen=True, gc=False):
    attempt: Attempt
    state_version: int
    runs: int


def _stale(case: Case) -> Finding:
    expected, is_open = case.attempt.expected, case.attempt.is_open
    moved = expected is not None and (expected != case.state_version or not is_open)
    return Finding((expected, case.state_version), Hit("NEVER", "STALE_CURSOR") if moved else None)


def _error(case: Case) -> Finding:
    error = case.attempt.error[:200]
    return Finding((error,), Hit("NEVER", "EVALUATION_ERROR") if error else None)


def _no_change(case: Case) -> Finding:
    return Finding((case.runs,), None if case.runs else Hit("NEVER", "NO_CHANGE"))


RULES: RuleTable[Case] = RuleTable(
    "evaluations",
    (
        Rule(
            "stale",
            _stale,
            ("expected", "current"),
            "it began at version {expected}; the sensor is at {current}",
            "it began at version {expected}, where the sensor still is",
            "it needs no version",
        ),
        Rule("error", _error, ("error",), "the error: {error}", "there was no error"),
        Rule("no_change", _no_change, ("runs",), "it asks for {runs} runs", "it asks for {runs} runs"),
    ),
    otherwise=Hit("NOW", "TRIGGERED"),
    places=("stale", "error", "no_change"),
)
_STATUS: dict[str, EvaluationStatus] = {
    "STALE_CURSOR": "skipped_stale_cursor",
    "EVALUATION_ERROR": "error",
    "NO_CHANGE": "no_change",
    "TRIGGERED": "triggered",
}


def answered(result: Any, definition: SensorDefinition) -> tuple[Evaluation | None, str]:
    """An evaluator's answer, or what is wrong with it."""
    found = examine(msgspec.to_builtins(result) if isinstance(result, Evaluation) else result or {}, Evaluation)
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


def _target_problems(target: Target, definition: SensorDefinition) -> tuple[tuple[str, str], ...]:
    """An evaluator chooses among what the definition allows: whoever operates it may have no key at all."""
    if not any(permits(allowed, target) for allowed in (definition.target, *(definition.allowed_targets or ()))):
        return (("target", "is neither the sensor's target nor one of its allowed_targets"),)
    return target_problems("target", target)


def run_keys(result: Any) -> tuple[str, ...]:
    """The run keys an answer names, whatever else it is."""
    requests = result.run_requests if isinstance(result, Evaluation) else _listed(result)
    keys = (request.run_key if isinstance(request, RunRequest) else _key(request) for request in requests)
    return tuple(key for key in keys if key)


def _listed(result: Any) -> list[Any]:
    listed = result.get("run_requests") if isinstance(result, dict) else None
    return listed if isinstance(listed, list) else []


def _key(request: Any) -> str:
    key = request.get("run_key") if isinstance(request, dict) else None
    return key if isinstance(key, str) else ""


def settled(
    view: View[SensorState], state: SensorState, attempt: Attempt, policy: AutomationPolicy, now: Instant
) -> Decision:
    """Record an evaluation: one segment with the runs it asks for, if it counts."""
    evaluation = attempt.evaluation or Evaluation()
    verdict = RULES.judge(Case(attempt, state.state_version, len(evaluation.run_requests)))
    status = _STATUS[verdict.reasons[0]]
    event = SensorEvaluated(
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
        note=(evaluation.status or "")[:200],
    )
    if attempt.expected is not None:
        event = _polled(event, state, evaluation, policy, now)
        event = event if attempt.is_open else msgspec.structs.replace(event, next_at=None)
    requests = Requests(view.stream, view.others, now, authority=state.authority)
    requested: tuple[RunRequested, ...] = ()
    if status == "triggered":
        requested = tuple(_requested(requests, request, state.definition) for request in evaluation.run_requests)
        event = msgspec.structs.replace(event, defaults=defaults_of(state.definition))
    return Decision(
        (event, *requested),
        also=requests.also,
        effects=tuple(requests.effects),
        verdict=verdict,
        reply=EvaluationRef(view.version + 1),
    )


def _polled(
    event: SensorEvaluated, state: SensorState, evaluation: Evaluation, policy: AutomationPolicy, now: Instant
) -> SensorEvaluated:
    """What an evaluation of a poll sensor does to its cursor, its version and its next instant."""
    cursor, version, errors = state.cursor, state.state_version, state.consecutive_errors
    interval = state.definition.interval_seconds * SECOND
    pause = interval
    if event.status in ("triggered", "no_change"):
        cursor = cursor if evaluation.cursor is msgspec.UNSET else evaluation.cursor
        version, errors = version + 1, 0
    elif event.status == "error":
        errors += 1
        pause = pause_after(errors, interval, policy)
    broken = event.status == "error" and errors >= state.definition.max_errors
    return msgspec.structs.replace(
        event,
        cursor_before=state.cursor,
        cursor=cursor,
        state_version=version,
        errors=errors,
        is_broken=broken,
        next_at=now + pause,
    )


def pause_after(errors: int, interval: int, policy: AutomationPolicy) -> int:
    """What a poll sensor waits after so many errors in a row; in microseconds, like its interval."""
    grown = policy.backoff_min_s * SECOND << min(errors - 1, 40)
    return max(interval, min(interval + grown, policy.backoff_max_s * SECOND))


def _requested(requests: Requests, request: RunRequest, definition: SensorDefinition) -> RunRequested:
    answer = requests.ask(wanted(request, definition))
    return RunRequested(
        answer.run_key,
        answer.run_id,
        answer.fingerprint,
        answer.outcome,
        request.target,
        request.asset_selection,
        request.partition_selection,
        request.payload,
    )


def wanted(request: RunRequest, definition: SensorDefinition) -> Wanted:
    """The run an evaluator asks for; what it leaves out is the sensor's."""
    return Wanted(
        request.run_key,
        definition.target if request.target is None else request.target,
        definition.asset_selection if request.asset_selection is None else request.asset_selection,
        definition.partition_selection if request.partition_selection is None else request.partition_selection,
        definition.payload if request.payload is None else request.payload,
    )


def defaults_of(definition: SensorDefinition) -> RunDefaults:
    return RunDefaults(
        definition.target, definition.payload, definition.asset_selection, definition.partition_selection
    )
