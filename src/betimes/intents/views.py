"""Requests and answers about intents, with the fields of the HTTP contract in its order; the intent itself is in
`intents.intent_view`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import obey
from betimes.core.instants import HOUR, render
from betimes.core.names import Id
from betimes.core.segments import Recorded, Segment
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import shown
from betimes.domain.warnings import Remark
from betimes.intents.definitions import TriggerType
from betimes.intents.fire_sentences import FIRE_PHRASES, FIRED
from betimes.intents.intent_view import IntentView as IntentView
from betimes.intents.intent_view import IntentWritten as IntentWritten
from betimes.intents.intent_view import hours_until
from betimes.intents.intent_view import intent_view as intent_view
from betimes.intents.intent_view import written_view as written_view
from betimes.intents.model import (
    Claimed,
    DisabledReason,
    Fired,
    FireIntent,
    FireReport,
    FireStatus,
    IntentEvents,
    IntentFired,
    IntentState,
    Token,
)

OBJECT_BYTES_MAX = 16 * 1024
Lease = Annotated[int, msgspec.Meta(ge=10, le=3_600)]
Worker = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


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


class FireRequest(FireReport, frozen=True, forbid_unknown_fields=True):
    __doc__ = None

    def __post_init__(self) -> None:
        obey(lambda: self._check_bytes("trigger_data"), lambda: self._check_bytes("gate_result"))

    def _check_bytes(self, name: str) -> None:
        if len(encode(getattr(self, name)).encode()) > OBJECT_BYTES_MAX:
            raise ValueError(f"{name}: at most {OBJECT_BYTES_MAX:,} bytes")


# -- answers


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


@shown()
class ExecutionView(FireReport, JsonView, frozen=True):
    __doc__ = None

    # fields that may be given by position stand before those of the report, which may not
    execution_id: str
    executed_at: datetime
    worker: str | None
    next_check: datetime | None
    segment_id: str


class CheckView(JsonView, frozen=True):
    valid: bool
    errors: list[Remark]
    warnings: list[Remark]
    next_checks: list[datetime]


# -- made from what is recorded


def claim_view(intent_id: str, state: IntentState, granted: Claimed) -> ClaimView:
    return derive(ClaimView, granted, intent=intent_view(intent_id, state, granted.claimed_at))


def execution_id(intent_id: str, version: int) -> str:
    return f"{intent_id}:{version}"


def fire_view(recorded: Recorded) -> FireView:
    reply: Fired = recorded.reply
    intent_id, cooled = recorded.stream.id, reply.cooldown_ends_at is not None
    return derive(
        FireView,
        reply,
        intent_id=intent_id,
        cooldown_active=cooled,
        cooldown_remaining_hours=hours_until(reply.cooldown_ends_at, reply.at),
        execution_id=None if cooled else execution_id(intent_id, recorded.version),
        explanation=_explanation(reply),
        segment_id=recorded.segment_id,
    )


def _explanation(reply: Fired) -> str:
    if reply.cooldown_ends_at is not None and reply.last_condition_fire_at is not None:
        since = round((reply.at - reply.last_condition_fire_at) / HOUR, 2)
        ends = f"the cooldown of {reply.cooldown_hours} h ends at {render(reply.cooldown_ends_at)}."
        return f"Fired {since:g} h ago; {ends}"
    told = FIRE_PHRASES.get(reply.status, FIRED)
    if reply.was_disabled_reason:
        return f"{told}; the intent is disabled ({reply.was_disabled_reason})."
    if reply.next_check_at is None:
        return f"{told}; the intent is disabled and nothing was planned."
    return f"{told}; the next check is at {render(reply.next_check_at)}."


def execution_view(
    segment: Segment, events: Iterable[IntentEvents], command: FireIntent | None
) -> ExecutionView | None:
    """Return the execution that a segment recorded, if it did; the report of the worker is in its command."""
    fired = next((event for event in events if isinstance(event, IntentFired)), None)
    if fired is None:
        return None
    return derive(
        ExecutionView,
        fired,
        command or FireIntent(status=fired.status),
        execution_id=execution_id(segment.stream.id, segment.version),
        executed_at=fired.at,
        segment_id=segment.handle,
        error_message=fired.error,
    )
