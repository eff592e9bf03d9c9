"""Pages of the ledger: each by the statement that passes over the fewest segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from betimes.core.segments import Segment, segment_of
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.stores.postgres.rows import Record
from betimes.stores.postgres.session import Session
from betimes.stores.postgres.statements import Prepared

SPANS_MAX = 32
"""Spans of blocks that one page is looked for in, one after the other; what is behind them is read as one."""


async def read_ledger(session: Session, statement: Callable[..., Prepared], query: LedgerQuery) -> list[Segment]:
    """Return a page of segments, of those alone that can change no more."""
    asked: dict[str, Any] = {
        "tenant": query.tenant,
        "kind": query.kind,
        "any_kind": query.kind is None or None,
        "id": query.id,
        "key": query.key,
        "turn": query.turn,
        "correlation": query.correlation,
        "since_at": query.since_at,
        "until_at": query.until_at,
        "limit": min(query.limit, PAGE_MAX),
        # By a statement of its own, so that the page is read with a later snapshot.
        "settled": await session.value(statement("settled_seq")),
        "forwards": None if query.backwards else True,
        "backwards": query.backwards or None,
    }

    async def find(name: str, **place: Any) -> list[Record]:
        return await session.rows(statement(name, **{**asked, **place}))

    name = _ledger_statement(query)
    if name == "ledger_of_tenant":
        found = await _read_of_tenant(find, query, asked)
    else:
        before, after = (query.after or None, None) if query.backwards else (None, query.after)
        found = await find(name, before=before, after=after)
    return [segment_of(record) for record in found]


async def _read_of_tenant(find: Callable[..., Any], query: LedgerQuery, asked: dict[str, Any]) -> list[Record]:
    """Read a page span by span: one segment that is dated ahead costs its own block, not all that was written since."""
    found: list[Record] = []
    first, last = 0 if query.backwards else query.after + 1, asked["settled"]
    if query.backwards and query.after:
        last = min(last, query.after - 1)
    for number in range(SPANS_MAX):
        if first > last or len(found) == asked["limit"]:
            break
        span = first, last
        if _is_by_instant(query) and number < SPANS_MAX - 1:
            name = "ledger_span_backwards" if query.backwards else "ledger_span"
            spans = await find(name, first=first, last=last)
            if not spans:
                break
            span = max(first, spans[0][0]), min(last, spans[0][1])
        found += await find("ledger_of_tenant", first=span[0], last=span[1], limit=asked["limit"] - len(found))
        first, last = (first, span[0] - 1) if query.backwards else (span[1] + 1, last)
    return found


def _ledger_statement(query: LedgerQuery) -> str:
    """Return the name of the statement that reads along the index with the fewest rows to pass over."""
    if query.key is not None or query.correlation:
        return "ledger"
    if None not in (query.tenant, query.kind, query.id):
        return "ledger_of_stream"
    if query.tenant is not None:
        return "ledger_of_tenant"
    return "ledger_between" if _is_by_instant(query) else "ledger"


def _is_by_instant(query: LedgerQuery) -> bool:
    return not (query.since_at is None and query.until_at is None)
