"""The rules by which an evaluation is judged, in order, with their sentences.

Staleness is decided under the lock and before anything is written: an evaluation that began at an older version of the
sensor is recorded, and its run requests are dropped.
"""

from __future__ import annotations

import msgspec

from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.sensors.model import Evaluation, EvaluationCause


class EvaluationAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation that came back or failed."""

    evaluation_id: str
    cause: EvaluationCause
    expected: int | None = None
    """The state version it began with; a message has none."""
    is_open: bool = True
    """Somebody still waits for it."""
    evaluation: Evaluation | None = None
    error: str = ""
    message_id: str = ""
    received: int = 0
    duration_ms: int = 0


class EvaluationCase(msgspec.Struct, frozen=True, gc=False):
    attempt: EvaluationAttempt
    state_version: int
    runs: int


def _stale(case: EvaluationCase) -> Finding:
    expected, is_open = case.attempt.expected, case.attempt.is_open
    moved = expected is not None and (expected != case.state_version or not is_open)
    return Finding((expected, case.state_version), Hit("NEVER", "STALE_CURSOR") if moved else None)


def _error(case: EvaluationCase) -> Finding:
    error = case.attempt.error[:200]
    return Finding((error,), Hit("NEVER", "EVALUATION_ERROR") if error else None)


def _no_change(case: EvaluationCase) -> Finding:
    return Finding((case.runs,), None if case.runs else Hit("NEVER", "NO_CHANGE"))


RULES: RuleTable[EvaluationCase] = RuleTable(
    "evaluations",
    (
        Rule(
            "stale",
            _stale,
            ("expected", "current"),
            "the evaluation began at version {expected} of the sensor, which has since moved on to {current}",
            "the sensor is still at version {expected}, where the evaluation began",
            "it does not depend on the sensor's version",
        ),
        Rule("error", _error, ("error",), "it failed: {error}", "there was no error"),
        Rule("no_change", _no_change, ("runs",), "it asks for no run", "it asks for {runs:run|runs}"),
    ),
    otherwise=Hit("NOW", "TRIGGERED"),
    places=("stale", "error", "no_change"),
)
