"""Everything that automation decides."""

from __future__ import annotations

from betimes.domains.automation.backfills import BACKFILL
from betimes.domains.automation.schedules import SCHEDULE

DECIDERS = (SCHEDULE, BACKFILL)
