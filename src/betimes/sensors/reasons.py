"""Every reason code that an evaluation may carry, with its meaning."""

from __future__ import annotations

EVALUATION_REASONS = {
    "TRIGGERED": "it asks for runs",
    "NO_CHANGE": "it asks for no run",
    "STALE_CURSOR": "the sensor had moved on in the meantime",
    "EVALUATION_ERROR": "the evaluator failed",
}
