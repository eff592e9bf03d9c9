"""What might have been otherwise when an intent was claimed or fired."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import HOUR
from betimes.domain.variations import Variation, Variations
from betimes.intents.model import IntentState


def vary(command: Command, state: IntentState | None) -> Iterator[Variation]:
    """Return the intent with the shortest cooldown there is."""
    condition = state.definition.condition if state else None
    if state is None or condition is None or state.definition.cooldown <= HOUR:
        return
    definition = replace(state.definition, condition=replace(condition, cooldown_hours=1))
    yield Variation(
        kind="definition",
        says="its cooldown were one hour",
        path="condition.cooldown_hours",
        before=condition.cooldown_hours,
        after=1,
        state=replace(state, definition=definition),
    )


VARIATIONS = Variations(vary=vary)
