"""Variations of a schedule's ticks, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import render
from betimes.domain.variations import Variation, Variations
from betimes.schedules.model import ScheduleState

WINDOWS = {1_440: "a day", 10_080: "a week", 43_200: "30 days", 525_600: "a year"}
"""Catch-up windows that a person would choose, in minutes; the last is the longest there is."""


def vary(command: Command, state: ScheduleState | None) -> Iterator[Variation]:
    """Return the schedule with overlaps allowed, with a longer catch-up window, or without its end."""
    if state is None:
        return
    definition = state.definition
    if definition.overlap == "skip":
        yield _define(state, "its runs had been allowed to overlap", "overlap", "skip", "allow")
    window = definition.catchup_window_minutes
    for minutes, words in WINDOWS.items():
        if minutes > window:
            yield _define(state, f"its catch-up window had been {words}", "catchup_window_minutes", window, minutes)
    if definition.ends_at is not None:
        yield _define(state, "it had had no end", "ends_at", render(definition.ends_at), None)


def _define(state: ScheduleState, says: str, field: str, before: Any, after: Any) -> Variation:
    changed = replace(state, definition=replace(state.definition, **{field: after}))
    return Variation(kind="definition", says=says, path=field, before=before, after=after, state=changed)


VARIATIONS = Variations(vary=vary)
