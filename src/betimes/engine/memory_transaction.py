"""A transaction that never ends: it holds every stream there is, and its time is set from outside.

Nothing is read and nothing is committed, so a `Batch` on it is a world of its own in memory. Streams of that world that
a sweep may ask for are listed by kind and `due_at`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from betimes.core.instants import Instant
from betimes.core.segments import GENESIS
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.codecs import Cached, StateCache
from betimes.engine.store import Changes, LockRequest, Row, SeenKey
from betimes.engine.turn import LoadedStream

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


class DueList:
    """Streams of kinds that can be swept; one that was listed before stays listed until it is looked at again."""

    def __init__(self, kinds: Iterable[str], find: Callable[[StreamId], LoadedStream]) -> None:
        self._listed: dict[str, list[tuple[Instant, StreamId]]] = {kind: [] for kind in kinds}
        self._find = find

    def __contains__(self, kind: str) -> bool:
        return kind in self._listed

    def put(self, stream: StreamId, due_at: Instant | None) -> None:
        if due_at is not None:
            heappush(self._listed[stream.kind], (due_at, stream))

    def find_due(self, kind: str, until_at: Instant, tenant: str) -> list[StreamId]:
        """Return the streams of a tenant whose `due_at` has come."""
        listed = self._listed[kind]
        kept: dict[StreamId, Instant] = {}  # each once, however often it was listed
        while listed and listed[0][0] <= until_at:
            at, stream = heappop(listed)
            live = self._find(stream)
            if live.state is not None and live.decider.index(live.state).due_at == at:
                kept[stream] = at
        for stream, at in kept.items():
            heappush(listed, (at, stream))
        return [stream for stream in kept if stream.tenant == tenant]
