"""Pages of streams, the last created first.

A cursor names the creation and the id of the last stream that was shown. Neither ever changes, so a stream that is
there all the while is shown exactly once, whatever is created, changed or deleted between two pages.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from betimes.core.errors import Invalid
from betimes.core.streams import StreamId, checked_stream
from betimes.engine.store import StreamQuery, StreamRow
from betimes.services.pages import InstantPlace, cursor_of, malformed_cursor, place_of


def page_of(query: StreamQuery, cursor: str | None, filters: Any) -> StreamQuery:
    """The query for the page a cursor leads to, of one tenant and kind."""
    place = place_of(cursor, filters, InstantPlace)
    if place is None:
        return replace(query, newest_first=True)
    after = stream_at(place, query.tenant or "", query.kind or "")
    return replace(query, newest_first=True, after=after, after_created_at=place.at)


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
