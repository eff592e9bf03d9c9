"""The declaration of intents."""

from __future__ import annotations

from typing import get_args

from msgspec.structs import replace

from betimes.core.deciders import Command, Event
from betimes.core.instants import HOUR
from betimes.core.outcomes import EventOutcome
from betimes.core.outlooks import SubjectStreams
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.declaration import Domain
from betimes.intents.decide import DECIDERS
from betimes.intents.fire_sentences import describe_fire
from betimes.intents.fold import COOLING, TYPES
from betimes.intents.model import CLAIM_EXPIRED, FireCooled, FireIntent, FireStatus, IntentFired, IntentState
from betimes.intents.outlook import intent_outlook, waiting_checks
from betimes.intents.policy import IntentsPolicy
from betimes.intents.reasons import REASONS
from betimes.intents.tables import TABLES
from betimes.intents.variations import VARIATIONS

COOLED = "cooldown_active"
COOLDOWN_RULES = ("cooldown", 0)
"""The rule about fires that has seen the cooldown; in traces that were recorded before names were, its place."""
WORDS = {
    "gate_blocked": "blocked by the gate",
    "condition_not_met": "condition not met",
    COOLED: "still in its cooldown",
}


def outcome_of(event: Event) -> EventOutcome | None:
    """Return what a report of a check came to."""
    match event:
        case IntentFired(status=status, next_check_at=next_check_at):
            return EventOutcome(status, (CLAIM_EXPIRED,) if is_lost_claim(event) else (), next_check_at)
        case FireCooled(next_check_at=next_check_at):
            return EventOutcome(COOLED, ("COOLDOWN_ACTIVE",), next_check_at)
        case _:
            return None


def describe_verdict(segment: Segment, verdict: Verdict) -> str:
    """Return why an intent could be claimed, or not, in a sentence."""
    return f"{REASONS[verdict.reasons[-1]].capitalize()}."


def describe_event(event: Event, command: Command | None) -> str:
    """Return what a report of a check came to, in a sentence."""
    if not isinstance(event, IntentFired):
        return "It fired too recently; its cooldown is not over."
    return describe_fire(event, command if isinstance(command, FireIntent) else None)


def complete_event(event: Event, verdict: Verdict) -> Event:
    """Return a fire with the end of the cooldown as its next check, if that is later: it is not claimed before."""
    if not isinstance(event, IntentFired) or event.status != "success" or event.next_check_at is None:
        return event
    hours = next((step.values[1] for step in verdict.trace if step.rule in COOLDOWN_RULES and step.values), 0)
    return replace(event, next_check_at=max(event.next_check_at, event.at + hours * HOUR))


def is_lost_claim(event: Event) -> bool:
    """Return whether the claim on the intent expired."""
    return isinstance(event, IntentFired) and event.error == CLAIM_EXPIRED


def timezone_of(intent: IntentState) -> str:
    """Return the zone its checks are in."""
    return intent.definition.schedule.timezone


DOMAIN = Domain(
    package="betimes.intents",
    area="intents",
    deciders=DECIDERS,
    policy=IntentsPolicy,
    outcome_of=outcome_of,
    outcomes=(*get_args(FireStatus), COOLED),
    describe_verdict=describe_verdict,
    phrases={
        "NOW": "a worker took the intent {who}",
        "success": "the intent {who} fired",
        "failed": "the intent {who} failed",
        "gate_blocked": "the intent {who} did not fire",
        "condition_not_met": "the intent {who} did not fire",
        COOLED: "the intent {who} did not fire: it fired too recently",
    },
    words=WORDS,
    statuses={"intent": tuple(f"{status}.{name}" for status in ("enabled", "disabled", COOLING) for name in TYPES)},
    describe_event=describe_event,
    complete_event=complete_event,
    lost_claims={"intent": is_lost_claim},
    tables=TABLES,
    waiting_items={"intent": waiting_checks},
    due_kinds=("intent",),
    outlook={"intent": intent_outlook},
    timezones={"intent": timezone_of},
    subjects=(SubjectStreams("user_id", "intent", by_owner=True),),
    variations={"intent": VARIATIONS},
    commands={"intent": "Intents."},
)
