"""The tables of the lake: their columns, and how a segment becomes their rows.

A table is data: its columns with DuckDB's types, and a function from a segment and its events (as plain mappings, so
that a table names event types and imports no domain) to rows. To add the rows of another domain, write such a function
and add its `Table` to `TABLES`; every row carries `recorded_at`, the instant whose date it is filed under. Tables of
states have no such function: they are folded by the deciders themselves (`states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.instants import nearest
from betimes.core.segments import Segment
from betimes.domains.automation.model import tick_id_of
from betimes.domains.automation.sensor_model import HIDDEN_FIELDS

Row: TypeAlias = dict[str, Any]
EventMap: TypeAlias = dict[str, Any]
INSTANT = "INSTANT"
"""Microseconds in the ledger, a timestamp adjusted to UTC in the lake."""
MICRO = "MICRO"
"""Millionths in the ledger, a DECIMAL(18,6) in the lake."""
_STREAM = {"tenant": "VARCHAR", "seq": "BIGINT", "segment_id": "VARCHAR", "recorded_at": INSTANT}
JSON = "JSON"
"""Any value in a state, its JSON in the lake."""
_STATE = {
    "tenant": "VARCHAR", "id": "VARCHAR", "version": "BIGINT", "recorded_at": INSTANT, "status": "VARCHAR",
    "is_deleted": "BOOLEAN", "state": "VARCHAR",
}  # fmt: skip


class Part(msgspec.Struct, frozen=True):
    """A column that shows a part of a state: where it is in its JSON, and what it is where a state leaves it out."""

    type: str
    path: str
    default: str = "NULL"


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: dict[str, str]
    rows: Callable[[Segment, list[EventMap]], Iterable[Row]] | None = None
    kind: str = ""
    """Of streams whose rows it has; of a table of states, whose states."""
    parts: dict[str, Part] = {}
    """Of a table of states: further columns."""
    marked: Callable[[Segment, str], Row] | None = None
    """The row of a segment that cannot be read, and why; a table without it leaves such segments out."""


def hidden(value: Any) -> Any:
    """A value without the secrets in it."""
    if isinstance(value, dict):
        return {name: hidden(item) for name, item in value.items() if name not in HIDDEN_FIELDS}
    return [hidden(item) for item in value] if isinstance(value, list) else value


def hidden_text(text: str | None) -> str | None:
    if text is None or '"secret' not in text:
        return text
    return encode(hidden(msgspec.json.decode(text)))


def _base(segment: Segment) -> Row:
    return {
        "tenant": segment.stream.tenant,
        "seq": segment.seq,
        "segment_id": segment.handle,
        "recorded_at": nearest(segment.at),
    }


def segments(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    key = segment.key
    yield {
        **_base(segment), "kind": segment.stream.kind, "id": segment.stream.id, "version": segment.version,
        "turn": segment.turn, "collection": key and key.collection, "key": key and key.key,
        "command": hidden_text(segment.command), "events": hidden_text(segment.events),
        "event_types": [event["type"] for event in events], "verdict": segment.verdict,
        "policy": segment.policy, "actor": segment.actor, "correlation": segment.correlation,
        "cause": segment.cause, "digest": segment.digest, "unreadable": None,
    }  # fmt: skip


def unreadable_segment(segment: Segment, why: str) -> Row:
    """Return the row of a segment that cannot be read: what it is, without what it says."""
    [row] = segments(replace(segment, command=None, events="[]", verdict=None), [])
    return {**row, "unreadable": why}


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
                    **_base(segment), "schedule_id": schedule_id, "status": "skipped", "cause": "cron",
                    "definition_version": event.get("definition_version"), "reason": event["reason"],
                    "count": event.get("count"), "first": event["first"], "last": event["last"],
                    "scheduled_for": event["first"], "tzdata_version": tzdata_version,
                }  # fmt: skip
            case "ScheduleTicked":
                after = events[place + 1] if place + 1 < len(events) else {}
                yield _tick(segment, event, snapshot, after if after.get("type") == "RunRequested" else {})
            case _:
                continue


def _tick(segment: Segment, event: EventMap, snapshot: EventMap, run: EventMap) -> Row:
    cause = event.get("cause", "cron")
    scheduled_for, fired_at = event["scheduled_for"], event["fired_at"]
    return {
        **_base(segment), "schedule_id": segment.stream.id, "status": "failed" if event.get("error") else "fired",
        "tick_id": tick_id_of(segment.stream.id, scheduled_for, cause == "manual"), "cause": cause,
        "scheduled_for": scheduled_for, "fired_at": fired_at, "lag_ms": (fired_at - scheduled_for) // 1_000,
        "run_key": run.get("run_key"), "run_id": run.get("run_id"),
        "outcome": run.get("outcome", "requested") if run else None,
        "definition_version": snapshot.get("definition_version"),
        "asset_selection": snapshot.get("asset_selection", []),
        "partition_selection": snapshot.get("partition_selection"),
        "tzdata_version": snapshot.get("tzdata_version"), "error": event.get("error"),
    }  # fmt: skip


def sensor_evals(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    runs = [hidden(event) for event in events if event["type"] == "RunRequested"]
    for event in events:
        if event["type"] == "SensorEvaluated":
            yield {
                **_base(segment), "sensor_id": segment.stream.id, "evaluation_id": event["evaluation_id"],
                "cause": event["cause"], "message_id": event.get("message_id"), "status": event["status"],
                "received": event.get("received"), "duration_ms": event.get("duration_ms", 0),
                "expected_state_version": event.get("expected_state_version"),
                "state_version": event.get("state_version"), "cursor_before": _json(event.get("cursor_before")),
                "cursor": _json(event.get("cursor")), "error": event.get("error"),
                "run_keys": [run["run_key"] for run in runs], "run_ids": [run["run_id"] for run in runs],
                "outcomes": [run.get("outcome", "requested") for run in runs],
            }  # fmt: skip


def _json(value: Any) -> str | None:
    return None if value is None else encode(value)


_OUTCOMES = {"Released": "released", "Postponed": "postponed", "Suppressed": "suppressed", "Digested": "digested"}


def notifications(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    for event in events:
        outcome = _OUTCOMES.get(event["type"])
        if outcome:
            item = event["item"] if isinstance(event.get("item"), dict) else {}
            yield {
                **_base(segment), "user_id": segment.stream.id, "outcome": outcome,
                "event_id": event.get("event_id") or item.get("event_id"),
                "event_type": event.get("event_type") or item.get("event_type"),
                "channels": event.get("channels") or item.get("channels") or [],
                "reasons": event.get("reasons") or item.get("reasons") or [],
            }  # fmt: skip


def intent_executions(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    for event in events:
        if event["type"] == "IntentFired":
            yield {
                **_base(segment), "intent_id": segment.stream.id, "status": event["status"],
                "worker": event.get("worker"), "error": event.get("error"),
                "next_check_at": event.get("next_check_at"),
            }  # fmt: skip


_SCORES = {
    "ScoreCreated": "created", "Interacted": "interaction", "Decayed": "decay", "GameOver": "game_over",
    "StatusChanged": "status", "ScoreAdjusted": "adjust",
}  # fmt: skip


def score_history(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    crossed = [event["name"] for event in events if event["type"] == "ThresholdCrossed"]
    for event in events:
        kind = _SCORES.get(event["type"])
        if kind:
            yield {
                **_base(segment), "user_id": segment.stream.id, "event_type": kind, "score": event.get("score"),
                "amount": event.get("amount"), "reason": event.get("reason"), "status": event.get("status"),
                "thresholds_crossed": crossed if kind == "decay" else [],
            }  # fmt: skip


_DEFINITION = {
    "definition_version": Part("BIGINT", "$.version"), "enabled": Part("BOOLEAN", "$.definition.enabled"),
    "created_at": Part(INSTANT, "$.created_at"), "updated_at": Part(INSTANT, "$.updated_at"),
    "last_error": Part("VARCHAR", "$.last_error"),
}  # fmt: skip
_SCHEDULE = {
    **_DEFINITION, "cron": Part(JSON, "$.definition.cron"), "every": Part(JSON, "$.definition.every"),
    "timezone": Part("VARCHAR", "$.definition.timezone"),
    "changed_at": Part(INSTANT, "$.changed_at"), "last_scheduled_for": Part(INSTANT, "$.last_scheduled_for"),
    "next_tick_at": Part(INSTANT, "$.next[0]"),
}  # fmt: skip
_SENSOR = {
    **_DEFINITION, "sensor_type": Part("VARCHAR", "$.definition.sensor_type"),
    "state_version": Part("BIGINT", "$.state_version", "1"), "cursor": Part(JSON, "$.cursor"),
    "next_evaluation_at": Part(INSTANT, "$.next_at"), "last_evaluated_at": Part(INSTANT, "$.last_evaluated_at"),
    "consecutive_errors": Part("BIGINT", "$.consecutive_errors", "0"),
}  # fmt: skip
_RUN = {
    "run_key": Part("VARCHAR", "$.run_key"), "account_id": Part("VARCHAR", "$.account_id"),
    "trigger_type": Part("VARCHAR", "$.trigger_type"), "ending": Part("VARCHAR", "$.ending"),
    "allowed_at": Part(INSTANT, "$.allowed_at"), "started_at": Part(INSTANT, "$.started_at"),
    "finished_at": Part(INSTANT, "$.finished_at"),
}  # fmt: skip

TABLES = (
    Table("segments", {
        **_STREAM, "kind": "VARCHAR", "id": "VARCHAR", "version": "BIGINT", "turn": "VARCHAR", "collection": "VARCHAR",
        "key": "VARCHAR", "command": "VARCHAR", "events": "VARCHAR", "event_types": "VARCHAR[]", "verdict": "VARCHAR",
        "policy": "VARCHAR", "actor": "VARCHAR", "correlation": "VARCHAR", "cause": "VARCHAR", "digest": "VARCHAR",
        "unreadable": "VARCHAR",
    }, segments, marked=unreadable_segment),
    Table("schedule_ticks", {
        **_STREAM, "schedule_id": "VARCHAR", "tick_id": "VARCHAR", "status": "VARCHAR", "cause": "VARCHAR",
        "scheduled_for": INSTANT, "fired_at": INSTANT, "lag_ms": "BIGINT", "run_key": "VARCHAR", "run_id": "VARCHAR",
        "outcome": "VARCHAR", "definition_version": "BIGINT", "asset_selection": "VARCHAR[]",
        "partition_selection": "VARCHAR[]", "tzdata_version": "VARCHAR", "reason": "VARCHAR", "count": "BIGINT",
        "first": INSTANT, "last": INSTANT, "error": "VARCHAR",
    }, schedule_ticks, "schedule"),
    Table("schedule_state", _STATE, kind="schedule", parts=_SCHEDULE),
    Table("sensor_evals", {
        **_STREAM, "sensor_id": "VARCHAR", "evaluation_id": "VARCHAR", "cause": "VARCHAR", "message_id": "VARCHAR",
        "status": "VARCHAR", "received": "BIGINT", "duration_ms": "BIGINT", "expected_state_version": "BIGINT",
        "state_version": "BIGINT", "cursor_before": "VARCHAR", "cursor": "VARCHAR", "error": "VARCHAR",
        "run_keys": "VARCHAR[]", "run_ids": "VARCHAR[]", "outcomes": "VARCHAR[]",
    }, sensor_evals, "sensor"),
    Table("sensor_state", _STATE, kind="sensor", parts=_SENSOR),
    Table("runs", _STATE, kind="run", parts=_RUN),
    Table("notifications", {
        **_STREAM, "user_id": "VARCHAR", "event_id": "VARCHAR", "event_type": "VARCHAR", "outcome": "VARCHAR",
        "channels": "VARCHAR[]", "reasons": "VARCHAR[]",
    }, notifications, "inbox"),
    Table("intent_executions", {
        **_STREAM, "intent_id": "VARCHAR", "status": "VARCHAR", "worker": "VARCHAR", "error": "VARCHAR",
        "next_check_at": INSTANT,
    }, intent_executions, "intent"),
    Table("score_history", {
        **_STREAM, "user_id": "VARCHAR", "event_type": "VARCHAR", "score": MICRO, "amount": MICRO,
        "reason": "VARCHAR", "status": "VARCHAR", "thresholds_crossed": "VARCHAR[]",
    }, score_history, "score"),
)  # fmt: skip
