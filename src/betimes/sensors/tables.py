"""Tables of the lake about sensors: evaluations, and what each sensor has become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from betimes.core.canonical import encode
from betimes.core.lake_tables import (
    DEFINITION_PARTS,
    INSTANT,
    JSON,
    SEGMENT_COLUMNS,
    STATE_COLUMNS,
    EventMap,
    Part,
    Row,
    Table,
    segment_row,
)
from betimes.core.secret_fields import without_secrets
from betimes.core.segments import Segment


def sensor_evals(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    runs = [without_secrets(event) for event in events if event["type"] == "RunRequested"]
    for event in events:
        if event["type"] == "SensorEvaluated":
            yield {
                **segment_row(segment),
                "sensor_id": segment.stream.id,
                "evaluation_id": event["evaluation_id"],
                "cause": event["cause"],
                "message_id": event.get("message_id"),
                "status": event["status"],
                "received": event.get("received"),
                "duration_ms": event.get("duration_ms", 0),
                "expected_state_version": event.get("expected_state_version"),
                "state_version": event.get("state_version"),
                "cursor_before": _json(event.get("cursor_before")),
                "cursor": _json(event.get("cursor")),
                "error": event.get("error"),
                "run_keys": [run["run_key"] for run in runs],
                "run_ids": [run["run_id"] for run in runs],
                "outcomes": [run.get("outcome", "requested") for run in runs],
            }


def _json(value: Any) -> str | None:
    return None if value is None else encode(value)


_SENSOR = {
    **DEFINITION_PARTS,
    "sensor_type": Part("VARCHAR", "$.definition.sensor_type"),
    "state_version": Part("BIGINT", "$.state_version", "1"),
    "cursor": Part(JSON, "$.cursor"),
    "next_evaluation_at": Part(INSTANT, "$.next_at"),
    "last_evaluated_at": Part(INSTANT, "$.last_evaluated_at"),
    "consecutive_errors": Part("BIGINT", "$.consecutive_errors", "0"),
}

TABLES = (
    Table(
        "sensor_evals",
        {
            **SEGMENT_COLUMNS,
            "sensor_id": "VARCHAR",
            "evaluation_id": "VARCHAR",
            "cause": "VARCHAR",
            "message_id": "VARCHAR",
            "status": "VARCHAR",
            "received": "BIGINT",
            "duration_ms": "BIGINT",
            "expected_state_version": "BIGINT",
            "state_version": "BIGINT",
            "cursor_before": "VARCHAR",
            "cursor": "VARCHAR",
            "error": "VARCHAR",
            "run_keys": "VARCHAR[]",
            "run_ids": "VARCHAR[]",
            "outcomes": "VARCHAR[]",
        },
        sensor_evals,
        "sensor",
    ),
    Table("sensor_state", STATE_COLUMNS, kind="sensor", parts=_SENSOR),
)
