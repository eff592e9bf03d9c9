"""The tables of the lake: the ledger itself, and those that the domains declare."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from betimes.catalogue import DOMAINS
from betimes.core.canonical import encode
from betimes.core.lake_tables import SEGMENT_COLUMNS, EventMap, Row, Table, segment_row
from betimes.core.secret_fields import SECRET_FIELDS, without_secrets
from betimes.core.segments import Segment

_AS_THEY_ARE = ("verdict", "policy", "actor", "correlation", "cause", "digest")
"""Columns of a segment that the lake has as the ledger has them."""


def _without_secrets(text: str | None) -> str | None:
    if text is None or not any(name in text for name in SECRET_FIELDS):
        return text
    return encode(without_secrets(msgspec.json.decode(text)))


def segments(segment: Segment, events: list[EventMap]) -> Iterator[Row]:
    key = segment.key
    yield {
        **segment_row(segment),
        "kind": segment.stream.kind,
        "id": segment.stream.id,
        "version": segment.version,
        "turn": segment.turn,
        "collection": key and key.collection,
        "key": key and key.key,
        "command": _without_secrets(segment.command),
        "events": _without_secrets(segment.events),
        "event_types": [event["type"] for event in events],
        **{name: getattr(segment, name) for name in _AS_THEY_ARE},
        "unreadable": None,
    }


def unreadable_segment(segment: Segment, why: str) -> Row:
    """Return the row of a segment that cannot be read: what it is, without what it says."""
    [row] = segments(replace(segment, command=None, events="[]", verdict=None), [])
    return {**row, "unreadable": why}


TABLES = (
    Table(
        "segments",
        {
            **SEGMENT_COLUMNS,
            **dict.fromkeys(("kind", "id"), "VARCHAR"),
            "version": "BIGINT",
            **dict.fromkeys(("turn", "collection", "key", "command", "events"), "VARCHAR"),
            "event_types": "VARCHAR[]",
            **dict.fromkeys((*_AS_THEY_ARE, "unreadable"), "VARCHAR"),
        },
        segments,
        marked=unreadable_segment,
    ),
    *(table for domain in DOMAINS for table in domain.tables),
)
