"""The decider of `operation`: put on record what was done."""

from __future__ import annotations

from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.domain.operations.model import KIND, Events, OperationRecorded, OperationState, RecordOperation


def decide(
    view: View[OperationState], command: RecordOperation | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case RecordOperation(action, subjects):
            return Decision((OperationRecorded(action, len(subjects), now),))
        case Wake():
            return Decision()
        case Settled():
            return Refusal("NOT_A_COMMAND", "an operation calls nobody")


def fold(state: OperationState | None, event: Events) -> OperationState:
    return OperationState((state.operation_count if state else 0) + 1, event.action, event.at)


OPERATION: Decider[OperationState] = Decider(
    kind=KIND, state=OperationState, commands=RecordOperation, events=Events, decide=decide, fold=fold
)
