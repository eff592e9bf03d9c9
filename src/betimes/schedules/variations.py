"""What might have been otherwise when a schedule's ticks were judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.domain.variations import Variation, Variations
from betimes.schedules.model import ScheduleState

WINDOW_MINUTES_MAX = 525_600


def vary(command: Command, state: ScheduleState | None) -> Iterator[Variation]:
    """Return the schedule with overlaps allowed, or with the longest catch-up window."""
    if state is None:
        return
    definition = state.definition
    if definition.overlap == "skip":
        yield _define(state, "its runs might overlap", "overlap", "skip", "allow")
    if definition.catchup_window_minutes < WINDOW_MINUTES_MAX:
        says, window = "its catch-up window were a year", definition.catchup_window_minutes
        yield _define(state, says, "catchup_window_minutes", window, WINDOW_MINUTES_MAX)


def _define(state: ScheduleState, says: str, field: str, before: Any, after: Any) -> Variation:
    changed = replace(state, definition=replace(state.definition, **{field: after}))
    return Variation(kind="definition", says=says, path=field, before=before, after=after, state=changed)


VARIATIONS = Variations(vary=vary)
