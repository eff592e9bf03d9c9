"""Every reason a verdict on a trigger may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "WITHIN_LIMITS": "it is within all limits",
    "DEBOUNCED": "it falls within the debounce of its trigger type",
    "BUDGET_EXHAUSTED": "the run budget is used up",
    "COOLDOWN": "the account ran too recently",
    "ACCOUNT_HOURLY_CAP": "the account has used up its runs of this type for the hour",
    "TENANT_HOURLY_CAP": "the tenant has used up its runs of this type for the hour",
    "MARGINAL_VALUE_LOW": "so many actions were taken already that another run is worth little",
    "RETRY_EXHAUSTED": "it would have to wait again and has no retry left",
    "DUPLICATE_IDEMPOTENCY_KEY": "the idempotency key was used before",
    "UNKNOWN_TRIGGER_TYPE": "the trigger type is not in the registry",
    "CANCELLED": "it was cancelled while it waited",
}
