"""Upcoming events, soonest first.

Streams are found along two orders, which are merged: their alarms, and when they are due, of kinds that wait for
somebody to take them (`Domain.due_kinds`). A stream that stands in both is shown once, where it comes first, with all
that waits in it; the items of a page are ordered by their own instants. So a page is soonest first, and the next one
may begin before this one ends: to merge pages exactly, a cursor would have to hold every stream that is not done yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from betimes.catalogue import DOMAIN_OF, DOMAINS
from betimes.core.datetimes import instant
from betimes.core.instants import Instant
from betimes.core.outlooks import WaitingItem
from betimes.core.streams import ID_LAST, StreamId, segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import (
    CursorPlace,
    Listing,
    Page,
    PlaceText,
    Position,
    UnreadableRow,
    check_filters,
    checked_limit,
    cursor_of,
    place_of,
)
from betimes.domain.service import in_slices
from betimes.domain.struct_forms import From
from betimes.engine.read_model import AlarmPlace
from betimes.engine.store import StreamQuery, StreamRow
from betimes.ledger.known_names import check_names
from betimes.ledger.reader import LedgerReader, When, domain_of

LOOKED_AT_MAX = 600
READ_MAX = 200
ROWS_ALL = 999_999
"""More things than wait in a stream: all of them were shown."""
FOREVER = 2**61
DUE_KINDS = tuple(kind for domain in DOMAINS for kind in domain.due_kinds)


class UpcomingItem(JsonView, frozen=True, kw_only=True):
    """Something that waits."""

    domain: str
    kind: str
    id: str
    """Of the stream: a person, an account, a schedule, …"""
    owner: str | None
    """The user or account it belongs to, if not `id`."""
    at: datetime
    """When it is checked next."""
    what: str
    key: str | None
    """The event id or key of the request."""
    reasons: list[str]
    would_pass_at: datetime | None
    """The earliest instant at which it would pass, if nothing else happens."""
    snoozed_until: Annotated[datetime | None, From("snooze_until")]
    """If its last wake failed, when the snooze ends."""
    segment_id: str | None
    late: bool
    timezone: str | None
    """The zone of its user or schedule, if any."""


class ItemsPlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    at: Position
    kind: PlaceText
    id: PlaceText
    row: Position


class _Walk:
    """A walk along upcoming events: its range of instants and its position; `None` if all were seen."""

    def __init__(self, since_at: Instant, until_at: Instant, place: ItemsPlace | None) -> None:
        self.since_at, self.until_at = since_at, until_at
        self.after = AlarmPlace(place.at, place.kind, place.id) if place else None

    def place_of(self, row: StreamRow) -> AlarmPlace | None:
        """Return where a stream is shown: at the first of its instants that is not before the walk begins."""
        found = [at for at in (alarm_of(row), due_of(row)) if at is not None and at >= self.since_at]
        return AlarmPlace(min(found), row.stream.kind, row.stream.id) if found else None


class _Order:
    """One of the orders that streams are found along, by alarms or by when a kind is due, as far as it was read."""

    def __init__(self, due_kind: str | None) -> None:
        self.due_kind = due_kind
        self.rows: list[StreamRow] = []
        self.is_end = False

    @property
    def place(self) -> AlarmPlace:
        """Return the place of its next row."""
        row = self.rows[0]
        at = alarm_of(row) if self.due_kind is None else due_of(row)
        return AlarmPlace(at or 0, row.stream.kind, row.stream.id)


class UpcomingItems(LedgerReader):
    """Lists what waits."""

    @check_filters
    async def upcoming_items(
        self,
        *,
        from_: When = None,
        to: When = None,
        kinds: str | None = None,
        reason: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[UpcomingItem]:
        """List what waits, soonest first within the page; the pages are in the order of the streams' next instants.

        Waiting items: what they are, whose, why and until when; intents by their next check. A stream is found by
        its next alarm or check, soonest first, late ones before all others, and shown once, with all its waiting
        items between `from` and `to`. The items of a page are sorted by `at`; since the items of a stream stay
        together, the next page may begin earlier than this one ends.

        Parameters
        ----------
        from_
            From the latest on, if not given.
        kinds
            Of streams, with commas.
        """
        wanted = self.check_kinds(kinds)
        check_names(reason=reason)
        checked_limit(limit)
        since_at = 0 if from_ is None else instant(from_)
        until_at = FOREVER if to is None else instant(to)
        named = ["upcoming", self.caller.tenant, sorted(wanted), from_, to, reason]
        place = place_of(cursor, named, ItemsPlace)
        walk = _Walk(since_at, until_at, place)
        now, found, last = await self.engine.store.now(), Listing[UpcomingItem](), place
        begun_at = walk.after
        async for row in self._walk(walk, wanted):
            at = walk.place_of(row)
            if row.stream.kind not in wanted or at is None:
                continue
            begun = place.row if place and at == begun_at else 0
            items = self._items(row, now, walk.since_at, walk.until_at, reason)
            for number, item in enumerate(items[begun:], start=begun + 1):
                if len(found) == limit:
                    return _page_by_time(found, cursor_of(named, last) if last else None)
                found.add(item)
                last = ItemsPlace(*at, number)
        if (end := walk.after) is None:
            return _page_by_time(found, None)
        # A cursor names nothing that the caller may not see: then it leads on behind the last of that kind.
        end_id = end.id if end.kind in wanted else ID_LAST
        return _page_by_time(found, cursor_of(named, ItemsPlace(end.at, end.kind, end_id, ROWS_ALL)))

    async def _walk(self, walk: _Walk, wanted: frozenset[str]) -> AsyncIterator[StreamRow]:
        """Yield streams in the order of their places, first the one that the last page ended in."""
        if walk.after is not None:
            # More may wait in the stream that the last page ended in than that page had room for.
            query = StreamQuery(tenant=self.caller.tenant, kind=walk.after.kind, prefix=walk.after.id, limit=1)
            for row in await self.engine.store.streams(query):
                if walk.place_of(row) == walk.after:
                    yield row
        orders = [_Order(None), *(_Order(kind) for kind in DUE_KINDS if kind in wanted)]
        async for _ in in_slices(range(LOOKED_AT_MAX)):  # whoever is given a row decodes its state
            for order in orders:
                if not order.rows and not order.is_end:
                    await self._read_on(order, walk)
            nearest = min((order for order in orders if order.rows), key=lambda order: order.place, default=None)
            if nearest is None:
                walk.after = None
                return
            walk.after, row = nearest.place, nearest.rows.pop(0)
            # at its other place it comes, or came, without being shown; if both are one, its alarm's order shows it
            is_both = nearest.due_kind is not None and alarm_of(row) == due_of(row)
            if walk.place_of(row) == walk.after and not is_both:
                yield row

    async def _read_on(self, order: _Order, walk: _Walk) -> None:
        store, tenant = self.engine.store, self.caller.tenant
        if order.due_kind is None:
            rows = await store.upcoming_streams(tenant, walk.since_at, walk.until_at, READ_MAX, after=walk.after)
        else:
            # after an id that is before all others, it begins with what is due at the instant itself
            at, kind, id = walk.after or (walk.since_at, order.due_kind, "")
            # Places of one instant are ordered by kind: this one comes after the last place as a whole, or before it.
            if kind != order.due_kind:
                id = "" if kind < order.due_kind else "\U0010ffff"
            query = StreamQuery(
                tenant=tenant,
                kind=order.due_kind,
                due_before=walk.until_at - 1,
                after=StreamId(tenant, order.due_kind, id),
                after_due_at=max(at, walk.since_at),
                limit=READ_MAX,
            )
            rows = await store.streams(query)
        order.rows, order.is_end = rows, len(rows) < READ_MAX

    def _items(
        self, row: StreamRow, now: Instant, since_at: Instant, until_at: Instant, reason: str | None = None
    ) -> list[UpcomingItem | UnreadableRow]:
        """Return what waits in a stream between two instants; of one whose wake rests also what waited before."""
        found: Listing[UpcomingItem] = Listing()
        earliest_at = since_at if row.snooze_until is None else 0
        with found.reading(row.stream):
            state = self.engine.kinds.state_in(row.stream, row)
            for item in self._waiting(row, state):
                if earliest_at <= item.at < until_at and (reason is None or reason in item.reasons):
                    found.items.append(self._item(row, state, item, now))
        return [*found.items, *found.unreadable]

    def _waiting(self, row: StreamRow, state: object) -> list[WaitingItem]:
        """Return what waits in a stream, soonest first; at least that it rings."""
        kind = row.stream.kind
        describe = DOMAIN_OF[kind].waiting_items.get(kind)
        items = list(describe(state)) if describe and state is not None else []
        rings_at = alarm_of(row)
        if not items and rings_at is not None:
            return [WaitingItem(at=rings_at, what=row.status or "alarm")]
        return sorted(items, key=lambda item: item.at)

    def _item(self, row: StreamRow, state: object, item: WaitingItem, now: Instant) -> UpcomingItem:
        segment_id = segment_handle(row.stream, item.segment) if item.segment else None
        domain, late = domain_of(row.stream.kind), item.at < now
        find_timezone = DOMAIN_OF[row.stream.kind].timezones.get(row.stream.kind)
        timezone = find_timezone(state) if find_timezone and state is not None else None
        return derive(
            UpcomingItem, item, row, row.stream, domain=domain, segment_id=segment_id, late=late, timezone=timezone
        )


def _page_by_time(found: Listing[UpcomingItem], next_cursor: str | None) -> Page[UpcomingItem]:
    """Return the page with its items in the order of their own instants, not grouped by their streams."""
    found.items.sort(key=lambda item: item.at)
    return found.page(next_cursor)


def alarm_of(row: StreamRow) -> Instant | None:
    """Return when a stream rings, its snooze heeded."""
    return None if row.alarm_at is None else max(row.alarm_at, row.snooze_until or 0)


def due_of(row: StreamRow) -> Instant | None:
    """Return when a stream is due, if its kind waits to be claimed."""
    return row.due_at if row.stream.kind in DUE_KINDS else None
