"""The decider of schedules: each due occurrence fires once, the others are recorded as skipped.

`through_at` only grows, and every wake starts behind it, under the stream's lock. So a tick happens at most once,
whoever rings, however late, and wherever the clock has been. The name of its run derives from the tick, and a run that
exists is not asked for again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Event, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.core.zones import TZDATA_VERSION
from betimes.domain.completions import RunFinished
from betimes.domain.definition_rules import (
    changes_owner,
    refuse_definition,
    refuse_invalid,
    refuse_missing,
    refuse_version,
)
from betimes.domain.run_requests import RunRequested, RunRequests, WantedRun, ends_at_once
from betimes.schedules.catchup import CatchupPlan, Timetable, nominal_time
from betimes.schedules.checks import schedule_problems
from betimes.schedules.fold import alarm, fold, index
from betimes.schedules.model import (
    DefineSchedule,
    DeleteSchedule,
    DisableSchedule,
    EnableSchedule,
    ManualTick,
    ScheduleAdvanced,
    ScheduleCommands,
    ScheduleDeclared,
    ScheduleDefined,
    ScheduleDefinition,
    ScheduleDeleted,
    ScheduleDisabled,
    ScheduledRunFinished,
    ScheduleEnabled,
    ScheduleFailed,
    ScheduleState,
    ScheduleTicked,
    ShelveSchedule,
    SnapshotTaken,
    TickCause,
    TickRef,
    TicksSkipped,
    TriggerSchedule,
    run_key_of,
)
from betimes.schedules.reasons import TICK_REASONS
from betimes.schedules.rules import RULES, TickCase

_DEFINITIONS = (DefineSchedule, ShelveSchedule)


def decide(
    view: View[ScheduleState], command: ScheduleCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state
    if isinstance(command, _DEFINITIONS):
        return _define(view, command, now)
    if isinstance(command, Settled):
        return Decision()
    if state is None:
        # A run may outlive its schedule, and nobody waits for an answer to its end.
        return Decision() if isinstance(command, RunFinished) else refuse_missing(view.stream)
    match command:
        case Wake():
            return _wake(view, state, now)
        case TriggerSchedule(payload, expected):
            return refuse_version(view.stream, expected, state.version) or _trigger(view, state, payload, now)
        case RunFinished(run_id, _, status):
            return Decision((ScheduledRunFinished(run_id, status),)) if run_id in state.unfinished else Decision()
        case EnableSchedule() | DisableSchedule() | DeleteSchedule():
            refusal = refuse_version(view.stream, command.if_version, state.version)
            return refusal or _switch(view, state, command, now)


def _switch(
    view: View[ScheduleState],
    state: ScheduleState,
    command: EnableSchedule | DisableSchedule | DeleteSchedule,
    now: Instant,
) -> Decision | Refusal:
    match command:
        case EnableSchedule():
            return _enable(view, state, now)
        case DisableSchedule():
            disabled = ScheduleDisabled(state.version + 1, now, command.reason)
            return Decision((disabled,)) if state.definition.enabled else Decision()
        case DeleteSchedule():
            return Decision((*_skip_paused(view.stream, state, now), ScheduleDeleted(now)))


# -- definitions


def _define(view: View[ScheduleState], command: DefineSchedule | ShelveSchedule, now: Instant) -> Decision | Refusal:
    state, definition = view.state, command.definition
    refusal = refuse_definition(view.stream, command.if_version, state.version if state else 0)
    if refusal := refusal or refuse_invalid(schedule_problems(view.stream.id, definition)):
        return refusal
    declared = (ScheduleDeclared(command.declared_by),) if changes_owner(state, command.declared_by) else ()
    # The same again changes nothing, except that a schedule that failed begins anew.
    if state and state.definition == definition and state.status != "error":
        return Decision(declared)
    owed = _settle_owed(view, state, isinstance(command, ShelveSchedule), now) if state else Decision()
    # One that was deleted goes on from the stream's version, so that no version names two definitions.
    version = (state.version if state else view.version) + 1
    upcoming = Timetable.of(view.stream, definition, version).upcoming(now) if definition.enabled else None
    # Whoever changes anything else neither lends the target their scopes nor needs those of who chose it.
    authority = state.authority if state and _causes(state.definition) == _causes(definition) else command.authority
    defined = ScheduleDefined(definition, version, now, TZDATA_VERSION, upcoming, authority)
    return replace(owed, events=(*owed.events, defined, *declared))


def _causes(definition: ScheduleDefinition) -> tuple[Any, ...]:
    """Return the target of a schedule and what it hands on: it acts for whoever set these."""
    return definition.target, definition.payload


def _settle_owed(view: View[ScheduleState], state: ScheduleState, stops: bool, now: Instant) -> Decision:
    """Settle the old definition: a tick that only waits for its jitter fires, unless the schedule is stopped."""
    if stops or state.status != "active" or state.next is None or state.next.tick_at > now:
        return Decision(_skip_paused(view.stream, state, now))
    if state.next.due_at <= now:
        return _settle_held(view, state, now)
    tick_at = state.next.tick_at
    return _fire(view, state, _without_overlaps(state, CatchupPlan((tick_at,), through_at=tick_at)), now)


def _settle_held(view: View[ScheduleState], state: ScheduleState, now: Instant) -> Decision:
    """Catch up what was not rung because it is held, as its wake would have; then what waits for its jitter."""
    woken = _wake(view, state, now)
    after = state
    for event in woken.events:
        after = fold(after, event) or after  # type: ignore[arg-type]
    left = _settle_owed(view, after, False, now)
    return Decision(
        (*woken.events, *left.events), also={**woken.also, **left.also}, effects=(*woken.effects, *left.effects)
    )


def _enable(view: View[ScheduleState], state: ScheduleState, now: Instant) -> Decision | Refusal:
    if state.status in ("active", "ended"):
        return Decision()
    definition = replace(state.definition, enabled=True)
    if refusal := refuse_invalid(schedule_problems(view.stream.id, definition)):
        return refusal
    # After an error the definition was enabled all the time, so it does not change.
    version = state.version + (not state.definition.enabled)
    upcoming = Timetable.of(view.stream, definition, version).upcoming(now)
    enabled = ScheduleEnabled(version, now, TZDATA_VERSION, upcoming)
    return Decision((*_skip_paused(view.stream, state, now), enabled))


def _skip_paused(stream: StreamId, state: ScheduleState, now: Instant) -> tuple[TicksSkipped, ...]:
    """Return the range of occurrences that never fire because the schedule is, or was, stopped."""
    if state.status == "ended":
        return ()
    try:
        return Timetable.of(stream, state.definition, state.version).plan_pause(state.floor_at, now).skipped
    except ValueError:
        return ()  # the zone is no longer known, so nobody can say what would have occurred


# -- ticks


def _wake(view: View[ScheduleState], state: ScheduleState, now: Instant) -> Decision:
    timetable = Timetable.of(view.stream, state.definition, state.version)
    judge = _judge_ticks if timetable.is_shared else _judge_ticks.__wrapped__
    try:
        plan, verdict = judge(timetable, state.definition.overlap, len(state.unfinished), state.floor_at, now)
    except ValueError as error:
        return _fail(state, str(error), now)
    return _fire(view, state, _without_overlaps(state, plan), now, verdict)


@lru_cache(maxsize=1_024)
def _judge_ticks(
    timetable: Timetable, overlap: str, unfinished: int, floor_at: Instant, now: Instant
) -> tuple[CatchupPlan, Verdict]:
    """Plan and judge a wake: the same for all schedules that are due together and tick alike."""
    plan = timetable.plan(floor_at, now)
    return plan, RULES.judge(TickCase(plan, timetable, overlap, unfinished))


def _fail(state: ScheduleState, error: str, now: Instant) -> Decision:
    tick_at = state.next.tick_at if state.next else now
    return Decision(
        (
            snapshot(state.definition, state.version),
            ScheduleTicked(tick_at, now, error=error),
            ScheduleFailed(error, now),
        )
    )


def _without_overlaps(state: ScheduleState, plan: CatchupPlan) -> CatchupPlan:
    """Keep at most one run at a time: fire one if none is unfinished, and skip the others as a range."""
    if state.definition.overlap == "allow" or ends_at_once(state.definition.target):
        return plan
    free = 0 if state.unfinished else 1
    late = plan.fire[free:]
    if not late:
        return plan
    skipped = TicksSkipped("OVERLAP", late[0], late[-1], len(late), state.version)
    return replace(plan, fire=plan.fire[:free], skipped=(*plan.skipped, skipped))


def _fire(
    view: View[ScheduleState], state: ScheduleState, plan: CatchupPlan, now: Instant, verdict: Verdict | None = None
) -> Decision:
    """Carry out a plan in one segment."""
    requests = _run_requests(view, state, now)
    events: list[Event] = [ScheduleAdvanced(now, TZDATA_VERSION, plan.through_at, plan.next), *plan.skipped]
    if plan.fire:
        events.append(snapshot(state.definition, state.version))
    for tick_at in plan.fire:
        # Only the latest occurrence is on time; those before it are caught up.
        cause: TickCause = "cron" if tick_at == plan.through_at else "catchup"
        events += tick(requests, view.stream.id, state.definition, tick_at, now, cause)
    return Decision(tuple(events), also=requests.also, effects=tuple(requests.effects), verdict=verdict)


def _run_requests(view: View[ScheduleState], state: ScheduleState, now: Instant) -> RunRequests:
    tell = state.definition.overlap == "skip" and not ends_at_once(state.definition.target)
    return RunRequests(view.stream, view.others, now, tell=tell, authority=state.authority)


def tick(
    requests: RunRequests,
    schedule_id: str,
    definition: ScheduleDefinition,
    tick_at: Instant,
    now: Instant,
    cause: TickCause,
) -> tuple[ScheduleTicked, RunRequested]:
    """Return one tick and its run."""
    requested = requests.ask(_wanted_run(definition, run_key_of(schedule_id, tick_at), tick_at))
    return _record_tick(requests, requested, tick_at, now, cause), requested


def _record_tick(
    requests: RunRequests,
    requested: RunRequested,
    tick_at: Instant,
    now: Instant,
    cause: TickCause,
    manual: ManualTick | None = None,
) -> ScheduleTicked:
    run_id, outcome = requested.run_id, requested.outcome
    conflict = f"RUN_KEY_CONFLICT: the run {run_id} was asked for as something else" if outcome == "conflict" else ""
    # The run of a backfill reports to the backfill, so the schedule would wait for its end in vain.
    tell = requests.tells and outcome == "requested" and cause != "backfill"
    return ScheduleTicked(tick_at, now, cause, tell, run_id, conflict, manual)


def _wanted_run(definition: ScheduleDefinition, run_key: str, tick_at: Instant) -> WantedRun:
    return WantedRun(
        run_key,
        definition.target,
        definition.asset_selection,
        definition.partition_selection,
        definition.payload,
        nominal_time(definition, run_key, tick_at),
    )


def snapshot(definition: ScheduleDefinition, version: int) -> SnapshotTaken:
    return SnapshotTaken(version, TZDATA_VERSION, definition.asset_selection, definition.partition_selection)


def _trigger(
    view: View[ScheduleState], state: ScheduleState, payload: dict[str, object] | None, now: Instant
) -> Decision | Refusal:
    # In whole seconds: asked for twice in one, it is the same tick.
    scheduled_for = now // SECOND * SECOND
    run_key = run_key_of(view.stream.id, scheduled_for, manual=True)
    run = _wanted_run(state.definition, run_key, scheduled_for)
    if payload is not None:
        run = replace(run, payload=payload)
    if state.manual and state.manual.is_in(now):
        if state.manual.fingerprint == run.fingerprint():
            return Decision(reply=TickRef(state.manual.segment))
        return Refusal(
            "RUN_KEY_CONFLICT", f"{run_key} was requested in this second with another payload; try again in a second"
        )
    requests = _run_requests(view, state, now)
    manual = ManualTick(scheduled_for, run.fingerprint(), view.version + 1)
    requested = replace(requests.ask(run), payload=payload)
    ticked = _record_tick(requests, requested, scheduled_for, now, "manual", manual)
    return Decision(
        (snapshot(state.definition, state.version), ticked, requested),
        also=requests.also,
        effects=tuple(requests.effects),
        reply=TickRef(view.version + 1),
    )


SCHEDULE = Decider(
    kind="schedule",
    scope="automation:write",
    decide=decide,
    tables=(RULES,),
    reasons=TICK_REASONS,
    replies=TickRef | None,
    stops=(ShelveSchedule, DisableSchedule, DeleteSchedule),
    targets=(EnableSchedule, DisableSchedule),
    fold=fold,
    alarm=alarm,
    index=index,
)
