"""Every reason a verdict on a score may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "OVERDUE": "something is owed",
    "PAUSED": "a score of this status does not fade",
    "GRACE": "its grace lasts",
    "NOTHING_OWED": "the last step is not over",
}
