"""The outlook of a schedule: its next tick, and how many ticks it has in each step of time."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.occurrence_counts import StepCounts, StepGrid, count_steps
from betimes.core.outlooks import WaitingItem
from betimes.schedules.model import ScheduleState


def waiting_ticks(schedule: ScheduleState) -> Iterator[WaitingItem]:
    """Yield the next tick."""
    if schedule.next and schedule.status == "active":
        yield WaitingItem(at=schedule.next.due_at, what="tick")


def count_ticks(schedule: ScheduleState, grid: StepGrid, work_max: int) -> StepCounts:
    """Return how many ticks an active schedule has in each step, by their nominal instants."""
    definition = schedule.definition
    if schedule.status != "active":
        return StepCounts([0] * grid.size, False, 0)
    first_at = definition.starts_at or grid.since_at
    last_at = grid.until_at if definition.ends_at is None else definition.ends_at
    return count_steps(definition.recurrence.occurrences(), grid, first_at, last_at, work_max)
