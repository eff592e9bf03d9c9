"""Reads outside a transaction, on the reader's connection. Each page is one statement, so it is one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from betimes.core.canonical import encode
from betimes.core.instants import MINUTE, Instant
from betimes.core.segments import Segment, segment_of
from betimes.core.streams import EffectId, StreamId
from betimes.engine.read_model import prefix_end
from betimes.engine.store import (
    NOT_CACHED,
    PAGE_MAX,
    Backlog,
    DueIndex,
    DueTenants,
    EffectQuery,
    EffectRow,
    LedgerQuery,
    OwedIndex,
    Row,
    StreamQuery,
    StreamRow,
    WaitingSend,
)
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.rows import RowPlace, effect_row, listed_stream, row_of, waiting_send

SEQ_MAX = 2**63 - 1
SPANS_MAX = 32
"""Spans of blocks that one page is looked for in, one after the other; what is behind them is read as one."""


def load(connection: Connection, streams: Sequence[StreamId]) -> dict[StreamId, Row]:
    asked = [(number, *stream, NOT_CACHED) for number, stream in enumerate(streams)]
    found = connection.json_of_rows("find_streams", asked)
    return {streams[number]: row_of(RowPlace(*columns[:8]), columns[8]) for number, *columns in found}


def streams(connection: Connection, query: StreamQuery) -> list[StreamRow]:
    same_kind = _agree(query.after, tenant=query.tenant, kind=query.kind)
    # A parameter that is `None` leaves out the lines of the query that name it, so what is not so must be `None` too.
    bindings: dict[str, Any] = {
        "tenant": query.tenant,
        "kind": query.kind,
        "owner": query.owner or None,
        # An empty owner asks for the streams that have none.
        "no_owner": query.owner == "" or None,
        "status": query.status,
        "prefix": query.prefix,
        "prefix_end": None if query.prefix is None else prefix_end(query.prefix),
        "among": encode(query.among) if query.among else None,
        "any_tenant": query.tenant is None or None,
        "by_owner_listed": bool(query.owner and query.tenant and query.kind) or None,
        "existing": None if query.tombstones else True,
        "due_before": query.due_before,
        "due_at_after": (query.after_due_at or 0) if query.after else None,
        "listed_before": query.listed_before,
        "listed_at_after": (query.after_listed_at or 0) if query.after else None,
        "created_at_after": (query.after_created_at or 0) if query.after else None,
        "same_tenant": _agree(query.after, tenant=query.tenant),
        "same_kind": same_kind,
        "other_kind": (query.after is not None and not same_kind) or None,
        "limit": min(query.limit, PAGE_MAX),
        **_parts(query.after, "after"),
    }
    is_of_kind = bool(query.among) and query.kind is not None
    if query.due_before is not None:
        name = "streams_by_due_among" if is_of_kind else "streams_by_due"
    elif query.listed_before is not None:
        name = "streams_by_listed"
    elif query.newest_first:
        name = "streams_newest_among" if is_of_kind and query.tenant is not None else "streams_newest"
    else:
        name = "streams_of_owner" if query.owner else "streams_by_name"
    return [listed_stream(columns) for columns in connection.json(name, bindings)]


def history(
    connection: Connection, stream: StreamId, after_version: int, limit: int
) -> tuple[StreamRow | None, list[Segment]]:
    # Two statements that must agree: the row and the history it is compared with.
    connection.begin_snapshot()
    rows = connection.json("one_stream", stream._asdict())
    segments = connection.json(
        "history", {**stream._asdict(), "after_version": after_version, "limit": min(limit, PAGE_MAX)}
    )
    connection.rollback()
    return (listed_stream(rows[0]) if rows else None), [segment_of(columns) for columns in segments]


def ledger(connection: Connection, query: LedgerQuery) -> list[Segment]:
    """One stream is read in the order of its versions, which is its commit order and that of an index.

    Of one tenant, each kind is read along an index. Blocks of the ledger that hold none of the instants asked for are
    passed over.
    """
    one_stream = None not in (query.tenant, query.kind, query.id)
    # A key or a correlation names few segments; nothing narrows more than their index does.
    by_index = one_stream or query.key is not None or bool(query.correlation)
    order = ("by_version" if one_stream else "by_seq") + ("_back" if query.backwards else "")
    bindings = {
        "after": query.after or (SEQ_MAX if query.backwards else 0),
        "forwards": None if query.backwards else True,
        "backwards": query.backwards or None,
        "tenant": query.tenant,
        "kind": query.kind,
        "any_kind": query.kind is None or None,
        "id": query.id,
        "one_stream": one_stream or None,
        order: True,
        "key": query.key,
        "key_of_tenant": None not in (query.key, query.tenant) or None,
        "correlation": query.correlation or None,
        "correlation_of_tenant": (bool(query.correlation) and query.tenant is not None) or None,
        "no_correlation": query.correlation == "" or None,
        "turn": query.turn,
        "since_at": query.since_at,
        "until_at": query.until_at,
        "limit": min(query.limit, PAGE_MAX),
    }
    if query.tenant is not None and not by_index:
        found = _ledger_of_tenant(connection, query, bindings)
    else:
        name = "ledger_between" if _is_by_instant(query) and not by_index else "ledger"
        found = connection.json(name, bindings)
    return [segment_of(columns) for columns in found]


def _ledger_of_tenant(connection: Connection, query: LedgerQuery, asked: Mapping[str, Any]) -> list[Any]:
    """Read a page span by span: one segment that is dated ahead costs its own block, not all that was written since."""
    found: list[Any] = []
    first, last = (0, asked["after"] - 1) if query.backwards else (asked["after"] + 1, SEQ_MAX)
    for number in range(SPANS_MAX):
        span = first, last
        if _is_by_instant(query) and number < SPANS_MAX - 1:
            spans = connection.json("ledger_span", {**asked, "first": first, "last": last})
            if not spans:
                break
            span = max(first, spans[0][0]), min(last, spans[0][1])
        place = {"first": span[0], "last": span[1], "limit": asked["limit"] - len(found)}
        found += connection.json("ledger_of_tenant", {**asked, **place})
        first, last = (first, span[0] - 1) if query.backwards else (span[1] + 1, last)
        if first > last or len(found) == asked["limit"]:
            break
    return found


def _is_by_instant(query: LedgerQuery) -> bool:
    return not (query.since_at is None and query.until_at is None)


def effects(connection: Connection, query: EffectQuery) -> list[EffectRow]:
    same_tenant = _agree(query.after, tenant=query.tenant)
    bindings = {
        "tenant": query.tenant,
        "version": query.version,
        "executor": query.executor,
        "status": query.status,
        "dead": (query.status == "dead" and query.source is None) or None,
        "any_source": query.source is None or None,
        "created_at_after": (query.after_created_at or 0) if query.after else None,
        "limit": min(query.limit, PAGE_MAX),
        "same_tenant": same_tenant,
        "other_tenant": (query.after is not None and not same_tenant) or None,
        "same_source": _agree(query.after, source=query.source),
        **_parts(query.source, "source"),
        **_parts(query.after, "after"),
    }
    if query.oldest_first:
        bindings["other_status"] = query.status != "dead" or None
        return [effect_row(columns) for columns in connection.json("effects_oldest", bindings)]
    name = "effects_newest" if query.newest_first else "effects"
    return [effect_row(columns) for columns in connection.json(name, bindings)]


def _agree(after: StreamId | EffectId | None, **asked: Any) -> bool | None:
    """Return whether a page continues within the query, so that an index can start where the last page ended."""
    # Chained: equal to what is asked for, and asked for at all.
    return all(getattr(after, part, None) == value is not None for part, value in asked.items()) or None


def _parts(name: StreamId | EffectId | None, role: str) -> dict[str, Any]:
    return {f"{part}_{role}": value for part, value in name._asdict().items()} if name else {}


def waiting_sends(
    connection: Connection,
    limit: int,
    held: str | None,
    *,
    created_before: Instant,
    tenant: str | None = None,
    kinds: Sequence[str] | None = None,
    after: WaitingSend | None = None,
) -> list[WaitingSend]:
    asked = {
        "created_before": created_before,
        "limit": limit,
        "tenant": tenant,
        "all": tenant is None or None,
        "kinds": None if kinds is None else encode(kinds),
        "created_at_after": after.created_at if after else None,
        "held": held,
        **_parts(after.id if after else None, "after"),
    }
    return [waiting_send(columns) for columns in connection.json("waiting_sends", asked)]


_OWED_QUERIES: Mapping[OwedIndex, str] = {
    "alarm": "tenants_with_alarms",
    "due": "tenants_with_due",
    "call": "tenants_with_calls",
}


def due_tenants(
    connection: Connection,
    index: OwedIndex,
    names: Sequence[str],
    after: str,
    limit: int,
    held: str | None,
    now: Instant,
) -> DueTenants:
    asked = {"names": encode(names), "after": after, "limit": limit, "now": now, "held": held}
    looked_at = connection.json(_OWED_QUERIES[index], asked)
    due = tuple(tenant for tenant, is_due in looked_at if is_due)
    # Fewer than were asked for: the last tenant was reached, and the next look begins anew.
    return DueTenants(due, looked_at[-1][0] if len(looked_at) == limit else "", len(looked_at))


def next_due(
    connection: Connection,
    index: DueIndex,
    kinds: Sequence[str],
    executors: Sequence[str],
    tenant: str | None,
    held: str | None,
) -> Instant | None:
    asked = {"index": index, "kinds": encode(kinds), "executors": encode(executors), "tenant": tenant, "held": held}
    at: Instant | None = connection.value("next_due", asked)
    return at


def high_water(connection: Connection) -> Instant | None:
    """Return the latest instant of any segment."""
    at: Instant | None = connection.value("high_water", {})
    return at


def policy(connection: Connection, fingerprint: str) -> str | None:
    body: str | None = connection.value("policy", {"fingerprint": fingerprint})
    return body


def backlog(connection: Connection, kinds: Sequence[str], held: str | None, now: Instant) -> Backlog:
    connection.begin_snapshot()
    # Three statements that must tell of the same moment.
    asked = {"kinds": encode(kinds), "now": now, "held": held}
    alarms_due, oldest_alarm_at, snoozed = connection.json("alarm_backlog", asked)
    pending, dead = connection.json("effect_backlog", {})
    orphaned = connection.json("orphaned_calls", {"since_at": now - MINUTE, "held": held})
    connection.rollback()
    return Backlog(alarms_due, oldest_alarm_at, snoozed, pending, dead, orphaned)
