"""Does this score fade now? The rules, in order, and the settling that every command begins with.

Whatever happens to a score, what it owes up to that moment is taken first, at the terms it was owed under; so no
outcome depends on when somebody last swept.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Event
from betimes.core.instants import Instant, render
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.scores.amounts import Micro
from betimes.scores.decay import Owed, Terms, next_loss_at, owed
from betimes.scores.model import Chapter, Decayed, GameOver, ScoreState, ThresholdCrossed
from betimes.scores.policy import ScoresPolicy


class UnknownStage(ValueError):
    """The policy in force does not know the score's stage any more."""

    def __init__(self, chapter: Chapter) -> None:
        super().__init__(f"the policy has no stage {chapter!r}; put it back, or move the score to another")


def terms_of(state: ScoreState, policy: ScoresPolicy) -> Terms:
    terms = policy.terms.get(state.chapter)
    if terms is None:
        raise UnknownStage(state.chapter)
    return terms


class Case(msgspec.Struct, frozen=True, gc=False):
    """Everything a rule may look at."""

    state: ScoreState
    policy: ScoresPolicy
    owed: Owed
    until_at: Instant


def _paused(case: Case) -> Finding:
    status = case.state.status
    return Finding((status,), Hit("NEVER", "PAUSED") if status in case.policy.paused else None)


def _grace(case: Case) -> Finding:
    ends_at, until_at = case.owed.grace_ends_at, case.until_at
    return Finding((render(ends_at), render(until_at)), Hit("LATER", "GRACE", ends_at) if until_at <= ends_at else None)


def _nothing_owed(case: Case) -> Finding:
    amount, from_at = case.owed.amount, case.owed.from_at
    return Finding((amount, render(from_at)), None if amount else Hit("LATER", "NOTHING_OWED"))


RULES: RuleTable[Case] = RuleTable(
    "scores",
    (
        Rule("paused", _paused, ("status",), "the score is {status}", "it is {status}, which is not paused"),
        Rule(
            "grace",
            _grace,
            ("grace_ends_at", "until_at"),
            "grace lasts until {grace_ends_at}, looked at {until_at}",
            "grace ended at {grace_ends_at}, looked at {until_at}",
        ),
        Rule(
            "nothing_owed",
            _nothing_owed,
            ("amount", "from_at"),
            "{amount} micro-points are owed since {from_at}",
            "{amount} micro-points are owed since {from_at}",
        ),
    ),
    otherwise=Hit("NOW", "OVERDUE"),
    places=("paused", "grace", "nothing_owed"),
)


def case_of(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> Case:
    terms = terms_of(state, policy)
    return Case(state, policy, owed(terms, state.base_at, state.applied_at, until_at, state.score), until_at)


def due_of(state: ScoreState, policy: ScoresPolicy) -> Instant | None:
    """When a score next wants a sweep: when there is something to take, and not too soon after the last."""
    if state.status in policy.paused or state.score == 0:
        return None
    return _due_after(terms_of(state, policy), state.base_at, state.applied_at, policy)


def _due_after(terms: Terms, base_at: Instant, applied_at: Instant | None, policy: ScoresPolicy) -> Instant | None:
    loss_at = next_loss_at(terms, base_at, applied_at)
    if loss_at is None or applied_at is None:
        return loss_at
    rested_at = applied_at + policy.sweep_interval_us
    return loss_at if loss_at > rested_at else rested_at


def rescheduled(state: ScoreState, policy: ScoresPolicy) -> ScoreState:
    return replace(state, due_at=due_of(state, policy))


class Paid(msgspec.Struct, frozen=True, gc=False):
    """A score after it has paid what it owed."""

    state: ScoreState
    events: tuple[Event, ...] = ()
    decay: Decayed | None = None


def settled(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> Paid:
    """Take what is owed up to an instant. Something is taken exactly when the rules say NOW."""
    if state.status in policy.paused:
        return Paid(state)
    terms = terms_of(state, policy)
    debt = owed(terms, state.base_at, state.applied_at, until_at, state.score)
    if not debt.amount:
        return Paid(state)
    left = state.score - debt.amount
    due_at = _due_after(terms, state.base_at, debt.to_at, policy) if left else None
    decay = Decayed(
        debt.amount,
        left,
        debt.from_at,
        debt.to_at,
        debt.grace_ends_at,
        state.chapter,
        terms.rate,
        due_at,
        debt.forgiven,
    )
    after = ScoreState(
        left,
        state.chapter,
        state.status if left else policy.game_over_status,
        state.created_at,
        state.interacted_at,
        debt.to_at,
        due_at,
        state.paused_until_at if left else None,
    )
    if left > policy.level_max or state.score <= policy.level_min:
        crossed: tuple[ThresholdCrossed, ...] = ()
    else:
        crossed = crossings(state.score, left, policy)
    if left:
        return Paid(after, (decay, *crossed) if crossed else (decay,), decay)
    return Paid(after, (decay, *crossed, GameOver("decay", policy.game_over_status)), decay)


def crossings(before: Micro, after: Micro, policy: ScoresPolicy) -> tuple[ThresholdCrossed, ...]:
    """The thresholds a fall passes, highest first."""
    return tuple(ThresholdCrossed(name, level) for level, name in policy.levels if after <= level < before)
