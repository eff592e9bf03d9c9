"""A random walk: hundreds of steps that touch everything, each compared with a plain model.

A walk is fixed by its seed, so a failure can be played again: it names the seed and the step it came to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

from msgspec.structs import replace

from betimes.core.instants import MINUTE, SECOND, Instant
from betimes.core.streams import EffectId, StreamId
from betimes.engine.store import NO_ROW, DueIndex, LockRequest, Row, Store, Tx
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.model import WHY, Model, without_positions
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.random_batches import EXECUTORS, KEYS, KINDS, STREAMS, RandomBatches
from betimes.testing.conformance.random_queries import RandomQueries
from betimes.testing.conformance.samples import segment, together
from betimes.testing.conformance.visible import everything

INDEXES: tuple[DueIndex, ...] = ("alarm", "due")
Step: TypeAlias = Callable[[], Awaitable[None]]


async def walk(pair: Pair, *, seed: int, steps: int) -> None:
    """Take the steps this seed leads to; after each, what either connection sees must be what the model says."""
    walker = _Walker(pair, Random(seed))
    for number in range(steps):
        try:
            await walker.step()
        except AssertionError as error:
            raise AssertionError(f"walk(seed={seed}) at step {number}, {walker.last}: {error}") from error


class _Walker:
    """One walk: the stores, the model, and the dice."""

    def __init__(self, pair: Pair, dice: Random) -> None:
        self.pair = pair
        self.dice = dice
        self.model = Model()
        self.batches = RandomBatches(self.model, dice, pair.clock)
        self.queries = RandomQueries(self.model, dice)
        self.last = ""
        batch, wakes, calls = self.commit_a_batch, self.decide_what_is_due, self.lease_calls
        self.steps: tuple[Step, ...] = (
            *[batch] * 8,
            *[self.refuse_a_batch] * 2,
            self.leave_a_batch,
            *[wakes] * 3,
            *[calls] * 3,
            self.renew_leases,
            self.snooze,
            self.revive,
            self.revive,
            self.discard,
            self.forget,
            self.checkpoint,
            *[self.pass_time] * 3,
        )

    @property
    def store(self) -> Store:
        return self.dice.choice((self.pair.one, self.pair.two))

    @property
    def now(self) -> Instant:
        return self.pair.clock()

    async def step(self) -> None:
        chosen = self.dice.choice(self.steps)
        self.last = getattr(chosen, "__name__", "")
        await chosen()
        found = without_positions(await everything(self.store, STREAMS, KEYS))
        for part, wanted in self.model.visible(STREAMS, KEYS, self.now)._asdict().items():
            expect_equal(getattr(found, part), wanted, f"{part} afterwards")
        tenant = self.queries.maybe("acme", "zeta")
        next_at = await self.store.next_due("alarm", KINDS, EXECUTORS, tenant=tenant)
        expect_equal(next_at, self.model.next_due(KINDS, EXECUTORS, tenant), "the next instant anything is due")
        if tenant:
            sends = await self.store.waiting_sends(100, created_before=self.now + 1, tenant=tenant)
            wanted = [id for id in self.model.waiting() if id.tenant == tenant]
            expect_equal([sent.id for sent in sends], wanted, f"the sends that wait of {tenant}")
        await self.ask_for_lists()

    async def ask_for_lists(self) -> None:
        streams, effects = self.queries.streams_query(self.now), self.queries.effects_query()
        segments = self.queries.ledger_query(self.now)
        expect_equal(await self.store.streams(streams), self.queries.streams(streams), f"the answer to {streams}")
        expect_equal(await self.store.effects(effects), self.queries.effects(effects), f"the answer to {effects}")
        found = [replace(segment, seq=0) for segment in await self.store.ledger(segments)]
        expect_equal(found, self.queries.ledger(segments), f"the answer to {segments}")

    def compare(self, tx: Tx, ask: LockRequest) -> None:
        asked = {**ask.locks, **ask.reads}
        unchanged = {of for of, cached in asked.items() if cached == self.model.version(of)}
        rows = {of: self.row(of) for of in asked.keys() - unchanged}
        expect_equal(tx.now, self.now, "the transaction's time")
        expect_equal(tx.unchanged, unchanged, "unchanged streams")
        expect_equal(tx.rows, rows, "streams that moved")
        expect_equal(set(tx.seen), {key for key in ask.keys if self.model.seen(key, self.now)}, "keys seen")
        expect_equal(tx.sends, self.model.takable(ask.sends), "sends taken")

    def row(self, of: StreamId) -> Row:
        stored = self.model.rows.get(of)
        return stored.row() if stored else NO_ROW

    async def commit_a_batch(self) -> None:
        changes = self.batches.batch()
        ask = self.batches.ask(changes)
        async with self.store.begin(ask) as tx:
            self.compare(tx, ask)
            await tx.commit(changes)
        self.model.commit(changes)

    async def leave_a_batch(self) -> None:
        ask = self.batches.ask(self.batches.batch())
        async with self.store.begin(ask) as tx:
            self.compare(tx, ask)

    async def refuse_a_batch(self) -> None:
        changes = self.batches.batch()
        kind = self.batches.spoil(changes)
        ask = self.batches.ask(changes)
        with expect_refusal(kind, "a spoilt batch"):
            async with self.store.begin(ask) as tx:
                await tx.commit(changes)

    async def decide_what_is_due(self) -> None:
        kinds = self.dice.choice((KINDS, KINDS[:1], KINDS[1:]))
        index = self.dice.choice(INDEXES)
        limit, tenant = self.dice.randint(1, 6), self.queries.maybe("acme", "zeta")
        async with self.store.begin_due(index, kinds, limit, tenant=tenant) as tx:
            due = self.model.due(index, kinds, self.now, tenant)[:limit]
            expect_equal(list(tx.rows.items()), [(of, self.row(of)) for of in due], f"streams taken by {index}")
            changes = together(*(self.batches.moving(of) for of in due[: self.dice.randint(0, 6)]))
            await tx.commit(changes)
        self.model.commit(changes)

    async def lease_calls(self) -> None:
        executors = self.dice.sample(EXECUTORS, self.dice.randint(1, 3))
        tenant = self.queries.maybe("acme", "zeta")
        due = {effect.write.id: effect for effect in self.model.due_calls(executors, self.now, tenant)}
        leases = await self.store.lease_calls(executors, 1_000, shares={tenant: 1_000} if tenant else None)
        expect_equal({lease.call.id for lease in leases}, set(due), "the calls that are due")
        for lease in leases:
            effect = due[lease.call.id]
            expect(lease.call.fence > effect.fence, "every lease has a greater fence")
            wanted = self.model.lease(effect, self.now, lease.call.fence)
            expect_equal((lease.call.attempt, lease.expired), wanted, "the attempt, and whether it is only to settle")

    async def renew_leases(self) -> None:
        for effect in self.batches.held():
            await self.store.renew_lease(effect.write.id, effect.fence)
            effect.next_at = self.now + effect.write.lease_s * SECOND

    async def snooze(self) -> None:
        of = self.dice.choice(STREAMS)
        version = self.model.version(of) - self.dice.choice((0, 0, 1))
        until = self.now + self.dice.randint(1, 4) * MINUTE
        await self.store.snooze(of, version, until, WHY)
        if of in self.model.rows and version == self.model.version(of):
            self.model.snoozes[of] = until

    def some_effect(self) -> EffectId | None:
        return self.dice.choice(sorted(self.model.effects)) if self.model.effects else None

    async def revive(self) -> None:
        if id := self.some_effect():
            expect_equal(await self.store.revive_effect(id), self.model.revive(id, self.now), "whether it was dead")

    async def discard(self) -> None:
        if id := self.some_effect():
            dead = self.model.effects[id].status == "dead"
            expect_equal(await self.store.discard_effect(id), dead, "whether it was dead")
            if dead:
                del self.model.effects[id]

    async def forget(self) -> None:
        before_at = self.now - self.dice.randint(0, 3) * MINUTE
        forgotten = await self.store.forget(before_at=before_at, limit=1_000)
        expect_equal(forgotten, self.model.forget(self.now, before_at), "how much was forgotten")

    async def checkpoint(self) -> None:
        history = self.model.history(self.dice.choice(STREAMS))
        if history:
            upto = self.dice.choice(history)
            new = segment(upto.stream, upto.version, upto.at, turn=f"until {self.now}", command=None, prev="")
            wanted = self.model.replace_history(new, self.now)
            expect_equal(await self.store.replace_history(new), wanted, "how many segments went")

    async def pass_time(self) -> None:
        self.pair.clock.advance(self.dice.choice((0.000_001, 1, 30, 60, 90, 1200)))
