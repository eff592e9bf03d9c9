"""The stream `score`: one per user of a tenant. Commands, events, state.

Amounts are micro-points. Instants that depend on the policy (when grace ends, when the score next wants a sweep) are
computed when deciding and carried by the events.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.struct_forms import From
from betimes.scores.amounts import Micro

KIND = "score"
SCORES = "scores"
"""The collection in which idempotency keys of scores live."""
Chapter: TypeAlias = int | str
"""A stage's name in the policy."""
Cause: TypeAlias = Literal["decay", "adjust"]


def score_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, KIND, user_id)


# -- commands


class CreateScore(StoredMessage):
    """Begin a score; every field left out is the policy's."""

    score: Micro | None = None
    chapter: Chapter | None = None
    status: Annotated[str | None, From("game_status")] = None
    created_at: Instant | None = None
    interacted_at: Annotated[Instant | None, From("last_interaction_at")] = None
    applied_at: Annotated[Instant | None, From("last_decay_applied_at")] = None


class Interact(StoredMessage):
    """The user did something; a score is begun for one who has none."""

    interaction: str
    at: Instant | None = None
    """When; left out: now."""


class SetStatus(StoredMessage):
    """Pause, resume or change the stage."""

    status: str
    reason: str = ""
    chapter: Chapter | None = None
    timeout_s: int | None = None
    """Into a pause only: when it ends by itself."""


class AdjustScore(StoredMessage):
    """Set the score by hand: by so much, or to so much."""

    reason: str
    delta: Micro | None = None
    score: Micro | None = None


class SweepScore(StoredMessage):
    """Take the debt up to the sweep's instant (left out: now)."""

    at: Instant | None = None


# -- events


class ScoreFields(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields a score begins with, in the event and in the state; a new one is one line at the end."""

    score: Micro
    chapter: Chapter
    status: str
    created_at: Instant
    interacted_at: Instant | None = None
    applied_at: Instant | None = None
    """Up to when decay was taken."""
    due_at: Instant | None = None
    """When the score next wants a sweep; `None` while it is paused or cannot fade."""


class ScoreCreated(ScoreFields, frozen=True, tag=True): ...


class Interacted(StoredMessage):
    interaction: str
    at: Instant
    score: Micro
    counted: bool = True
    interacted_at: Instant | None = None
    due_at: Instant | None = None


class Decayed(StoredMessage, gc=False):
    """The period from `from_at` to `to_at` was applied: never again."""

    amount: Micro
    score: Micro
    """The remaining score."""
    from_at: Instant
    to_at: Instant
    grace_ends_at: Instant
    chapter: Chapter
    rate: Micro
    due_at: Instant | None = None
    forgiven: Micro = 0
    """The decay that the cap per cycle cut off."""


class ThresholdCrossed(StoredMessage):
    name: str
    threshold: Micro


class GameOver(StoredMessage):
    reason: Cause
    status: str


class StatusChanged(StoredMessage):
    status: str
    chapter: Chapter
    score: Micro
    reason: str = ""
    interacted_at: Instant | None = None
    paused_until_at: Instant | None = None
    due_at: Instant | None = None
    applied_at: Instant | None = None
    """From when a new stage's terms count, if that is not when its grace ends."""


class ScoreAdjusted(StoredMessage):
    before: Micro
    score: Micro
    reason: str
    due_at: Instant | None = None


class Rescheduled(StoredMessage):
    """The policy changed since the score's next sweep was set, which is at another instant now."""

    due_at: Instant | None = None


# -- state and reply


class ScoreState(ScoreFields, frozen=True):
    paused_until_at: Instant | None = None

    @property
    def base_at(self) -> Instant:
        """The start of grace: the last interaction, or else the creation of the score."""
        return self.created_at if self.interacted_at is None else self.interacted_at


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The score as a command left it, and the decay that was taken first."""

    state: ScoreState
    decay: Decayed | None = None
    counted: bool = False
    created: bool = False


Swept: TypeAlias = Literal["decayed", "capped", "game_over", "skipped"]
"""The result of a sweep for one score; `capped`: it decayed, and the cap per cycle cut off the rest."""

Commands: TypeAlias = CreateScore | Interact | SetStatus | AdjustScore | SweepScore
Events: TypeAlias = (
    ScoreCreated | Interacted | Decayed | ThresholdCrossed | GameOver | StatusChanged | ScoreAdjusted | Rescheduled
)
