"""Variations of an evaluation that led to no run, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator

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
        request, before = replace(command, expected_state_version=current), command.expected_state_version
        says = "it had begun at the version the sensor was at"
        yield Variation("request", says, "expected_state_version", before, current, command=request)
    if state.in_flight and state.in_flight.expected_state_version != current:
        began = state.in_flight.expected_state_version
        says = "the sensor had not changed in the meantime"
        changed = replace(state, state_version=began)
        yield Variation("definition", says, "state_version", current, began, state=changed)
    if limit < RUN_REQUESTS_MAX:
        changed = replace(state, definition=replace(state.definition, max_run_requests=RUN_REQUESTS_MAX))
        says = f"it had been allowed to ask for {RUN_REQUESTS_MAX:,} runs"
        yield Variation("definition", says, "max_run_requests", limit, RUN_REQUESTS_MAX, state=changed)


VARIATIONS = Variations(vary=vary)
