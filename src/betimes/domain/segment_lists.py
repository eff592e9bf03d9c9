"""Lists of what segments hold, newest first: ticks, evaluations, executions, what happened to a score.

A place in such a list is a segment and one of its rows, counted from 1: the next page starts before it. A page looks
through a bounded number of segments, so it may be short, or empty, and still not be the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from betimes.core.deciders import Event
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.paging import (
    PAGE_CHARS_MAX,
    Listing,
    NumberPlace,
    UnreadableRow,
    checked_limit,
    cursor_of,
    place_of,
)
from betimes.domain.service import in_slices
from betimes.engine.codecs import Kinds, checkpoint_of
from betimes.engine.engine import Engine
from betimes.engine.store import LedgerQuery

Row = TypeVar("Row")
RowsOf: TypeAlias = Callable[[Segment, Sequence[Any]], Iterable[tuple[int, Row]]]
"""The events of a segment, each with its number from 1."""
SEGMENTS_MAX = 300
"""Segments that one page of a list looks through, about; what is left is behind its cursor."""
READ_MAX = 100
"""Segments that are read at once, by default."""


async def list_rows(
    engine: Engine,
    source: StreamId | LedgerQuery,
    rows_of: RowsOf[Row],
    filters: Any,
    limit: int,
    cursor: str | None,
    is_wanted: Callable[[Row], bool] = lambda row: True,
) -> tuple[Listing[Row], str | None]:
    """Return up to `limit` rows of a stream, or of a query of the ledger, and the cursor of the next page."""
    found, place = await _rows_back(
        engine, _query_of(source), place_of(cursor, filters, NumberPlace), checked_limit(limit), rows_of, is_wanted
    )
    return found, cursor_of(filters, place) if place else None


async def _rows_back(
    engine: Engine,
    query: LedgerQuery,
    place: NumberPlace | None,
    limit: int,
    rows_of: RowsOf[Row],
    is_wanted: Callable[[Row], bool],
) -> tuple[Listing[Row], NumberPlace | None]:
    resumed, row_before = (place.number, place.row) if place else (0, 0)
    # The segment in which the last page ended is read again: some of its rows may be left.
    before = resumed + 1 if place else 0
    found, last = Listing[Row](), NumberPlace(0)
    # One more than a page, to tell whether there is another.
    looked_at, size, chars = 0, limit + 1, 0
    while looked_at < SEGMENTS_MAX:
        segments = await engine.store.ledger(replace(query, after=before, backwards=True, limit=size))
        async for segment in in_slices(segments):
            is_first = True
            for number, row in reversed(_rows_in(engine.kinds, segment, rows_of)):
                if segment.seq == resumed and number >= row_before:
                    continue
                if not (isinstance(row, UnreadableRow) or is_wanted(row)):
                    continue
                chars += len(segment.events) if is_first else 0
                if len(found) == limit or (found and chars > PAGE_CHARS_MAX):
                    return found, last
                found.add(row)
                is_first = False
                last = NumberPlace(segment.seq, number)
        if len(segments) < size:
            return found, None
        looked_at += size
        before, size = segments[-1].seq, max(size, READ_MAX)
    return found, NumberPlace(before)


def _query_of(source: StreamId | LedgerQuery) -> LedgerQuery:
    if isinstance(source, LedgerQuery):
        return source
    return LedgerQuery(tenant=source.tenant, kind=source.kind, id=source.id)


def _rows_in(kinds: Kinds, segment: Segment, rows_of: RowsOf[Row]) -> list[tuple[int, Any]]:
    """Return the rows of a segment with their numbers; one that cannot be read is a single row, marked."""
    found: Listing[tuple[int, Row]] = Listing()
    with found.reading(segment):
        found.items += rows_of(segment, events_in(kinds, segment))
    return [(1, row) for row in found.unreadable] or list(found.items)


def events_in(kinds: Kinds, segment: Segment) -> tuple[Event, ...]:
    """Return the events of a segment; a checkpoint, which stands for what was pruned, has none."""
    return () if checkpoint_of(segment) else kinds.of(segment.stream).events(segment)
