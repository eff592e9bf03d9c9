"""A connection of the pool that is kept for the next caller.

To give a connection back and take it again costs more than many a statement. One is kept at a time, and for a short
time: then, and now and then while it is in use, it goes back to the pool, which may replace it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncpg.pool import Pool, PoolConnectionProxy

    GiveBack = Callable[[Pool[Any], PoolConnectionProxy[Any]], Awaitable[None]]

KEPT_MAX = 10_000
"""So many times in a row a connection is kept."""


class KeptConnection:
    """At most one connection, for at most so many seconds since it was last used."""

    def __init__(self, kept_s: float, give_back: GiveBack) -> None:
        self._kept_s = kept_s
        self._return_to_pool = give_back
        self._kept: tuple[Pool[Any], PoolConnectionProxy[Any]] | None = None
        self._since_s = 0.0
        self._count = 0
        self._end: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return self._kept is not None

    def keep(self, pool: Pool[Any], connection: PoolConnectionProxy[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._kept = pool, connection
        self._since_s = loop.time()
        self._count += 1
        if self._count % KEPT_MAX == 0:
            self._give_back_soon()
        elif self._end is None:  # one timer for many uses
            self._end = loop.call_later(self._kept_s, self._end_kept)

    def take(self) -> PoolConnectionProxy[Any] | None:
        kept, self._kept = self._kept, None
        return kept and kept[1]

    async def give_back(self) -> None:
        kept, self._kept = self._kept, None
        if kept:
            await self._return_to_pool(*kept)

    async def close(self) -> None:
        """Give back what is kept, and wake up no more."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        await self.give_back()

    def _end_kept(self) -> None:
        """Give the connection back, unless it has been kept for less than its time."""
        self._end = None
        if self._kept:
            loop = asyncio.get_running_loop()
            left_s = self._since_s + self._kept_s - loop.time()
            if left_s > 0:
                self._end = loop.call_later(left_s, self._end_kept)
            else:
                self._give_back_soon()

    def _give_back_soon(self) -> None:
        task = asyncio.ensure_future(self.give_back())
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)
