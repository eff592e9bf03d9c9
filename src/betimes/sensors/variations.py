"""What might have been otherwise when an evaluation led to no run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.domain.variations import Variation, Variations
from betimes.sensors.model import RUN_REQUESTS_MAX, Evaluated, SensorState


def vary(command: Command, state: SensorState | None) -> Iterator[Variation]:
    """Return an evaluation that began at the state the sensor is in, and a sensor that lets it ask for more runs."""
    if state is None:
        return
    current, limit = state.state_version, state.definition.max_run_requests
    if isinstance(command, Evaluated) and command.expected_state_version != current:
        changed = replace(command, expected_state_version=current)
        says = "it had begun at the state the sensor was in"
        yield Variation(
            kind="request",
            says=says,
            path="expected_state_version",
            before=command.expected_state_version,
            after=current,
            command=changed,
        )
    if state.in_flight and state.in_flight.expected_state_version != current:
        began = state.in_flight.expected_state_version
        says = "the sensor had not been changed meanwhile"
        yield _define(says, "state_version", current, began, replace(state, state_version=began))
    if limit < RUN_REQUESTS_MAX:
        definition = replace(state.definition, max_run_requests=RUN_REQUESTS_MAX)
        says = f"it might ask for {RUN_REQUESTS_MAX:,} runs"
        yield _define(says, "max_run_requests", limit, RUN_REQUESTS_MAX, replace(state, definition=definition))


def _define(says: str, path: str, before: Any, after: Any, state: SensorState) -> Variation:
    return Variation(kind="definition", says=says, path=path, before=before, after=after, state=state)


VARIATIONS = Variations(vary=vary)
