"""The answer about an intent: the fields its author decides, and its read-only state.

The author's fields come from `IntentFields`. A field of the state is shown by naming it here: its value is taken from
`IntentState` by that name, an instant also by that name with `_at`. What is computed is in `_computed_fields`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from betimes.core.instants import HOUR, Instant
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import From, read_only_fields, shown
from betimes.domain.warnings import Remark
from betimes.intents.check_times import check_minutes
from betimes.intents.definitions import Condition, Draft, Gate, IntentFields, IntentScheduleFields
from betimes.intents.fold import index
from betimes.intents.model import Definition, DisabledReason, FireStatus, IntentState


@shown()
class IntentScheduleView(IntentScheduleFields[datetime], JsonView, frozen=True, kw_only=True):
    __doc__ = None

    check_interval_minutes: int


@shown()
class ConditionView(Condition, JsonView, frozen=True):
    __doc__ = None


@shown()
class GateView(Gate, JsonView, frozen=True, kw_only=True):
    __doc__ = None

    account_id: str


class ClaimHolder(JsonView, frozen=True):
    worker: str
    expires_at: datetime


class SourceWaitView(JsonView, frozen=True):
    """The source that could not be asked last time."""

    name: Annotated[str, From("source")]
    error: str
    since: datetime


@shown(intent_id=None, enabled="trigger_type")
class IntentView(IntentFields[datetime], JsonView, frozen=True, kw_only=True):
    """A definition and its read-only state."""

    intent_id: str
    enabled: bool
    schedule: IntentScheduleView
    condition: ConditionView | None
    gate: GateView | None
    next_check: datetime | None
    due_at: datetime | None
    """When workers can take it next: at its next check, or later, when its cooldown or claim has ended."""
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


READ_ONLY = read_only_fields(IntentWritten, Draft)


def intent_view(intent_id: str, state: IntentState, now: Instant) -> IntentView:
    """Return the answer about an intent as it is now."""
    return derive(IntentView, state.definition, state, **_computed_fields(intent_id, state, now))


def written_view(
    intent_id: str, state: IntentState, now: Instant, warnings: list[Remark], segment_id: str
) -> IntentWritten:
    """Return the answer to a write that left the intent in this state."""
    computed = _computed_fields(intent_id, state, now)
    answer = {**computed, "warnings": warnings, "segment_id": segment_id}
    return derive(IntentWritten, state.definition, state, **answer)


def _computed_fields(intent_id: str, state: IntentState, now: Instant) -> dict[str, Any]:
    """Return the fields that are not simply those of the definition and the state."""
    definition, claim, is_cooling = state.definition, state.live_claim(now), state.is_cooling(now)
    return {
        "intent_id": intent_id,
        "schedule": _schedule_view(definition),
        "gate": _gate_view(definition),
        "due_at": index(state).due_at,
        "in_cooldown": is_cooling,
        "cooldown_remaining_hours": hours_until(state.cooldown_ends_at if is_cooling else None, now),
        "claimed_at": claim.claimed_at if claim else None,
        "claim": claim,
    }


def _schedule_view(definition: Definition) -> IntentScheduleView:
    return derive(IntentScheduleView, definition.schedule, check_interval_minutes=check_minutes(definition))


def _gate_view(definition: Definition) -> GateView | None:
    gate = definition.gate
    if gate is None:
        return None
    return derive(GateView, gate, account_id=gate.account_id or definition.user_id)


def hours_until(at: Instant | None, now: Instant) -> float | None:
    """Return the hours from now to an instant, to the microsecond or so."""
    return None if at is None else round((at - now) / HOUR, 6)
