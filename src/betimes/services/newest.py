"""Pages of streams, the last created first.

A cursor names the creation and the id of the last stream that was shown. Neither ever changes, so a stream that is
there all the while is shown exactly once, whatever is created, changed or deleted between two pages.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.streams import StreamId, checked_stream
from betimes.engine.store import StreamQuery, StreamRow
from betimes.services.pages import cursor_of, place_of

INSTANT_MAX = 2**62
"""Far beyond any instant, and a number every store can compare with."""


def page_of(query: StreamQuery, cursor: str | None, filters: Any) -> StreamQuery:
    """The query for the page a cursor leads to, of one tenant and kind."""
    place = place_of(cursor, filters)
    if place is None:
        return replace(query, newest_first=True)
    created_at, after = _place(place, query.tenant or "", query.kind or "")
    return replace(query, newest_first=True, after=after, after_created_at=created_at)


def after_row(query: StreamQuery, row: StreamRow) -> StreamQuery:
    """The query for what comes after a row."""
    return replace(query, after=row.stream, after_created_at=row.created_at)


def cursor_after(filters: Any, row: StreamRow) -> str:
    """Leads to the page after this row."""
    return cursor_of(filters, [row.created_at, row.stream.id])


def _place(place: Any, tenant: str, kind: str) -> tuple[Instant, StreamId]:
    match place:
        case [int() as created_at, str() as id] if 0 <= created_at <= INSTANT_MAX:
            with suppress(Invalid):
                return created_at, checked_stream(tenant, kind, id)
    raise Invalid("the cursor is not one of ours; start without", (("query.cursor", "malformed"),))
