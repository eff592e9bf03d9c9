"""Evaluations as people see them, read from the segments of a sensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from betimes.core.deciders import Event
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId
from betimes.domain.derivation import derive
from betimes.domain.run_requests import RunRequested
from betimes.runs.model import run_id_of
from betimes.sensors.evaluations import wanted_run
from betimes.sensors.model import Evaluation, MessageReceived, RunDefaults, RunRequest, SensorEvaluated, SensorState
from betimes.sensors.views import EvaluationView, RunRequestView


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
