"""The decider of schedules: what is due fires once, what is not fired is recorded, and nothing fires from before.

`through_at` only grows and every wake starts behind it, under the stream's lock: that is what makes a tick happen at
most once, whoever rings, however late, and wherever the clock has been. The run it asks for has a name that derives
from the tick, and a run that is there already is not asked for again.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Event, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.core.zones import TZDATA_VERSION
from betimes.domain.completions import RunFinished
from betimes.schedules.catchup import Plan, Timetable, nominal_time
from betimes.schedules.checks import schedule_problems, sentence
from betimes.schedules.fold import alarm, fold, index
from betimes.schedules.model import (
    DefineSchedule,
    DeleteSchedule,
    DisableSchedule,
    EnableSchedule,
    ManualTick,
    RunRequested,
    ScheduleAdvanced,
    ScheduleCommands,
    ScheduleDeclared,
    ScheduleDefined,
    ScheduleDefinition,
    ScheduleDeleted,
    ScheduleDisabled,
    ScheduledRunFinished,
    ScheduleEnabled,
    ScheduleEvents,
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
from betimes.schedules.ownership import changes_owner
from betimes.schedules.reasons import TICK_REASONS
from betimes.schedules.run_requests import Requests, Wanted, ends_at_once


class Case(msgspec.Struct, frozen=True, gc=False):
    """What is known of the occurrences a wake has found."""

    plan: Plan
    definition: ScheduleDefinition
    unfinished: int


def _window(case: Case) -> Finding:
    missed = _count(case.plan, "MISSED_OUTSIDE_WINDOW")
    return Finding(
        (missed, case.definition.catchup_window_minutes),
        None if case.plan.fire or not missed else Hit("NEVER", "MISSED_OUTSIDE_WINDOW"),
    )


def _limit(case: Case) -> Finding:
    return Finding((len(case.plan.fire), _count(case.plan, "OVER_CATCHUP_LIMIT"), case.definition.max_catchup_ticks))


def _overlap(case: Case) -> Finding:
    skips = case.definition.overlap == "skip" and case.unfinished > 0
    return Finding((case.definition.overlap, case.unfinished), Hit("NEVER", "OVERLAP") if skips else None)


def _nothing(case: Case) -> Finding:
    return Finding((len(case.plan.fire),), None if case.plan.fire else Hit("NEVER", "NOTHING_DUE"))


def _count(plan: Plan, reason: str) -> str | int:
    counts = [skipped.count for skipped in plan.skipped if skipped.reason == reason]
    return counts[0] if counts and counts[0] is not None else "many" if counts else 0


RULES: RuleTable[Case] = RuleTable(
    "ticks",
    (
        Rule(
            "window",
            _window,
            ("missed", "minutes"),
            "{missed} are older than the window of {minutes} minutes",
            "{missed} are older than the window of {minutes} minutes",
        ),
        Rule(
            "limit",
            _limit,
            ("kept", "over", "limit"),
            "{kept} are kept and {over} are over the limit of {limit}",
            "{kept} are kept and {over} are over the limit of {limit}",
        ),
        Rule("nothing", _nothing, ("due",), "{due} are due", "{due} are due"),
        Rule(
            "overlap",
            _overlap,
            ("overlap", "unfinished"),
            "overlaps: {overlap}; {unfinished} runs are unfinished",
            "overlaps: {overlap}; {unfinished} runs are unfinished",
        ),
    ),
    otherwise=Hit("NOW", "DUE"),
    places=("window", "limit", "nothing", "overlap"),
)


def decide(
    view: View[ScheduleState], command: ScheduleCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state
    if isinstance(command, DefineSchedule | ShelveSchedule):
        return _define(view, command, now)
    if isinstance(command, Settled):
        return Decision()
    if state is None:
        return Decision() if isinstance(command, RunFinished) else _missing(view.stream)
    match command:
        case Wake():
            return _wake(view, state, now)
        case TriggerSchedule(payload):
            return _trigger(view, state, payload, now)
        case RunFinished(run_id, _, status):
            return Decision((ScheduledRunFinished(run_id, status),)) if run_id in state.unfinished else Decision()
        case EnableSchedule() | DisableSchedule() | DeleteSchedule():
            return mismatch(view.stream, command.if_version, state.version) or _switch(view, state, command, now)


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
            return Decision((*_paused(view.stream, state, now), ScheduleDeleted(now)))


def _missing(stream: StreamId) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no {stream.kind} {stream.id!r}")


def mismatch(stream: StreamId, wanted: int | None, current: int) -> Refusal | None:
    """The refusal of a change that was meant for another version."""
    if wanted is None or wanted == current:
        return None
    if wanted == 0:
        return Refusal("ALREADY_EXISTS", f"there is a {stream.kind} {stream.id!r} already, at version {current}")
    message = f"the {stream.kind} {stream.id!r} is at version {current}, not {wanted}; read it again"
    return Refusal("VERSION_MISMATCH", message)


# -- definitions


def _define(view: View[ScheduleState], command: DefineSchedule | ShelveSchedule, now: Instant) -> Decision | Refusal:
    state, definition = view.state, command.definition
    refusal = mismatch(view.stream, command.if_version, state.version if state else 0)
    if refusal:
        return refusal
    if problems := schedule_problems(view.stream.id, definition):
        return Refusal("INVALID", sentence(problems))
    declared = (ScheduleDeclared(command.declared_by),) if changes_owner(state, command.declared_by) else ()
    if state and state.definition == definition and state.status != "error":
        return Decision(declared)
    owed = _owed(view, state, isinstance(command, ShelveSchedule), now) if state else Decision()
    version = (state.version if state else view.version) + 1
    upcoming = Timetable(view.stream, definition, version).upcoming(now) if definition.enabled else None
    authority = state.authority if state and _causes(state.definition) == _causes(definition) else command.authority
    defined = ScheduleDefined(definition, version, now, TZDATA_VERSION, upcoming, authority)
    return replace(owed, events=(*owed.events, defined, *declared))


def _causes(definition: ScheduleDefinition) -> tuple[Any, ...]:
    """Return what a schedule causes and what it hands on: whoever says that is who it acts for."""
    return definition.target, definition.payload


def _owed(view: View[ScheduleState], state: ScheduleState, stops: bool, now: Instant) -> Decision:
    """What the old definition still leads to: a tick that only waits for its jitter fires, unless it is stopped."""
    if stops or state.status != "active" or state.next is None or state.next.tick_at > now:
        return Decision(_paused(view.stream, state, now))
    tick_at = state.next.tick_at
    return _fired(view, state, _without_overlaps(state, Plan((tick_at,), through_at=tick_at)), now)


def _enable(view: View[ScheduleState], state: ScheduleState, now: Instant) -> Decision | Refusal:
    if state.status in ("active", "ended"):
        return Decision()
    definition = replace(state.definition, enabled=True)
    if problems := schedule_problems(view.stream.id, definition):
        return Refusal("INVALID", sentence(problems))
    version = state.version + (not state.definition.enabled)
    upcoming = Timetable(view.stream, definition, version).upcoming(now)
    enabled = ScheduleEnabled(version, now, TZDATA_VERSION, upcoming)
    return Decision((*_paused(view.stream, state, now), enabled))


def _paused(stream: StreamId, state: ScheduleState, now: Instant) -> tuple[TicksSkipped, ...]:
    """The range that is not fired because it is, or was, stopped."""
    if state.status == "ended":
        return ()
    try:
        return Timetable(stream, state.definition, state.version).paused(state.floor_at, now).skipped
    except ValueError:
        return ()  # the zone is gone, and with it what would have been


# -- ticks


def _wake(view: View[ScheduleState], state: ScheduleState, now: Instant) -> Decision:
    try:
        plan = Timetable(view.stream, state.definition, state.version).plan(state.floor_at, now)
    except ValueError as error:
        return _failed(state, str(error), now)
    verdict = RULES.judge(Case(plan, state.definition, len(state.unfinished)))
    return replace(_fired(view, state, _without_overlaps(state, plan), now), verdict=verdict)


def _failed(state: ScheduleState, error: str, now: Instant) -> Decision:
    tick_at = state.next.tick_at if state.next else now
    return Decision(
        (
            snapshot(state.definition, state.version),
            ScheduleTicked(tick_at, now, error=error),
            ScheduleFailed(error, now),
        )
    )


def _without_overlaps(state: ScheduleState, plan: Plan) -> Plan:
    """At most one run at a time: one is fired if none is unfinished, the others are a range."""
    if state.definition.overlap == "allow" or ends_at_once(state.definition.target):
        return plan
    free = 0 if state.unfinished else 1
    late = plan.fire[free:]
    if not late:
        return plan
    skipped = TicksSkipped("OVERLAP", late[0], late[-1], len(late), state.version)
    return replace(plan, fire=plan.fire[:free], skipped=(*plan.skipped, skipped))


def _fired(view: View[ScheduleState], state: ScheduleState, plan: Plan, now: Instant) -> Decision:
    """Everything a plan leads to, in one segment."""
    tell = state.definition.overlap == "skip" and not ends_at_once(state.definition.target)
    requests = Requests(view.stream, view.others, now, tell=tell, authority=state.authority)
    events: list[Event] = [ScheduleAdvanced(now, TZDATA_VERSION, plan.through_at, plan.next), *plan.skipped]
    if plan.fire:
        events.append(snapshot(state.definition, state.version))
    for tick_at in plan.fire:
        cause: TickCause = "cron" if tick_at == plan.through_at else "catchup"
        events += tick(requests, view.stream.id, state.definition, tick_at, now, cause)
    return Decision(tuple(events), also=requests.also, effects=tuple(requests.effects))


def tick(
    requests: Requests,
    schedule_id: str,
    definition: ScheduleDefinition,
    tick_at: Instant,
    now: Instant,
    cause: TickCause,
) -> tuple[ScheduleTicked, RunRequested]:
    """One tick and its run. That of a backfill ends there, and is never unfinished to the schedule."""
    run = wanted(definition, run_key_of(schedule_id, tick_at), tick_at)
    ticked, requested = _asked(requests, run, ScheduleTicked(tick_at, now, cause))
    return (replace(ticked, tell=False) if cause == "backfill" else ticked), requested


def _asked(requests: Requests, run: Wanted, ticked: ScheduleTicked) -> tuple[ScheduleTicked, RunRequested]:
    answered = requests.ask(run)
    requested = RunRequested(answered.run_key, answered.run_id, answered.fingerprint, answered.outcome)
    if answered.outcome == "conflict":
        error = f"RUN_KEY_CONFLICT: the run {answered.run_id} was asked for as something else"
        return replace(ticked, run_id=answered.run_id, error=error), requested
    told = requests.tells and answered.outcome == "requested"
    return replace(ticked, run_id=answered.run_id, tell=told), requested


def wanted(definition: ScheduleDefinition, run_key: str, tick_at: Instant) -> Wanted:
    return Wanted(
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
    scheduled_for = now // SECOND * SECOND
    run_key = run_key_of(view.stream.id, scheduled_for, manual=True)
    run = wanted(state.definition, run_key, scheduled_for)
    if payload is not None:
        run = replace(run, payload=payload)
    if state.manual and state.manual.is_in(now):
        if state.manual.fingerprint == run.fingerprint():
            return Decision(reply=TickRef(state.manual.segment))
        return Refusal("RUN_KEY_CONFLICT", f"{run_key} was asked for in this second with another payload")
    tell = state.definition.overlap == "skip" and not ends_at_once(state.definition.target)
    requests = Requests(view.stream, view.others, now, tell=tell, authority=state.authority)
    manual = ManualTick(scheduled_for, run.fingerprint(), view.version + 1)
    ticked, requested = _asked(requests, run, ScheduleTicked(scheduled_for, now, "manual", manual=manual))
    requested = replace(requested, payload=payload)
    return Decision(
        (snapshot(state.definition, state.version), ticked, requested),
        also=requests.also,
        effects=tuple(requests.effects),
        reply=TickRef(view.version + 1),
    )


SCHEDULE: Decider[ScheduleState] = Decider(
    kind="schedule",
    state=ScheduleState,
    scope="automation:write",
    targets=(EnableSchedule, DisableSchedule),
    commands=ScheduleCommands,
    events=ScheduleEvents,
    replies=TickRef | None,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    stops=(ShelveSchedule, DisableSchedule, DeleteSchedule),
    tables=(RULES,),
    reasons=TICK_REASONS,
)
