"""Pages of streams, the last created first.

A cursor names the creation and the id of the last stream that was shown. Neither ever changes, so a stream that is
there all the while is shown exactly once, whatever is created, changed or deleted between two pages.

A list is read along an index of its tenant and kind, by owner or status if one is asked for. For whatever else is asked
a page looks through `LOOKED_AT_MAX` rows at most: it may be short, or empty, and still not be the last. It is short
too where its rows have more than `PAGE_CHARS_MAX` characters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from betimes.core.errors import Invalid
from betimes.core.streams import StreamId, checked_stream
from betimes.domain.paging import LOOKED_AT_MAX, PAGE_CHARS_MAX, InstantPlace, cursor_of, malformed_cursor, place_of
from betimes.engine.store import PAGE_MAX, Store, StreamQuery, StreamRow


def page_of(query: StreamQuery, cursor: str | None, filters: Any) -> StreamQuery:
    """The query for the page a cursor leads to, of one tenant and kind."""
    place = place_of(cursor, filters, InstantPlace)
    if place is None:
        return replace(query, newest_first=True)
    after = stream_at(place, query.tenant or "", query.kind or "")
    return replace(query, newest_first=True, after=after, after_created_at=place.at)


async def look_through(
    store: Store, query: StreamQuery, limit: int, is_wanted: Callable[[StreamRow], bool] = lambda row: True
) -> tuple[list[StreamRow], StreamRow | None]:
    """Return up to `limit` streams that exist and are wanted, and the row to go on after, if there may be more."""
    found: list[StreamRow] = []
    last: StreamRow | None = None
    looked_at = chars = 0
    query = replace(query, tombstones=True, limit=limit + 1)
    while looked_at < LOOKED_AT_MAX:
        rows = await store.streams(query)
        for row in rows:
            if row.state is not None and is_wanted(row):
                chars += len(row.state)
                if len(found) == limit or (found and chars > PAGE_CHARS_MAX):
                    return found, last
                found.append(row)
            last = row
        if len(rows) < query.limit:
            return found, None
        looked_at += len(rows)
        query = replace(query, after=row.stream, after_created_at=row.created_at, limit=PAGE_MAX)
    return found, last


def after_row(query: StreamQuery, row: StreamRow) -> StreamQuery:
    """The query for what comes after a row."""
    return replace(query, after=row.stream, after_created_at=row.created_at)


def cursor_after(filters: Any, row: StreamRow) -> str:
    """Leads to the page after this row."""
    return cursor_of(filters, InstantPlace(row.created_at, row.stream.id))


def stream_at(place: InstantPlace, tenant: str, kind: str) -> StreamId:
    """Return the stream a place names; raise `Invalid` if nothing can have that id."""
    try:
        return checked_stream(tenant, kind, place.id)
    except Invalid:
        raise malformed_cursor() from None
