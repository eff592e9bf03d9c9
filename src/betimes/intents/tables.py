"""The table of the lake about intents: what was executed."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.lake_tables import INSTANT, SEGMENT_COLUMNS, EventMap, Row, Table, segment_row
from betimes.core.segments import Segment


def intent_executions(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    for event in events:
        if event["type"] == "IntentFired":
            yield {
                **segment_row(segment),
                "intent_id": segment.stream.id,
                "status": event["status"],
                "worker": event.get("worker"),
                "error": event.get("error"),
                "next_check_at": event.get("next_check_at"),
            }


TABLES = (
    Table(
        "intent_executions",
        {
            **SEGMENT_COLUMNS,
            "intent_id": "VARCHAR",
            "status": "VARCHAR",
            "worker": "VARCHAR",
            "error": "VARCHAR",
            "next_check_at": INSTANT,
        },
        intent_executions,
        "intent",
    ),
)
