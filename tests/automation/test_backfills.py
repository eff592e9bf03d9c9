"""Backfills as scenarios: some at a time, what exists is passed over, and an end that is counted."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Call, Send
from betimes.core.instants import HOUR, MINUTE, SECOND, Instant, parse
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.domain.targets import CommandTarget, HandlerTarget, StreamName
from betimes.runs.model import RunState, run_id_of, run_stream
from betimes.schedules.backfill_model import (
    AdvanceBackfill,
    BackfillChecked,
    BackfillEnded,
    BackfillState,
    CancelBackfill,
    PauseBackfill,
    ResumeBackfill,
    StartBackfill,
)
from betimes.schedules.backfills import BACKFILL
from betimes.schedules.model import (
    ScheduleDefinition,
    ScheduleState,
    ScheduleTicked,
    Upcoming,
    run_key_of,
    schedule_stream,
)
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
SCHEDULE = schedule_stream("tenant", "brief")
SECTIONS: dict[str, Any] = {}


def backfill(
    hours: int = 3, concurrency: int = 2, existing: tuple[int, ...] = (), **fields: Any
) -> Scenario[BackfillState]:
    """The ticks at every full hour before nine."""
    definition = ScheduleDefinition(**{"cron": "0 * * * *", "target": HandlerTarget("brief"), **fields})
    schedule = ScheduleState(definition, 1, NINE, NINE, NINE)
    runs = {run_at(hour): RunState("succeeded", fingerprint="x") for hour in existing}
    scenario = given(BACKFILL).with_others({SCHEDULE: schedule, **runs})
    return scenario.when(StartBackfill("brief", NINE - hours * HOUR, NINE, concurrency, hours, 1))


def run_at(hours_before: int) -> StreamId:
    return run_stream("tenant", run_id_at(hours_before))


def run_id_at(hours_before: int) -> str:
    return run_id_of("tenant", run_key_of("brief", NINE - hours_before * HOUR))


def advances(scenario: Scenario[BackfillState]) -> Scenario[BackfillState]:
    """Take the command that the backfill sent to itself."""
    [command] = [e.command for e in scenario.decision.effects if isinstance(e, Send) and e.to == scenario.stream]
    assert isinstance(command, AdvanceBackfill)
    return scenario.when(command)


def ticks(scenario: Scenario[BackfillState]) -> list[Instant]:
    also = scenario.decision.also.get(SCHEDULE, ())
    return [event.scheduled_for for event in also if isinstance(event, ScheduleTicked)]


def finish(scenario: Scenario[BackfillState], hours_before: int, status: Any = "succeeded") -> Scenario[BackfillState]:
    return scenario.when(RunFinished(run_id_at(hours_before), "", status))


def counts(scenario: Scenario[BackfillState]) -> tuple[str, int, int, int, int]:
    state = scenario.state
    assert state
    return state.status, state.done, state.existing, state.failed, len(state.running)


def test_a_backfill_fires_as_many_as_may_run_at_once_under_their_ordinary_names() -> None:
    scenario = advances(backfill())
    assert ticks(scenario) == [NINE - 3 * HOUR, NINE - 2 * HOUR]
    also = scenario.decision.also[SCHEDULE]
    assert {event.cause for event in also if isinstance(event, ScheduleTicked)} == {"backfill"}
    calls = [effect for effect in scenario.decision.effects if isinstance(effect, Call)]
    assert [call.payload["run_key"] for call in calls] == [run_key_of("brief", NINE - h * HOUR) for h in (3, 2)]
    assert counts(scenario) == ("running", 0, 0, 0, 2)


def test_the_next_one_fires_when_one_ends_and_the_last_end_completes_it() -> None:
    scenario = advances(finish(advances(backfill()), 3))
    assert ticks(scenario) == [NINE - HOUR]
    finish(finish(scenario, 2, "dead"), 1)
    assert counts(scenario) == ("completed", 2, 0, 1, 0)
    assert scenario.state
    assert scenario.state.finished_at == NINE


def test_an_instant_that_has_a_tick_is_existing_and_does_not_fire_again() -> None:
    scenario = advances(backfill(existing=(3, 1)))
    assert ticks(scenario) == [NINE - 2 * HOUR]
    finish(advances(scenario), 2)
    assert counts(scenario) == ("completed", 1, 2, 0, 0)


def test_where_everything_exists_it_looks_at_more_at_a_time() -> None:
    scenario = advances(backfill(hours=300, concurrency=1, existing=tuple(range(1, 301))))
    steps = 1
    while scenario.state and scenario.state.status == "running":
        advances(scenario)
        steps += 1
    assert counts(scenario) == ("completed", 0, 300, 0, 0)
    assert steps == 4


def test_the_range_is_half_open() -> None:
    scenario = given(BACKFILL).with_others(backfill().others)
    scenario.when(StartBackfill("brief", NINE - HOUR, NINE, 9, 1, 1))
    assert ticks(advances(scenario)) == [NINE - HOUR]


def test_a_range_without_ticks_is_completed_at_once() -> None:
    scenario = given(BACKFILL).with_others(backfill().others)
    scenario.when(StartBackfill("brief", NINE - 10 * MINUTE, NINE, 1, 0, 1))
    assert counts(scenario)[0] == "completed"


def test_a_paused_backfill_fires_nothing_until_it_goes_on() -> None:
    scenario = advances(backfill()).when(PauseBackfill())
    finish(scenario, 3).then_effects()
    scenario.when(AdvanceBackfill("brief", (NINE - HOUR,))).then_nothing()
    scenario.when(PauseBackfill()).then_refused("WRONG_STATE")
    assert ticks(advances(scenario.when(ResumeBackfill()))) == [NINE - HOUR]
    scenario.when(ResumeBackfill()).then_refused("WRONG_STATE")


def test_a_cancelled_backfill_stays_so() -> None:
    scenario = advances(backfill()).when(CancelBackfill()).then(BackfillEnded("cancelled", NINE))
    finish(scenario, 3).then_effects()
    assert counts(scenario) == ("cancelled", 1, 0, 0, 1)
    scenario.when(CancelBackfill()).then_refused("WRONG_STATE")


def test_a_deleted_schedule_ends_its_backfill() -> None:
    scenario = backfill()
    scenario.others.pop(SCHEDULE)
    advances(scenario).then(BackfillEnded("cancelled", NINE, "SCHEDULE_DELETED"))


def test_the_same_step_twice_fires_once() -> None:
    scenario = backfill()
    step = AdvanceBackfill("brief", (NINE - 3 * HOUR, NINE - 2 * HOUR))
    scenario.when(step)
    scenario.when(step).then_nothing()


def test_what_the_schedule_has_not_dealt_with_yet_is_left_to_it_first() -> None:
    scenario = backfill()
    schedule = scenario.others[SCHEDULE]
    due_at = NINE + 5 * MINUTE
    owing = replace(schedule, created_at=0, changed_at=NINE - 3 * HOUR, next=Upcoming(NINE - 2 * HOUR, due_at))
    scenario.with_others({SCHEDULE: owing})
    assert ticks(advances(scenario)) == [NINE - 3 * HOUR]
    advances(scenario).then(BackfillChecked(NINE, due_at + SECOND)).then_effects().then_alarm(due_at + SECOND)
    scenario.with_others({SCHEDULE: replace(owing, through_at=NINE)})
    assert ticks(advances(scenario.wakes())) == [NINE - 2 * HOUR]


def test_what_a_paused_schedule_owes_may_be_backfilled() -> None:
    scenario = backfill()
    paused = replace(scenario.others[SCHEDULE], created_at=0, changed_at=NINE - 9 * HOUR, status="paused")
    assert len(ticks(advances(scenario.with_others({SCHEDULE: paused})))) == 2


def test_a_step_that_was_lost_is_taken_again() -> None:
    scenario = backfill().then_alarm(NINE + MINUTE).wakes()
    assert ticks(advances(scenario)) == [NINE - 3 * HOUR, NINE - 2 * HOUR]


def test_commands_are_done_as_soon_as_they_are_sent() -> None:
    scenario = backfill(target=CommandTarget(StreamName("gate", "front"), {"type": "Open"}))
    while scenario.state and scenario.state.status == "running":
        advances(scenario)
    assert counts(scenario) == ("completed", 3, 0, 0, 0)


def test_what_cannot_be_backfilled_is_refused() -> None:
    others = backfill().others
    start = StartBackfill("brief", NINE - HOUR, NINE, 1, 1, 1)
    given(BACKFILL).when(start).then_refused("NOT_FOUND")
    fresh = given(BACKFILL).with_others(others)
    fresh.when(StartBackfill("brief", NINE - HOUR, NINE + 1, 1, 1, 1)).then_refused("INVALID")
    fresh.when(StartBackfill("brief", NINE - HOUR, NINE, 1, 1, 2)).then_refused("VERSION_MISMATCH")
    fresh.when(start).when(start).then_refused("ALREADY_EXISTS")
