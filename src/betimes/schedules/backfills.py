"""The decider of backfills: a range of a schedule's occurrences, fired some at a time.

A backfill names the instants it will look at next in a command to itself, so that its turn sees their runs: an instant
that has one is `existing`. Its ticks are recorded on the schedule's stream under their ordinary names. When a run ends
it is told, and looks at the next ones. What an active schedule has not dealt with yet is left to it first; the backfill
looks again later. Its alarm is a watchman: a step that was lost is taken again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Event, Index, Refusal, Send, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.schedules.backfill_model import (
    BACKFILL_CHECK_S,
    BACKFILL_STEP,
    AdvanceBackfill,
    BackfillAdvanced,
    BackfillChecked,
    BackfillCommands,
    BackfillEnded,
    BackfillEvents,
    BackfillPaused,
    BackfillResumed,
    BackfillRunFinished,
    BackfillStarted,
    BackfillState,
    CancelBackfill,
    PauseBackfill,
    ResumeBackfill,
    StartBackfill,
)
from betimes.schedules.decide import snapshot, tick
from betimes.schedules.model import ScheduleDefinition, ScheduleState, run_key_of, schedule_stream
from betimes.schedules.run_requests import Requests, ends_at_once, runs_of

FAILED = ("failed", "abandoned", "dead")


def decide(
    view: View[BackfillState], command: BackfillCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state
    if isinstance(command, StartBackfill):
        return _start(view, command, now)
    if state is None:
        return Refusal("NOT_FOUND", f"there is no backfill {view.stream.id!r}")
    match command:
        case AdvanceBackfill(_, instants):
            return _advance(view, state, instants, now) if state.status == "running" else Decision()
        case RunFinished(run_id, _, status):
            return _finished(view.stream, state, run_id, status, now)
        case PauseBackfill():
            return Decision((BackfillPaused(now),)) if state.status == "running" else _wrong(view.stream, state)
        case ResumeBackfill():
            return _resume(view.stream, state, now)
        case CancelBackfill():
            if state.status in ("cancelled", "completed"):
                return _wrong(view.stream, state)
            return Decision((BackfillEnded("cancelled", now),))
        case Wake():
            return _going_on(view.stream, state, BackfillChecked(now), now)
        case Settled():
            return Decision()


def _wrong(stream: StreamId, state: BackfillState) -> Refusal:
    return Refusal("WRONG_STATE", f"the backfill {stream.id!r} is {state.status}")


def _start(view: View[BackfillState], command: StartBackfill, now: Instant) -> Decision | Refusal:
    schedule = view.others.get(schedule_stream(view.stream.tenant, command.schedule_id))
    if not isinstance(schedule, ScheduleState):
        return Refusal("NOT_FOUND", f"there is no schedule {command.schedule_id!r}")
    if view.state:
        return Refusal("ALREADY_EXISTS", f"there is a backfill {view.stream.id!r} already")
    if schedule.version != command.definition_version:
        return Refusal("VERSION_MISMATCH", f"the schedule {command.schedule_id!r} was changed meanwhile; ask again")
    if command.to_at > now or command.from_at >= command.to_at:
        return Refusal("INVALID", "a backfill goes from an instant to a later one that is not in the future")
    started = BackfillStarted(
        command.schedule_id,
        schedule.definition,
        schedule.version,
        command.from_at,
        command.to_at,
        command.max_concurrency,
        command.total,
        now,
    )
    return _going_on(view.stream, None, started, now)


def _resume(stream: StreamId, state: BackfillState, now: Instant) -> Decision | Refusal:
    if state.status != "paused":
        return _wrong(stream, state)
    return _going_on(stream, state, BackfillResumed(now), now)


def _finished(stream: StreamId, state: BackfillState, run_id: str, status: str, now: Instant) -> Decision:
    if run_id not in state.running:
        return Decision()
    finished = BackfillRunFinished(run_id, status, status in FAILED)
    return _going_on(stream, state, finished, now) if state.status == "running" else Decision((finished,))


def _going_on(
    stream: StreamId,
    before: BackfillState | None,
    event: BackfillStarted | BackfillAdvanced | BackfillRunFinished | BackfillChecked | BackfillResumed,
    now: Instant,
) -> Decision:
    """This event, and then the next instants; or the end, when there are none and nothing runs any more."""
    state = fold(before, event)
    free = state.max_concurrency - len(state.running)
    instants = _next(state, BACKFILL_STEP if state.is_old else max(free, 1))
    if not instants and not state.running:
        return Decision((replace(event, check_at=None), BackfillEnded("completed", now)))
    if not instants or not free:
        return Decision((replace(event, check_at=None),))  # the end of a run goes on with it
    watched = replace(event, check_at=now + BACKFILL_CHECK_S * SECOND)
    return Decision((watched,), effects=(Send(stream, AdvanceBackfill(state.schedule_id, instants)),))


def _next(state: BackfillState, limit: int) -> tuple[Instant, ...]:
    return tuple(islice(occurrences(state.definition, state.through_at + 1, state.to_at), limit))


def occurrences(definition: ScheduleDefinition, from_at: Instant, to_at: Instant) -> Iterator[Instant]:
    """What a backfill of `[from_at, to_at)` has to look at."""
    return definition.recurrence.occurrences().between(from_at - 1, to_at - 1)


def _advance(view: View[BackfillState], state: BackfillState, instants: tuple[Instant, ...], now: Instant) -> Decision:
    stream = schedule_stream(view.stream.tenant, state.schedule_id)
    schedule = view.others.get(stream)
    if not isinstance(schedule, ScheduleState):
        return Decision((BackfillEnded("cancelled", now, "SCHEDULE_DELETED"),))
    fresh = tuple(at for at in instants if at > state.through_at)
    left = tuple(at for at in fresh if schedule.status != "active" or at <= schedule.floor_at)
    if fresh and not left:
        ready_at = schedule.next.due_at if schedule.next else now
        return Decision((BackfillChecked(now, max(ready_at, now) + SECOND),))
    requests = Requests(view.stream, view.others, now, tell=True, authority=schedule.authority)
    advanced, ticks = _looked_at(state, requests, left, now)
    if advanced is None:
        return Decision()
    going_on = _going_on(view.stream, state, advanced, now)
    also = dict(requests.also)
    if ticks:
        also[stream] = (snapshot(state.definition, state.definition_version), *ticks)
    return replace(going_on, also=also, effects=(*requests.effects, *going_on.effects))


def _looked_at(
    state: BackfillState, requests: Requests, instants: tuple[Instant, ...], now: Instant
) -> tuple[BackfillAdvanced | None, tuple[Event, ...]]:
    """Fire what has no run yet, as many as may run at once, up to the first that must wait."""
    at_once = ends_at_once(state.definition.target)
    free = state.max_concurrency - len(state.running)
    advanced = BackfillAdvanced(state.through_at, now)
    ticks: list[Event] = []
    for at in instants:
        if requests.existing(run_key_of(state.schedule_id, at)):
            advanced = replace(advanced, through_at=at, existing=advanced.existing + 1)
            continue
        if not free:
            break
        ticked, requested = tick(requests, state.schedule_id, state.definition, at, now, "backfill")
        free -= not at_once
        ticks += (ticked, requested)
        if at_once:
            advanced = replace(advanced, through_at=at, done=advanced.done + 1)
        else:
            advanced = replace(advanced, through_at=at, running=(*advanced.running, ticked.run_id))
    if advanced.through_at == state.through_at:
        return None, ()
    return replace(advanced, is_old=not ticks), tuple(ticks)


def fold(state: BackfillState | None, event: BackfillEvents) -> BackfillState:
    if isinstance(event, BackfillStarted):
        return BackfillState(
            event.schedule_id,
            event.definition,
            event.definition_version,
            event.from_at,
            event.to_at,
            event.max_concurrency,
            event.total,
            event.at,
            event.from_at - 1,
            check_at=event.check_at,
        )
    assert state is not None
    match event:
        case BackfillAdvanced(through_at, _, is_old, existing, failed, done, running, check_at):
            return replace(
                state,
                check_at=check_at,
                through_at=through_at,
                is_old=is_old,
                existing=state.existing + existing,
                failed=state.failed + failed,
                done=state.done + done,
                running=(*state.running, *running),
            )
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


def alarm(state: BackfillState) -> Instant | None:
    return state.check_at if state.status == "running" else None


def needs(stream: StreamId, command: BackfillCommands | Wake | Settled, policy: Policy) -> tuple[StreamId, ...]:
    match command:
        case StartBackfill(schedule_id):
            return (schedule_stream(stream.tenant, schedule_id),)
        case AdvanceBackfill(schedule_id, instants):
            runs = runs_of(stream.tenant, (run_key_of(schedule_id, at) for at in instants))
            return (schedule_stream(stream.tenant, schedule_id), *runs)
        case _:
            return ()


def index(state: BackfillState) -> Index:
    return Index(status=state.status, owner=state.schedule_id)


BACKFILL: Decider[BackfillState] = Decider(
    kind="backfill",
    state=BackfillState,
    scope="automation:write",
    commands=BackfillCommands,
    events=BackfillEvents,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    needs=needs,
    stops=(PauseBackfill, CancelBackfill),
)
