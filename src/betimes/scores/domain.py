"""The declaration of scores."""

from __future__ import annotations

from typing import get_args

from betimes.core.deciders import Command, Event
from betimes.core.outcomes import EventOutcome
from betimes.core.outlooks import SubjectStreams
from betimes.domain.declaration import BacktestRules, Domain
from betimes.scores.amounts import points
from betimes.scores.decide import DECIDERS
from betimes.scores.model import Cause, Decayed, GameOver, SweepScore
from betimes.scores.outlook import score_outlook, waiting_score
from betimes.scores.policy import ScoresPolicy
from betimes.scores.tables import TABLES
from betimes.scores.variations import VARIATIONS

AMOUNTS = ("score", "amount", "delta", "rate", "before", "forgiven", "threshold")


def outcome_of(event: Event) -> EventOutcome | None:
    """Return the decay of a score, or that it reached the floor."""
    match event:
        case Decayed(due_at=due_at):
            return EventOutcome("decay", until=due_at)
        case GameOver(reason=reason):
            return EventOutcome("game_over", (reason,))
        case _:
            return None


def describe_event(event: Event, command: Command | None) -> str:
    """Describe the decay of a score, or that it reached the floor, in a sentence."""
    match event:
        case Decayed(amount, score):
            return f"It fell by {points(amount)} to {points(score)}."
        case GameOver(status=status):
            return f"It reached the floor; the status is {status} now."
        case _:
            return ""


DOMAIN = Domain(
    package="betimes.scores",
    area="scores",
    deciders=DECIDERS,
    policy=ScoresPolicy,
    outcome_of=outcome_of,
    outcomes=("decay", "game_over"),
    phrases={"decay": "the score of {who} fell", "game_over": "the score of {who} reached the floor"},
    words={"game_over": "game over", "decay_game_over": "decayed to the floor"},
    outcome_reasons=get_args(Cause),
    describe_event=describe_event,
    render_amounts={"score": dict.fromkeys(AMOUNTS, points)},
    tables=TABLES,
    waiting_items={"score": waiting_score},
    outlook={"score": score_outlook},
    subjects=(SubjectStreams("user_id", "score"),),
    variations={"score": VARIATIONS},
    backtest=BacktestRules(sweeps={"score": SweepScore}),
    commands={"score": "Scores and their history.", "sweep": "Apply decay to every score that is due."},
)
