"""The state of an intent as events change it, with its alarm and its index.

`due_at`, which claims scan, is the latest of the next check, the end of the cooldown and the end of the claim, so that
intents nobody may take never stand at the head of the queue. `listed_at`, by which what is pending is listed, leaves
the cooldown out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant, earliest
from betimes.intents.conditions import TRIGGER_SOURCES
from betimes.intents.model import (
    CLAIM_EXPIRED,
    CONDITION_BASED,
    Claim,
    ClaimExpired,
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
    SourceAwaited,
    SourceWait,
)

COOLING = "cooling"
SOURCES = tuple(sorted(TRIGGER_SOURCES.values()))
TYPES = ("cron", "interval", "once", "price", "silence", "portfolio")


def fold(state: IntentState | None, event: IntentEvents) -> IntentState | None:
    """Return the state after an event; `None` once the intent is deleted."""
    if isinstance(event, IntentDefined):
        return _define(state, event)
    assert state is not None, f"{event} happened to an intent that is not there"
    match event:
        case IntentEnabled():
            return _enable(state, event)
        case IntentDisabled():
            return _disable(state, event)
        case IntentClaimed(token, worker, at, expires_at):
            return replace(state, claim=Claim(token, worker, at, expires_at))
        case ClaimRenewed(expires_at):
            assert state.claim is not None
            return replace(state, claim=replace(state.claim, expires_at=expires_at))
        case ClaimReleased():
            return replace(state, claim=None, expiry_count=0)
        case ClaimExpired():
            return _expire_claim(state, event)
        case SourceAwaited():
            return _await_source(state, event)
        case IntentFired():
            return _fire(state, event)
        case FireCooled():
            return _cool(state, event)
        case RetryMoved(next_check_at):
            return replace(state, next_check_at=next_check_at)
        case IntentDeleted():
            return None


def _define(state: IntentState | None, event: IntentDefined) -> IntentState:
    if state is None:
        return IntentState(
            event.definition, event.version, event.at, event.at, event.enabled, event.next_check_at, event.next_check_at
        )
    # A check that is still owed keeps its occasion, from which actions have their ids.
    moved = event.next_check_at != state.next_check_at
    return replace(
        state,
        definition=event.definition,
        version=event.version,
        updated_at=event.at,
        enabled=event.enabled,
        next_check_at=event.next_check_at,
        occasion_at=event.next_check_at if moved else state.occasion_at,
        # What was counted belongs to the plan: a new one begins anew.
        failure_count=0 if event.restarted else state.failure_count,
        expiry_count=0 if event.restarted else state.expiry_count,
        waiting_for_source=None if event.restarted else state.waiting_for_source,
        was_disabled_reason=None if event.enabled else state.was_disabled_reason,
    )


def _enable(state: IntentState, event: IntentEnabled) -> IntentState:
    return replace(
        state,
        version=event.version,
        updated_at=event.at,
        enabled=True,
        next_check_at=event.next_check_at,
        occasion_at=event.next_check_at,
        failure_count=0,
        was_disabled_reason=None,
        expiry_count=0,
        waiting_for_source=None,
    )


def _disable(state: IntentState, event: IntentDisabled) -> IntentState:
    # the claim stays: its holder may still report, and what was under way is recorded
    return replace(
        state,
        version=event.version,
        updated_at=event.at,
        enabled=False,
        next_check_at=None,
        occasion_at=None,
        was_disabled_reason=event.reason,
        waiting_for_source=None,
    )


def _expire_claim(state: IntentState, event: ClaimExpired) -> IntentState:
    return replace(
        state,
        claim=None,
        next_check_at=event.next_check_at,
        expiry_count=state.expiry_count + 1,
        last_error=CLAIM_EXPIRED,
    )


def _cool(state: IntentState, event: FireCooled) -> IntentState:
    return replace(
        state,
        claim=None,
        last_checked_at=event.at,
        next_check_at=event.next_check_at,
        occasion_at=event.next_check_at,
        expiry_count=0,
        waiting_for_source=None,
    )


def _await_source(state: IntentState, event: SourceAwaited) -> IntentState:
    before = state.waiting_for_source
    since_at, count = (before.since_at, before.count) if before and before.source == event.source else (event.at, 0)
    return replace(
        state,
        claim=None,
        next_check_at=event.next_check_at,
        last_checked_at=event.at,
        expiry_count=0,
        waiting_for_source=SourceWait(event.source, event.error, since_at, count + 1),
    )


def _fire(state: IntentState, event: IntentFired) -> IntentState:
    succeeded, failed = event.status == "success", event.status == "failed"
    fires_condition = succeeded and state.definition.is_condition_based
    return replace(
        state,
        claim=None,
        next_check_at=event.next_check_at,
        # a failed check is still owed: actions take their id from it, so a retry repeats the same event
        occasion_at=state.occasion_at if failed and event.next_check_at is not None else event.next_check_at,
        failure_count=state.failure_count + 1 if failed else 0,
        execution_count=state.execution_count + succeeded,
        last_checked_at=event.at,
        last_executed_at=event.at if succeeded else state.last_executed_at,
        last_status=event.status,
        last_error=event.error,
        last_condition_fire_at=event.at if fires_condition else state.last_condition_fire_at,
        # Counts claims that ran out one after another; a report by a worker ends the row.
        expiry_count=state.expiry_count if event.error == CLAIM_EXPIRED else 0,
        waiting_for_source=None,
    )


def alarm(state: IntentState) -> Instant | None:
    """Return the end of the claim or of the intent, whichever is first."""
    return earliest(
        state.claim.expires_at if state.claim else None, state.definition.expires_at if state.enabled else None
    )


def index(state: IntentState) -> Index:
    offered_at = listed_at(state)
    # Listed from the check on, but due for workers only once it has cooled.
    due_at = None if offered_at is None else max(offered_at, state.cooldown_ends_at or 0)
    return Index(status_of(state), state.definition.user_id, due_at, offered_at)


def listed_at(state: IntentState) -> Instant | None:
    """Return when it is pending: from its next check on, and while it is claimed not before that has ended."""
    if not state.enabled or state.next_check_at is None:
        return None
    return max(state.next_check_at, state.claim.expires_at if state.claim else 0)


def sort_of(trigger_type: str, worker: str, sources: tuple[str, ...] = ()) -> str:
    """Return what a worker has to look for: the type, other sources it needs, and who works on it if not everybody."""
    needed = f"{trigger_type}~{'+'.join(sources)}" if sources else trigger_type
    return needed if worker == "any" else f"{needed}.{worker}"


def sorts_of(trigger_type: str, worker: str, sources: frozenset[str]) -> Iterator[str]:
    """Yield every sort of a type that needs no other than these sources."""
    if TRIGGER_SOURCES.get(trigger_type) in (None, *sources):
        yield sort_of(trigger_type, worker)
    if trigger_type in CONDITION_BASED:
        for count in range(1, len(sources) + 1):
            for needed in combinations(sorted(sources), count):
                yield sort_of(trigger_type, worker, needed)


def status_of(state: IntentState) -> str:
    """Return `enabled`, `disabled` or `cooling` (enabled, and its cooldown ends after the next check), and its sort."""
    kind = sort_of(state.definition.trigger_type, state.definition.worker, state.definition.sources)
    if not state.enabled:
        return f"disabled.{kind}"
    ends_at = state.cooldown_ends_at
    waits = ends_at is not None and state.next_check_at is not None and ends_at > state.next_check_at
    return f"{COOLING}.{kind}" if waits else f"enabled.{kind}"
