"""The table of the lake about scores: what changed each."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.lake_tables import MICRO, SEGMENT_COLUMNS, EventMap, Row, Table, segment_row
from betimes.core.segments import Segment

_SCORES = {
    "ScoreCreated": "created",
    "Interacted": "interaction",
    "Decayed": "decay",
    "GameOver": "game_over",
    "StatusChanged": "status",
    "ScoreAdjusted": "adjust",
}


def score_history(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    crossed = [event["name"] for event in events if event["type"] == "ThresholdCrossed"]
    for event in events:
        kind = _SCORES.get(event["type"])
        if kind:
            yield {
                **segment_row(segment),
                "user_id": segment.stream.id,
                "event_type": kind,
                "score": event.get("score"),
                "amount": event.get("amount"),
                "reason": event.get("reason"),
                "status": event.get("status"),
                "thresholds_crossed": crossed if kind == "decay" else [],
            }


TABLES = (
    Table(
        "score_history",
        {
            **SEGMENT_COLUMNS,
            "user_id": "VARCHAR",
            "event_type": "VARCHAR",
            "score": MICRO,
            "amount": MICRO,
            "reason": "VARCHAR",
            "status": "VARCHAR",
            "thresholds_crossed": "VARCHAR[]",
        },
        score_history,
        "score",
    ),
)
