"""The timeline of a person or an account: what was decided about them in all domains, and what lies ahead.

Each domain says which of its streams are about a person or an account, what waits in them, and which bands and windows
they have (`Domain.subjects`, `waiting_items`, `outlook`). Nothing here knows a domain by name.
"""

from __future__ import annotations

from datetime import datetime

from betimes.catalogue import DOMAINS
from betimes.core.datetimes import instant, moment
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, Instant
from betimes.core.outlooks import Outlook, Subject, WindowFill
from betimes.core.streams import StreamId, checked_stream
from betimes.domain.declaration import Domain
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import Listing, UnreadableRow, check_filters, wrong_parameter
from betimes.domain.service import in_slices
from betimes.engine.store import LedgerQuery, StreamQuery, StreamRow
from betimes.ledger.judgements import JudgedView, judged_things, judged_views
from betimes.ledger.past_outlooks import PastOutlooks
from betimes.ledger.reader import When, check_range
from betimes.ledger.upcoming import Upcoming
from betimes.ledger.upcoming_items import UpcomingItem, alarm_of, due_of
from betimes.ledger.verdict_feed import DecodedSegment, VerdictEvent

SPAN_MAX = 32 * DAY
STREAMS_MAX = 50
"""Of each kind that belongs to the subject."""
SEGMENTS_MAX = 200
"""Of each stream, the newest."""
EVENTS_MAX = 1_000
POINTS_MAX = 200


class BandView(JsonView, frozen=True, kw_only=True):
    domain: str
    kind: str
    id: str
    name: str
    since: datetime
    until: datetime | None
    label: str | None


class FillPoint(JsonView, frozen=True):
    at: datetime
    count: int


class FillView(JsonView, frozen=True, kw_only=True):
    """How full a sliding window is from each instant on, if nothing else happens."""

    domain: str
    kind: str
    name: str
    span_s: int
    cap: int
    points: list[FillPoint]


class ProspectView(JsonView, frozen=True, kw_only=True):
    domain: str
    kind: str
    id: str
    name: str
    at: datetime
    value: str


class TimelineEvent(VerdictEvent, frozen=True, kw_only=True):
    judged: list[JudgedView]
    """The notifications or triggers that it is about; an item that has to wait is judged again under the same id."""


class TimelineView(JsonView, frozen=True, kw_only=True):
    now: datetime
    since: datetime
    until: datetime
    timezone: str
    """The user's zone; UTC if unknown."""
    items: list[TimelineEvent]
    """Decisions, oldest first."""
    waiting: list[UpcomingItem]
    """Items that wait between the two instants; if now is between them, late ones too."""
    bands: list[BandView]
    fills: list[FillView]
    forecast: list[ProspectView]
    bands_exact: bool
    """Whether bands and fills of the past are historical. If not, histories were too long or pruned, and some
    streams show their current state instead."""
    truncated: bool
    """Whether there is more than shown."""
    unreadable: list[UnreadableRow]


class Timeline(Upcoming):
    """Shows the day of a person or an account."""

    @check_filters
    async def timeline(
        self, *, user_id: str | None = None, account_id: str | None = None, since: When = None, until: When = None
    ) -> TimelineView:
        """Return what was and will be between two instants; by default twelve hours around now.

        Their decisions in all domains the key may read, waiting items, bands (quiet hours, digests, cooldowns,
        incident, ban), how full their windows are, and what happens if nothing else does.

        Parameters
        ----------
        since
            12 hours ago, if not given.
        until
            A day later, if not given; at most 32 days.
        """
        subject, id = _subject(user_id, account_id)
        now = await self.engine.store.now()
        since_at = now - DAY // 2 if since is None else instant(since)
        until_at = since_at + DAY if until is None else instant(until)
        check_range(since_at, until_at)
        if until_at - since_at > SPAN_MAX:
            raise wrong_parameter("until", f"at most {SPAN_MAX // DAY} days after since")
        checked_stream(self.caller.tenant, "subject", id)
        policy = await self.engine.policy_of(self.caller.tenant)
        found = _Found(PastOutlooks(self.engine, policy, now, since_at, until_at), now, since_at, until_at)
        for domain in DOMAINS:
            if domain.area in self._domains:
                await self._add_domain(found, domain, subject, id)
        return found.view()

    async def _add_domain(self, found: _Found, domain: Domain, subject: Subject, id: str) -> None:
        for streams in domain.subjects:
            if streams.subject != subject:
                continue
            query = StreamQuery(
                tenant=self.caller.tenant,
                kind=streams.kind,
                owner=id if streams.by_owner else None,
                # An id is the first of all that begin with it.
                prefix=None if streams.by_owner else id,
                newest_first=streams.by_owner,
                limit=STREAMS_MAX + 1 if streams.by_owner else 1,
            )
            rows = await self.engine.store.streams(query)
            found.truncated = found.truncated or len(rows) > STREAMS_MAX
            for row in rows[:STREAMS_MAX]:
                if streams.by_owner or row.stream.id == id:
                    await self._add_stream(found, domain, row)

    async def _add_stream(self, found: _Found, domain: Domain, row: StreamRow) -> None:
        with found.events.reading(row.stream):
            await self._add_events(found, row.stream)
            if alarm_of(row) is not None or due_of(row) is not None:
                for item in self._items(row, found.now, found.waiting_since_at, found.until_at):
                    found.waiting.add(item)
            hook = domain.outlook.get(row.stream.kind)
            told = await found.past.read(row, hook) if hook else None
            if told is not None:
                found.add_outlook(domain.area, row.stream, told)

    async def _add_events(self, found: _Found, stream: StreamId) -> None:
        query = LedgerQuery(
            tenant=stream.tenant,
            kind=stream.kind,
            id=stream.id,
            backwards=True,
            since_at=found.since_at,
            until_at=found.until_at,
            limit=SEGMENTS_MAX,
        )
        page = await self.engine.store.ledger(query)
        found.truncated = found.truncated or len(page) == SEGMENTS_MAX
        known: dict[str | int, str] = {}
        async for segment in in_slices(reversed(page)):  # of one instant, the first decided stays first
            judged = judged_views(judged_things(self.engine.kinds, segment), known)
            for _, event in DecodedSegment(self.engine, segment).events:
                found.events.items.append(derive(TimelineEvent, event, judged=judged))


class _Found:
    """A timeline as it is gathered."""

    def __init__(self, past: PastOutlooks, now: Instant, since_at: Instant, until_at: Instant) -> None:
        self.past = past
        self.now, self.since_at, self.until_at = now, since_at, until_at
        self.timezone = ""
        self.events: Listing[TimelineEvent] = Listing()
        self.waiting: Listing[UpcomingItem] = Listing()
        self.bands: list[BandView] = []
        self.fills: list[FillView] = []
        self.prospects: list[ProspectView] = []
        self.truncated = False

    @property
    def waiting_since_at(self) -> Instant:
        """Return from when on what waits is shown: what is late belongs to the day that has now in it."""
        return 0 if self.since_at <= self.now < self.until_at else self.since_at

    def add_outlook(self, domain: str, stream: StreamId, told: Outlook) -> None:
        self.timezone = self.timezone or told.timezone
        self.bands += [derive(BandView, band, stream, domain=domain) for band in told.bands]
        self.fills += [derive(FillView, fill, stream, domain=domain, points=self._points(fill)) for fill in told.fills]
        self.prospects += [derive(ProspectView, one, stream, domain=domain) for one in told.prospects]

    def _points(self, fill: WindowFill) -> list[FillPoint]:
        """Return how many count at first, and from each instant on at which that changes."""
        span = fill.span_s * 1_000_000
        changes = sorted([(at, 1) for at in fill.counted] + [(at + span, -1) for at in fill.counted])
        counts = {self.since_at: 0}  # of several changes at one instant, what is left by the last
        count = 0
        for at, change in changes:
            count += change
            if at < self.until_at:
                counts[max(at, self.since_at)] = count
        return [FillPoint(moment(at), count) for at, count in counts.items()][-POINTS_MAX:]

    def view(self) -> TimelineView:
        events = sorted(self.events.items, key=lambda event: event.at)
        return TimelineView(
            now=moment(self.now),
            since=moment(self.since_at),
            until=moment(self.until_at),
            timezone=self.timezone or "UTC",
            items=events[-EVENTS_MAX:],
            waiting=sorted(self.waiting.items, key=lambda item: item.at),
            bands=self.bands,
            fills=self.fills,
            forecast=self.prospects,
            bands_exact=self.past.is_exact,
            truncated=self.truncated or len(events) > EVENTS_MAX,
            unreadable=[*self.events.unreadable, *self.waiting.unreadable],
        )


def _subject(user_id: str | None, account_id: str | None) -> tuple[Subject, str]:
    if (user_id is None) == (account_id is None):
        message = "say either user_id or account_id"
        raise Invalid(message, (("query.user_id", message), ("query.account_id", message)))
    return ("user_id", user_id) if user_id is not None else ("account_id", account_id or "")
