"""Tables of the lake as data: a domain declares them, the export fills them.

A table has columns with DuckDB's types, and a function from a segment and its events (as plain mappings, so that a
table names event types and needs no decider) to rows; every row carries `recorded_at`, the instant whose date it is
filed under. Tables of states have no such function: they are folded by the deciders themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from betimes.core.instants import nearest
from betimes.core.segments import Segment

Row: TypeAlias = dict[str, Any]
EventMap: TypeAlias = dict[str, Any]
INSTANT = "INSTANT"
"""Microseconds in the ledger, a timestamp adjusted to UTC in the lake."""
MICRO = "MICRO"
"""Millionths in the ledger, a DECIMAL(18,6) in the lake."""
JSON = "JSON"
"""Any value in a state, its JSON in the lake."""
SEGMENT_COLUMNS = {"tenant": "VARCHAR", "seq": "BIGINT", "segment_id": "VARCHAR", "recorded_at": INSTANT}
STATE_COLUMNS = {
    "tenant": "VARCHAR",
    "id": "VARCHAR",
    "version": "BIGINT",
    "recorded_at": INSTANT,
    "status": "VARCHAR",
    "is_deleted": "BOOLEAN",
    "state": "VARCHAR",
}


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


def segment_row(segment: Segment) -> Row:
    """Return the columns that every row of a segment has."""
    return {
        "tenant": segment.stream.tenant,
        "seq": segment.seq,
        "segment_id": segment.handle,
        "recorded_at": nearest(segment.at),
    }


DEFINITION_PARTS = {
    "definition_version": Part("BIGINT", "$.version"),
    "enabled": Part("BOOLEAN", "$.definition.enabled"),
    "created_at": Part(INSTANT, "$.created_at"),
    "updated_at": Part(INSTANT, "$.updated_at"),
    "last_error": Part("VARCHAR", "$.last_error"),
}
"""Columns from the state of every definition."""
