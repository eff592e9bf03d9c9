"""The state of a score: how it follows from events, when it wants to be woken, and how it is listed."""

from __future__ import annotations

from msgspec.structs import astuple, replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant
from betimes.scores.model import (
    Decayed,
    Events,
    GameOver,
    Interacted,
    Rescheduled,
    ScoreAdjusted,
    ScoreCreated,
    ScoreState,
    StatusChanged,
    ThresholdCrossed,
)


def fold_score(state: ScoreState | None, event: Events) -> ScoreState:
    """Return the score after an event."""
    if isinstance(event, ScoreCreated):
        return ScoreState(*astuple(event))  # the fields of the event are the first of the state, in the same order
    assert state is not None, "a score begins with ScoreCreated"
    match event:
        case Decayed():
            return replace(state, score=event.score, applied_at=event.to_at, due_at=event.due_at)
        case ThresholdCrossed() | Interacted(counted=False):
            return state
        case GameOver(status=status):
            return replace(state, status=status, due_at=None, paused_until_at=None)
        case Interacted():
            return replace(state, interacted_at=event.interacted_at, due_at=event.due_at)
        case StatusChanged():
            return _change_status(state, event)
        case ScoreAdjusted():
            return replace(state, score=event.score, due_at=event.due_at)
        case Rescheduled(due_at):
            return replace(state, due_at=due_at)


def _change_status(state: ScoreState, event: StatusChanged) -> ScoreState:
    return replace(
        state,
        status=event.status,
        chapter=event.chapter,
        due_at=event.due_at,
        interacted_at=state.interacted_at if event.interacted_at is None else event.interacted_at,
        applied_at=state.applied_at if event.applied_at is None else event.applied_at,
        paused_until_at=event.paused_until_at,
    )


def score_alarm(state: ScoreState) -> Instant | None:
    """Return when the score's pause ends by itself, if it does."""
    return state.paused_until_at


def score_index(state: ScoreState) -> Index:
    """List scores by status; they are due when they next want a sweep."""
    return Index(state.status, "", state.due_at)
