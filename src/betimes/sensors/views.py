"""Sensors and evaluations as people send and see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.deciders import Event
from betimes.core.instants import Instant
from betimes.core.names import Id
from betimes.core.segments import Segment
from betimes.core.streams import EffectId
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.run_briefs import RunBrief
from betimes.domain.run_requests import RequestOutcome, RunRequested
from betimes.domain.struct_forms import From, placed, read_only_fields, shown
from betimes.domain.targets import Target
from betimes.domain.warnings import Remark
from betimes.runs.model import run_id_of
from betimes.sensors.evaluations import wanted_run
from betimes.sensors.model import (
    Evaluation,
    EvaluationCause,
    MessageReceived,
    RunDefaults,
    RunRequest,
    SensorDefinition,
    SensorEvaluated,
    SensorFields,
    SensorState,
)

SensorStatus: TypeAlias = Literal["active", "paused", "error"]
SensorType: TypeAlias = Literal["push", "poll"]


@placed(sensor_id="target")
class SensorRequest(SensorFields[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    __doc__ = None

    sensor_id: Id | None = None

    def definition(self) -> SensorDefinition:
        return derive(SensorDefinition, self)


@shown(sensor_id=None)
class SensorView(SensorFields[None], JsonView, frozen=True, kw_only=True):
    __doc__ = None

    sensor_id: str
    status: SensorStatus
    paused_reason: Literal["NOT_DECLARED"] | None
    declared_by: str | None
    state_version: int
    cursor: Any
    next_evaluation_at: Annotated[datetime | None, From("next_at")]
    last_evaluated_at: datetime | None
    consecutive_errors: int
    last_error: str | None
    secret: str | None = None
    push_url: str | None = None
    version: int
    created_at: datetime
    updated_at: datetime


class SensorWritten(SensorView, frozen=True, kw_only=True):
    """The answer to a write; a write that changed nothing names the last segment."""

    warnings: list[Remark]
    segment_id: str


SENSOR_READ_ONLY = read_only_fields(SensorWritten, SensorRequest)


class SecretView(JsonView, frozen=True):
    """Shown once; a replay has none."""

    secret: str | None
    push_url: str | None
    segment_id: str


EvaluationViewStatus: TypeAlias = Literal["pending", "triggered", "no_change", "error", "skipped_stale_cursor"]


class RunRequestView(msgspec.Struct, frozen=True):
    run_key: str
    run_id: str
    target: Target
    asset_selection: tuple[str, ...]
    partition_selection: tuple[str, ...] | None
    payload: dict[str, Any]
    outcome: RequestOutcome
    run: RunBrief | None = None


class EvaluationView(JsonView, frozen=True, kw_only=True):
    evaluation_id: str
    sensor_id: str
    cause: EvaluationCause
    message_id: str | None = None
    status: EvaluationViewStatus
    evaluated_at: datetime
    duration_ms: int = 0
    expected_state_version: int | None = None
    state_version: int | None = None
    cursor_before: Any = None
    cursor: Any = None
    error: str | None = None
    run_requests: list[RunRequestView] = msgspec.field(default_factory=list)
    is_replay: bool = False
    segment_id: str | None


def evaluation_rows(segment: Segment, events: Sequence[Event]) -> Iterator[tuple[int, EvaluationView]]:
    """Yield the evaluation that a segment holds, if it holds one."""
    view = evaluation_in(segment, events)
    if view:
        yield 1, view


def evaluation_in(segment: Segment, events: Sequence[Event]) -> EvaluationView | None:
    requested = [event for event in events if isinstance(event, RunRequested)]
    for event in events:
        if isinstance(event, SensorEvaluated):
            return _evaluation_view(segment, event, requested)
        if isinstance(event, MessageReceived):
            return _pending_view(segment, event)
    return None


def _pending_view(segment: Segment, event: MessageReceived) -> EvaluationView:
    return derive(
        EvaluationView,
        event,
        evaluation_id=EffectId(*segment.stream, segment.version, 0).handle,
        sensor_id=segment.stream.id,
        cause="message",
        status="pending",
        evaluated_at=event.at,
        segment_id=segment.handle,
    )


def _evaluation_view(segment: Segment, event: SensorEvaluated, requested: list[RunRequested]) -> EvaluationView:
    defaults = event.defaults
    return derive(
        EvaluationView,
        event,
        sensor_id=segment.stream.id,
        evaluated_at=event.at,
        run_requests=[_request_view(run, defaults) for run in requested] if defaults else [],
        segment_id=segment.handle,
    )


def _request_view(run: RunRequested, defaults: RunDefaults) -> RunRequestView:
    # What the evaluator left out is not recorded with the run but once, with the evaluation.
    chosen = {name: getattr(run, name) for name in RunDefaults.__struct_fields__}
    given = {name: value for name, value in chosen.items() if value is not None}
    return derive(RunRequestView, defaults, run, **given)


def dry_run_view(
    tenant: str,
    sensor_id: str,
    state: SensorState,
    evaluation: Evaluation | None,
    error: str,
    times: tuple[Instant, int],
) -> EvaluationView:
    """Return the evaluation as it would be recorded; it is not looked up whether its runs exist already."""
    asked = evaluation.run_requests if evaluation else ()
    is_moved = evaluation is not None and evaluation.cursor is not msgspec.UNSET
    return derive(
        EvaluationView,
        state,
        evaluation_id=f"sensor_eval:{sensor_id}:dry_run",
        sensor_id=sensor_id,
        cause="manual",
        status="error" if error else "triggered" if asked else "no_change",
        evaluated_at=times[0],
        duration_ms=times[1],
        expected_state_version=state.state_version,
        cursor_before=state.cursor,
        cursor=evaluation.cursor if evaluation and is_moved else state.cursor,
        error=error or None,
        run_requests=[_dry_request(tenant, request, state) for request in asked],
        segment_id=None,
    )


def _dry_request(tenant: str, request: RunRequest, state: SensorState) -> RunRequestView:
    run = wanted_run(request, state.definition)
    return derive(RunRequestView, run, run_id=run_id_of(tenant, run.run_key), outcome="requested")
