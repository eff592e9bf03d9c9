"""What is decided, as it is committed: the ledger's outcomes after a position, in commit order, for one reader.

A position is a segment's place in the ledger and the number of an outcome in it. Nothing is kept between reads but
that, so a reader that comes back with its last position misses nothing and sees nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from betimes.core.errors import Invalid
from betimes.core.segments import Segment
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.services.effects import domain_of
from betimes.services.moments import moment
from betimes.services.outcomes import outcomes_of

BEHIND_MAX = 1_000
"""Events a reader may be behind."""
PAGES_MAX = 20
"""Pages of the ledger that one read looks through."""
ALL = 999_999
"""More outcomes than a segment has: everything in it was seen."""
_POSITION = re.compile(r"(\d{1,18})\.(\d{1,6})", re.ASCII)


class VerdictEvent(msgspec.Struct, frozen=True):
    segment_id: str
    domain: str
    kind: str
    id: str
    at: datetime
    outcome: str
    reasons: tuple[str, ...]
    explanation: str
    defer_until: datetime | None


class FeedFilters(msgspec.Struct, frozen=True, kw_only=True):
    domain: str | None = None
    outcome: str | None = None
    reason: str | None = None
    id: str | None = None


class Position(msgspec.Struct, frozen=True):
    seq: int
    number: int
    """Of the last outcome seen in that segment, counted from 1."""

    def __str__(self) -> str:
        return f"{self.seq}.{self.number}"


class Lagged(Exception):
    """The reader is further behind than it may be."""


def position_of(text: str) -> Position:
    found = _POSITION.fullmatch(text)
    if found is None:
        message = "not the id of one of our events; leave it out to begin now"
        raise Invalid(message, (("header.last-event-id", message),))
    return Position(int(found[1]), int(found[2]))


class VerdictFeed:
    """One reader's way through the outcomes of the domains it may see."""

    def __init__(
        self, engine: Engine, tenant: str, domains: frozenset[str], filters: FeedFilters, position: Position
    ) -> None:
        self._engine = engine
        self._tenant = tenant
        self._domains = domains
        self._filters = filters
        self._seen = position
        self.is_behind = False
        """Whether the last read stopped before the end of the ledger."""

    @classmethod
    async def from_now(cls, engine: Engine, tenant: str, domains: frozenset[str], filters: FeedFilters) -> VerdictFeed:
        newest = await engine.store.ledger(LedgerQuery(backwards=True, tenant=tenant, limit=1))
        seq = newest[0].seq if newest else 0
        return cls(engine, tenant, domains, filters, Position(seq, ALL))

    async def read(self) -> list[tuple[str, VerdictEvent]]:
        """What was committed since the last read, each with its position; `Lagged` when that is too much."""
        found: list[tuple[str, VerdictEvent]] = []
        for _ in range(PAGES_MAX):
            after = max(self._seen.seq - 1, 0)
            page = await self._engine.store.ledger(LedgerQuery(after=after, tenant=self._tenant, limit=PAGE_MAX))
            for segment in page:
                for position, event in self._events(segment):
                    found.append((str(position), event))
                self._seen = Position(segment.seq, ALL)
            if len(found) > BEHIND_MAX:
                raise Lagged
            self.is_behind = len(page) == PAGE_MAX
            if not self.is_behind:
                break
        return found

    def _events(self, segment: Segment) -> Iterator[tuple[Position, VerdictEvent]]:
        stream, filters = segment.stream, self._filters
        domain = domain_of(stream.kind)
        if domain not in self._domains or filters.domain not in (None, domain) or filters.id not in (None, stream.id):
            return
        for number, outcome in enumerate(outcomes_of(self._engine.kinds, segment), start=1):
            if segment.seq == self._seen.seq and number <= self._seen.number:
                continue
            if filters.outcome in (None, outcome.outcome) and (
                filters.reason is None or filters.reason in outcome.reasons
            ):
                yield Position(segment.seq, number), VerdictEvent(
                    segment.handle, domain, stream.kind, stream.id, moment(segment.at), outcome.outcome,
                    outcome.reasons, outcome.explanation, outcome.defer_until,
                )  # fmt: skip
