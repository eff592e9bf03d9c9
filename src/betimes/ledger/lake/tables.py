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
        "verdict": segment.verdict,
        "policy": segment.policy,
        "actor": segment.actor,
        "correlation": segment.correlation,
        "cause": segment.cause,
        "digest": segment.digest,
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
            "kind": "VARCHAR",
            "id": "VARCHAR",
            "version": "BIGINT",
            "turn": "VARCHAR",
            "collection": "VARCHAR",
            "key": "VARCHAR",
            "command": "VARCHAR",
            "events": "VARCHAR",
            "event_types": "VARCHAR[]",
            "verdict": "VARCHAR",
            "policy": "VARCHAR",
            "actor": "VARCHAR",
            "correlation": "VARCHAR",
            "cause": "VARCHAR",
            "digest": "VARCHAR",
            "unreadable": "VARCHAR",
        },
        segments,
        marked=unreadable_segment,
    ),
    *(table for domain in DOMAINS for table in domain.tables),
)
