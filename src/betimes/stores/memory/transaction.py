"""One transaction in memory: requested streams are locked, everything else is read as committed at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence

from betimes.core.errors import Conflict, Duplicate, Fenced, Unavailable
from betimes.core.instants import Instant
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import NO_ROW, Changes, LockRequest, Row, SeenKey
from betimes.stores.memory.database import MemoryDatabase
from betimes.stores.memory.effects import MemoryEffect

LOCK_TIMEOUT_S = 5.0


class MemoryTx:
    """One transaction: locks taken as asked, everything else read from the database as it is now."""

    def __init__(self, database: MemoryDatabase, clock: Callable[[], Instant]) -> None:
        self.db = database
        self.clock = clock
        self.now: Instant = 0
        self.rows: dict[StreamId, Row] = {}
        self.unchanged: set[StreamId] = set()
        self.seen: dict[KeyId, SeenKey] = {}
        self.sends: set[EffectId] = set()
        self.presumed: LockRequest | None = None
        """Streams that are assumed to be as cached, and are not locked before the commit."""

    def presume(self, ask: LockRequest) -> None:
        self.presumed = ask
        self.now = self.clock()
        self.unchanged.update(ask.locks, ask.reads)

    async def start(self, ask: LockRequest) -> None:
        await self._lock_all(ask)
        await self._take_keys(ask.keys)
        self._take_sends(ask.sends)
        # After the wait for locks: what was committed meanwhile must not lie in the future.
        self.now = self.clock()
        self._show(ask.reads)

    async def extend(self, ask: LockRequest) -> None:
        if self.presumed:
            raise Conflict("the batch needs streams that were not locked")
        for stream in sorted(ask.locks):
            # Not waited for: whoever holds it may be waiting for what is held here.
            self.try_lock(stream)
        await asyncio.sleep(0)
        self._show({s: v for s, v in ask.locks.items() if self._holds(s)})
        await self._take_keys(ask.keys)
        self._take_sends(ask.sends)
        self._show(ask.reads)

    async def _lock_all(self, ask: LockRequest) -> None:
        # In one order for everybody, so that nobody waits in a circle; others get their turn between two locks.
        for stream in sorted(ask.waits):
            await self._wait_for(stream)
            await asyncio.sleep(0)
        for stream in sorted(ask.locks):
            self.try_lock(stream)
            await asyncio.sleep(0)
        self._show({s: v for s, v in ask.locks.items() if self._holds(s)})

    async def _take_keys(self, keys: Sequence[KeyId]) -> None:
        for key in sorted(keys):
            await self._wait_for(key)
            seen = self.db.live_key(key, self.clock())
            if seen:
                self.seen[key] = seen

    def _take_sends(self, sends: Sequence[EffectId]) -> None:
        for source in {effect.source for effect in sends}:
            for oldest in self.db.sends.get(source, ()):
                # Those behind it must not overtake one that is not free.
                if oldest not in sends or not self.try_lock(oldest):
                    break
                self.sends.add(oldest)

    def _show(self, asked: Mapping[StreamId, int]) -> None:
        for stream, cached in asked.items():
            row = self.db.rows.get(stream)
            if (row.version if row else 0) == cached:
                self.unchanged.add(stream)
            else:
                self.rows[stream] = row.row() if row else NO_ROW

    def _holds(self, name: Hashable) -> bool:
        return self.db.holders.get(name) is self

    def try_lock(self, name: Hashable) -> bool:
        return self.db.holders.setdefault(name, self) is self

    async def _wait_for(self, name: Hashable) -> None:
        try:
            async with asyncio.timeout(LOCK_TIMEOUT_S):
                while not self.try_lock(name):
                    await self.db.released.wait()
        except TimeoutError as error:
            raise Unavailable(f"{name} was held by another process for {LOCK_TIMEOUT_S:g} s; try again") from error

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        segment = self.db.segment(stream, version)
        return segment.turn if segment else None

    async def commit(self, changes: Changes) -> None:
        await asyncio.sleep(0)
        if self.presumed:
            self.lock_presumed(self.presumed)
        # No await from here on: nobody sees one half of a commit without the other.
        self._check(changes)
        self._apply(changes)

    def lock_presumed(self, ask: LockRequest) -> None:
        """Lock what was presumed and compare it, or raise what it is instead."""
        for name in (*sorted(ask.locks), *sorted(ask.keys)):
            if not self.try_lock(name):
                raise Conflict(f"{name} is held by another process")
        for stream, version in (*ask.locks.items(), *ask.reads.items()):
            if self.db.version(stream) != version:
                raise Conflict(f"{stream} is at version {self.db.version(stream)}, not {version}")
        for key in ask.keys:
            if self.db.live_key(key, self.clock()):
                raise Duplicate(f"the key {key} is on record already")

    def _check(self, changes: Changes) -> None:
        for write in changes.streams:
            if self.db.version(write.stream) != write.expected:
                raise Conflict(f"{write.stream} is at version {self.db.version(write.stream)}, not {write.expected}")
        for key in changes.keys:
            if self.db.live_key(key.key, self.clock()):
                raise Duplicate(f"the key {key.key} is on record already")
        gone = [*changes.sends_applied, *(dead.id for dead in changes.sends_dead)]
        for place, sent in enumerate(gone):
            # Applied once: neither by somebody else before, nor twice in this very batch.
            if sent not in self.db.sends.get(sent.source, ()) or sent in gone[:place]:
                raise Fenced(f"the command {sent.handle} was applied by another process")
        for settled in changes.settlements:
            effect = self.db.effects.get(settled.id)
            if not effect or effect.fence != settled.fence or effect.status != "leased":
                raise Fenced(f"the lease on effect {settled.id.handle} was lost")

    def _apply(self, changes: Changes) -> None:
        db = self.db
        for write in changes.streams:
            db.rows[write.stream] = write
            db.created.setdefault(write.stream, write.at)
            # A snooze is about an alarm that is replaced now; any commit ends it.
            db.snoozes.pop(write.stream, None)
            db.snooze_errors.pop(write.stream, None)
        for segment in changes.segments:
            db.append(segment)
        for key in changes.keys:
            db.keys[key.key] = key
        for effect in changes.effects:
            db.add_effect(MemoryEffect(effect))
        for sent in changes.sends_applied:
            db.remove_effect(sent)
        for dead in changes.sends_dead:
            db.bury_send(dead)
        for settled in changes.settlements:
            db.effects[settled.id].settle(settled)
        # A body that is kept already stays: its fingerprint stands for it.
        db.policies = changes.policies | db.policies
