"""What is asked about intents and what is answered, with the fields of the HTTP contract in its order."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import obey
from betimes.core.datetimes import moment
from betimes.core.instants import HOUR, Instant, render
from betimes.core.names import Id
from betimes.core.segments import Recorded, Segment
from betimes.domain.json_view import JsonView
from betimes.domain.warnings import Remark
from betimes.intents.definitions import (
    ActionPriority,
    ActionType,
    FireMode,
    Metric,
    Operator,
    TriggerType,
    WorkerChoice,
)
from betimes.intents.model import (
    Claimed,
    Condition,
    DisabledReason,
    Fired,
    FireIntent,
    FireStatus,
    IntentEvents,
    IntentFired,
    IntentState,
)
from betimes.intents.timing import check_minutes

OBJECT_BYTES_MAX = 16 * 1024
Lease = Annotated[int, msgspec.Meta(ge=10, le=3_600)]
Worker = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Token = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


# -- requests


class IntentClaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: Worker | None = None
    lease_s: Lease | None = None


class IntentClaimsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    worker: Worker | None = None
    lease_s: Lease | None = None
    user_id: Id | None = None
    trigger_type: TriggerType | None = None


class IntentRenewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claim_token: Token
    lease_s: Lease | None = None


class ReleaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claim_token: Token


class FireRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: FireStatus
    claim_token: Token | None = None
    trigger_data: dict[str, Any] | None = None
    gate_result: dict[str, Any] | None = None
    message_id: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    message_preview: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    evaluation_ms: Milliseconds | None = None
    generation_ms: Milliseconds | None = None
    delivery_ms: Milliseconds | None = None
    error_message: Annotated[str, msgspec.Meta(max_length=2_000)] | None = None

    def __post_init__(self) -> None:
        obey(lambda: self._check_bytes("trigger_data"), lambda: self._check_bytes("gate_result"))

    def _check_bytes(self, name: str) -> None:
        if len(encode(getattr(self, name)).encode()) > OBJECT_BYTES_MAX:
            raise ValueError(f"{name}: at most {OBJECT_BYTES_MAX:,} bytes")


# -- answers


class IntentScheduleView(JsonView, frozen=True):
    cron: str | None
    interval_minutes: int | None
    trigger_at: datetime | None
    check_interval_minutes: int
    timezone: str


class ConditionView(JsonView, frozen=True):
    expression: str | None
    ticker: str | None
    metric: Metric | None
    operator: Operator | None
    value: Decimal | None
    threshold_hours: Decimal | None
    cooldown_hours: int
    fire_mode: FireMode


class GateView(JsonView, frozen=True):
    trigger_type: str
    account_id: str


class ClaimHolder(JsonView, frozen=True):
    worker: str
    expires_at: datetime


class SourceWaitView(JsonView, frozen=True):
    """The source that could not be asked the last time."""

    name: str
    error: str
    since: datetime


class IntentView(JsonView, frozen=True, kw_only=True):
    """A definition and its read-only state."""

    intent_id: str
    user_id: str
    trigger_type: TriggerType
    enabled: bool
    expires_at: datetime | None
    max_executions: int | None
    metadata: dict[str, Any]
    schedule: IntentScheduleView
    condition: ConditionView | None
    action_type: ActionType
    action_context: str
    action_priority: ActionPriority
    action_channels: list[str] | None
    gate: GateView | None
    worker: WorkerChoice
    next_check: datetime | None
    last_checked: datetime | None
    last_executed: datetime | None
    execution_count: int
    last_status: FireStatus | None
    last_error: str | None
    last_condition_fire: datetime | None
    in_cooldown: bool
    cooldown_remaining_hours: float | None
    claimed_at: datetime | None
    claim: ClaimHolder | None
    was_disabled_reason: DisabledReason | None
    waiting_for_source: SourceWaitView | None
    version: int
    created_at: datetime
    updated_at: datetime


class IntentWritten(IntentView, frozen=True, kw_only=True):
    """The answer to a write; a write that changed nothing names the last segment."""

    warnings: list[Remark]
    segment_id: str


class ClaimView(JsonView, frozen=True):
    claim_token: int
    claimed_at: datetime
    expires_at: datetime
    intent: IntentView


class ClaimsView(JsonView, frozen=True):
    items: list[ClaimView]


class FireView(JsonView, frozen=True, kw_only=True):
    intent_id: str
    status: FireStatus | Literal["cooldown_active"]
    cooldown_active: bool
    cooldown_remaining_hours: float | None
    last_condition_fire: datetime | None
    execution_id: str | None
    next_check: datetime | None
    execution_count: int
    enabled: bool
    was_disabled_reason: DisabledReason | None
    explanation: str
    segment_id: str


class ExecutionView(JsonView, frozen=True, kw_only=True):
    execution_id: str
    executed_at: datetime
    worker: str | None
    next_check: datetime | None
    segment_id: str
    status: FireStatus
    claim_token: int | None
    trigger_data: dict[str, Any] | None
    gate_result: dict[str, Any] | None
    message_id: str | None
    message_preview: str | None
    evaluation_ms: int | None
    generation_ms: int | None
    delivery_ms: int | None
    error_message: str | None


class CheckView(JsonView, frozen=True):
    valid: bool
    errors: list[Remark]
    warnings: list[Remark]
    next_checks: list[datetime]


# -- made from what is recorded


def intent_fields(intent_id: str, state: IntentState, now: Instant) -> dict[str, Any]:
    definition, claim = state.definition, state.live_claim(now)
    gate, schedule, waits = definition.gate, definition.schedule, state.waiting_for_source
    channels = definition.action_channels
    cooling = state.is_cooling(now)
    return {
        "intent_id": intent_id,
        "user_id": definition.user_id,
        "trigger_type": definition.trigger_type,
        "enabled": state.enabled,
        "expires_at": moment(definition.expires_at),
        "max_executions": definition.max_executions,
        "metadata": definition.metadata,
        "schedule": IntentScheduleView(
            schedule.cron,
            schedule.interval_minutes,
            moment(schedule.trigger_at),
            check_minutes(definition),
            schedule.timezone,
        ),
        "condition": None if definition.condition is None else _condition(definition.condition),
        "action_type": definition.action_type,
        "action_context": definition.action_context,
        "action_priority": definition.action_priority,
        "action_channels": None if channels is None else list(channels),
        "worker": definition.worker,
        "gate": None if gate is None else GateView(gate.trigger_type, gate.account_id or definition.user_id),
        "next_check": moment(state.next_check_at),
        "last_checked": moment(state.last_checked_at),
        "last_executed": moment(state.last_executed_at),
        "execution_count": state.execution_count,
        "last_status": state.last_status,
        "last_error": state.last_error,
        "last_condition_fire": moment(state.last_condition_fire_at),
        "in_cooldown": cooling,
        "cooldown_remaining_hours": hours_until(state.cooldown_ends_at if cooling else None, now),
        "claimed_at": moment(claim.claimed_at) if claim else None,
        "claim": ClaimHolder(claim.worker, moment(claim.expires_at)) if claim else None,
        "was_disabled_reason": state.was_disabled_reason,
        "waiting_for_source": SourceWaitView(waits.source, waits.error, moment(waits.since_at)) if waits else None,
        "version": state.version,
        "created_at": moment(state.created_at),
        "updated_at": moment(state.updated_at),
    }


def intent_view(intent_id: str, state: IntentState, now: Instant) -> IntentView:
    return IntentView(**intent_fields(intent_id, state, now))


def _condition(condition: Condition) -> ConditionView:
    return ConditionView(**{name: getattr(condition, name) for name in ConditionView.__struct_fields__})


def hours_until(at: Instant | None, now: Instant) -> float | None:
    return None if at is None else round((at - now) / HOUR, 6)


def claim_view(intent_id: str, state: IntentState, granted: Claimed) -> ClaimView:
    intent = intent_view(intent_id, state, granted.claimed_at)
    return ClaimView(granted.claim_token, moment(granted.claimed_at), moment(granted.expires_at), intent)


def execution_id(intent_id: str, version: int) -> str:
    return f"{intent_id}:{version}"


def fire_view(recorded: Recorded) -> FireView:
    reply: Fired = recorded.reply
    intent_id, cooled = recorded.stream.id, reply.cooldown_ends_at is not None
    return FireView(
        intent_id=intent_id,
        status=reply.status,
        cooldown_active=cooled,
        cooldown_remaining_hours=hours_until(reply.cooldown_ends_at, reply.at),
        last_condition_fire=moment(reply.last_condition_fire_at),
        execution_id=None if cooled else execution_id(intent_id, recorded.version),
        next_check=moment(reply.next_check_at),
        execution_count=reply.execution_count,
        enabled=reply.enabled,
        was_disabled_reason=reply.was_disabled_reason,
        explanation=_explanation(reply),
        segment_id=recorded.segment_id,
    )


def _explanation(reply: Fired) -> str:
    if reply.cooldown_ends_at is not None and reply.last_condition_fire_at is not None:
        since = round((reply.at - reply.last_condition_fire_at) / HOUR, 2)
        ends = f"the cooldown of {reply.cooldown_hours} h ends at {render(reply.cooldown_ends_at)}."
        return f"Fired {since:g} h ago; {ends}"
    if reply.was_disabled_reason:
        return f"Recorded as {reply.status}; the intent is disabled ({reply.was_disabled_reason})."
    if reply.next_check_at is None:
        return f"Recorded as {reply.status}; the intent is disabled and nothing was planned."
    return f"Recorded as {reply.status}; the next check is at {render(reply.next_check_at)}."


def execution_view(
    segment: Segment, events: Iterable[IntentEvents], command: FireIntent | None
) -> ExecutionView | None:
    """The execution a segment recorded, if it did; what a worker reported is in its command."""
    fired = next((event for event in events if isinstance(event, IntentFired)), None)
    if fired is None:
        return None
    told = command or FireIntent(status=fired.status)
    return ExecutionView(
        execution_id=execution_id(segment.stream.id, segment.version),
        executed_at=moment(fired.at),
        worker=fired.worker,
        next_check=moment(fired.next_check_at),
        segment_id=segment.handle,
        status=fired.status,
        claim_token=told.claim_token,
        trigger_data=told.trigger_data,
        gate_result=told.gate_result,
        message_id=told.message_id,
        message_preview=told.message_preview,
        evaluation_ms=told.evaluation_ms,
        generation_ms=told.generation_ms,
        delivery_ms=told.delivery_ms,
        error_message=fired.error,
    )
