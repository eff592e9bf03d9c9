"""How the state of an intent follows from what happened, when it wants to be woken, and by what it is found.

`due_at`, which claims scan, is the latest of the next check, the end of the cooldown and the end of the claim, so that
intents nobody may take never stand at the head of the queue.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant, earliest
from betimes.domains.intents.model import (
    Claim,
    ClaimReleased,
    ClaimRenewed,
    FireCooled,
    IntentClaimed,
    IntentDefined,
    IntentDeleted,
    IntentDisabled,
    IntentEnabled,
    IntentEvents,
    IntentFired,
    IntentState,
    RetryMoved,
)

COOLING = "cooling"
TYPES = ("cron", "interval", "once", "price", "silence", "portfolio")


def fold(state: IntentState | None, event: IntentEvents) -> IntentState | None:
    if isinstance(event, IntentDefined):
        return _defined(state, event)
    assert state is not None, f"{event} happened to an intent that is not there"
    match event:
        case IntentEnabled(version, at, next_check_at):
            return replace(
                state, version=version, updated_at=at, enabled=True, next_check_at=next_check_at,
                occasion_at=next_check_at, failure_count=0, was_disabled_reason=None,
            )  # fmt: skip
        case IntentDisabled(version, at, reason):
            return replace(
                state, version=version, updated_at=at, enabled=False, next_check_at=None, occasion_at=None,
                was_disabled_reason=reason,
            )  # fmt: skip
        case IntentClaimed(token, worker, at, expires_at):
            return replace(state, claim=Claim(token, worker, at, expires_at))
        case ClaimRenewed(expires_at):
            assert state.claim is not None
            return replace(state, claim=replace(state.claim, expires_at=expires_at))
        case ClaimReleased():
            return replace(state, claim=None)
        case IntentFired():
            return _fired(state, event)
        case FireCooled(at, next_check_at):
            return replace(
                state, claim=None, last_checked_at=at, next_check_at=next_check_at, occasion_at=next_check_at
            )
        case RetryMoved(next_check_at):
            return replace(state, next_check_at=next_check_at)
        case IntentDeleted():
            return None


def _defined(state: IntentState | None, event: IntentDefined) -> IntentState:
    if state is None:
        return IntentState(
            event.definition, event.version, event.at, event.at, event.enabled, event.next_check_at, event.next_check_at
        )
    moved = event.next_check_at != state.next_check_at
    return replace(
        state,
        definition=event.definition,
        version=event.version,
        updated_at=event.at,
        enabled=event.enabled,
        next_check_at=event.next_check_at,
        occasion_at=event.next_check_at if moved else state.occasion_at,
        failure_count=0 if event.restarted else state.failure_count,
        was_disabled_reason=None if event.enabled else state.was_disabled_reason,
    )


def _fired(state: IntentState, event: IntentFired) -> IntentState:
    succeeded, failed = event.status == "success", event.status == "failed"
    fires_condition = succeeded and state.definition.is_condition_based
    return replace(
        state,
        claim=None,
        next_check_at=event.next_check_at,
        occasion_at=state.occasion_at if failed and event.next_check_at is not None else event.next_check_at,
        failure_count=state.failure_count + 1 if failed else 0,
        execution_count=state.execution_count + succeeded,
        last_checked_at=event.at,
        last_executed_at=event.at if succeeded else state.last_executed_at,
        last_status=event.status,
        last_error=event.error,
        last_condition_fire_at=event.at if fires_condition else state.last_condition_fire_at,
    )


def alarm(state: IntentState) -> Instant | None:
    """The end of the claim, or of the intent."""
    return earliest(
        state.claim.expires_at if state.claim else None, state.definition.expires_at if state.enabled else None
    )


def index(state: IntentState) -> Index:
    return Index(status=status_of(state), owner=state.definition.user_id, due_at=due_at(state))


def due_at(state: IntentState) -> Instant | None:
    if not state.enabled or state.next_check_at is None:
        return None
    claimed_until = state.claim.expires_at if state.claim else 0
    return max(state.next_check_at, state.cooldown_ends_at or 0, claimed_until)


def status_of(state: IntentState) -> str:
    """`enabled`, `disabled` or `cooling` (enabled, with a cooldown that ends after the next check), and the type."""
    kind = state.definition.trigger_type
    if not state.enabled:
        return f"disabled.{kind}"
    ends_at = state.cooldown_ends_at
    waits = ends_at is not None and state.next_check_at is not None and ends_at > state.next_check_at
    return f"{COOLING}.{kind}" if waits else f"enabled.{kind}"
