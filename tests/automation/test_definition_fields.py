"""Every field of a definition can be sent and is shown: none is forgotten where structs are derived by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from betimes.schedules.model import ScheduleDefinition
from betimes.schedules.views import SCHEDULE_READ_ONLY, ScheduleRequest, ScheduleView
from betimes.sensors.model import SensorDefinition
from betimes.sensors.views import SENSOR_READ_ONLY, SensorRequest, SensorView


@pytest.mark.parametrize(
    ("definition", "request_type", "view", "read_only", "id"),
    [
        (ScheduleDefinition, ScheduleRequest, ScheduleView, SCHEDULE_READ_ONLY, "schedule_id"),
        (SensorDefinition, SensorRequest, SensorView, SENSOR_READ_ONLY, "sensor_id"),
    ],
    ids=["schedule", "sensor"],
)
def test_every_field_of_a_definition_can_be_sent_and_is_shown(
    definition: type[msgspec.Struct],
    request_type: type[msgspec.Struct],
    view: type[msgspec.Struct],
    read_only: frozenset[str],
    id: str,
) -> None:
    fields: set[Any] = {*definition.__struct_fields__, id}
    assert fields == {*request_type.__struct_fields__}
    assert fields == {*view.__struct_fields__} - read_only
