"""The stream `answer`: one request over many streams, and what it was answered with.

The answer itself is the reply on record; the state only says until when the stream stands.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from betimes.core.canonical import digest
from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import DAY, Instant
from betimes.core.policies import Policy
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId

KIND = "answer"
KEPT = 8 * DAY
"""Longer than a key is kept by default."""


class KeepAnswer(StoredMessage):
    body: str
    """The answer as it was sent, in JSON."""


class AnswerKept(StoredMessage):
    forget_at: Instant


class AnswerForgotten(StoredMessage):
    """It is too old to be requested again."""


Commands: TypeAlias = KeepAnswer
Events: TypeAlias = AnswerKept | AnswerForgotten


class AnswerState(msgspec.Struct, frozen=True, gc=False):
    forget_at: Instant


def answer_stream(tenant: str, collection: str, key: str) -> StreamId:
    return StreamId(tenant, KIND, digest(collection, key)[:40])


# -- the decider


def decide(
    view: View[AnswerState], command: KeepAnswer | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case KeepAnswer(body):
            return Decision((AnswerKept(now + KEPT),), reply=body)
        case Wake():
            return Decision((AnswerForgotten(),)) if view.state else Decision()
        case Settled():
            return Refusal("NOT_A_COMMAND", "a saved response has no effects that could end")


def fold(state: AnswerState | None, event: Events) -> AnswerState | None:
    return AnswerState(event.forget_at) if isinstance(event, AnswerKept) else None


ANSWER = Decider(kind=KIND, decide=decide, replies=str, fold=fold, alarm=lambda state: state.forget_at)
