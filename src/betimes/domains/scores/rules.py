"""Does this score fade now? The rules, in order, and the settling that every command begins with.

Whatever happens to a score, what it owes up to that moment is taken first, at the terms it was owed under; so no
outcome depends on when somebody last swept.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Event
from betimes.core.instants import Instant
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.domains.scores.amounts import Micro
from betimes.domains.scores.decay import Owed, Terms, next_loss_at, owed
from betimes.domains.scores.model import Decayed, GameOver, ScoreState, ThresholdCrossed
from betimes.domains.scores.policy import ScoresPolicy


class UnknownStage(ValueError):
    """The policy in force does not know the score's stage any more."""


def terms_of(state: ScoreState, policy: ScoresPolicy) -> Terms:
    terms = policy.terms.get(state.chapter)
    if terms is None:
        raise UnknownStage(f"the policy has no stage {state.chapter!r}; put it back, or move the score to another")
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
    return Finding((ends_at, until_at), Hit("LATER", "GRACE", ends_at) if until_at <= ends_at else None)


def _nothing_owed(case: Case) -> Finding:
    amount, from_at = case.owed.amount, case.owed.from_at
    return Finding((amount, from_at), None if amount else Hit("LATER", "NOTHING_OWED"))


RULES: RuleTable[Case] = RuleTable(
    "scores",
    (
        Rule("paused", _paused, ("status",), "the score is {status}"),
        Rule("grace", _grace, ("grace_ends_at", "until_at"), "grace lasts until {grace_ends_at}, looked at {until_at}"),
        Rule("nothing_owed", _nothing_owed, ("amount", "from_at"), "{amount} micro-points are owed since {from_at}"),
    ),
    otherwise=Hit("NOW", "OVERDUE"),
)


def case_of(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> Case:
    terms = terms_of(state, policy)
    return Case(state, policy, owed(terms, state.base_at, state.applied_at, until_at, state.score), until_at)


def due_of(state: ScoreState, policy: ScoresPolicy) -> Instant | None:
    """When a score next wants a sweep: when there is something to take, and not too soon after the last."""
    if state.status in policy.paused:
        return None
    loss_at = next_loss_at(terms_of(state, policy), state.base_at, state.applied_at)
    if loss_at is None or state.applied_at is None:
        return loss_at
    return max(loss_at, state.applied_at + policy.sweep_interval_us)


def rescheduled(state: ScoreState, policy: ScoresPolicy) -> ScoreState:
    return replace(state, due_at=due_of(state, policy))


class Paid(msgspec.Struct, frozen=True, gc=False):
    """A score after it has paid what it owed."""

    state: ScoreState
    events: tuple[Event, ...] = ()
    decay: Decayed | None = None


def settled(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> Paid:
    """Take what is owed up to an instant, if the rules say so."""
    if state.status in policy.paused:
        return Paid(state)
    return taken(state, policy, case_of(state, policy, until_at).owed)


def taken(state: ScoreState, policy: ScoresPolicy, debt: Owed) -> Paid:
    """Take what is owed by a score that is not paused."""
    if not debt.amount:
        return Paid(state)
    after = replace(state, score=state.score - debt.amount, applied_at=debt.to_at)
    after = replace(after, due_at=due_of(after, policy) if after.score else None)
    decay = Decayed(
        debt.amount, after.score, debt.from_at, debt.to_at, debt.grace_ends_at, state.chapter,
        policy.terms[state.chapter].rate, after.due_at, debt.forgiven,
    )  # fmt: skip
    crossed = crossings(state.score, after.score, policy)
    if after.score:
        return Paid(after, (decay, *crossed), decay)
    over = GameOver("decay", policy.game_over_status)
    return Paid(replace(after, status=over.status), (decay, *crossed, over), decay)


def crossings(before: Micro, after: Micro, policy: ScoresPolicy) -> tuple[ThresholdCrossed, ...]:
    """The thresholds a fall passes, highest first."""
    return tuple(ThresholdCrossed(name, level) for level, name in policy.levels if after <= level < before)
