"""Every reason a verdict on a trigger may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "WITHIN_LIMITS": "it is within all limits",
    "DEBOUNCED": "a run of this type was too recent, or more triggers of this type may follow",
    "BUDGET_EXHAUSTED": "the run budget is used up",
    "COOLDOWN": "the account ran too recently",
    "ACCOUNT_HOURLY_CAP": "the account has had its runs of this type for the hour",
    "TENANT_HOURLY_CAP": "the tenant has had its runs of this type for the hour",
    "MARGINAL_VALUE_LOW": "so many actions were taken already that another run is worth little",
    "RETRY_EXHAUSTED": "it would have to wait once more and has no retry left",
    "DUPLICATE_IDEMPOTENCY_KEY": "the idempotency key was used before",
    "UNKNOWN_TRIGGER_TYPE": "the trigger type is not in the registry",
    "CANCELLED": "it was cancelled while it waited",
}
