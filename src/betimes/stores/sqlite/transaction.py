"""One transaction: it holds the database's write lock from `begin` on, so whatever it was shown stays so.

Each step is one visit to the writer's thread: beginning with everything asked for, and committing with everything
written. A step that fails has undone the transaction before its error arrives.

**A little is done without the thread**, because changing threads twice takes as long as the sync of a good disk: a few
rows are looked up, and written and committed, in the event loop's own thread. A commit only as long as the ones before
it were quick and none has to move the log into the file; after one that was slow the next are the thread's again. So
the loop is kept from its other work for less than it would take to change threads, but for the first commit of a disk
that has become slow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Self, TypeVar, Unpack

import msgspec

from betimes.core.canonical import encode
from betimes.core.instants import Instant
from betimes.core.segments import segment_of
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import NO_ROW, Changes, DueBounds, DueIndex, LockRequest, Row, SeenKey
from betimes.stores.sqlite.commit import write_changes
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.connection_thread import ConnectionThread
from betimes.stores.sqlite.rows import RowPlace, in_shares, row_of

_Result = TypeVar("_Result")
ROWS_HERE_MAX = 16
"""Rows that may be looked up in the event loop's own thread; more would keep it from its other work."""
_PICKED = msgspec.json.Decoder(list[tuple[StreamId, Row, RowPlace]])
ROWS_WRITTEN_HERE_MAX = 8
"""The same for rows that are written and committed."""
NEARBY_AMONG = 16
"""Among how many times as many of the oldest those that lie together are looked for."""
_DUE_QUERIES: Mapping[DueIndex, str] = {"alarm": "due_alarms", "due": "due_streams"}
_SHARED_QUERIES: Mapping[DueIndex, str] = {"alarm": "alarms_in_shares", "due": "due_in_shares"}


class SqliteTx:
    """One transaction on the writer's connection: it waits for its turn, and is undone if left without a commit."""

    _writer: ConnectionThread
    _turn: asyncio.Lock

    def __init__(
        self,
        take_turn: Callable[[], Awaitable[tuple[ConnectionThread, asyncio.Lock]]],
        clock: Callable[[], Instant],
        begin: Callable[[SqliteTx], Awaitable[None]],
    ) -> None:
        self.now: Instant = 0
        self.rows: dict[StreamId, Row] = {}
        self.unchanged: set[StreamId] = set()
        self.seen: dict[KeyId, SeenKey] = {}
        self.sends: set[EffectId] = set()
        # Ended: no further step may follow. Over: the commit stands, so there is nothing to undo.
        self._ended = False
        self._over = False
        self._take_turn = take_turn
        self._clock = clock
        self._begin = begin
        self._places: dict[StreamId, RowPlace] = {}

    async def __aenter__(self) -> Self:
        self._writer, self._turn = await self._take_turn()
        try:
            await self._begin(self)
        # Python calls no `__aexit__` after `__aenter__` has raised, and the turn is taken by now.
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give the lock back without a trace, unless a commit did; whatever happens to the caller meanwhile."""
        self._ended = True
        try:
            if not self._over:
                await self._writer.undo()
        finally:
            self._turn.release()

    async def start(self, ask: LockRequest) -> None:
        """Take the write lock, then read the requested rows; a small request stays on the event loop."""

        def job(connection: Connection) -> None:
            connection.begin()
            # After the wait for the lock: what others committed meanwhile must not lie in this transaction's future.
            self.now = self._clock()
            self._look(connection, ask)

        few = len(ask.locks) + len(ask.reads) + len(ask.keys) <= ROWS_HERE_MAX
        if not (few and self._writer.run_here(job)):
            await self._step(job)

    async def start_due(
        self, index: DueIndex, kinds: Sequence[str], limit: int, held: str | None, **bounds: Unpack[DueBounds]
    ) -> None:
        """Take the write lock, then pick what is due; for who takes all of it, what lies together on few pages."""
        after, until_at = bounds.get("after"), bounds.get("until_at")
        tenant, shares = bounds.get("tenant"), bounds.get("shares")

        def job(connection: Connection) -> None:
            connection.begin()
            self.now = self._clock()
            until = self.now if until_at is None else min(until_at, self.now)
            name = _DUE_QUERIES[index]
            asked = {"kinds": encode(kinds), "until": until, "tenant": tenant, "limit": limit, "held": held}
            # Alarms of one tenant are found along the index that serves shares: it then has a share of everything.
            among = {tenant: limit} if shares is None and tenant is not None and index == "alarm" else shares
            if among is not None:
                name, asked = _SHARED_QUERIES[index], asked | in_shares(among)
            elif after and index == "due":
                # Rows that lie together are written back as a few whole pages, where the oldest would be scattered
                # over many.
                behind = connection.value("row_number", after.stream._asdict()) or 0
                name, asked = "due_nearby", asked | {"behind": behind, "oldest": NEARBY_AMONG * limit}
            picked = connection.json(name, asked, _PICKED)
            self.rows = {stream: row for stream, row, _ in picked}
            self._places = {stream: place for stream, _, place in picked}

        await self._step(job)

    async def extend(self, ask: LockRequest) -> None:
        await self._step(lambda connection: self._look(connection, ask))

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        def job(connection: Connection) -> str | None:
            turn: str | None = connection.value("turn_at", {**stream._asdict(), "version": version})
            return turn

        return await self._step(job)

    async def commit(self, changes: Changes) -> None:
        def job(connection: Connection) -> None:
            write_changes(connection, changes, self._places, self.now)
            connection.commit()

        few = len(changes.streams) + len(changes.segments) + len(changes.effects) <= ROWS_WRITTEN_HERE_MAX
        if few and not self._ended and self._writer.commits_here():
            # Before the commit: if it fails, the transaction must not be gone on with, as after a step that failed.
            self._ended = True
            self._writer.commit_here(job)
        else:
            await self._step(job)
        self._over = self._ended = True

    async def _step(self, job: Callable[[Connection], _Result]) -> _Result:
        """Run one job on the thread; after a failed one the transaction has ended."""
        if self._ended:
            raise RuntimeError("this transaction has ended; begin another one")
        try:
            return await self._writer.run(job)
        except BaseException:
            self._ended = True
            raise

    def _look(self, connection: Connection, ask: LockRequest) -> None:
        # The one write lock covers every row, so what is only read needs no other treatment than what is locked.
        self._look_at_streams(connection, {**ask.reads, **ask.locks})
        if ask.keys:
            self.seen.update(seen_keys(connection, ask.keys, self.now))
        if ask.sends:
            self._look_at_sends(connection, ask.sends)

    def _look_at_streams(self, connection: Connection, asked: Mapping[StreamId, int]) -> None:
        streams = list(asked)
        rows = [(number, *stream, cached) for number, (stream, cached) in enumerate(asked.items())]
        missing = set(asked)
        for number, *columns in connection.json_of_rows("find_streams", rows):
            stream = streams[number]
            missing.remove(stream)
            place = self._places[stream] = RowPlace(*columns[:8])
            if place.version == asked[stream]:
                self.unchanged.add(stream)
            else:
                self.rows[stream] = row_of(place, columns[8])
        # Version 0 is cached of a stream that never was; that there is still none is no news.
        self.unchanged.update(stream for stream in missing if asked[stream] == 0)
        self.rows.update((stream, NO_ROW) for stream in missing if asked[stream] != 0)

    def _look_at_sends(self, connection: Connection, sends: Sequence[EffectId]) -> None:
        """Of each source, its oldest sends up to the first that is not asked for."""
        asked = set(sends)
        # The sends of a source are applied in order, so none may overtake an older one that is not asked for.
        counts = Counter(send.source for send in asked)
        found = connection.json_of_rows("first_sends", list(counts), max(counts.values(), default=0))
        for _, oldest in groupby(sorted(EffectId(*columns) for columns in found), attrgetter("source")):
            self.sends.update(takewhile(asked.__contains__, oldest))


def seen_keys(connection: Connection, keys: Sequence[KeyId], now: Instant) -> dict[KeyId, SeenKey]:
    """Return the keys that are still kept, with what they were used for."""
    asked = [(number, *key) for number, key in enumerate(keys)]
    found = connection.json_of_rows("seen_keys", asked, now)
    return {keys[number]: SeenKey(request, segment_of(columns)) for number, request, columns in found}
