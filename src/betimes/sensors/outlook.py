"""The outlook of a sensor: its next evaluation, or until when the one under way must have come back."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.outlooks import WaitingItem
from betimes.sensors.model import SensorState


def waiting_evaluation(sensor: SensorState) -> Iterator[WaitingItem]:
    """Yield what an active sensor waits for."""
    if sensor.status != "active":
        return
    if sensor.in_flight:
        yield WaitingItem(at=sensor.in_flight.deadline_at, what="evaluation ends")
    elif sensor.next_at is not None:
        yield WaitingItem(at=sensor.next_at, what="evaluation")
