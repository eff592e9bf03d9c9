"""The stream `operation`: one per collection that operators act on, a segment for each thing they did.

What they did to a single stream is a segment of that stream. This one holds what has no stream of its own (effects are
rows, not streams), and many changes made at once; those carry the same note and the same correlation id.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import NOTE_CHARS_MAX
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId

KIND = "operation"
SUBJECTS_MAX = 500
"""Of one operation."""
Note: TypeAlias = Annotated[str, msgspec.Meta(max_length=NOTE_CHARS_MAX)]


class RecordOperation(StoredMessage):
    action: str
    subjects: tuple[str, ...]
    """The ids that were acted on."""
    note: str
    filter: dict[str, Any]
    """How they were chosen; empty if they were named."""
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    """The result, if it is known when the operation is recorded."""


class OperationRecorded(StoredMessage):
    action: str
    subject_count: int
    at: Instant


class OperationState(msgspec.Struct, frozen=True, gc=False):
    operation_count: int
    last_action: str
    last_at: Instant


Commands: TypeAlias = RecordOperation
Events: TypeAlias = OperationRecorded


def operation_stream(tenant: str, collection: str) -> StreamId:
    return StreamId(tenant, KIND, collection)


# -- the decider


def decide(
    view: View[OperationState], command: RecordOperation | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case RecordOperation(action, subjects):
            return Decision((OperationRecorded(action, len(subjects), now),))
        case Wake():
            return Decision()
        case Settled():
            return Refusal("NOT_A_COMMAND", "an operation has no effects that could end")


def fold(state: OperationState | None, event: Events) -> OperationState:
    return OperationState((state.operation_count if state else 0) + 1, event.action, event.at)


OPERATION = Decider(kind=KIND, decide=decide, fold=fold)
