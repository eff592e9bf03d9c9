"""The list of streams of a rehearsal that a sweep may ask for, by kind and `due_at`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.turn import LoadedStream


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
