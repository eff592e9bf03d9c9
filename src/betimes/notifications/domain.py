"""The declaration of notifications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from betimes.core.deciders import Command, Event
from betimes.core.outcomes import JudgedThing
from betimes.core.outlooks import SubjectStreams
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.declaration import BacktestRules, Domain, RecordedInput
from betimes.notifications.composite_score import decimal_text
from betimes.notifications.decide import DECIDERS
from betimes.notifications.evaluation import sentence
from betimes.notifications.model import (
    Digested,
    DigestReleased,
    InboxState,
    NotificationReply,
    Notify,
    Postponed,
    Released,
    Suppressed,
)
from betimes.notifications.outlook import incident_items, outlook, waiting_items
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.tables import TABLES
from betimes.notifications.variations import VARIATIONS


def describe_verdict(segment: Segment, verdict: Verdict) -> str:
    """Return why the verdict was given, in a sentence."""
    return sentence(verdict)


def score_as_decimal(scaled: int) -> Decimal:
    """Return a score as people read it."""
    return Decimal(decimal_text(scaled))


def shadow_rules(policy: NotificationsPolicy) -> frozenset[str]:
    """Return the rules that are judged and recorded and do not bind."""
    return policy.shadow_rules


def timezone_of(inbox: InboxState) -> str:
    """Return the zone of the person whose inbox it is."""
    return inbox.preferences.timezone


def has_ai_score(command: Notify) -> bool:
    """Return whether a provider was asked for a score, and answered."""
    return command.ai_score is not None


def was_scored(reply: object) -> bool:
    """Return whether the decision took a score into account."""
    return isinstance(reply, NotificationReply) and reply.score is not None


def judged_items(command: Command | None, events: Sequence[Event], reply: Any) -> Iterator[JudgedThing]:
    """Yield the notifications that a segment judged, by the version that brought each."""
    asked = command.event_type if isinstance(command, Notify) else ""
    for event in events:
        match event:
            case Released(item):
                yield JudgedThing(item, event.event_id, event.event_type)
            case Suppressed(item) | Digested(item):
                yield JudgedThing(item, event.event_id, asked)
            case Postponed(item):
                yield JudgedThing(item.version, item.event_id, item.event_type)
            case _:
                continue
    if isinstance(reply, NotificationReply) and reply.item:
        yield JudgedThing(reply.item, reply.event_id, asked)


DOMAIN = Domain(
    package="betimes.notifications",
    area="notifications",
    deciders=DECIDERS,
    policy=NotificationsPolicy,
    phrases={
        "NOW": "{who} was sent {what}",
        "LATER": "{who} was not sent {what} yet",
        "NEVER": "{who} was not sent {what}",
    },
    describe_verdict=describe_verdict,
    judged={"inbox": judged_items},
    shadow_rules=shadow_rules,
    render_amounts={"inbox": {"ai": score_as_decimal, "ai_score": score_as_decimal}},
    tables=TABLES,
    collections=("notifications",),
    statuses={"inbox": ("waiting", "incident"), "incident": ("open", "closed")},
    waiting_items={"inbox": waiting_items, "incident": incident_items},
    outlook={"inbox": outlook},
    timezones={"inbox": timezone_of},
    subjects=(SubjectStreams("user_id", "inbox"),),
    variations={"inbox": VARIATIONS},
    backtest=BacktestRules(
        contacts=(Released, DigestReleased),
        input=RecordedInput(
            provider="enrichment", noun="score", command=Notify, is_given=has_ai_score, is_used=was_scored
        ),
    ),
    commands={
        "notification": "Notifications: show one; cancel or release a waiting one.",
        "inbox": "A user's inbox: waiting items, deliveries, preferences.",
    },
)
