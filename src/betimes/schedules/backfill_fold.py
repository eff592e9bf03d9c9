"""The fold of backfills: their state from their events, their alarm, and their index."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant
from betimes.domain.derivation import derive
from betimes.schedules.backfill_model import (
    BackfillAdvanced,
    BackfillChecked,
    BackfillEnded,
    BackfillEvents,
    BackfillPaused,
    BackfillResumed,
    BackfillRunFinished,
    BackfillStarted,
    BackfillState,
)


def fold(state: BackfillState | None, event: BackfillEvents) -> BackfillState:
    if isinstance(event, BackfillStarted):
        return derive(BackfillState, event, created_at=event.at, through_at=event.from_at - 1)
    assert state is not None
    match event:
        case BackfillAdvanced():
            return _advance(state, event)
        case BackfillRunFinished(run_id, _, failed, check_at):
            running = tuple(run for run in state.running if run != run_id)
            done, failures = state.done + (not failed), state.failed + failed
            return replace(state, running=running, done=done, failed=failures, check_at=check_at)
        case BackfillChecked(_, check_at):
            return replace(state, check_at=check_at)
        case BackfillPaused():
            return replace(state, status="paused", check_at=None)
        case BackfillResumed(_, check_at):
            return replace(state, status="running", check_at=check_at)
        case BackfillEnded(status, at):
            return replace(state, status=status, finished_at=at, check_at=None)


def _advance(state: BackfillState, event: BackfillAdvanced) -> BackfillState:
    return replace(
        state,
        check_at=event.check_at,
        through_at=event.through_at,
        is_old=event.is_old,
        existing=state.existing + event.existing,
        failed=state.failed + event.failed,
        done=state.done + event.done,
        running=(*state.running, *event.running),
    )


def alarm(state: BackfillState) -> Instant | None:
    return state.check_at if state.status == "running" else None


def index(state: BackfillState) -> Index:
    return Index(status=state.status, owner=state.schedule_id)
