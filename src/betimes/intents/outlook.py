"""The outlook of an intent: its next check, the end of its claim and of itself, and its cooldown."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.instants import Instant
from betimes.core.outlooks import Band, Outlook, WaitingItem
from betimes.core.policies import Policy
from betimes.intents.model import IntentState


def waiting_checks(intent: IntentState) -> Iterator[WaitingItem]:
    """Yield what an enabled intent waits for."""
    if not intent.enabled:
        return
    if intent.next_check_at is not None:
        ends_at = intent.cooldown_ends_at
        cools = ends_at is not None and ends_at > intent.next_check_at
        yield WaitingItem(
            at=intent.next_check_at,
            what="check",
            reasons=("COOLDOWN_ACTIVE",) if cools else (),
            would_pass_at=ends_at if cools else None,
        )
    if intent.claim:
        yield WaitingItem(at=intent.claim.expires_at, what="claim ends")
    if intent.definition.expires_at is not None:
        yield WaitingItem(at=intent.definition.expires_at, what="intent ends")


def intent_outlook(intent: IntentState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant) -> Outlook:
    """Return its cooldown, if it is in one between two instants."""
    fired_at, ends_at = intent.last_condition_fire_at, intent.cooldown_ends_at
    if fired_at is None or ends_at is None or fired_at >= until_at or ends_at <= since_at:
        return Outlook()
    label = intent.definition.trigger_type
    return Outlook(bands=(Band(name="cooldown", since_at=fired_at, until_at=ends_at, label=label),))
