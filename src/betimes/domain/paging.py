"""Pages of lists, and the cursors that lead from one to the next.

A cursor spells the list, the tenant and the filters it was made for, and a place of a type the list declares. It is
taken only if it is spelt exactly as this module spells it, so whatever was changed in one is refused here, before
a store sees it.

Most lists are of streams, the last created first. Their cursor names the creation and the id of the last stream that
was shown. Neither ever changes, so a stream that is there all the while is shown exactly once, whatever is created,
changed or deleted between two pages. Such a list is read along an index of its tenant and kind, by owner or status if
one is asked for. For any other filter a page looks through `LOOKED_AT_MAX` rows at most: it may be short, or empty, and
still not be the last.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import signature
from typing import Annotated, Any, Generic, ParamSpec, TypeAlias, TypeVar, get_type_hints

import msgspec
from msgspec.structs import replace

from betimes.core.checks import Findings, problems
from betimes.core.errors import BetimesError, DamagedStore, Invalid, MalformedRow, StoreError
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, StreamId, checked_stream
from betimes.domain.json_view import JsonView
from betimes.domain.service import in_slices
from betimes.engine.store import PAGE_MAX, Store, StreamQuery, StreamRow

Item = TypeVar("Item")
P = ParamSpec("P")
T = TypeVar("T")
LIMIT_MAX = 200
LOOKED_AT_MAX = 1_000
"""Rows that one page scans at most if no index supports its filter, before it ends with a cursor."""
PAGE_CHARS_MAX = 1_000_000
"""Of the stored rows of one page, unless it has a single one: every value of a page is alive at once, and Python's
garbage collector holds up everybody while it goes through them."""
CURSOR_CHARS_MAX = 16_384
Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""An instant or a number of the ledger: far beyond any, and every store can compare with it."""
PlaceText: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]*$", description="a text without control characters"
    ),
]
WHY_CHARS_MAX = 500
"""Length of the message about a row that cannot be shown."""


class UnreadableRow(JsonView, frozen=True):
    """A row that belongs to a list and cannot be shown: damaged, or written by a newer version."""

    row: str
    """The stream as `kind:id`, the segment as `kind:id:version`, the effect as `kind:id:version:place`."""
    code: str
    """As of a problem: `MALFORMED_ROW` or `NEWER_VERSION`, mostly."""
    unreadable: str
    """The problem."""


class Page(JsonView, Generic[Item], frozen=True):
    items: list[Item]
    next_cursor: str | None = None
    unreadable: tuple[UnreadableRow, ...] = ()
    """Rows of this page that cannot be shown. They count towards `limit`; `betimes doctor` says more about them."""


class Listing(Generic[Item]):
    """The items of a list as they are gathered, and the rows that could not be shown.

    Every list decodes and renders its rows inside `reading`, so that a row nobody can read is marked and the others are
    shown all the same. Errors of the store itself are not the row's fault and are passed on.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.unreadable: list[UnreadableRow] = []

    def __len__(self) -> int:
        return len(self.items) + len(self.unreadable)

    def add(self, item: Item | UnreadableRow) -> None:
        if isinstance(item, UnreadableRow):
            self.unreadable.append(item)
        else:
            self.items.append(item)

    def extend(self, more: Listing[Item]) -> None:
        self.items += more.items
        self.unreadable += more.unreadable

    @contextmanager
    def reading(self, row: StreamId | Segment | EffectId | str) -> Iterator[None]:
        """Mark the row as unreadable if what is done with it inside fails."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 — whatever a row does to its view is told of that row
            self.unreadable.append(unreadable_row(row, error))

    def page(self, next_cursor: str | None = None) -> Page[Item]:
        return Page(self.items, next_cursor, tuple(self.unreadable))


def unreadable_row(row: StreamId | Segment | EffectId | str, error: Exception) -> UnreadableRow:
    """Return a row as one that cannot be shown, with its name and the reason."""
    name = f"{row.kind}:{row.id}" if isinstance(row, StreamId) else row if isinstance(row, str) else row.handle
    code = error.code if isinstance(error, BetimesError) else MalformedRow.code
    why = str(error) if isinstance(error, BetimesError) else f"it cannot be shown: {error!r}"
    if isinstance(error, DamagedStore):
        why = "the database is damaged there"  # its own message names where it lies
    return UnreadableRow(name, code, why[:WHY_CHARS_MAX])


class CursorPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place in a list where a page starts."""


PlaceType = TypeVar("PlaceType", bound=CursorPlace)


class NumberPlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A number in the order of the list, and a row of what has that number."""

    number: Position
    row: Position = 0


class InstantPlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An instant in the order of the list, and an id among those of that instant."""

    at: Position
    id: PlaceText


def cursor_of(filters: Any, place: CursorPlace) -> str:
    """Return an opaque text that says where the next page starts; `filters` begin with the list and the tenant."""
    return urlsafe_b64encode(msgspec.json.encode([filters, place])).decode().rstrip("=")


def place_of(cursor: str | None, filters: Any, kind: type[PlaceType]) -> PlaceType | None:
    """Return where a page starts, `None` at the beginning; raise `Invalid` if the cursor is not of this list."""
    if cursor is None:
        return None
    try:
        under, place = _decode(cursor)
        found = msgspec.convert(place, kind)
    except (ValueError, OverflowError, RecursionError, TypeError):
        raise malformed_cursor() from None
    # Compared as text, so that a cursor is accepted in the one spelling we give it, and under the filters it was given
    # for.
    if cursor == cursor_of(filters, found):
        return found
    if under == msgspec.json.decode(msgspec.json.encode(filters)):
        raise malformed_cursor()
    message = "the cursor belongs to another list or to other filters; start without a cursor"
    raise Invalid(message, (("query.cursor", message),))


def malformed_cursor() -> Invalid:
    return Invalid(
        "the cursor is malformed; start without a cursor", (("query.cursor", "malformed; start without a cursor"),)
    )


def _decode(cursor: str) -> Any:
    if len(cursor) > CURSOR_CHARS_MAX:
        raise ValueError("too long")
    return msgspec.json.decode(b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))


def wrong_parameter(name: str, message: str) -> Invalid:
    """Return what is raised about one parameter; the sentence names it too."""
    return Findings([(f"query.{name}", message)]).refusal("parameter")


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise Invalid(f"a page has 1 to {LIMIT_MAX} items", (("query.limit", f"1 to {LIMIT_MAX}"),))
    return limit


def check_filters(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Check the parameters of a list against its types, as the HTTP API does; raise `Invalid` with every problem."""
    named = {name for name, one in signature(method).parameters.items() if one.kind is one.KEYWORD_ONLY}
    kinds = cache(lambda: get_type_hints(method, include_extras=True))

    @wraps(method)
    async def list_checked(*args: P.args, **kwargs: P.kwargs) -> T:
        found = Findings()
        for name in sorted(kwargs.keys() & named):
            found.extend(problems(f"query.{name}", kwargs[name], kinds()[name]))
        if found.total:
            raise found.refusal("parameter")
        return await method(*args, **kwargs)

    return list_checked


# -- pages of streams, the last created first


def page_of(query: StreamQuery, cursor: str | None, filters: Any) -> StreamQuery:
    """Return the query for the page a cursor leads to, of one tenant and kind."""
    place = place_of(cursor, filters, InstantPlace)
    if place is None:
        return replace(query, newest_first=True)
    after = stream_at(place, query.tenant or "", query.kind or "")
    return replace(query, newest_first=True, after=after, after_created_at=place.at)


async def look_through(
    store: Store, query: StreamQuery, limit: int, is_wanted: Callable[[StreamRow], bool] = lambda row: True
) -> tuple[list[StreamRow], StreamRow | None]:
    """Return up to `limit` streams that exist and match, and the row to continue after, if there may be more."""
    found: list[StreamRow] = []
    last: StreamRow | None = None
    looked_at = chars = 0
    # Deleted ones are read as well and count as looked at: a store that passed over them might go through any number.
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
        left = max(1, LOOKED_AT_MAX - looked_at)
        query = replace(query, after=row.stream, after_created_at=row.created_at, limit=min(PAGE_MAX, left))
    return found, last


async def list_streams(
    store: Store,
    query: StreamQuery,
    filters: Any,
    limit: int,
    cursor: str | None,
    show: Callable[[StreamRow], Awaitable[Item]],
    is_wanted: Callable[[StreamRow], bool] = lambda row: True,
) -> Page[Item]:
    """Return the page that a cursor leads to of the streams that are wanted, each as it is shown."""
    rows, last = await look_through(store, page_of(query, cursor, filters), checked_limit(limit), is_wanted)
    found: Listing[Item] = Listing()
    async for row in in_slices(rows):
        with found.reading(row.stream):
            found.items.append(await show(row))
    return found.page(cursor_after(filters, last) if last else None)


def after_row(query: StreamQuery, row: StreamRow) -> StreamQuery:
    """Return the query for the rows after this one."""
    return replace(query, after=row.stream, after_created_at=row.created_at)


def cursor_after(filters: Any, row: StreamRow) -> str:
    """Return the cursor of the page after this row."""
    return cursor_of(filters, InstantPlace(row.created_at, row.stream.id))


def stream_at(place: InstantPlace, tenant: str, kind: str) -> StreamId:
    """Return the stream a place names; raise `Invalid` if nothing can have that id."""
    try:
        return checked_stream(tenant, kind, place.id)
    except Invalid:
        raise malformed_cursor() from None
