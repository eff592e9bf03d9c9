"""Conversions between rows of the tables and the contract's values, columns in the order of the queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall
from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, StreamId
from betimes.engine.effect_rows import attempts_in, payload_in
from betimes.engine.store import EffectRow, EffectWrite, Lease, Row, Settlement, StreamRow, WaitingSend

Columns = Sequence[Any]


class RowPlace(NamedTuple):
    """Where a stream's row is and what the indexes hold of it."""

    n: int
    version: int
    owner: str
    due_at: Instant | None
    alarm_at: Instant | None
    snooze_until: Instant | None
    listed_at: Instant | None
    status: str


def in_shares(shares: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters of a query that takes from tenants in shares."""
    return {"shares": encode(list(shares.items())), "share_max": max(shares.values(), default=0)}


def row_of(place: RowPlace, rest: Columns) -> Row:
    """A stream's row; the rest is its schema, state, instant and digest."""
    schema, state, at, digest = rest
    return Row(place.version, schema, state, at, place.alarm_at, digest)


def listed_stream(columns: Columns) -> StreamRow:
    return StreamRow.of(StreamId(*columns[:3]), *columns[3:])


def segment_columns(segment: Segment, stream_n: int, seq: int | None = None) -> tuple[Any, ...]:
    """Return the columns of a segment of the stream in a row; without a number the ledger gives it the next."""
    key = segment.key
    return (
        stream_n,
        seq,
        *segment.stream,
        segment.version,
        segment.turn,
        segment.at,
        segment.schema,
        segment.command,
        segment.events,
        segment.policy,
        segment.prev,
        segment.digest,
        key and key.collection,
        key and key.key,
        segment.verdict,
        segment.reply,
        segment.actor,
        segment.correlation,
        segment.cause,
    )


def effect_columns(effect: EffectWrite) -> tuple[Any, ...]:
    status, attempts = ("leased", 1) if effect.is_leased else ("pending", 0)
    return (
        *effect.id,
        effect.executor,
        status,
        # Its attempts, and its fence.
        attempts,
        attempts,
        effect.payload,
        effect.created_at,
        effect.next_attempt_at,
        int(effect.at_most_once),
        effect.attempts_max,
        effect.lease_s,
        *(effect.to or (None, None, None)),
    )


def settlement_columns(settled: Settlement) -> tuple[Any, ...]:
    finished_at = None if settled.status == "pending" else settled.at
    return (
        *settled.id,
        settled.fence,
        settled.status,
        settled.next_attempt_at,
        finished_at,
        settled.error,
        settled.at,
        settled.duration_ms,
    )


def effect_row(columns: Columns) -> EffectRow:
    written, (at_most_once, *to, history) = columns[5:13], columns[13:]
    report_to = None if to[0] is None else StreamId(*to)
    return EffectRow._make((EffectId(*columns[:5]), *written, bool(at_most_once), report_to, attempts_in(history)))


def waiting_send(columns: Columns) -> WaitingSend:
    return WaitingSend(EffectId(*columns[:5]), StreamId(*columns[5:8]), columns[8], columns[9])


def lease_of(columns: Columns) -> Lease:
    """The lease on a call as it was before: its attempt and fence are the next."""
    executor, payload, attempts, created_at, fence, lease_s, at_most_once, attempts_max, *to, spent = columns[5:]
    call = EffectCall(
        EffectId(*columns[:5]),
        executor,
        payload_in(payload),
        # One that is leased only to be ended is not attempted again.
        attempts + (not spent),
        created_at,
        fence + 1,
        lease_s,
        bool(at_most_once),
        attempts_max,
        None if to[0] is None else StreamId(*to),
    )
    return Lease(call, bool(spent))
