"""Every reason code that a tick may carry, with its meaning."""

from __future__ import annotations

TICK_REASONS = {
    "DUE": "it is due",
    "NOTHING_DUE": "no occurrence is due",
    "MISSED_OUTSIDE_WINDOW": "it is older than the catch-up window",
    "OVER_CATCHUP_LIMIT": "more were missed than the catch-up limit allows",
    "OVERLAP": "the previous run has not ended",
    "PAUSED": "the schedule was paused",
    "TARGET_FAILED": "its target could not be started",
}
