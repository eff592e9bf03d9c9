"""The outlook of a score: its grace and pauses, and when it falls to each threshold if nothing happens."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.instants import LAST, Instant
from betimes.core.outlooks import Band, Outlook, Prospect, WaitingItem
from betimes.core.policies import Policy
from betimes.scores.amounts import points
from betimes.scores.decay import falls_to_at
from betimes.scores.model import ScoreState
from betimes.scores.policy import ScoresPolicy


def waiting_score(score: ScoreState) -> Iterator[WaitingItem]:
    """Yield the end of a pause."""
    if score.paused_until_at is not None:
        yield WaitingItem(at=score.paused_until_at, what="pause ends")


def score_outlook(score: ScoreState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant) -> Outlook:
    """Return its grace or pause, and the thresholds ahead."""
    rules = policy[ScoresPolicy]
    terms = rules.terms.get(score.chapter)
    if terms is None:
        return Outlook()
    grace_ends_at = score.base_at + terms.grace_us
    bands = [Band(name="grace", since_at=score.base_at, until_at=grace_ends_at)]
    if score.paused_until_at is not None:
        bands = [Band(name="paused", since_at=score.base_at, until_at=score.paused_until_at)]
    ahead = [(level, name) for level, name in (*rules.levels, (0, "zero")) if level < score.score]
    prospects = []
    for level, name in ahead if score.due_at is not None else ():
        at = falls_to_at(terms, score.base_at, score.applied_at, score.score, level, now)
        if at is not None and at <= LAST:
            prospects.append(Prospect(name=name, at=at, value=str(points(level))))
    shown = [band for band in bands if band.since_at < until_at and (band.until_at or until_at) > since_at]
    return Outlook(bands=tuple(shown), prospects=tuple(prospects))
