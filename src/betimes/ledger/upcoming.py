"""What comes next: alarms by kind and time, and the things that wait, soonest first.

Alarms are counted along an index up to a bound; a tenant that has more is counted by a sample of its streams, and the
answer says so. Kinds that recur, such as schedules, are shown with all their occurrences; others with their one alarm.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from itertools import islice

from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import Moment, instant, moment
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, Instant
from betimes.core.outlooks import WaitingItem
from betimes.core.streams import segment_handle
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
from betimes.engine.read_model import SAMPLE, AlarmCount, AlarmPlace, UpcomingQuery
from betimes.engine.store import StreamQuery, StreamRow
from betimes.ledger.effects import domain_of
from betimes.ledger.reader import STEPS, LedgerReader, Step, check_range

COUNTED_MAX = 10_000
"""Alarms that are counted one by one; of more, a sample is."""
SAMPLED_MAX = 60_000
STEPS_MAX = 400
STEPS_FIT = 100
LONGEST: Step = "7d"
RECURRING_MAX = 200
"""Streams of a kind that recurs, of which occurrences are shown."""
OCCURRENCES_MAX = 2_000
"""Of all of them together."""
LATE_MAX = 10_000
LOOKED_AT_MAX = 1_000
READ_MAX = 200
ROWS_ALL = 999_999
"""More things than wait in a stream: all of them were shown."""
FOREVER = 2**61


class LateAlarms(JsonView, frozen=True):
    """Alarms that should have rung by now."""

    count: int
    oldest_at: datetime | None
    capped: bool
    """Whether there may be more than that."""


class UpcomingRow(JsonView, frozen=True):
    kind: str
    domain: str
    counts: list[int]
    """Of each step, from the first on."""


class UpcomingView(JsonView, frozen=True, kw_only=True, rename={"from_": "from"}):
    now: datetime
    from_: datetime
    to: datetime
    step: Step
    rows: list[UpcomingRow]
    late: LateAlarms
    estimated: bool
    """Whether counts are those of a sample, times its share."""
    truncated: bool
    """Whether there is more than was counted."""


class UpcomingItem(JsonView, frozen=True, kw_only=True):
    """Something that waits."""

    domain: str
    kind: str
    id: str
    """Of the stream: a person, an account, a schedule, …"""
    at: datetime
    """When it is looked at next."""
    what: str
    key: str | None
    """The event id or key it was asked for by."""
    reasons: list[str]
    would_pass_at: datetime | None
    """When it would pass at the earliest, as things stand."""
    snoozed_until: datetime | None
    """If its last wake failed, until when it rests."""
    segment_id: str | None
    late: bool


class ItemsPlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    at: Position
    kind: PlaceText
    id: PlaceText
    row: Position


class _Walk:
    """A walk along alarms: between which instants, and after which one it goes on; `None` if all were seen."""

    def __init__(self, since_at: Instant, until_at: Instant, place: ItemsPlace | None) -> None:
        self.since_at, self.until_at = since_at, until_at
        self.after = AlarmPlace(place.at, place.kind, place.id) if place else None


class Upcoming(LedgerReader):
    """Says what comes next."""

    @check_filters
    async def upcoming(
        self,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        step: Step | None = None,
        kinds: str | None = None,
    ) -> UpcomingView:
        """Count alarms by kind and step; by default those of the next 24 hours."""
        wanted = self.check_kinds(kinds)
        now = await self.engine.store.now()
        since_at = now if from_ is None else instant(from_)
        until_at = since_at + DAY if to is None else instant(to)
        check_range(since_at, until_at, ("from", "to"))
        fitting = (name for name, length in STEPS.items() if (until_at - since_at) // length <= STEPS_FIT)
        name = step if step is not None else next(fitting, LONGEST)
        length = STEPS[name]
        steps = -(-(until_at - since_at) // length)
        if steps > STEPS_MAX:
            message = f"{steps:,} steps, and an answer has at most {STEPS_MAX}; take a longer one"
            raise Invalid("1 parameter is wrong", (("query.step", message),))
        counts, share, truncated = await self._count(since_at, until_at, length)
        found: dict[str, list[int]] = {}
        for kind, number, total, _ in counts:
            if kind in wanted and not _recurs(kind):
                found.setdefault(kind, [0] * steps)[number] += total * share
        for kind in filter(_recurs, wanted):
            row, is_cut = await self._recurring(kind, since_at, until_at, length, steps)
            truncated = truncated or is_cut
            if any(row):
                found[kind] = row
        return UpcomingView(
            now=moment(now),
            from_=moment(since_at),
            to=moment(until_at),
            step=name,
            rows=[UpcomingRow(kind, domain_of(kind), row) for kind, row in sorted(found.items())],
            late=await self._late(wanted, now),
            estimated=share > 1,
            truncated=truncated,
        )

    async def _count(self, since_at: Instant, until_at: Instant, length: int) -> tuple[list[AlarmCount], int, bool]:
        """Return counts, how many alarms each stands for, and whether some were left out."""
        query = UpcomingQuery(self.caller.tenant, since_at, until_at, length, COUNTED_MAX)
        counts = await self.engine.store.upcoming(query)
        if sum(found.total for found in counts) < COUNTED_MAX:
            return counts, 1, False
        query = UpcomingQuery(self.caller.tenant, since_at, until_at, length, SAMPLED_MAX, sampled=True)
        counts = await self.engine.store.upcoming(query)
        return counts, SAMPLE, sum(found.total for found in counts) >= SAMPLED_MAX

    async def _late(self, wanted: frozenset[str], now: Instant) -> LateAlarms:
        counts = await self.engine.store.upcoming(UpcomingQuery(self.caller.tenant, 0, now, FOREVER, LATE_MAX))
        looked_at = sum(found.total for found in counts)
        late = sum(found.total for found in counts if found.kind in wanted)
        rows = await self.engine.store.upcoming_streams(self.caller.tenant, 0, now, READ_MAX) if late else []
        oldest_at = next((_wakes_at(row) for row in rows if row.stream.kind in wanted), None)
        return LateAlarms(late, moment(oldest_at), looked_at >= LATE_MAX)

    async def _recurring(
        self, kind: str, since_at: Instant, until_at: Instant, length: int, steps: int
    ) -> tuple[list[int], bool]:
        """Count the occurrences of streams that recur, up to a bound shared by all of them."""
        query = StreamQuery(
            tenant=self.caller.tenant, kind=kind, among=("active",), newest_first=True, limit=RECURRING_MAX + 1
        )
        rows = await self.engine.store.streams(query)
        counts, is_cut = [0] * steps, len(rows) > RECURRING_MAX
        most = OCCURRENCES_MAX // max(len(rows), 1)
        for row in rows[:RECURRING_MAX]:
            ticks = list(islice(self._occurrences(row, since_at, until_at), most + 1))
            is_cut = is_cut or len(ticks) > most
            for at in ticks[:most]:
                counts[(at - since_at) // length] += 1
        return counts, is_cut

    def _occurrences(self, row: StreamRow, since_at: Instant, until_at: Instant) -> Iterator[Instant]:
        seen: Listing[object] = Listing()
        with seen.reading(row.stream):
            state = self.engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
            yield from DOMAIN_OF[row.stream.kind].occurrences[row.stream.kind](state, since_at, until_at)

    # -- one by one

    @check_filters
    async def upcoming_items(
        self,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
        kinds: str | None = None,
        reason: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[UpcomingItem]:
        """List what waits, soonest first; late things first of all."""
        wanted = self.check_kinds(kinds)
        checked_limit(limit)
        since_at = 0 if from_ is None else instant(from_)
        until_at = FOREVER if to is None else instant(to)
        named = ["upcoming", self.caller.tenant, sorted(wanted), from_, to, reason]
        place = place_of(cursor, named, ItemsPlace)
        walk = _Walk(since_at, until_at, place)
        now, found, last = await self.engine.store.now(), Listing[UpcomingItem](), place
        async for row in self._walk(walk):
            if row.stream.kind not in wanted:
                continue
            at = _place_of(row)
            begun = place.row if place and at == AlarmPlace(place.at, place.kind, place.id) else 0
            for number, item in enumerate(self._items(row, now, reason)[begun:], start=begun + 1):
                if len(found) == limit:
                    return found.page(cursor_of(named, last) if last else None)
                found.add(item)
                last = ItemsPlace(*at, number)
        return found.page(cursor_of(named, ItemsPlace(*walk.after, ROWS_ALL)) if walk.after else None)

    async def _walk(self, walk: _Walk) -> AsyncIterator[StreamRow]:
        """Yield streams in the order of their alarms, first the one that the last page ended in."""
        store, tenant = self.engine.store, self.caller.tenant
        if walk.after is not None:
            query = StreamQuery(tenant=tenant, kind=walk.after.kind, prefix=walk.after.id, limit=1)
            for row in await store.streams(query):
                if row.alarm_at is not None and _place_of(row) == walk.after:
                    yield row
        for _ in range(LOOKED_AT_MAX // READ_MAX):
            rows = await store.upcoming_streams(tenant, walk.since_at, walk.until_at, READ_MAX, after=walk.after)
            for row in rows:
                yield row
            walk.after = _place_of(rows[-1]) if len(rows) == READ_MAX else None
            if walk.after is None:
                return

    def _items(self, row: StreamRow, now: Instant, reason: str | None) -> list[UpcomingItem | UnreadableRow]:
        found: Listing[UpcomingItem] = Listing()
        with found.reading(row.stream):
            for item in self._waiting(row):
                if reason is None or reason in item.reasons:
                    found.items.append(self._item(row, item, now))
        return [*found.items, *found.unreadable]

    def _waiting(self, row: StreamRow) -> list[WaitingItem]:
        """Return what waits in a stream, soonest first; at least that it rings."""
        kind = row.stream.kind
        describe = DOMAIN_OF[kind].waiting_items.get(kind)
        state = self.engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
        items = list(describe(state)) if describe and state is not None else []
        return sorted(items, key=lambda item: item.at) or [WaitingItem(at=_wakes_at(row), what=row.status or "alarm")]

    def _item(self, row: StreamRow, item: WaitingItem, now: Instant) -> UpcomingItem:
        kind = row.stream.kind
        return UpcomingItem(
            domain=domain_of(kind),
            kind=kind,
            id=row.stream.id,
            at=moment(item.at),
            what=item.what,
            key=item.key or None,
            reasons=list(item.reasons),
            would_pass_at=moment(item.would_pass_at),
            snoozed_until=moment(row.snooze_until),
            segment_id=segment_handle(row.stream, item.segment) if item.segment else None,
            late=item.at < now,
        )


def _recurs(kind: str) -> bool:
    return kind in DOMAIN_OF[kind].occurrences


def _place_of(row: StreamRow) -> AlarmPlace:
    return AlarmPlace(_wakes_at(row), row.stream.kind, row.stream.id)


def _wakes_at(row: StreamRow) -> Instant:
    return max(row.alarm_at or 0, row.snooze_until or 0)
