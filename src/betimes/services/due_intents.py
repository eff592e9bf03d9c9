"""Due intents that somebody can carry out: a walk through what is due that passes over what is left to others.

What is not for a worker stays due until somebody else takes it, so it would stand at the head of the queue for ever. A
walk remembers how far from the head nothing was for it, and looks there again only after `LOOK_AGAIN_S`: a definition
may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias
from zlib import crc32

from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.domains.intents.model import Definition, IntentState
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow

LOOK_AGAIN_S = 60
AT_LEAST = 64
"""Rows that are looked at in one page, however few are wanted."""
_FAR_AT = 2**62
Fits: TypeAlias = Callable[[StreamId, Definition], bool]
Place: TypeAlias = tuple[Instant, StreamId]


class DueIntents:
    """What is due of one tenant or owner, or of all, and fits."""

    def __init__(
        self, engine: Engine, tenant: str | None, fits: Fits, *, owner: str | None = None, name: str = ""
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._tenant = tenant
        self._fits = fits
        self._name = name
        self._passed: Place | None = None
        """Up to here nothing fitted."""
        self._walked_at: Instant = 0

    async def find(self, limit: int, *, crowded: bool = False) -> list[StreamId]:
        """Return up to `limit` that fit, the longest due first; where others are at work too, not all begin there."""
        found: list[StreamId] = []
        wanted = max(limit, AT_LEAST) if crowded else limit
        async for row, fits in self._walk(await self._begin(), max(limit, AT_LEAST)):
            if fits:
                found.append(row.stream)
            if len(found) >= wanted:
                break
        begin = crc32(self._name.encode()) % len(found) if crowded and found else 0
        return (found[begin:] + found[:begin])[:limit]

    async def next_at(self) -> Instant | None:
        """Return when the first that fits was due, or else when the next of all is."""
        now = await self._begin()
        last = self._passed
        async for row, fits in self._walk(now, PAGE_MAX):
            if fits:
                return row.due_at
            last = (row.due_at or 0, row.stream)
        [*later] = await self._engine.store.streams(self._query(_FAR_AT, last, 1))
        return later[0].due_at if later else None

    async def _begin(self) -> Instant:
        now = await self._engine.store.now()
        if now - self._walked_at >= LOOK_AGAIN_S * SECOND:
            self._walked_at, self._passed = now, None
        return now

    async def _walk(self, now: Instant, page: int) -> AsyncIterator[tuple[StreamRow, bool]]:
        place, only_unfit = self._passed, True
        while rows := await self._engine.store.streams(self._query(now, place, min(page, PAGE_MAX))):
            for row in rows:
                place = (row.due_at or 0, row.stream)
                fits = self._fits(row.stream, self._state(row).definition)
                only_unfit = only_unfit and not fits
                if only_unfit:
                    self._passed = place
                yield row, fits
            if len(rows) < min(page, PAGE_MAX):
                return

    def _state(self, row: StreamRow) -> IntentState:
        state: IntentState = self._engine.kinds.of(row.stream).state(row.stream, row.schema, row.state)
        return state

    def _query(self, before_at: Instant, after: Place | None, limit: int) -> StreamQuery:
        after_at, after_stream = after or (None, None)
        return StreamQuery(
            tenant=self._tenant, kind="intent", owner=self._owner, due_before=before_at, after=after_stream,
            after_due_at=after_at, limit=limit,
        )  # fmt: skip
