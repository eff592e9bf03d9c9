"""The lake table of notifications: one row per released, postponed, suppressed or digested item."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.lake_tables import SEGMENT_COLUMNS, EventMap, Row, Table, segment_row
from betimes.core.segments import Segment

_OUTCOMES = {"Released": "released", "Postponed": "postponed", "Suppressed": "suppressed", "Digested": "digested"}


def notifications(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    """Yield the rows of a segment."""
    for event in events:
        outcome = _OUTCOMES.get(event["type"])
        if outcome:
            item = event["item"] if isinstance(event.get("item"), dict) else {}
            yield {
                **segment_row(segment),
                "user_id": segment.stream.id,
                "outcome": outcome,
                "event_id": event.get("event_id") or item.get("event_id"),
                "event_type": event.get("event_type") or item.get("event_type"),
                "channels": event.get("channels") or item.get("channels") or [],
                "reasons": event.get("reasons") or item.get("reasons") or [],
            }


TABLES = (
    Table(
        "notifications",
        {
            **SEGMENT_COLUMNS,
            "user_id": "VARCHAR",
            "event_id": "VARCHAR",
            "event_type": "VARCHAR",
            "outcome": "VARCHAR",
            "channels": "VARCHAR[]",
            "reasons": "VARCHAR[]",
        },
        notifications,
        "inbox",
    ),
)
