"""The fold of schedules: their state from their events, their alarm, and their index."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant
from betimes.domain.definition_rules import take_over
from betimes.domain.run_requests import RunRequested
from betimes.schedules.model import (
    UNFINISHED_MAX,
    ScheduleAdvanced,
    ScheduleDeclared,
    ScheduleDefined,
    ScheduleDeleted,
    ScheduleDisabled,
    ScheduledRunFinished,
    ScheduleEnabled,
    ScheduleEvents,
    ScheduleFailed,
    ScheduleState,
    ScheduleTicked,
    SnapshotTaken,
    TicksSkipped,
)


def fold(state: ScheduleState | None, event: ScheduleEvents) -> ScheduleState | None:
    if isinstance(event, ScheduleDefined):
        return _define(state, event)
    if state is None:
        return None
    match event:
        case SnapshotTaken() | RunRequested():
            return state
        case ScheduleAdvanced(_, _, through_at, upcoming):
            status = state.status if upcoming else "ended"
            return replace(state, through_at=_later(state.through_at, through_at), next=upcoming, status=status)
        case ScheduleTicked():
            return _record_tick(state, event)
        case ScheduleEnabled():
            return _enable(state, event)
        case ScheduleDisabled(version, at, reason):
            paused = replace(state, status="paused", paused_reason=reason, next=None)
            return replace(paused, definition=replace(state.definition, enabled=False), version=version, updated_at=at)
        case ScheduleDeclared(declared_by):
            return replace(state, declared_by=declared_by)
        case ScheduleDeleted():
            return None
        case TicksSkipped(last=last):
            # Ticks are never gone through twice, so this only moves on.
            return replace(state, through_at=_later(state.through_at, last))
        case ScheduleFailed(error):
            return replace(state, status="error", next=None, last_error=error)
        case ScheduledRunFinished(run_id):
            return replace(state, unfinished=tuple(run for run in state.unfinished if run != run_id))


def _define(state: ScheduleState | None, event: ScheduleDefined) -> ScheduleState:
    definition, at = event.definition, event.at
    status = ("active" if event.next else "ended") if definition.enabled else "paused"
    before = take_over(state) if state else ScheduleState(definition, event.version, at, at, at)
    changed = replace(before, definition=definition, version=event.version, updated_at=at, changed_at=at)
    return replace(changed, status=status, next=event.next, last_error="", authority=event.authority)


def _enable(state: ScheduleState, event: ScheduleEnabled) -> ScheduleState:
    definition, at = replace(state.definition, enabled=True), event.at
    changed = replace(take_over(state), definition=definition, version=event.version, updated_at=at, changed_at=at)
    return replace(changed, status="active" if event.next else "ended", next=event.next, last_error="")


def _record_tick(state: ScheduleState, event: ScheduleTicked) -> ScheduleState:
    # Only of runs whose end is reported; the others would never leave the list.
    unfinished = (*state.unfinished, event.run_id)[-UNFINISHED_MAX:] if event.tell else state.unfinished
    # A tick by hand or of a backfill is not on the schedule's own way, so it leaves `through_at` alone.
    if event.cause in ("manual", "backfill"):
        return replace(state, unfinished=unfinished, manual=event.manual or state.manual)
    at = event.scheduled_for
    return replace(state, unfinished=unfinished, last_scheduled_for=at, through_at=_later(state.through_at, at))


def _later(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def alarm(state: ScheduleState) -> Instant | None:
    return state.next.due_at if state.next and state.status == "active" else None


def index(state: ScheduleState) -> Index:
    return Index(status=state.status)
