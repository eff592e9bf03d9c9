"""A transaction that never ends: it holds every stream there is, and its time is set from outside.

Nothing is read and nothing is committed, so a `Batch` on it is a world of its own in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from betimes.core.instants import Instant
from betimes.core.segments import GENESIS
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.cache import Cached, StateCache
from betimes.engine.store import Changes, LockRequest, Row, SeenKey

_NEW = Cached(0, None, 0, None, GENESIS, 0)


class EveryStream(StateCache):
    """Every stream there is: as it was put here, or new. `first` is told of each when it is first asked for."""

    def __init__(self, first: Callable[[StreamId], None]) -> None:
        super().__init__(0)
        self._first = first

    def get(self, stream: StreamId, default: object = None) -> Cached:
        self._first(stream)
        # Taken out, since from here on the batch has it: what is still here was put and never looked at.
        return self.pop(stream, _NEW)


class _Everything(set[StreamId]):
    def __contains__(self, stream: object) -> bool:
        return True


class EndlessTx:
    """The transaction that never ends: it holds every stream, and its time is set from outside."""

    def __init__(self) -> None:
        self.now: Instant = 0
        self.rows: dict[StreamId, Row] = {}
        self.unchanged: set[StreamId] = _Everything()
        self.seen: dict[KeyId, SeenKey] = {}
        self.sends: set[EffectId] = set()

    async def extend(self, ask: LockRequest) -> None:
        """Everything is here."""

    async def commit(self, changes: Changes) -> None:
        """Nothing is kept."""

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        return None
