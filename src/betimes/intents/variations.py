"""What might have been otherwise when an intent was claimed or fired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import HOUR
from betimes.domain.variations import Variation, Variations
from betimes.intents.model import IntentState


def vary(command: Command, state: IntentState | None) -> Iterator[Variation]:
    """Return the intent with shorter and shorter cooldowns, by half, and one that had not fired before."""
    condition = state.definition.condition if state else None
    if state is None or condition is None or not state.definition.cooldown:
        return
    hours = state.definition.cooldown // HOUR
    while hours > 1:
        hours //= 2
        definition = replace(state.definition, condition=replace(condition, cooldown_hours=hours))
        yield _define(
            f"its cooldown were {hours} h",
            "condition.cooldown_hours",
            condition.cooldown_hours,
            hours,
            replace(state, definition=definition),
        )
    if state.last_condition_fire_at is not None:
        changed = replace(state, last_condition_fire_at=None)
        yield _define("it had not fired before", "last_fired_at", "set", "none", changed)


def _define(says: str, path: str, before: Any, after: Any, state: IntentState) -> Variation:
    return Variation(kind="definition", says=says, path=path, before=before, after=after, state=state)


VARIATIONS = Variations(vary=vary)
