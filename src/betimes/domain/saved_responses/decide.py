"""The decider of `answer`: keep what was answered, and forget it when nobody can ask for it any more."""

from __future__ import annotations

from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.domain.saved_responses.model import (
    KEPT,
    KIND,
    AnswerForgotten,
    AnswerKept,
    AnswerState,
    Events,
    KeepAnswer,
)


def decide(
    view: View[AnswerState], command: KeepAnswer | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case KeepAnswer(body):
            return Decision((AnswerKept(now + KEPT),), reply=body)
        case Wake():
            return Decision((AnswerForgotten(),)) if view.state else Decision()
        case Settled():
            return Refusal("NOT_A_COMMAND", "an answer calls nobody")


def fold(state: AnswerState | None, event: Events) -> AnswerState | None:
    return AnswerState(event.forget_at) if isinstance(event, AnswerKept) else None


ANSWER: Decider[AnswerState] = Decider(
    kind=KIND,
    state=AnswerState,
    commands=KeepAnswer,
    events=Events,
    replies=str,
    decide=decide,
    fold=fold,
    alarm=lambda state: state.forget_at,
)
