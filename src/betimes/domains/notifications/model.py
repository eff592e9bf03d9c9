"""The streams of notifications: commands, events, states."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.streams import StreamId

NOTIFICATIONS = "notifications"
"""The collection in which event ids are keys; a repeat must agree in the user."""

Priority: TypeAlias = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW"]


def inbox_stream(tenant: str, user_id: str) -> StreamId:
    return StreamId(tenant, "inbox", user_id)


class Notify(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Tell this person something; the event id is the command's key."""

    event_type: str
    title: str
    message: str
    source: str
    channels: tuple[str, ...]
    priority_hint: Priority | None = None
    happened_at: Instant | None = None
    expires_at: Instant | None = None
    dedupe_key: str | None = None
    metadata: dict[str, Any] = {}
    report_to: StreamId | None = None
    """Told with `TargetSettled` once it is delivered, suppressed or has failed."""
