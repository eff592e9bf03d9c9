"""Sensors and evaluations as people send and see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.names import Id
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.run_briefs import RunBrief
from betimes.domain.run_requests import RequestOutcome, Selection
from betimes.domain.targets import Target
from betimes.domain.warnings import Remark
from betimes.sensors.model import (
    ALLOWED_TARGETS_MAX,
    RUN_REQUESTS_MAX,
    Auth,
    EvaluationCause,
    Evaluator,
    OidcProof,
    SensorDefinition,
    SensorState,
)

Shown = TypeVar("Shown", bound=JsonView)
SensorStatus: TypeAlias = Literal["active", "paused", "error"]
SensorType: TypeAlias = Literal["push", "poll"]


class SensorRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sensor_type: Literal["push", "poll"]
    target: Target
    sensor_id: Id | None = None
    payload: dict[str, Any] = {}
    asset_selection: Selection = ()
    partition_selection: Selection | None = None
    enabled: bool = True
    auth: Auth = "key"
    evaluator: Evaluator | None = None
    interval_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 30
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=300)] = 10
    max_run_requests: Annotated[int, msgspec.Meta(ge=1, le=RUN_REQUESTS_MAX)] = RUN_REQUESTS_MAX
    max_errors: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    allowed_targets: Annotated[tuple[Target, ...], msgspec.Meta(max_length=ALLOWED_TARGETS_MAX)] = ()
    """What an evaluator may choose besides `target`; an account or a person left out is any."""
    oidc: OidcProof | None = None
    """Whose identity tokens are accepted, with `auth: oidc`."""

    def definition(self) -> SensorDefinition:
        return derive(SensorDefinition, self)


class SensorView(JsonView, frozen=True, kw_only=True):
    sensor_id: str
    sensor_type: Literal["push", "poll"]
    target: Target
    payload: dict[str, Any]
    asset_selection: tuple[str, ...]
    partition_selection: tuple[str, ...] | None
    enabled: bool
    auth: Auth
    evaluator: Evaluator | None
    interval_seconds: int
    timeout_seconds: int
    max_run_requests: int
    max_errors: int
    allowed_targets: tuple[Target, ...]
    oidc: OidcProof | None
    status: SensorStatus
    paused_reason: Literal["NOT_DECLARED"] | None
    declared_by: str | None
    state_version: int
    cursor: Any
    next_evaluation_at: datetime | None
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


SENSOR_READ_ONLY = frozenset(SensorWritten.__struct_fields__) - set(SensorRequest.__struct_fields__)


def sensor_view(sensor_id: str, state: SensorState) -> SensorView:
    return _sensor(SensorView, sensor_id, state)


def sensor_written(sensor_id: str, state: SensorState, warnings: list[Remark], segment_id: str) -> SensorWritten:
    return _sensor(SensorWritten, sensor_id, state, warnings=warnings, segment_id=segment_id)


def _sensor(kind: type[Shown], sensor_id: str, state: SensorState, **given: Any) -> Shown:
    return derive(kind, state.definition, state, sensor_id=sensor_id, next_evaluation_at=state.next_at, **given)


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
