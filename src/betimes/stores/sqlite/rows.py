"""Conversions from rows of the tables to the contract's values, columns in the order of the queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall
from betimes.core.instants import Instant
from betimes.core.streams import EffectId, StreamId
from betimes.engine.effect_rows import attempts_in, payload_in
from betimes.engine.store import EffectRow, Lease, Row, StreamRow, WaitingSend

Columns = Sequence[Any]


class RowPlace(msgspec.Struct, frozen=True, gc=False, array_like=True):
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
