"""Fields that hold a secret or its digest, wherever they stand in commands, events and states.

This one list holds for everything that leaves the process: the ledger as people see it, answers, and the lake.
"""

from __future__ import annotations

from typing import Any

SECRET_FIELDS = frozenset(
    {"secret", "secrets", "secret_digest", "previous_digest", "webhook_secret", "previous_webhook_secret"}
)


def without_secrets(value: Any) -> Any:
    """Return plain JSON data without the fields that hold secrets."""
    if isinstance(value, dict):
        return {name: without_secrets(item) for name, item in value.items() if name not in SECRET_FIELDS}
    return [without_secrets(item) for item in value] if isinstance(value, list) else value
