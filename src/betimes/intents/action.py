"""An intent's action, as the handler that carries it out is given it."""

from __future__ import annotations

from typing import Any

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a handler."""

    action_id: str
    """The same for every attempt at this check: a key for whatever the handler does elsewhere."""
    attempt: int
    """One more than the failures in a row before it."""
    tenant: str
    intent_id: str
    user_id: str
    action_type: str
    action_context: str
    action_priority: str
    trigger_data: dict[str, Any]
    metadata: dict[str, Any]
    condition: str = ""
    """The condition that came true, in words; empty for intents that go by the clock."""
    action_channels: tuple[str, ...] | None = None
