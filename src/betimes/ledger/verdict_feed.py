"""Verdicts as they are committed: the ledger's outcomes after a position, in commit order, for many readers.

**One tail.** All readers of a process share a `VerdictTail`: the last segments of the ledger, read and decoded once.
It has no task of its own. A reader that has seen all of it reads on for everybody: those who ask while it waits for
its turn are answered by what it reads, so that many who come at once keep nobody waiting.

**A reader keeps a position and nothing else**: a segment's place in the ledger and the number of an outcome in it. So a
reader that comes back with its last position misses nothing and sees nothing twice, and a slow one costs no memory. One
that is behind what the tail holds reads the ledger by itself until it is there.

**Slow readers get sums.** A reader that finds more than `BEHIND_MAX` events waiting gets one `Pulse` in their place:
how many there were by outcome and reason, and between which instants. It goes on after them. A reader that keeps up
gets every event, whether or not others read beside it.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import TypeAlias

import msgspec

from betimes.catalogue import Area
from betimes.core.errors import Invalid
from betimes.core.segments import Segment
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import Listing
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.ledger.known_names import split_names
from betimes.ledger.outcomes import OutcomeView, outcomes_of
from betimes.ledger.reader import domain_of

BEHIND_MAX = 1_000
"""Events a reader may be behind and still get each of them."""
PAGES_MAX = 20
"""Pages of the ledger that one read looks through."""
TAIL_MAX = 5_000
"""Segments the tail holds at least, once there were so many."""
ALL = 999_999
"""More outcomes than a segment has: everything in it was seen."""
UNREADABLE = "unreadable"
"""The outcome of a segment that cannot be read."""
_POSITION = re.compile(r"(\d{1,18})\.(\d{1,6})", re.ASCII)


class VerdictEvent(JsonView, frozen=True):
    segment_id: str
    domain: str
    kind: str
    id: str
    at: datetime
    outcome: str
    reasons: tuple[str, ...]
    explanation: str
    defer_until: datetime | None


class Pulse(msgspec.Struct, frozen=True):
    """Events a reader was too slow for, as their sum."""

    count: int
    since: datetime
    """The instant of the earliest of them, which `GET /v1/ledger` takes as `since`."""
    until: datetime
    """The instant of the latest."""
    outcomes: dict[str, int]
    reasons: dict[str, int]
    """By each reason; an event may have several."""


class FeedFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    domain: Area | None = None
    outcome: str | None = None
    """One of several, with commas."""
    reason: str | None = None
    id: str | None = None
    """Of the stream it is about: an account, a person, an intent, a schedule, a sensor, a score."""

    def fits(self, outcome: str, reasons: Collection[str]) -> bool:
        """Return whether an outcome for these reasons is wanted."""
        is_wanted = self.outcome is None or outcome in split_names(self.outcome)
        return is_wanted and (self.reason is None or self.reason in reasons)


class FeedPosition(msgspec.Struct, frozen=True, order=True):
    seq: int
    number: int
    """Of the last outcome seen in that segment, counted from 1."""

    def __str__(self) -> str:
        return f"{self.seq}.{self.number}"


Placed: TypeAlias = tuple[FeedPosition, VerdictEvent]


def position_of(text: str) -> FeedPosition:
    found = _POSITION.fullmatch(text)
    if found is None:
        message = "is not the id of an event of this stream; leave it out to begin now"
        raise Invalid(message, (("header.last-event-id", message),))
    return FeedPosition(int(found[1]), int(found[2]))


class DecodedSegment:
    """A segment and its events, decoded on first use."""

    def __init__(self, engine: Engine, segment: Segment) -> None:
        self.segment = segment
        self.domain = domain_of(segment.stream.kind)
        self._engine = engine
        self._events: list[Placed] | None = None

    @property
    def events(self) -> list[Placed]:
        if self._events is None:
            self._events = list(self._decode())
        return self._events

    def _decode(self) -> Iterator[Placed]:
        segment, handle = self.segment, self.segment.handle
        for number, outcome in enumerate(self._outcomes(), start=1):
            event = derive(VerdictEvent, outcome, segment, segment.stream, segment_id=handle, domain=self.domain)
            yield FeedPosition(segment.seq, number), event

    def _outcomes(self) -> list[OutcomeView]:
        found: Listing[OutcomeView] = Listing()
        with found.reading(self.segment):
            found.items += outcomes_of(self._engine.kinds, self.segment)
        return found.items or [OutcomeView(UNREADABLE, (row.code,), row.unreadable) for row in found.unreadable]


class VerdictTail:
    """The end of the ledger, for all readers of a process; `fresh_s` is how long nobody looks again in vain."""

    def __init__(self, engine: Engine, *, fresh_s: float | None = None) -> None:
        self.engine = engine
        self.start = self.end = FeedPosition(-1, ALL)
        """Everything after the one and up to the other is here."""
        self.is_at_end = True
        """Whether the last read reached the end of the ledger."""
        self.reads = 0
        """Pages read from the ledger, for monitoring."""
        self._fresh_s = engine.settings.poll_s / 2 if fresh_s is None else fresh_s
        self._segments: list[DecodedSegment] = []
        self._lock = asyncio.Lock()
        self._read_s = 0.0
        """When the last read began."""
        self._complete_s = 0.0
        """When the last read began that reached the end of the ledger."""

    async def now(self) -> FeedPosition:
        """Return the end of the ledger; what is committed from now on comes after it.

        A tail that is far behind, because nobody read it for long, begins anew there.
        """
        asked_s = asyncio.get_running_loop().time()
        async with self._lock:
            if not self._is_read_since(asked_s):
                await self._move_to_end()
        return self.end

    async def _move_to_end(self) -> None:
        begun_s = asyncio.get_running_loop().time()
        newest = await self._page(LedgerQuery(backwards=True, limit=1))
        seq = newest[0].seq if newest else 0
        # Reading on would cost more than the tail keeps; readers that are further behind go to the ledger themselves.
        if self.end.seq < 0 or seq > self.end.seq + TAIL_MAX:
            self.start = self.end = FeedPosition(seq, ALL)
            self._segments, self.is_at_end = [], True
            self._read_s = self._complete_s = begun_s
        else:
            await self._read_on()

    async def after(self, position: FeedPosition) -> list[DecodedSegment]:
        """Return segments after a position, reading on if there are none yet; none if it is before `start`."""
        if position >= self.end and self._may_have_more():
            asked_s = asyncio.get_running_loop().time()
            async with self._lock:
                if position >= self.end and not self._is_read_since(asked_s):
                    await self._read_on()
        if position < self.start:
            return []  # the tail began anew meanwhile
        first = bisect_right(self._segments, position.seq - 1, key=lambda one: one.segment.seq)
        return self._segments[first:]

    def _may_have_more(self) -> bool:
        return not self.is_at_end or asyncio.get_running_loop().time() - self._read_s >= self._fresh_s

    def _is_read_since(self, asked_s: float) -> bool:
        """Return whether another reader began after that and reached the end: nothing from before is missing."""
        return self._complete_s > asked_s

    async def _read_on(self) -> None:
        """Read up to the end of the ledger, or as much as the tail is sure to hold."""
        self._read_s = begun_s = asyncio.get_running_loop().time()
        for _ in range(TAIL_MAX // PAGE_MAX):
            page = await self._page(LedgerQuery(after=self.end.seq, limit=PAGE_MAX))
            self._add(page)
            self.is_at_end = len(page) < PAGE_MAX
            if self.is_at_end:
                # Counted from its beginning: what was committed while it read may be missing.
                self._complete_s = begun_s
                return

    async def _page(self, query: LedgerQuery) -> list[Segment]:
        self.reads += 1
        return await self.engine.store.ledger(query)

    def _add(self, page: list[Segment]) -> None:
        if not page:
            return
        self._segments += [DecodedSegment(self.engine, segment) for segment in page]
        self.end = FeedPosition(page[-1].seq, ALL)
        # Cut at twice its length, so that it is copied once in so many pages and not with each.
        if len(self._segments) > 2 * TAIL_MAX:
            self.start = FeedPosition(self._segments[-TAIL_MAX - 1].segment.seq, ALL)
            self._segments = self._segments[-TAIL_MAX:]


class VerdictFeed:
    """One reader's way through the outcomes of the domains it may see."""

    def __init__(
        self, tail: VerdictTail, tenant: str, domains: frozenset[str], filters: FeedFilters, position: FeedPosition
    ) -> None:
        self._tail = tail
        self._tenant = tenant
        self._domains = domains
        self._filters = filters
        self._seen = position
        self.is_behind = False
        """Whether the last read stopped before the end of the ledger."""

    @classmethod
    async def from_now(
        cls, tail: VerdictTail, tenant: str, domains: frozenset[str], filters: FeedFilters
    ) -> VerdictFeed:
        return cls(tail, tenant, domains, filters, await tail.now())

    async def read(self) -> list[tuple[str, VerdictEvent | Pulse]]:
        """Return what was committed since the last read, each with its position; as one sum when that is too much."""
        if self._tail.end.seq < 0:
            await self._tail.now()
        if self._seen < self._tail.start:
            found = await self._catch_up()
        else:
            found = self._take(await self._tail.after(self._seen))
        self.is_behind = self._seen < self._tail.end or not self._tail.is_at_end
        if len(found) <= BEHIND_MAX:
            return [(str(position), event) for position, event in found]
        return [(str(found[-1][0]), pulse_of([event for _, event in found]))]

    async def _catch_up(self) -> list[Placed]:
        """Read the ledger itself, up to where the tail begins."""
        found: list[Placed] = []
        engine, start = self._tail.engine, self._tail.start
        for _ in range(PAGES_MAX):
            # The segment that was seen last is read once more: a reader may have stopped between two of its events.
            after = max(self._seen.seq - 1, 0)
            page = await engine.store.ledger(LedgerQuery(after=after, tenant=self._tenant, limit=PAGE_MAX))
            found += self._take([DecodedSegment(engine, segment) for segment in page])
            if len(page) < PAGE_MAX:
                # Nothing of this tenant is left before the tail: go on there, or each read would begin with these pages
                # again.
                self._seen = max(self._seen, start)
            if self._seen >= start:
                break
        return found

    def _take(self, segments: list[DecodedSegment]) -> list[Placed]:
        """Return the events of segments that this reader has not seen and wants; they are seen then."""
        found = [placed for one in segments for placed in self._select_events(one)]
        if segments:
            self._seen = max(self._seen, FeedPosition(segments[-1].segment.seq, ALL))
        return found

    def _select_events(self, one: DecodedSegment) -> Iterator[Placed]:
        stream, filters = one.segment.stream, self._filters
        if stream.tenant != self._tenant or one.domain not in self._domains:
            return
        if filters.domain not in (None, one.domain) or filters.id not in (None, stream.id):
            return
        for position, event in one.events:
            if position > self._seen and filters.fits(event.outcome, event.reasons):
                yield position, event


def pulse_of(events: Iterable[VerdictEvent]) -> Pulse:
    """Return the sum of events, of which there is at least one."""
    listed = list(events)
    ats = [event.at for event in listed]
    return Pulse(
        len(listed),
        min(ats),
        max(ats),
        dict(Counter(event.outcome for event in listed)),
        dict(Counter(reason for event in listed for reason in event.reasons)),
    )
