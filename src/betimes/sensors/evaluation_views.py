"""From segments of a sensor to evaluations as people see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from betimes.core.datetimes import moment
from betimes.core.deciders import Event
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId
from betimes.runs.model import run_id_of
from betimes.schedules.model import RunRequested
from betimes.sensors.evaluations import wanted
from betimes.sensors.model import Evaluation, MessageReceived, RunDefaults, SensorEvaluated, SensorState
from betimes.sensors.views import EvaluationView, RunRequestView


def rows_of(segment: Segment, events: Sequence[Event]) -> Iterator[tuple[int, EvaluationView]]:
    """The evaluation a segment holds, if it holds one."""
    view = view_in(segment, events)
    if view:
        yield 1, view


def view_in(segment: Segment, events: Sequence[Event]) -> EvaluationView | None:
    requested = [event for event in events if isinstance(event, RunRequested)]
    for event in events:
        if isinstance(event, SensorEvaluated):
            return _evaluated(segment, event, requested)
        if isinstance(event, MessageReceived):
            return _pending(segment, event)
    return None


def _pending(segment: Segment, event: MessageReceived) -> EvaluationView:
    handle = EffectId(*segment.stream, segment.version, 0).handle
    return EvaluationView(
        evaluation_id=handle,
        sensor_id=segment.stream.id,
        cause="message",
        message_id=event.message_id,
        status="pending",
        evaluated_at=moment(event.at),
        segment_id=segment.handle,
    )


def _evaluated(segment: Segment, event: SensorEvaluated, requested: list[RunRequested]) -> EvaluationView:
    defaults = event.defaults
    return EvaluationView(
        evaluation_id=event.evaluation_id,
        sensor_id=segment.stream.id,
        cause=event.cause,
        message_id=event.message_id or None,
        status=event.status,
        evaluated_at=moment(event.at),
        duration_ms=event.duration_ms,
        expected_state_version=event.expected_state_version,
        state_version=event.state_version,
        cursor_before=event.cursor_before,
        cursor=event.cursor,
        error=event.error or None,
        run_requests=[_request(run, defaults) for run in requested] if defaults else [],
        segment_id=segment.handle,
    )


def _request(run: RunRequested, defaults: RunDefaults) -> RunRequestView:
    assets, partitions = run.asset_selection, run.partition_selection
    return RunRequestView(
        run.run_key,
        run.run_id,
        defaults.target if run.target is None else run.target,
        defaults.asset_selection if assets is None else assets,
        defaults.partition_selection if partitions is None else partitions,
        defaults.payload if run.payload is None else run.payload,
        run.outcome,
    )


def dry_view(
    tenant: str,
    sensor_id: str,
    state: SensorState,
    evaluation: Evaluation | None,
    error: str,
    times: tuple[Instant, int],
) -> EvaluationView:
    """What an evaluation would come to; whether its runs exist already is not looked up."""
    asked = [wanted(request, state.definition) for request in evaluation.run_requests] if evaluation else []
    cursor = state.cursor
    if evaluation and evaluation.cursor is not msgspec.UNSET:
        cursor = evaluation.cursor
    return EvaluationView(
        evaluation_id=f"sensor_eval:{sensor_id}:dry_run",
        sensor_id=sensor_id,
        cause="manual",
        status="error" if error else "triggered" if asked else "no_change",
        evaluated_at=moment(times[0]),
        duration_ms=times[1],
        expected_state_version=state.state_version,
        state_version=state.state_version,
        cursor_before=state.cursor,
        cursor=cursor,
        error=error or None,
        run_requests=[
            RunRequestView(
                run.run_key,
                run_id_of(tenant, run.run_key),
                run.target,
                run.asset_selection,
                run.partition_selection,
                run.payload,
                "requested",
            )
            for run in asked
        ],
        segment_id=None,
    )
