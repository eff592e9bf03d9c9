"""The declaration of notifications."""

from __future__ import annotations

from decimal import Decimal

from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.declaration import BacktestCounts, Domain
from betimes.notifications.composite_score import unscaled
from betimes.notifications.decide import DECIDERS
from betimes.notifications.model import DigestReleased, InboxState, Released
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.sentences import sentence
from betimes.notifications.tables import TABLES


def describe_verdict(segment: Segment, verdict: Verdict) -> str:
    """Return why a notification was answered so, in a sentence."""
    return sentence(verdict)


def score_as_decimal(scaled: int) -> Decimal:
    """Return a score as people read it."""
    return Decimal(unscaled(scaled))


def timezone_of(inbox: InboxState) -> str:
    """Return the zone of the person whose inbox it is."""
    return inbox.preferences.timezone


DOMAIN = Domain(
    package="betimes.notifications",
    area="notifications",
    deciders=DECIDERS,
    policy=NotificationsPolicy,
    describe_verdict=describe_verdict,
    render_amounts={"inbox": {"ai": score_as_decimal, "ai_score": score_as_decimal}},
    tables=TABLES,
    backtest=BacktestCounts(contacts=(Released, DigestReleased), timezone=timezone_of),
    commands={"notification": "Notifications: what became of one; cancel or release one that waits."},
)
