"""Random questions to a store's lists, and the answers a plain model gives."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from betimes.core.instants import MINUTE, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.store import EffectQuery, EffectRow, EffectStatus, LedgerQuery, StreamQuery, StreamRow
from betimes.testing.conformance.model import Model
from betimes.testing.conformance.random_batches import ENDS, EXECUTORS, KEYS, KINDS, STREAMS

STATUSES: tuple[EffectStatus | None, ...] = (None, None, "leased", *ENDS)


class RandomQueries:
    """Asks about what may be there, narrowed in every combination."""

    def __init__(self, model: Model, dice: Random) -> None:
        self.model = model
        self.dice = dice

    def maybe(self, *values: str) -> str | None:
        return self.dice.choice((None, None, *values))

    def instant(self, now: Instant) -> Instant | None:
        return now + self.dice.randint(-20, 5) * MINUTE if self.dice.random() < 0.4 else None

    def stream(self) -> StreamId | None:
        return self.dice.choice((None, None, *STREAMS))

    def limit(self) -> int:
        return self.dice.choice((1, 3, 100))

    def streams_query(self, now: Instant) -> StreamQuery:
        after, due_before, newest_first = self.stream(), self.instant(now), self.dice.random() < 0.4
        listed_before = self.instant(now) if due_before is None else None
        query = StreamQuery(
            tenant=self.maybe("acme", "zeta"),
            kind=self.maybe(*KINDS),
            owner=self.maybe("", "u-1", "u-2"),
            status=self.maybe("open", "done"),
            due_before=due_before,
            after=after,
            after_due_at=now - self.dice.randint(0, 20) * MINUTE if after and due_before is not None else None,
            listed_before=listed_before,
            after_listed_at=now - self.dice.randint(0, 20) * MINUTE if after and listed_before is not None else None,
            newest_first=newest_first,
            after_created_at=self.created(after, now) if newest_first else None,
            tombstones=self.dice.random() < 0.3,
            limit=self.limit(),
        )
        among = ("done", "open") if query.limit == 3 else ("open",) if query.tombstones else ()
        return replace(query, among=among)

    def streams(self, query: StreamQuery) -> list[StreamRow]:
        rows = [row for of in sorted(self.model.rows) if (row := self.model.listed(of)) and _stream_fits(row, query)]
        if query.due_before is not None:
            rows.sort(key=lambda row: (row.due_at or 0, row.stream))
        elif query.listed_before is not None:
            rows.sort(key=lambda row: (row.listed_at or 0, row.stream))
        elif query.newest_first:
            rows.sort(key=lambda row: (row.created_at, row.stream), reverse=True)
        return rows[: query.limit]

    def created(self, after: StreamId | None, now: Instant) -> Instant | None:
        """When the stream was created, or might have been."""
        return after and self.model.created.get(after, now - self.dice.randint(0, 20) * MINUTE)

    def effects_query(self) -> EffectQuery:
        return self.oldest_effects_query() if self.dice.random() < 0.2 else self.any_effects_query()

    def oldest_effects_query(self) -> EffectQuery:
        some = [id for id in sorted(self.model.effects) if id.tenant == "acme"]
        after = self.dice.choice(some) if some and self.dice.random() < 0.4 else None
        return EffectQuery(
            tenant="acme",
            executor=self.maybe("send", *EXECUTORS),
            status=self.dice.choice(STATUSES) or "dead",
            limit=self.limit(),
            after=after,
            oldest_first=True,
            after_created_at=self.model.effects[after].write.created_at if after else None,
        )

    def any_effects_query(self) -> EffectQuery:
        some = sorted(self.model.effects)
        after = self.dice.choice(some) if some and self.dice.random() < 0.4 else None
        newest_first = self.dice.random() < 0.5
        return EffectQuery(
            tenant=self.maybe("acme", "zeta"),
            source=self.stream(),
            executor=self.maybe("send", *EXECUTORS),
            status=self.dice.choice(STATUSES),
            limit=self.limit(),
            after=after,
            newest_first=newest_first,
            after_created_at=self.model.effects[after].write.created_at if after and newest_first else None,
        )

    def effects(self, query: EffectQuery) -> list[EffectRow]:
        rows = [self.model.effects[id].row() for id in sorted(self.model.effects)]
        if query.newest_first:
            rows.sort(key=lambda row: (row.created_at, row.id), reverse=True)
        elif query.oldest_first:
            rows.sort(key=lambda row: (row.created_at, row.id))
        return [row for row in rows if _effect_fits(row, query)][: query.limit]

    def ledger_query(self, now: Instant) -> LedgerQuery:
        return LedgerQuery(
            backwards=self.dice.random() < 0.5,
            tenant=self.maybe("acme", "zeta"),
            kind=self.maybe(*KINDS),
            id=self.maybe("a", "b", "Z"),
            key=self.maybe(*(key.key for key in KEYS)),
            turn=self.maybe("turn.a.2"),
            since_at=self.instant(now),
            until_at=self.instant(now),
            limit=self.limit(),
        )

    def ledger(self, query: LedgerQuery) -> list[Segment]:
        fitting = [segment for segment in self.model.ledger if _segment_fits(segment, query)]
        return (fitting[::-1] if query.backwards else fitting)[: query.limit]


def _same(*pairs: tuple[object, object]) -> bool:
    """Every found value is the one asked for, where one was."""
    return all(asked is None or found == asked for found, asked in pairs)


def _stream_fits(row: StreamRow, query: StreamQuery) -> bool:
    of = row.stream
    narrowed = (of.tenant, query.tenant), (of.kind, query.kind), (row.owner, query.owner), (row.status, query.status)
    shown = row.state is not None or query.tombstones
    if query.among and (row.status not in query.among or (query.due_before is not None and not row.owner)):
        return False
    return _same(*narrowed) and shown and _follows(row, query)


def _follows(row: StreamRow, query: StreamQuery) -> bool:
    if query.due_before is not None and (row.due_at is None or row.due_at > query.due_before):
        return False
    if query.listed_before is not None and (row.listed_at is None or row.listed_at > query.listed_before):
        return False
    if query.after is None:
        return True
    if query.listed_before is not None:
        return (row.listed_at, row.stream) > (query.after_listed_at, query.after)
    if query.due_before is not None:
        return (row.due_at, row.stream) > (query.after_due_at, query.after)
    if query.newest_first:
        return (row.created_at, row.stream) < (query.after_created_at, query.after)
    return row.stream > query.after


def _effect_fits(row: EffectRow, query: EffectQuery) -> bool:
    narrowed = (row.id.tenant, query.tenant), (row.id.source, query.source), (row.executor, query.executor)
    return _same(*narrowed, (row.status, query.status)) and _effect_follows(row, query)


def _effect_follows(row: EffectRow, query: EffectQuery) -> bool:
    if query.after is None or not (query.newest_first or query.oldest_first):
        return query.after is None or row.id > query.after
    here, there = (row.created_at, row.id), (query.after_created_at, query.after)
    return here < there if query.newest_first else here > there


def _segment_fits(segment: Segment, query: LedgerQuery) -> bool:
    of, key = segment.stream, segment.key and segment.key.key
    narrowed = (of.tenant, query.tenant), (of.kind, query.kind), (of.id, query.id)
    since = query.since_at is None or segment.at >= query.since_at
    until = query.until_at is None or segment.at < query.until_at
    return _same(*narrowed, (key, query.key), (segment.turn, query.turn)) and since and until
