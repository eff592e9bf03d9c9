"""A store as plain dictionaries, without locks or transactions: what a real one must agree with, step by step.

It knows nothing of positions in the ledger and of fences, which are the store's to choose; both are left out of the
comparison, or taken over from the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import asdict, replace

from betimes.core.instants import MINUTE, SECOND, Instant, earliest
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import (
    ATTEMPTS_KEPT,
    LEASE_RAN_OUT,
    SEND,
    Attempt,
    Backlog,
    Changes,
    DueIndex,
    EffectRow,
    EffectStatus,
    EffectWrite,
    KeyWrite,
    SeenKey,
    StreamRow,
    StreamWrite,
    WaitingSend,
)
from betimes.testing.conformance.visible import Visible

WHY = "its wake failed"
"""The error of every snooze."""


class ModelEffect(msgspec.Struct):
    """An effect and how far it has come."""

    write: EffectWrite
    next_at: Instant | None
    status: EffectStatus = "pending"
    attempts: int = 0
    fence: int = 0
    finished_at: Instant | None = None
    error: str = ""
    history: tuple[Attempt, ...] = ()

    @property
    def is_send(self) -> bool:
        return self.write.executor == SEND

    def row(self) -> EffectRow:
        written = {name: value for name, value in asdict(self.write).items() if name in EffectRow._fields}
        far = {"status": self.status, "attempts": self.attempts, "history": self.history}
        ends = {"next_attempt_at": self.next_at, "finished_at": self.finished_at, "last_error": self.error}
        return EffectRow(**written | far | ends)

    def keep(self, at: Instant, ok: bool, error: str, duration_ms: int | None = None) -> None:
        self.history = (*self.history, Attempt(at, ok, error, duration_ms))[-ATTEMPTS_KEPT:]


class Model:
    """What the database should hold."""

    def __init__(self) -> None:
        self.rows: dict[StreamId, StreamWrite] = {}
        self.created: dict[StreamId, Instant] = {}
        self.snoozes: dict[StreamId, Instant] = {}
        self.ledger: list[Segment] = []
        self.keys: dict[KeyId, KeyWrite] = {}
        self.effects: dict[EffectId, ModelEffect] = {}

    def version(self, of: StreamId) -> int:
        return self.rows[of].version if of in self.rows else 0

    def history(self, of: StreamId) -> list[Segment]:
        return [segment for segment in self.ledger if segment.stream == of]

    def seen(self, key: KeyId, now: Instant) -> SeenKey | None:
        used = self.keys.get(key)
        if used is None or used.expires_at <= now:
            return None
        [segment] = [s for s in self.history(used.stream) if s.version == used.version]
        return SeenKey(used.request, segment)

    def commit(self, changes: Changes) -> None:
        for write in changes.streams:
            self.rows[write.stream] = write
            self.created.setdefault(write.stream, write.at)
            self.snoozes.pop(write.stream, None)
        self.ledger += changes.segments
        self.keys.update({used.key: used for used in changes.keys})
        self.effects.update({new.id: ModelEffect(new, new.next_attempt_at) for new in changes.effects})
        for applied in changes.sends_applied:
            del self.effects[applied]
        for dead in changes.sends_dead:
            self._end(dead.id, "dead", dead.at, dead.error, None)
            self.effects[dead.id].keep(dead.at, False, dead.error)
        for end in changes.settlements:
            self._end(end.id, end.status, end.at, end.error, end.next_attempt_at)
            self.effects[end.id].keep(end.at, end.status == "done", end.error, end.duration_ms)

    def _end(self, id: EffectId, status: EffectStatus, at: Instant, error: str, next_at: Instant | None) -> None:
        effect = self.effects[id]
        effect.status, effect.error, effect.next_at = status, error, next_at
        effect.finished_at = None if status == "pending" else at

    def wake_at(self, row: StreamWrite) -> Instant | None:
        return None if row.alarm_at is None else max(row.alarm_at, self.snoozes.get(row.stream, 0))

    def due(self, index: DueIndex, kinds: Sequence[str], until: Instant, tenant: str | None = None) -> list[StreamId]:
        at = {of: self.wake_at(row) if index == "alarm" else row.due_at for of, row in self.rows.items()}
        due = [(when, of) for of, when in at.items() if when is not None and when <= until and of.kind in kinds]
        return [of for _, of in sorted(due) if tenant in (None, of.tenant)]

    def next_due(self, kinds: Sequence[str], executors: Sequence[str], tenant: str | None) -> Instant | None:
        rows = [row for of, row in self.rows.items() if of.kind in kinds and tenant in (None, of.tenant)]
        calls = [e for e in self.effects.values() if e.write.executor in executors]
        ours = [e.next_at for e in calls if tenant in (None, e.write.id.tenant)]
        return earliest(*(self.wake_at(row) for row in rows), *ours)

    def waiting(self, source: StreamId | None = None) -> list[EffectId]:
        """Sends that wait, oldest first."""
        waiting = (e.write for e in self.effects.values() if e.is_send and e.status == "pending")
        sends = [write for write in waiting if source in (None, write.id.source)]
        return [write.id for write in sorted(sends, key=lambda write: (write.created_at, write.id))]

    def takable(self, asked: Iterable[EffectId]) -> set[EffectId]:
        """Of the sends asked for, those before which none of their source is left out."""
        asked = set(asked)
        return {id for id in asked if id in self.waiting() and asked.issuperset(self.up_to(id))}

    def up_to(self, id: EffectId) -> list[EffectId]:
        return [older for older in self.waiting(id.source) if older <= id]

    def due_calls(self, executors: Sequence[str], now: Instant, tenant: str | None) -> list[ModelEffect]:
        calls = [e for e in self.effects.values() if e.write.executor in executors and e.next_at is not None]
        due = [e for e in calls if e.next_at is not None and e.next_at <= now]
        return [e for e in due if tenant in (None, e.write.id.tenant)]

    def lease(self, effect: ModelEffect, now: Instant, fence: int) -> tuple[int, bool]:
        """The attempt it is, and whether it may only be settled."""
        over = effect.attempts >= (1 if effect.write.at_most_once else effect.write.attempts_max)
        spent = effect.status == "leased" and over
        if effect.status == "leased" and not spent:
            effect.keep(now, False, LEASE_RAN_OUT)
        effect.attempts += 0 if spent else 1
        effect.status, effect.fence, effect.next_at = "leased", fence, now + effect.write.lease_s * SECOND
        return effect.attempts, spent

    def revive(self, id: EffectId, now: Instant) -> bool:
        if self.effects[id].status != "dead":
            return False
        effect = self.effects[id]
        effect.status, effect.attempts, effect.next_at, effect.finished_at = "pending", 0, now, None
        return True

    def replace_history(self, checkpoint: Segment, now: Instant) -> int:
        of, version = checkpoint.stream, checkpoint.version
        if any(k.stream == of and k.version <= version and k.expires_at > now for k in self.keys.values()):
            return 0
        gone = [segment for segment in self.history(of) if segment.version <= version]
        if gone:
            place = self.ledger.index(gone[-1])
            before = [segment for segment in self.ledger[:place] if segment not in gone]
            self.ledger = [*before, checkpoint, *self.ledger[place + 1 :]]
        return len(gone)

    def forget(self, now: Instant, before_at: Instant) -> int:
        keys = [key for key, used in self.keys.items() if used.expires_at <= now]
        ended = [id for id, e in self.effects.items() if e.status in ("done", "failed") and _before(e, before_at)]
        for key in keys:
            del self.keys[key]
        for id in ended:
            del self.effects[id]
        return len(keys) + len(ended)

    def listed(self, of: StreamId) -> StreamRow | None:
        if of not in self.rows:
            return None
        written = {name: value for name, value in asdict(self.rows[of]).items() if name in StreamRow._fields}
        why = WHY if of in self.snoozes else None
        return StreamRow(**written, snooze_until=self.snoozes.get(of), created_at=self.created[of], snooze_error=why)

    def backlog(self, kinds: Sequence[str], now: Instant) -> Backlog:
        due = [self.wake_at(self.rows[of]) for of in self.due("alarm", kinds, now)]
        statuses = Counter(effect.status for effect in self.effects.values())
        calls = [e for e in self.effects.values() if not e.is_send and e.next_at is not None]
        stale = Counter(e.write.executor for e in calls if (e.next_at or 0) <= now - MINUTE)
        snoozed = sum(until > now for of, until in self.snoozes.items() if of.kind in kinds)
        owed = statuses["pending"] + statuses["leased"]
        return Backlog(len(due), earliest(*due), snoozed, owed, statuses["dead"], dict(stale))

    def visible(self, streams: Sequence[StreamId], keys: Sequence[KeyId], now: Instant) -> Visible:
        sends = [self.effects[id].write for id in self.waiting()]
        kinds = sorted({of.kind for of in streams})
        existing = [row for of in sorted(self.rows) if (row := self.listed(of)) and row.state is not None]
        return Visible(
            listed=existing,
            rows={of: self.rows[of].row() for of in streams if of in self.rows},
            histories={of: (self.listed(of), self.history(of)) for of in streams},
            ledger=self.ledger,
            effects=[self.effects[id].row() for id in sorted(self.effects)],
            sends=[WaitingSend(s.id, s.to, s.payload, s.created_at) for s in sends if s.to],
            keys={key: self.seen(key, now) for key in keys},
            backlog=self.backlog(kinds, now),
        )


def _before(effect: ModelEffect, at: Instant) -> bool:
    return effect.finished_at is not None and effect.finished_at < at


def without_positions(found: Visible) -> Visible:
    """What a store shows, without the positions it chose."""

    def plain(segments: Iterable[Segment]) -> list[Segment]:
        return [replace(segment, seq=0) for segment in segments]

    keys = {key: seen and SeenKey(seen.request, replace(seen.segment, seq=0)) for key, seen in found.keys.items()}
    histories = {of: (row, plain(segments)) for of, (row, segments) in found.histories.items()}
    return found._replace(histories=histories, ledger=plain(found.ledger), keys=keys)
