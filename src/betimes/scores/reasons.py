"""Every reason a verdict on a score may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "OVERDUE": "a loss is due",
    "PAUSED": "a score with this status does not fade",
    "GRACE": "its grace period is not over",
    "NOTHING_OWED": "the next loss is not due yet",
}
