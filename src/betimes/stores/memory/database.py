"""An in-memory database, shared by its connections: tables as dictionaries, and who holds which lock."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Hashable

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.read_model import AlarmLagEntry, ProcessRow, TallyPosition
from betimes.engine.store import SEND, DeadSend, KeyWrite, SeenKey, StreamWrite
from betimes.stores.memory.effects import MemoryEffect


class MemoryDatabase:
    """The tables and locks that all connections share."""

    def __init__(self) -> None:
        self.rows: dict[StreamId, StreamWrite] = {}
        self.created: dict[StreamId, Instant] = {}
        self.snoozes: dict[StreamId, Instant] = {}
        self.snooze_errors: dict[StreamId, str] = {}
        self.segments: list[Segment] = []
        self.histories: dict[StreamId, list[Segment]] = {}
        self.by_key: dict[str, list[Segment]] = {}
        self.keys: dict[KeyId, KeyWrite] = {}
        self.effects: dict[EffectId, MemoryEffect] = {}
        self.sends: dict[StreamId, list[EffectId]] = {}
        self.policies: dict[str, str] = {}
        self.tally: dict[tuple[int, str, Instant, str, str, str], tuple[int, int, int]] = {}
        self.tally_position = TallyPosition()
        self.processes: dict[str, ProcessRow] = {}
        self.alarm_lags: dict[tuple[str, Instant, int], AlarmLagEntry] = {}
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
        # Everybody who waits looks again; whoever finds its row held once more waits for the next event.
        self.released.set()
        self.released = asyncio.Event()

    def append(self, segment: Segment) -> None:
        self.seq += 1
        placed = replace(segment, seq=self.seq)
        self.segments.append(placed)
        self.histories.setdefault(segment.stream, []).append(placed)
        if placed.key:
            self.by_key.setdefault(placed.key.key, []).append(placed)

    def live_key(self, key: KeyId, now: Instant) -> SeenKey | None:
        used = self.keys.get(key)
        if not used or used.expires_at <= now:
            return None
        segment = self.segment(used.stream, used.version)
        return SeenKey(used.request, segment) if segment else None

    def add_effect(self, effect: MemoryEffect) -> None:
        self.effects[effect.write.id] = effect
        if effect.write.executor == SEND:
            insort(self.sends.setdefault(effect.write.id.source, []), effect.write.id)

    def remove_effect(self, id: EffectId) -> None:
        effect = self.effects.pop(id)
        # A dead letter left the order of its source when it was buried.
        if effect.write.executor == SEND and effect.status == "pending":
            self.sends[id.source].remove(id)

    def bury_send(self, dead: DeadSend) -> None:
        self.sends[dead.id.source].remove(dead.id)
        self.effects[dead.id].bury(dead)

    def revive(self, id: EffectId, now: Instant) -> bool:
        effect = self.effects.get(id)
        if not effect or not effect.revive(now):
            return False
        if effect.write.executor == SEND:
            # Back to its place by version: the sends of a source are applied in order, a revived one too.
            insort(self.sends.setdefault(id.source, []), id)
        return True
