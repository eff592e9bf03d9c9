"""Definitions of schedules and sensors as requests, from the bodies that would come over a wire; read-only fields are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from betimes.core.checks import check_value
from betimes.schedules.views import SCHEDULE_READ_ONLY, ScheduleRequest
from betimes.sensors.views import SENSOR_READ_ONLY, SensorRequest


def schedule_request(body: Mapping[str, Any]) -> ScheduleRequest:
    return check_value({name: body[name] for name in body if name not in SCHEDULE_READ_ONLY}, ScheduleRequest)


def sensor_request(body: Mapping[str, Any]) -> SensorRequest:
    return check_value({name: body[name] for name in body if name not in SENSOR_READ_ONLY}, SensorRequest)
