"""Saved responses: requests without a single command behind them (bulk claims, sweeps, passes) answered once per key.

The work is done first and the response is saved after it. A repeat is answered from the record. Two that arrive
together at one process take turns; at two processes both may be carried out, and both are then answered with what was
kept first. A process that dies between the two leaves the work done and no answer: the repeat does it again, which for
a claim means that the first claims run out unused. That is why these are also safe to repeat without a key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from betimes.core.errors import BetimesError, KeyConflict
from betimes.domain.saved_responses.model import KeepAnswer, answer_stream
from betimes.domain.service import Service

_Done = TypeVar("_Done")
_log = logging.getLogger("betimes.answers")


class Turns:
    """Locks by name, within this process."""

    def __init__(self) -> None:
        self._locks: dict[object, tuple[asyncio.Lock, int]] = {}

    async def with_turn(self, name: object, work: Callable[[], Awaitable[_Done]]) -> _Done:
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, waiting + 1)
        try:
            async with lock:
                return await work()
        finally:
            lock, waiting = self._locks[name]
            # The last one to leave takes the lock away, so that names do not pile up.
            if waiting == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, waiting - 1)


class Answers(Service):
    """The answers of one caller's requests."""

    async def find(self, collection: str, key: str) -> msgspec.Raw | None:
        """Return the answer of the same request, if any; raise `KeyConflict` if the key was used for another."""
        again = await self.find_recorded(key, collection, self.caller.request)
        return None if again is None else msgspec.Raw(str(again.reply).encode())

    async def keep(self, collection: str, key: str, body: bytes) -> msgspec.Raw:
        """Keep an answer and return the one that is kept, which is another's if that was faster.

        An answer that cannot be kept (too large, the store is away) is given all the same: what it tells has happened.
        """
        stream = answer_stream(self.caller.tenant, collection, key)
        try:
            recorded = await self.submit(stream, KeepAnswer(body.decode()), key=key, collection=collection)
        except KeyConflict:
            raise
        except BetimesError as error:
            _log.warning("the response to the key %s of %s could not be saved: %s", key, collection, error)
            return msgspec.Raw(body)
        return msgspec.Raw(str(recorded.reply).encode())
