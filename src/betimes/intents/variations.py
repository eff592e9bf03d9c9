"""Variations of an intent's claim or fire, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator

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
        changed, says = replace(state, definition=definition), f"its cooldown had been {hours} h"
        before = condition.cooldown_hours
        yield Variation("definition", says, "condition.cooldown_hours", before, hours, state=changed)
    if state.last_condition_fire_at is not None:
        changed = replace(state, last_condition_fire_at=None)
        yield Variation("definition", "it had not fired before", "last_fired_at", "set", "none", state=changed)


VARIATIONS = Variations(vary=vary)
