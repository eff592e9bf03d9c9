"""The decider and the fold of backfills: one fires a past range of a schedule's occurrences, a few at a time.

A backfill names the instants it will look at next in a command to itself, so that its turn loads their runs: an instant
that has one is `existing`. Its ticks are recorded on the schedule's stream under their ordinary names. The end of a run
is reported back, and the backfill goes on with the next instants. Occurrences that an active schedule has yet to deal
with are left to it; the backfill looks again later. Its alarm is a watchdog: it repeats a step that was lost.
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
from betimes.domain.derivation import derive
from betimes.domain.run_requests import RunRequests, ends_at_once, run_streams
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
            return _record_run_end(view.stream, state, run_id, status, now)
        case PauseBackfill():
            return Decision((BackfillPaused(now),)) if state.status == "running" else _refuse_status(view.stream, state)
        case ResumeBackfill():
            return _resume(view.stream, state, now)
        case CancelBackfill():
            if state.status in ("cancelled", "completed"):
                return _refuse_status(view.stream, state)
            return Decision((BackfillEnded("cancelled", now),))
        case Wake():
            return _go_on(view.stream, state, BackfillChecked(now), now)
        case Settled():
            return Decision()


def _refuse_status(stream: StreamId, state: BackfillState) -> Refusal:
    return Refusal("WRONG_STATE", f"the backfill {stream.id!r} is {state.status}")


def _start(view: View[BackfillState], command: StartBackfill, now: Instant) -> Decision | Refusal:
    schedule = view.others.get(schedule_stream(view.stream.tenant, command.schedule_id))
    if not isinstance(schedule, ScheduleState):
        return Refusal("NOT_FOUND", f"there is no schedule {command.schedule_id!r}")
    if view.state:
        return Refusal("ALREADY_EXISTS", f"the backfill {view.stream.id!r} exists already")
    # The caller was shown what would be fired; another definition would fire something else.
    if schedule.version != command.definition_version:
        return Refusal(
            "VERSION_MISMATCH", f"the schedule {command.schedule_id!r} was changed in the meantime; try again"
        )
    if command.to_at > now or command.from_at >= command.to_at:
        return Refusal("INVALID", "the end of a backfill must be later than its start and not in the future")
    definition, version = schedule.definition, schedule.version
    started = derive(BackfillStarted, command, definition=definition, definition_version=version, at=now)
    return _go_on(view.stream, None, started, now)


def _resume(stream: StreamId, state: BackfillState, now: Instant) -> Decision | Refusal:
    if state.status != "paused":
        return _refuse_status(stream, state)
    return _go_on(stream, state, BackfillResumed(now), now)


def _record_run_end(stream: StreamId, state: BackfillState, run_id: str, status: str, now: Instant) -> Decision:
    if run_id not in state.running:
        return Decision()
    finished = BackfillRunFinished(run_id, status, status in FAILED)
    return _go_on(stream, state, finished, now) if state.status == "running" else Decision((finished,))


def _go_on(
    stream: StreamId,
    before: BackfillState | None,
    event: BackfillStarted | BackfillAdvanced | BackfillRunFinished | BackfillChecked | BackfillResumed,
    now: Instant,
) -> Decision:
    """Record the event and look at the next instants; or end, when there are none and nothing runs any more."""
    state = fold(before, event)
    free = state.max_concurrency - len(state.running)
    # Instants that have their runs already cost little, so many are looked at once; else at least one, to see whether
    # any is left.
    instants = _next(state, BACKFILL_STEP if state.is_old else max(free, 1))
    if not instants and not state.running:
        return Decision((replace(event, check_at=None), BackfillEnded("completed", now)))
    if not instants or not free:
        return Decision((replace(event, check_at=None),))  # the next run to end continues it
    watched = replace(event, check_at=now + BACKFILL_CHECK_S * SECOND)
    return Decision((watched,), effects=(Send(stream, AdvanceBackfill(state.schedule_id, instants)),))


def _next(state: BackfillState, limit: int) -> tuple[Instant, ...]:
    return tuple(islice(occurrences(state.definition, state.through_at + 1, state.to_at), limit))


def occurrences(definition: ScheduleDefinition, from_at: Instant, to_at: Instant) -> Iterator[Instant]:
    """Return the instants that a backfill of `[from_at, to_at)` looks at."""
    return definition.recurrence.occurrences().between(from_at - 1, to_at - 1)


def _advance(view: View[BackfillState], state: BackfillState, instants: tuple[Instant, ...], now: Instant) -> Decision:
    stream = schedule_stream(view.stream.tenant, state.schedule_id)
    schedule = view.others.get(stream)
    if not isinstance(schedule, ScheduleState):
        return Decision((BackfillEnded("cancelled", now, "SCHEDULE_DELETED"),))
    # A step that the watchdog repeats may name instants that were dealt with meanwhile.
    fresh = tuple(at for at in instants if at > state.through_at)
    left = tuple(at for at in fresh if schedule.status != "active" or at <= schedule.floor_at)
    if fresh and not left:
        # An instant that the schedule has still to tick itself is left to it, and looked at again then.
        ready_at = schedule.next.due_at if schedule.next else now
        return Decision((BackfillChecked(now, max(ready_at, now) + SECOND),))
    requests = RunRequests(view.stream, view.others, now, tell=True, authority=schedule.authority)
    advanced, ticks = _fire_missing(state, requests, left, now)
    if advanced is None:
        return Decision()
    follow_up = _go_on(view.stream, state, advanced, now)
    also = dict(requests.also)
    if ticks:
        also[stream] = (snapshot(state.definition, state.definition_version), *ticks)
    return replace(follow_up, also=also, effects=(*requests.effects, *follow_up.effects))


def _fire_missing(
    state: BackfillState, requests: RunRequests, instants: tuple[Instant, ...], now: Instant
) -> tuple[BackfillAdvanced | None, tuple[Event, ...]]:
    """Fire the instants without a run, as many as may run at once; stop at the first that must wait."""
    at_once = ends_at_once(state.definition.target)
    free = state.max_concurrency - len(state.running)
    advanced = BackfillAdvanced(state.through_at, now)
    ticks: list[Event] = []
    for at in instants:
        if requests.existing_run(run_key_of(state.schedule_id, at)):
            advanced = replace(advanced, through_at=at, existing=advanced.existing + 1)
            continue
        if not free:
            break
        ticked, requested = tick(requests, state.schedule_id, state.definition, at, now, "backfill")
        # What ends at once never takes a place.
        free -= not at_once
        ticks += (ticked, requested)
        if at_once:
            advanced = replace(advanced, through_at=at, done=advanced.done + 1)
        else:
            advanced = replace(advanced, through_at=at, running=(*advanced.running, ticked.run_id))
    if advanced.through_at == state.through_at:
        return None, ()
    return replace(advanced, is_old=not ticks), tuple(ticks)


def needs(stream: StreamId, command: BackfillCommands | Wake | Settled, policy: Policy) -> tuple[StreamId, ...]:
    match command:
        case StartBackfill(schedule_id):
            return (schedule_stream(stream.tenant, schedule_id),)
        case AdvanceBackfill(schedule_id, instants):
            runs = run_streams(stream.tenant, (run_key_of(schedule_id, at) for at in instants))
            return (schedule_stream(stream.tenant, schedule_id), *runs)
        case _:
            return ()


# -- the fold, the alarm and the index


def fold(state: BackfillState | None, event: BackfillEvents) -> BackfillState:
    if isinstance(event, BackfillStarted):
        return derive(BackfillState, event, created_at=event.at, through_at=event.from_at - 1)
    assert state is not None
    match event:
        case BackfillAdvanced():
            return _fold_advance(state, event)
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


def _fold_advance(state: BackfillState, event: BackfillAdvanced) -> BackfillState:
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


BACKFILL = Decider(
    kind="backfill",
    scope="automation:write",
    decide=decide,
    needs=needs,
    stops=(PauseBackfill, CancelBackfill),
    fold=fold,
    alarm=alarm,
    index=index,
)
