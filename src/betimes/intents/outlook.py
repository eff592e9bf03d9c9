"""The outlook of an intent: its next check, the end of its claim and of itself, and its cooldown."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.instants import Instant
from betimes.core.outlooks import Band, Outlook, WaitingItem
from betimes.core.policies import Policy
from betimes.intents.model import IntentState


def waiting_checks(intent: IntentState) -> Iterator[WaitingItem]:
    """Yield what an enabled intent waits for: its next check, after any claim and cooldown, and its end."""
    if not intent.enabled:
        return
    claim, cools_until = intent.claim, intent.cooldown_ends_at
    if intent.next_check_at is not None:
        is_cooling = cools_until is not None and cools_until > intent.next_check_at
        reasons = ("ALREADY_CLAIMED",) * bool(claim) + ("COOLDOWN_ACTIVE",) * is_cooling
        yield WaitingItem(
            at=max(intent.next_check_at, cools_until or 0, claim.expires_at if claim else 0),
            what=intent.definition.action_type,
            reasons=reasons,
            would_pass_at=cools_until if is_cooling else None,
        )
    elif claim:
        yield WaitingItem(at=claim.expires_at, what="claim ends", reasons=("ALREADY_CLAIMED",))
    if intent.definition.expires_at is not None:
        yield WaitingItem(at=intent.definition.expires_at, what="intent ends")


def intent_outlook(intent: IntentState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant) -> Outlook:
    """Return its cooldown, if it is in one between two instants."""
    fired_at, ends_at = intent.last_condition_fire_at, intent.cooldown_ends_at
    if fired_at is None or ends_at is None or fired_at >= until_at or ends_at <= since_at:
        return Outlook()
    label = intent.definition.trigger_type
    return Outlook(bands=(Band(name="cooldown", since_at=fired_at, until_at=ends_at, label=label),))
