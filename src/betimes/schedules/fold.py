"""How the state of a schedule follows from its events."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant
from betimes.schedules.model import (
    UNFINISHED_MAX,
    RunRequested,
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
from betimes.schedules.ownership import take_over


def fold(state: ScheduleState | None, event: ScheduleEvents) -> ScheduleState | None:
    if isinstance(event, ScheduleDefined):
        return _defined(state, event)
    if state is None:
        return None
    match event:
        case ScheduleEnabled(version, at, _, upcoming):
            definition = replace(state.definition, enabled=True)
            status = "active" if upcoming else "ended"
            return replace(
                take_over(state),
                definition=definition,
                version=version,
                status=status,
                next=upcoming,
                changed_at=at,
                updated_at=at,
                last_error="",
            )
        case ScheduleDisabled(version, at, reason):
            definition = replace(state.definition, enabled=False)
            return replace(
                state,
                definition=definition,
                version=version,
                status="paused",
                next=None,
                updated_at=at,
                paused_reason=reason,
            )
        case ScheduleDeclared(declared_by):
            return replace(state, declared_by=declared_by)
        case ScheduleDeleted():
            return None
        case ScheduleAdvanced(_, _, through_at, upcoming):
            status = state.status if upcoming else "ended"
            return replace(state, through_at=_later(state.through_at, through_at), next=upcoming, status=status)
        case TicksSkipped(last=last):
            return replace(state, through_at=_later(state.through_at, last))
        case ScheduleTicked():
            return _ticked(state, event)
        case ScheduleFailed(error):
            return replace(state, status="error", next=None, last_error=error)
        case ScheduledRunFinished(run_id):
            return replace(state, unfinished=tuple(run for run in state.unfinished if run != run_id))
        case SnapshotTaken() | RunRequested():
            return state


def _defined(state: ScheduleState | None, event: ScheduleDefined) -> ScheduleState:
    definition, at = event.definition, event.at
    status = ("active" if event.next else "ended") if definition.enabled else "paused"
    if state is None:
        fresh = ScheduleState(definition, event.version, at, at, at, status, next=event.next)  # type: ignore[arg-type]
        return replace(fresh, authority=event.authority)
    return replace(
        take_over(state),
        definition=definition,
        version=event.version,
        updated_at=at,
        changed_at=at,
        status=status,
        next=event.next,
        last_error="",
        authority=event.authority,
    )


def _ticked(state: ScheduleState, event: ScheduleTicked) -> ScheduleState:
    unfinished = (*state.unfinished, event.run_id)[-UNFINISHED_MAX:] if event.tell else state.unfinished
    if event.cause in ("cron", "catchup"):
        at = event.scheduled_for
        return replace(state, unfinished=unfinished, last_scheduled_for=at, through_at=_later(state.through_at, at))
    return replace(state, unfinished=unfinished, manual=event.manual or state.manual)


def _later(one: Instant | None, other: Instant | None) -> Instant | None:
    return max((at for at in (one, other) if at is not None), default=None)


def alarm(state: ScheduleState) -> Instant | None:
    return state.next.due_at if state.next and state.status == "active" else None


def index(state: ScheduleState) -> Index:
    return Index(status=state.status)
