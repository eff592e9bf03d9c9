"""Random batches: changes a store must accept, questions that go with them, and changes it must refuse."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from betimes.core.errors import Conflict, Duplicate, Fenced, StoreError
from betimes.core.instants import HOUR, MINUTE, Instant
from betimes.core.streams import KeyId, StreamId
from betimes.engine.store import NOT_CACHED, Changes, DeadSend, EffectStatus, EffectWrite, LockRequest, Settlement
from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.conformance.model import Model, ModelEffect
from betimes.testing.conformance.samples import ABSENT, call, segment, send, together, used, write

KINDS = ("gate", "tally")
STREAMS = tuple(StreamId(tenant, kind, id) for tenant in ("acme", "zeta") for kind in KINDS for id in ("a", "b", "Z"))
KEYS = tuple(KeyId(tenant, kind, f"k-{n}") for tenant in ("acme", "zeta") for kind in KINDS for n in range(3))
ENDS: tuple[EffectStatus, ...] = ("done", "failed", "dead", "pending")
EXECUTORS = ("handler:brief", "webhook:crm", "channel:mail")


class RandomBatches:
    """Makes batches that fit the model as it is now, as the dice fall."""

    def __init__(self, model: Model, dice: Random, clock: VirtualClock) -> None:
        self.model = model
        self.dice = dice
        self.clock = clock

    @property
    def now(self) -> Instant:
        return self.clock()

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def some_streams(self) -> list[StreamId]:
        return self.dice.sample(STREAMS, self.dice.randint(1, 3))

    def some_instant(self) -> Instant | None:
        return self.now + self.dice.randint(-2, 5) * MINUTE if self.chance(0.5) else None

    def moving(self, of: StreamId) -> Changes:
        """A stream moved by one or two versions, now and then deleted, with effects of its last segment."""
        expected, by = self.model.version(of), self.dice.randint(1, 2)
        version, alive = expected + by, self.chance(0.85)
        row = write(
            of,
            version,
            self.now,
            expected=expected,
            schema=self.dice.randint(1, 3),
            state=f'{{"n":{self.dice.randint(0, 9)}}}' if alive else None,
            alarm_at=self.some_instant() if alive else None,
            due_at=self.some_instant() if alive else None,
            listed_at=self.some_instant() if alive else None,
            status=self.dice.choice(("open", "done")),
            owner=self.dice.choice(("", "u-1", "u-2")),
        )
        segments = [segment(of, number, self.now) for number in range(expected + 1, version + 1)]
        return Changes(streams=[row], segments=segments, effects=self.effects_of(of, version))

    def effects_of(self, of: StreamId, version: int) -> list[EffectWrite]:
        return [
            send(of, version, self.now, self.dice.choice(STREAMS), place)
            if self.chance(0.4)
            else call(
                of,
                version,
                self.now,
                place,
                executor=self.dice.choice(EXECUTORS),
                at_most_once=self.chance(0.3),
                attempts_max=self.dice.randint(1, 3),
                lease_s=self.dice.choice((30, 90)),
                next_attempt_at=self.now + self.dice.randint(0, 2) * MINUTE,
            )
            for place in range(self.dice.choice((0, 0, 1, 3)))
        ]

    def batch(self) -> Changes:
        changes = Changes()
        for of in self.some_streams():
            changes = together(changes, self.moving(of))
            self.add_key(changes, of)
        self.add_sends(changes)
        self.add_settlements(changes)
        return changes

    def add_key(self, changes: Changes, of: StreamId) -> None:
        key = self.dice.choice([key for key in KEYS if key.tenant == of.tenant])
        free = self.model.seen(key, self.now) is None and key not in [taken.key for taken in changes.keys]
        if free and self.chance(0.5):
            version = changes.segments[-1].version
            changes.segments[-1] = segment(of, version, self.now, key=key)
            lasts = self.dice.choice((MINUTE, HOUR))
            changes.keys.append(used(key, of, version, self.now, expires_at=self.now + lasts, request=f'"{version}"'))

    def add_sends(self, changes: Changes) -> None:
        """A run from the oldest of one source is applied, or its end is buried."""
        sources = {id.source for id in self.model.waiting()}
        if sources and self.chance(0.6):
            waiting = self.model.waiting(self.dice.choice(sorted(sources)))
            *applied, last = waiting[: self.dice.randint(1, len(waiting))]
            changes.sends_applied += applied
            if self.chance(0.3):
                changes.sends_dead.append(DeadSend(last, self.now, "cannot be decided"))
            else:
                changes.sends_applied.append(last)

    def add_settlements(self, changes: Changes) -> None:
        for effect in self.held():
            if self.chance(0.5):
                changes.settlements.append(self.settlement(effect))

    def settlement(self, effect: ModelEffect) -> Settlement:
        status = self.dice.choice(ENDS)
        next_at = self.now + self.dice.randint(0, 3) * MINUTE if status == "pending" else None
        return Settlement(effect.write.id, effect.fence, status, self.now, next_at, error=f"was {status}")

    def held(self) -> list[ModelEffect]:
        return [effect for effect in self.model.effects.values() if effect.status == "leased"]

    def ask(self, changes: Changes) -> LockRequest:
        """What the changes need and a little more, with caches that are right, wrong or empty."""
        locks = {of: self.cached(of) for of in (*(row.stream for row in changes.streams), *self.some_streams())}
        reads = {of: self.cached(of) for of in self.some_streams() if of not in locks}
        keys = {key.key for key in changes.keys} | set(self.dice.sample(KEYS, 2))
        sends = {*changes.sends_applied, *(dead.id for dead in changes.sends_dead)}
        waiting = self.model.waiting()
        sends |= set(self.dice.sample(waiting, min(1, len(waiting))))
        return LockRequest(locks=locks, reads=reads, keys=sorted(keys), sends=sorted(sends), waits=set(locks))

    def cached(self, of: StreamId) -> int:
        return self.dice.choice((NOT_CACHED, self.model.version(of), self.model.version(of), 1))

    def spoil(self, changes: Changes) -> type[StoreError]:
        """Make one part of the batch impossible."""
        known = [key for key in KEYS if self.model.seen(key, self.now)]
        if known and self.chance(0.4):
            row = changes.streams[0]
            changes.keys.append(used(self.dice.choice(known), row.stream, row.version, self.now))
            return Duplicate
        if changes.settlements and self.chance(0.5):
            changes.settlements[-1] = replace(changes.settlements[-1], fence=0)
            return Fenced
        if self.chance(0.3):
            changes.sends_applied.append(ABSENT)
            return Fenced
        changes.streams[-1] = replace(changes.streams[-1], expected=changes.streams[-1].expected + 5)
        return Conflict
