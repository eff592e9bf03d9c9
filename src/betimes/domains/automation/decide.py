"""Everything that automation decides."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Decider
from betimes.domains.automation.backfills import BACKFILL
from betimes.domains.automation.schedules import SCHEDULE
from betimes.domains.automation.sensors import SENSOR

DECIDERS: tuple[Decider[Any], ...] = (SCHEDULE, BACKFILL, SENSOR)
