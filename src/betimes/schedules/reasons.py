"""Every reason code that a tick may carry, with its meaning."""

from __future__ import annotations

TICK_REASONS = {
    "DUE": "it is due",
    "NOTHING_DUE": "no occurrence is due",
    "MISSED_OUTSIDE_WINDOW": "it was missed for longer than the catch-up window",
    "OVER_CATCHUP_LIMIT": "more were missed than are caught up",
    "OVERLAP": "the run before it has not ended",
    "PAUSED": "the schedule was paused",
    "TARGET_FAILED": "what it was to start could not be started",
}
