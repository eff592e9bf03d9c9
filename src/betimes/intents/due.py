"""Due intents that somebody can carry out: a walk through what is due that passes over what is left to others.

An intent that is not for a worker stays due until somebody else takes it, and would stay at the head of the queue.
Most of it is not even looked at: the store has what is due by status, which says an intent's type and for whom it is.
Of the rest, a walk remembers how far from the head nothing was for it, and looks there again only after
`LOOK_AGAIN_S`: a definition may have changed meanwhile. An intent that this process cannot read is left to
others too: it must stop nobody else's.

A walk may look further ahead than it is asked to. What it finds there is given to whoever asks within `AHEAD_S`, and
is kept cached, so that claiming it need not ask the store how it is. Whoever uses up what was found in that time finds
twice as much the next time; whoever does not, half as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, TypeAlias
from zlib import crc32

from msgspec.structs import replace

from betimes.core.errors import BetimesError
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.intents.model import Definition, IntentState

LOOK_AGAIN_S = 60
AT_LEAST = 64
"""Rows that are looked at in the first page, however few are wanted; the next ones are longer."""
AHEAD_S = 1.0
AHEAD_MAX = 512
"""So many are found ahead at most: reading them takes a few milliseconds."""
_FAR_AT = 2**62
Fits: TypeAlias = Callable[[StreamId, Definition], Awaitable[bool]]
Place: TypeAlias = tuple[Instant, StreamId]


class DueIntent(NamedTuple):
    """An intent that was due and fitted when it was looked at."""

    stream: StreamId
    version: int
    state: IntentState


class DueIntents:
    """The due intents of one tenant or owner, or of all, that fit and have one of these statuses."""

    def __init__(
        self,
        engine: Engine,
        tenant: str | None,
        statuses: tuple[str, ...],
        fits: Fits,
        *,
        owner: str | None = None,
        name: str = "",
        ahead: int = 0,
    ) -> None:
        """`ahead` is how many the first look finds, if fewer are asked for."""
        self._engine = engine
        self._owner = owner
        self._statuses = statuses
        self._tenant = tenant
        self._fits = fits
        self._name = name
        self._ahead_min = self._ahead = min(ahead, AHEAD_MAX)
        self._found: list[DueIntent] = []
        """What was found ahead, the longest due first."""
        self._found_s = 0.0
        self._passed: Place | None = None
        """Up to here nothing fitted."""
        self._walked_at: Instant = 0
        self._holds_seen = 0

    async def find(self, limit: int, *, crowded: bool = False) -> list[DueIntent]:
        """Return up to `limit` that fit, the longest due first; where others are at work too, not all begin there."""
        time_s = asyncio.get_running_loop().time()
        is_old = time_s - self._found_s >= AHEAD_S
        if crowded or not self._found or is_old:
            grown = self._ahead // 2 if crowded or is_old else 2 * self._ahead
            self._ahead = min(max(grown, self._ahead_min), AHEAD_MAX)
            self._found, self._found_s = await self._look(limit, crowded), time_s
        taken, self._found = self._found[:limit], self._found[limit:]
        return taken

    def forget_found(self) -> None:
        """Look anew when next asked."""
        self._found = []

    async def _look(self, limit: int, crowded: bool) -> list[DueIntent]:
        """Return what fits, as much as is looked for ahead; where others are at work too, only what is asked for."""
        found: list[DueIntent] = []
        wanted = max(limit, AT_LEAST if crowded else self._ahead)
        async for _, fitting in self._walk(await self._begin(), min(max(wanted, AT_LEAST), PAGE_MAX)):
            if fitting:
                found.append(fitting)
            if len(found) >= wanted:
                break
        # Workers that find the same begin at different places, or all would claim the first and all but one be refused.
        begin = crc32(self._name.encode()) % len(found) if crowded and found else 0
        return (found[begin:] + found[:begin])[:limit] if crowded else found

    async def next_at(self) -> Instant | None:
        """Return when the first that fits was due, or else when the next of all is."""
        now = await self._begin()
        last = self._passed
        async for row, fitting in self._walk(now, PAGE_MAX):
            if fitting:
                return row.due_at
            last = self._place(row)
        later = await self._page(_FAR_AT, last, 1)
        return later[0].due_at if later else None

    async def _begin(self) -> Instant:
        now = await self._engine.store.now()
        holds = self._engine.holds.change_count
        # What did not fit once may fit later (a source is back, a hold has ended), so now and then all is looked at
        # again.
        if now - self._walked_at >= LOOK_AGAIN_S * SECOND or holds != self._holds_seen:
            self._walked_at, self._passed, self._holds_seen = now, None, holds
        return now

    async def _walk(self, now: Instant, page: int) -> AsyncIterator[tuple[StreamRow, DueIntent | None]]:
        place, only_unfit = self._passed, True
        while rows := await self._page(now, place, page):
            for row in rows:
                place = self._place(row)
                fitting = await self._fitting_intent(row, now)
                # The place moves on only while nothing fitted: before it there must be nothing that anybody could take.
                only_unfit = only_unfit and fitting is None
                if only_unfit:
                    self._passed = place
                yield row, fitting
            if len(rows) < page:
                return
            # A first page without enough that fits promises little: the rest is read in as few journeys as possible.
            page = PAGE_MAX

    async def _fitting_intent(self, row: StreamRow, now: Instant) -> DueIntent | None:
        if row.due_at is None or row.due_at > now or row.status not in self._statuses:
            return None
        if self._engine.is_held(row.stream.tenant, row.stream.kind):
            return None
        try:
            known = self._engine.read_in(row)
            fits = known.state is not None and await self._fits(row.stream, known.state.definition)
        except BetimesError:
            return None
        return DueIntent(row.stream, known.version, known.state) if fits else None

    def _place(self, row: StreamRow) -> Place:
        return ((row.due_at if self._owner is None else row.listed_at) or 0, row.stream)

    async def _page(self, before_at: Instant, after: Place | None, limit: int) -> list[StreamRow]:
        """Return what is due, the longest first; of one owner, who has few, what is listed, cooling ones too."""
        after_at, after_stream = after or (None, None)
        query = StreamQuery(tenant=self._tenant, kind="intent", after=after_stream, limit=limit)
        if self._owner is None:
            query = replace(query, among=self._statuses, due_before=before_at, after_due_at=after_at)
        else:
            query = replace(query, owner=self._owner, listed_before=before_at, after_listed_at=after_at)
        return await self._engine.store.streams(query)
