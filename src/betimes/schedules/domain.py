"""The declaration of schedules and their backfills."""

from __future__ import annotations

from betimes.core.deciders import Command, Event
from betimes.core.instants import render
from betimes.core.outcomes import EventOutcome
from betimes.domain.declaration import Domain
from betimes.schedules.backfills import BACKFILL
from betimes.schedules.decide import SCHEDULE
from betimes.schedules.model import ScheduleState, ScheduleTicked, TicksSkipped
from betimes.schedules.outlook import count_ticks, waiting_ticks
from betimes.schedules.reasons import TICK_REASONS
from betimes.schedules.tables import TABLES
from betimes.schedules.variations import VARIATIONS


def outcome_of(event: Event) -> EventOutcome | None:
    """Return what became of a tick, or of ticks that were left out."""
    match event:
        case ScheduleTicked(error=error):
            return EventOutcome("failed", ("TARGET_FAILED",)) if error else EventOutcome("fired")
        case TicksSkipped(reason=reason):
            return EventOutcome("skipped", (reason,))
        case _:
            return None


def describe_event(event: Event, command: Command | None) -> str:
    """Return what became of a tick, or of ticks that were left out, in a sentence."""
    match event:
        case ScheduleTicked(scheduled_for, _, cause, error=error):
            outcome, after = ("failed", f": {error}") if error else ("fired", "")
            return f"The tick of {render(scheduled_for)} {outcome} ({cause}){after}."
        case TicksSkipped(reason, first, last, count):
            span = render(first) if first == last else f"{render(first)} to {render(last)}"
            left_out = "1 tick was" if count == 1 else f"{count or 'many'} ticks were"
            return f"{left_out} left out, {span}: {TICK_REASONS.get(reason, reason)}."
        case _:
            return ""


def timezone_of(schedule: ScheduleState) -> str:
    """Return the zone its times are in."""
    return schedule.definition.timezone


DOMAIN = Domain(
    package="betimes.schedules",
    area="automation",
    deciders=(SCHEDULE, BACKFILL),
    outcome_of=outcome_of,
    outcomes=("fired", "failed", "skipped"),
    phrases={
        "fired": "the schedule {who} fired",
        "failed": "the schedule {who} could not start its target",
        "skipped": "the schedule {who} skipped ticks",
    },
    describe_event=describe_event,
    tables=TABLES,
    collections=("backfills",),
    waiting_items={"schedule": waiting_ticks},
    occurrences={"schedule": count_ticks},
    timezones={"schedule": timezone_of},
    variations={"schedule": VARIATIONS},
    commands={"schedule": "Schedules."},
)
