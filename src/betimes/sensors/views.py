"""Sensors and evaluations as people send and see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.names import Id
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.run_briefs import RunBrief
from betimes.domain.run_requests import RequestOutcome
from betimes.domain.struct_forms import From, placed, read_only_fields, shown
from betimes.domain.targets import Target
from betimes.domain.warnings import Remark
from betimes.sensors.model import EvaluationCause, SensorDefinition, SensorFields, SensorState

Shown = TypeVar("Shown", bound=JsonView)
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


def sensor_view(sensor_id: str, state: SensorState) -> SensorView:
    return _sensor(SensorView, sensor_id, state)


def sensor_written(sensor_id: str, state: SensorState, warnings: list[Remark], segment_id: str) -> SensorWritten:
    return _sensor(SensorWritten, sensor_id, state, warnings=warnings, segment_id=segment_id)


def _sensor(kind: type[Shown], sensor_id: str, state: SensorState, **given: Any) -> Shown:
    return derive(kind, state.definition, state, sensor_id=sensor_id, **given)


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
