"""The read model in memory: the tally, alarms to come, names and processes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from zlib import crc32

from betimes.core.errors import Fenced
from betimes.core.instants import HOUR, MINUTE, Instant, seconds
from betimes.core.segments import CHECKPOINT_TURN, Segment
from betimes.core.streams import EffectId, StreamId
from betimes.engine import read_model as contract
from betimes.engine.store import PAGE_MAX, SEND, StreamRow, StreamWrite
from betimes.stores.memory.database import MemoryDatabase


class MemoryReadModel:
    """The part of the store that people's questions are answered from."""

    clock: Callable[[], Instant]
    database: MemoryDatabase

    def _stream_row(self, row: StreamWrite) -> StreamRow:
        raise AssertionError("the store lists its rows")

    def _is_held(self, name: StreamId | EffectId) -> bool:
        raise AssertionError("the store knows what is held")

    # -- the tally

    async def tally_source(self, after: int, limit: int, by_events: Sequence[str] = ()) -> list[contract.TallySource]:
        segments = self.database.segments
        first = bisect_right(segments, after, key=lambda segment: segment.seq)
        return [
            contract.TallySource(
                s.seq,
                s.stream.tenant,
                s.stream.kind,
                s.at,
                s.schema,
                None if s.stream.kind in by_events else s.verdict,
                s.events if s.stream.kind in by_events and s.turn != CHECKPOINT_TURN else None,
            )
            for s in segments[first : first + min(limit, PAGE_MAX)]
        ]

    async def tally_position(self) -> contract.TallyPosition:
        return self.database.tally_position

    async def take_tally(self, holder: str, lease_s: float) -> contract.TallyPosition | None:
        now, position = self.clock(), self.database.tally_position
        if position.holder != holder and position.lease_until > now:
            return None
        self.database.tally_position = position._replace(holder=holder, lease_until=now + seconds(lease_s))
        return self.database.tally_position

    async def add_tally(
        self, holder: str, lease_s: float, entries: Sequence[contract.TallyEntry], *, after: int, upto: int, at: Instant
    ) -> None:
        position, tally = self.database.tally_position, self.database.tally
        if (position.holder, position.seq) != (holder, after):
            raise Fenced(f"the tally has moved on from {after}, or {holder} lost its lease on it")
        for entry in entries:
            count, first, last = tally.get(entry[:6], (0, entry.first_seq, entry.last_seq))
            tally[entry[:6]] = (count + entry.total, min(first, entry.first_seq), max(last, entry.last_seq))
        self.database.tally_position = position._replace(
            seq=upto, at=max(at, position.at), lease_until=self.clock() + seconds(lease_s)
        )

    async def trim_tally(self, *, minutes_from: Instant, hours_from: Instant, limit: int) -> int:
        position, tally = self.database.tally_position, self.database.tally
        self.database.tally_position = position._replace(
            minutes_from=max(minutes_from, position.minutes_from), hours_from=max(hours_from, position.hours_from)
        )
        gone = 0
        for level, kept_from in ((MINUTE, minutes_from), (HOUR, hours_from)):
            old = sorted((name for name in tally if name[0] == level and name[2] < kept_from), key=lambda n: n[2])
            for name in old[:limit]:
                del tally[name]
            gone += len(old[:limit])
        return gone

    async def reset_tally(self) -> None:
        self.database.tally.clear()
        self.database.tally_position = contract.TallyPosition()

    async def tally_counts(
        self, query: contract.TallyQuery, step: int, limit: int, *, by_reasons: bool = True
    ) -> list[contract.TallyCell]:
        cells: Counter[tuple[int, str, str, str]] = Counter()
        for entry in self._entries(query):
            reasons = entry.reasons if by_reasons else ""
            cells[(entry.at - query.since_at) // step, entry.kind, entry.outcome, reasons] += entry.total
        return [contract.TallyCell(*cell, count) for cell, count in sorted(cells.items())[:limit]]

    async def tally_ranges(self, query: contract.TallyQuery, before_seq: int, limit: int) -> list[contract.TallyRange]:
        found: dict[Instant, contract.TallyRange] = {}
        for entry in self._entries(query):
            if entry.first_seq < before_seq:
                _, first, last, total, kinds = found.get(entry.at, (0, entry.first_seq, entry.last_seq, 0, ()))
                first, last = min(first, entry.first_seq), max(last, entry.last_seq)
                among = tuple(sorted({*kinds, entry.kind}))
                found[entry.at] = contract.TallyRange(entry.at, first, last, total + entry.total, among)
        return [found[at] for at in sorted(found, reverse=True)[:limit]]

    async def segments_within(self, tenant: str, ranges: Sequence[contract.KindRange], limit: int) -> list[Segment]:
        def is_within(segment: Segment) -> bool:
            return segment.stream.tenant == tenant and any(
                segment.stream.kind == one.kind and one.first <= segment.seq <= one.last for one in ranges
            )

        return list(islice(filter(is_within, reversed(self.database.segments)), min(limit, PAGE_MAX)))

    def _entries(self, query: contract.TallyQuery) -> Iterator[contract.TallyEntry]:
        for name, counts in self.database.tally.items():
            entry = contract.TallyEntry(*name, *counts)
            if (entry.level, entry.tenant) != (query.level, query.tenant):
                continue
            if not query.since_at <= entry.at < query.until_at or (query.kinds and entry.kind not in query.kinds):
                continue
            if query.outcomes and entry.outcome not in query.outcomes:
                continue
            if query.reason is None or query.reason in entry.reasons.split(contract.REASONS_SEPARATOR):
                yield entry

    # -- alarms, names, processes

    def _alarms(self, tenant: str, since_at: Instant, until_at: Instant) -> list[tuple[Instant, StreamRow]]:
        found = []
        for write in self.database.rows.values():
            if write.stream.tenant != tenant or write.alarm_at is None:
                continue
            at = max(write.alarm_at, self.database.snoozes.get(write.stream, write.alarm_at))
            if since_at <= at < until_at:
                found.append((at, self._stream_row(write)))
        return sorted(found, key=lambda one: (one[0], one[1].stream))

    async def upcoming(self, query: contract.UpcomingQuery) -> list[contract.AlarmCount]:
        is_due = query.due_kind is not None
        alarms = self._due_later(query) if is_due else self._alarms(query.tenant, query.since_at, query.until_at)
        if query.sampled:
            alarms = [one for one in alarms if crc32(one[1].stream.id.encode()) % contract.SAMPLE == 0]
        found: dict[tuple[str, int], list[Instant]] = {}
        for at, row in alarms[: query.limit]:
            found.setdefault((row.stream.kind, (at - query.since_at) // query.step), []).append(at)
        return [contract.AlarmCount(*cell, len(ats), min(ats)) for cell, ats in found.items()]

    def _due_later(self, query: contract.UpcomingQuery) -> list[tuple[Instant, StreamRow]]:
        found = [
            (write.due_at, self._stream_row(write))
            for write in self.database.rows.values()
            if write.stream[:2] == (query.tenant, query.due_kind)
            and write.due_at is not None
            and query.since_at <= write.due_at < query.until_at
            and (write.owner or not query.sampled)
        ]
        return sorted(found, key=lambda one: (one[0], one[1].stream))

    async def upcoming_streams(
        self, tenant: str, since_at: Instant, until_at: Instant, limit: int, *, after: contract.AlarmPlace | None = None
    ) -> list[StreamRow]:
        alarms = self._alarms(tenant, since_at, until_at)
        rows = [row for at, row in alarms if after is None or (at, row.stream.kind, row.stream.id) > after]
        return rows[: min(limit, PAGE_MAX)]

    async def snoozed_streams(self, tenant: str, limit: int, *, after: StreamId | None = None) -> list[StreamRow]:
        names = sorted(of for of in self.database.snoozes if of.tenant == tenant and (after is None or of > after))
        return [self._stream_row(self.database.rows[of]) for of in names[: min(limit, PAGE_MAX)]]

    async def names_like(
        self, tenant: str, kinds: Sequence[str], prefix: str, limit: int
    ) -> list[contract.NamedStream]:
        found: list[contract.NamedStream] = []
        for kind in sorted(kinds):
            rows = [row for of, row in sorted(self.database.rows.items()) if of[:2] == (tenant, kind)]
            alike = [row for row in rows if row.stream.id.startswith(prefix) and row.state is not None]
            found += [contract.NamedStream(kind, row.stream.id, row.status) for row in alike[:limit]]
        return found

    async def keys_like(
        self, tenant: str, collections: Sequence[str], prefix: str, limit: int
    ) -> list[contract.NamedKey]:
        now, found = self.clock(), list[contract.NamedKey]()
        for collection in sorted(collections):
            kept = [k for k in self.database.keys.values() if k.key[:2] == (tenant, collection) and k.expires_at > now]
            alike = sorted((k for k in kept if k.key.key.startswith(prefix)), key=lambda k: k.key)
            found += [
                contract.NamedKey(collection, k.key.key, k.stream.kind, k.stream.id, k.version) for k in alike[:limit]
            ]
        return found

    async def tenant_backlog(self, tenant: str, limit: int) -> contract.TenantBacklog:
        now = self.clock()
        due = [at for at, _ in self._alarms(tenant, 0, now + 1)]
        effects = [e for e in self.database.effects.values() if e.write.id.tenant == tenant]
        owed = [e for e in effects if e.status in ("pending", "leased")]
        sends = sum(e.write.executor == SEND for e in owed)
        calls = [e for e in owed if e.write.executor != SEND and not self._is_held(e.write.id)]
        late: dict[str, Counter[str]] = {}
        for effect in [e for e in calls if e.is_due(now - MINUTE)][:limit]:
            late.setdefault(effect.write.executor, Counter())[effect.write.id.kind] += 1
        return contract.TenantBacklog(
            min(len(due), limit),
            min(due, default=None),
            min(sum(of.tenant == tenant and until > now for of, until in self.database.snoozes.items()), limit),
            min(len(owed) - sends, limit) + min(sends, limit),
            min(sum(e.status == "dead" for e in effects), limit),
            min(sum(bool(e.last_error) for e in owed if e.write.executor != SEND), limit),
            {executor: dict(kinds) for executor, kinds in late.items()},
        )

    async def executor_backlog(self, tenant: str, limit: int, executors_max: int) -> list[contract.ExecutorBacklog]:
        owed: dict[str, list[tuple[Instant, str]]] = {}
        for effect in self.database.effects.values():
            if effect.write.id.tenant == tenant and effect.status in ("pending", "leased"):
                entry = (effect.next_attempt_at or 0, effect.write.id.kind)
                owed.setdefault(effect.write.executor, []).append(entry)
        found = list[contract.ExecutorBacklog]()
        for name, entries in sorted(owed.items())[:executors_max]:
            first = sorted(entries)[:limit]
            for kind in sorted({kind for _, kind in first}):
                ats = [at for at, of in first if of == kind]
                found.append(contract.ExecutorBacklog(name, kind, len(ats), None if name == SEND else min(ats)))
        return found

    async def add_alarm_lags(self, entries: Sequence[contract.AlarmLagEntry], *, forget_before: Instant) -> None:
        known = self.database.alarm_lags
        for entry in entries:
            *_, total, most = known.get(entry[:3], entry._replace(total=0))
            known[entry[:3]] = entry._replace(total=entry.total + total, most=max(entry.most, most))
        for name in [name for name in known if name[1] < forget_before]:
            del known[name]

    async def alarm_lags(self, tenant: str, since_at: Instant, until_at: Instant) -> list[contract.AlarmLagEntry]:
        found = self.database.alarm_lags.values()
        return sorted(entry for entry in found if entry.tenant == tenant and since_at <= entry.at < until_at)

    async def beat(self, process: contract.ProcessRow, *, forget_before: Instant) -> None:
        known = self.database.processes
        known[process.name] = process
        for name in [name for name, row in known.items() if row.seen_at < forget_before and name != process.name]:
            del known[name]

    async def processes(self, limit: int) -> list[contract.ProcessRow]:
        return sorted(self.database.processes.values(), key=lambda row: (-row.seen_at, row.name))[:limit]
