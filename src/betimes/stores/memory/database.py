"""What all connections to one in-memory database share: tables as dictionaries, and who holds which lock."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import SEND, KeyWrite, SeenKey, StreamWrite, WaitingSend
from betimes.stores.memory.effects import MemoryEffect


class MemoryDatabase:
    """What all connections share."""

    def __init__(self) -> None:
        self.rows: dict[StreamId, StreamWrite] = {}
        self.snoozes: dict[StreamId, Instant] = {}
        self.segments: list[Segment] = []
        self.histories: dict[StreamId, list[Segment]] = {}
        self.keys: dict[KeyId, KeyWrite] = {}
        self.effects: dict[EffectId, MemoryEffect] = {}
        self.policies: dict[str, str] = {}
        self.holders: dict[Hashable, object] = {}
        self.released = asyncio.Event()
        self.seq = 0

    def version(self, stream: StreamId) -> int:
        row = self.rows.get(stream)
        return row.version if row else 0

    def segment(self, stream: StreamId, version: int) -> Segment | None:
        return next((s for s in reversed(self.histories.get(stream, ())) if s.version == version), None)

    def release(self, tx: object) -> None:
        for name in [name for name, holder in self.holders.items() if holder is tx]:
            del self.holders[name]
        self.released.set()
        self.released = asyncio.Event()

    def append(self, segment: Segment) -> None:
        self.seq += 1
        placed = replace(segment, seq=self.seq)
        self.segments.append(placed)
        self.histories.setdefault(segment.stream, []).append(placed)

    def live_key(self, key: KeyId, now: Instant) -> SeenKey | None:
        used = self.keys.get(key)
        if not used or used.expires_at <= now:
            return None
        segment = self.segment(used.stream, used.version)
        return SeenKey(used.request, segment) if segment else None

    def oldest_send(self, source: StreamId) -> WaitingSend | None:
        sends = [e.write for e in self.effects.values() if e.write.executor == SEND and e.write.id.source == source]
        first = min(sends, key=lambda write: write.id, default=None)
        return WaitingSend(first.id, first.to, first.payload, first.created_at) if first and first.to else None
