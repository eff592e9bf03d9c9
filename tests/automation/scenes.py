"""Schedules to play scenes with."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Event
from betimes.core.instants import Instant, parse
from betimes.core.streams import StreamId
from betimes.domain.targets import HandlerTarget
from betimes.runs.model import run_id_of, run_stream
from betimes.schedules.decide import SCHEDULE
from betimes.schedules.model import DefineSchedule, ScheduleDefinition, ScheduleState, ScheduleTicked, TicksSkipped
from betimes.testing.scenarios import Scenario, given

NINE = parse("2026-01-05T09:00:00Z")
STREAM = StreamId("tenant", "schedule", "subject")


def definition(cron: str = "*/5 * * * *", **fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(**{"cron": cron, "target": HandlerTarget("brief"), **fields})


def schedule(cron: str = "*/5 * * * *", **fields: Any) -> Scenario[ScheduleState]:
    return given(SCHEDULE).when(DefineSchedule(definition(cron, **fields)))


def of(scenario: Scenario[ScheduleState], kind: type[Event]) -> list[Any]:
    return [event for event in scenario.decision.events if isinstance(event, kind)]


def fired(scenario: Scenario[ScheduleState]) -> list[Instant]:
    return [tick.scheduled_for for tick in of(scenario, ScheduleTicked) if not tick.error]


def skipped(scenario: Scenario[ScheduleState]) -> list[tuple[str, int | None, Instant, Instant]]:
    return [(r.reason, r.count, r.first, r.last) for r in of(scenario, TicksSkipped)]


def run_of(run_key: str) -> StreamId:
    return run_stream("tenant", run_id_of("tenant", run_key))
