"""Tables of the lake about schedules: ticks, and what each schedule has become."""

from __future__ import annotations

from collections.abc import Iterator

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
from betimes.core.segments import Segment
from betimes.schedules.model import lag_ms, tick_id_of


def schedule_ticks(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    schedule_id = segment.stream.id
    snapshot: EventMap = {}
    tzdata_version = next((event["tzdata_version"] for event in events if "tzdata_version" in event), None)
    for place, event in enumerate(events):
        match event["type"]:
            case "SnapshotTaken":
                snapshot = event
            case "TicksSkipped":
                yield {
                    **segment_row(segment),
                    "schedule_id": schedule_id,
                    "status": "skipped",
                    "cause": "cron",
                    "definition_version": event.get("definition_version"),
                    "reason": event["reason"],
                    "count": event.get("count"),
                    "first": event["first"],
                    "last": event["last"],
                    "scheduled_for": event["first"],
                    "tzdata_version": tzdata_version,
                }
            case "ScheduleTicked":
                after = events[place + 1] if place + 1 < len(events) else {}
                yield _tick(segment, event, snapshot, after if after.get("type") == "RunRequested" else {})
            case _:
                continue


def _tick(segment: Segment, event: EventMap, snapshot: EventMap, run: EventMap) -> Row:
    cause = event.get("cause", "cron")
    scheduled_for, fired_at = event["scheduled_for"], event["fired_at"]
    return {
        **segment_row(segment),
        "schedule_id": segment.stream.id,
        "status": "failed" if event.get("error") else "fired",
        "tick_id": tick_id_of(segment.stream.id, scheduled_for, cause == "manual"),
        "cause": cause,
        "scheduled_for": scheduled_for,
        "fired_at": fired_at,
        "lag_ms": lag_ms(cause, scheduled_for, fired_at),
        "run_key": run.get("run_key"),
        "run_id": run.get("run_id"),
        "outcome": run.get("outcome", "requested") if run else None,
        "definition_version": snapshot.get("definition_version"),
        "asset_selection": snapshot.get("asset_selection", []),
        "partition_selection": snapshot.get("partition_selection"),
        "tzdata_version": snapshot.get("tzdata_version"),
        "error": event.get("error"),
    }


_SCHEDULE = {
    **DEFINITION_PARTS,
    "cron": Part(JSON, "$.definition.cron"),
    "every": Part(JSON, "$.definition.every"),
    "timezone": Part("VARCHAR", "$.definition.timezone"),
    "changed_at": Part(INSTANT, "$.changed_at"),
    "last_scheduled_for": Part(INSTANT, "$.last_scheduled_for"),
    "next_tick_at": Part(INSTANT, "$.next[0]"),
}

TABLES = (
    Table(
        "schedule_ticks",
        {
            **SEGMENT_COLUMNS,
            "schedule_id": "VARCHAR",
            "tick_id": "VARCHAR",
            "status": "VARCHAR",
            "cause": "VARCHAR",
            "scheduled_for": INSTANT,
            "fired_at": INSTANT,
            "lag_ms": "BIGINT",
            "run_key": "VARCHAR",
            "run_id": "VARCHAR",
            "outcome": "VARCHAR",
            "definition_version": "BIGINT",
            "asset_selection": "VARCHAR[]",
            "partition_selection": "VARCHAR[]",
            "tzdata_version": "VARCHAR",
            "reason": "VARCHAR",
            "count": "BIGINT",
            "first": INSTANT,
            "last": INSTANT,
            "error": "VARCHAR",
        },
        schedule_ticks,
        "schedule",
    ),
    Table("schedule_state", STATE_COLUMNS, kind="schedule", parts=_SCHEDULE),
)
