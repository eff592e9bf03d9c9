"""The rules of decay: does this score fade now? And the settlement that every command begins with.

Before anything happens to a score, its debt up to that moment is taken, on the terms it was owed under; so no outcome
depends on when the score was last swept.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.core.instants import Instant, render
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.scores.amounts import Micro
from betimes.scores.decay import Debt, Terms, debt_until, next_loss_at
from betimes.scores.fold import fold_score
from betimes.scores.model import Chapter, Decayed, GameOver, ScoreState, ThresholdCrossed
from betimes.scores.policy import ScoresPolicy


class UnknownStage(ValueError):
    """The policy in force does not know the score's stage any more."""

    def __init__(self, chapter: Chapter) -> None:
        super().__init__(f"the policy has no stage {chapter!r}; put it back, or move the score to another")


def terms_of(state: ScoreState, policy: ScoresPolicy) -> Terms:
    """Return the terms of the score's stage; raise `UnknownStage` if the policy has dropped it."""
    terms = policy.terms.get(state.chapter)
    if terms is None:
        raise UnknownStage(state.chapter)
    return terms


class ScoreCase(msgspec.Struct, frozen=True, gc=False):
    """Everything a rule may look at."""

    state: ScoreState
    policy: ScoresPolicy
    debt: Debt
    until_at: Instant


def _pause(case: ScoreCase) -> Finding:
    status = case.state.status
    return Finding((status,), Hit("NEVER", "PAUSED") if status in case.policy.pauses else None)


def _grace(case: ScoreCase) -> Finding:
    ends_at, until_at = case.debt.grace_ends_at, case.until_at
    return Finding((render(ends_at), render(until_at)), Hit("LATER", "GRACE", ends_at) if until_at <= ends_at else None)


def _nothing_owed(case: ScoreCase) -> Finding:
    amount, from_at = case.debt.amount, case.debt.from_at
    return Finding((amount, render(from_at)), None if amount else Hit("LATER", "NOTHING_OWED"))


RULES: RuleTable[ScoreCase] = RuleTable(
    "scores",
    (
        Rule(
            "paused",
            _pause,
            ("status",),
            "its status is {status}, in which a score does not fade",
            "its status is {status}, in which a score fades",
            reads=("scores.paused_statuses",),
        ),
        Rule(
            "grace",
            _grace,
            ("grace_ends_at", "until_at"),
            "it does not fade before {grace_ends_at} (checked up to {until_at})",
            "it has been fading since {grace_ends_at} (checked up to {until_at})",
            reads=("scores.stages.{chapter}.grace_hours",),
        ),
        Rule(
            "nothing_owed",
            _nothing_owed,
            ("amount", "from_at"),
            "the next loss after {from_at} is not due yet",
            "it owes {amount:millionth|millionths} of a point for the time since {from_at}",
            reads=(
                *(f"scores.stages.{{chapter}}.{name}" for name in ("grace_hours", "rate", "daily_cap")),
                "scores.max_decay_per_cycle",
            ),
        ),
    ),
    otherwise=Hit("NOW", "OVERDUE"),
    places=("paused", "grace", "nothing_owed"),
)


def score_case(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> ScoreCase:
    """Return everything the rules look at."""
    terms = terms_of(state, policy)
    return ScoreCase(state, policy, debt_until(terms, state.base_at, state.applied_at, until_at, state.score), until_at)


def due_of(state: ScoreState, policy: ScoresPolicy) -> Instant | None:
    """Return when a score next wants a sweep: when there is something to take, and not too soon after the last."""
    # At 0 there is nothing to lose, so it sleeps until somebody adjusts it.
    if state.status in policy.pauses or state.score == 0:
        return None
    return _due_after(terms_of(state, policy), state.base_at, state.applied_at, policy)


def _due_after(terms: Terms, base_at: Instant, applied_at: Instant | None, policy: ScoresPolicy) -> Instant | None:
    loss_at = next_loss_at(terms, base_at, applied_at)
    if loss_at is None or applied_at is None:
        return loss_at
    # Losses may follow each other closely; the interval bounds how often one is written.
    rested_at = applied_at + policy.sweep_interval_us
    return loss_at if loss_at > rested_at else rested_at


def reschedule(state: ScoreState, policy: ScoresPolicy) -> ScoreState:
    """Return the score with its next sweep as the policy has it."""
    return replace(state, due_at=due_of(state, policy))


class SettledScore(msgspec.Struct, frozen=True, gc=False):
    """A score whose debt was taken, and the events that took it."""

    before: ScoreState
    events: tuple[ThresholdCrossed | Decayed | GameOver, ...] = ()
    decay: Decayed | None = None

    @property
    def state(self) -> ScoreState:
        """The score after it; computed on demand, because a sweep never asks."""
        state = self.before
        for event in self.events:
            state = fold_score(state, event)
        return state


def settle_score(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> SettledScore:
    """Take the debt up to an instant. Something is taken exactly when the rules say NOW."""
    if state.status in policy.pauses:
        return SettledScore(state)
    terms = terms_of(state, policy)
    debt = debt_until(terms, state.base_at, state.applied_at, until_at, state.score)
    if not debt.amount:
        return SettledScore(state)
    left = state.score - debt.amount
    decay = Decayed(
        debt.amount,
        left,
        debt.from_at,
        debt.to_at,
        debt.grace_ends_at,
        state.chapter,
        terms.rate,
        _due_after(terms, state.base_at, debt.to_at, policy) if left else None,
        debt.forgiven,
    )
    crossed = crossings(state.score, left, policy)
    over = () if left else (GameOver("decay", policy.game_over_status),)
    return SettledScore(state, (decay, *crossed, *over), decay)


def crossings(before: Micro, after: Micro, policy: ScoresPolicy) -> tuple[ThresholdCrossed, ...]:
    """Return the thresholds a fall passes, highest first."""
    # Most falls in a sweep lie between two thresholds; these bounds spare them the loop.
    if after > policy.level_max or before <= policy.level_min:
        return ()
    return tuple(ThresholdCrossed(name, level) for level, name in policy.levels if after <= level < before)
