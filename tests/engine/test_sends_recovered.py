"""A command to another stream is applied in the end, whatever the store answered the first time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Send
from betimes.core.errors import Unavailable
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import LedgerQuery, Store, WaitingSend
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import GATE, QUOTA, SAMPLE, SECTIONS, Knock
from tests.engine.test_store_failures import StumblingStore
from tests.stores.backends import Backend

HANGS_S = 20
"""Only so that a test whose subject hangs ends at all; nothing is measured by it."""


async def test_a_send_that_met_an_unavailable_store_is_applied_by_the_next_tick() -> None:
    clock = VirtualClock()
    store = StumblingStore(clock)
    store.error = Unavailable("the database does not take commits")
    policy = {"gates": {"tally": True}}
    gates_only = Engine(MemoryStore(clock, store.database), (GATE, QUOTA), name="one", sections=SECTIONS, policy=policy)
    async with gates_only as one, Engine(store, SAMPLE, name="two", sections=SECTIONS, policy=policy) as two:
        await one.submit(Submission(stream=StreamId("acme", "gate", "front"), command=Knock("ann")))
        store.stumbles = 1
        assert (await two.tick()).sends == 0
        assert (await two.tick()).sends == 1


class LateStore(MemoryStore):
    """Says which sends wait when it is told to."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def waiting_sends(self, *args: Any, **kwargs: Any) -> list[WaitingSend]:
        found = await super().waiting_sends(*args, **kwargs)
        self.asked.set()
        await self.go_on.wait()
        return found


async def test_a_tick_that_finds_sends_after_its_engine_has_closed_ends() -> None:
    store = LateStore(clock := VirtualClock())
    policy = {"gates": {"tally": True}}
    others = MemoryStore(clock, store.database)
    settings = EngineSettings(drain_s=0.0)
    two = Engine(store, SAMPLE, name="two", sections=SECTIONS, policy=policy, settings=settings)
    async with Engine(others, (GATE, QUOTA), name="one", sections=SECTIONS, policy=policy) as one:
        await one.submit(Submission(stream=StreamId("acme", "gate", "front"), command=Knock("ann")))
    await two.open()
    tick = asyncio.create_task(two.tick())
    await store.asked.wait()
    await two.close()
    store.go_on.set()
    async with asyncio.timeout(HANGS_S):
        assert (await tick).sends == 0


class Pass(msgspec.Struct, frozen=True, tag=True):
    left: int


class Passed(msgspec.Struct, frozen=True, tag=True): ...


class Runner(msgspec.Struct, frozen=True): ...


def hand_over(view: Any, command: Pass, policy: Any, now: Instant) -> Decision:
    following = Send(StreamId("acme", "runner", str(command.left - 1)), Pass(command.left - 1))
    return Decision((Passed(),), effects=(following,) if command.left else ())


RUNNER: Decider[Runner] = Decider(
    kind="runner", state=Runner, commands=Pass, events=Passed, decide=hand_over, fold=lambda state, event: Runner()
)


async def test_a_tick_sees_a_chain_of_sends_to_its_end() -> None:
    """Those that are under way already, because the process that caused them applies them at once, count too."""
    store = MemoryStore(VirtualClock())
    async with Engine(store, (RUNNER,), name="one") as engine:
        await engine.submit(Submission(stream=StreamId("acme", "runner", "20"), command=Pass(20)))
        assert (await engine.tick()).complete
        assert len(store.database.rows) == 21


class Post(msgspec.Struct, frozen=True, tag=True):
    to: StreamId
    count: int = 1


class Posted(msgspec.Struct, frozen=True, tag=True): ...


def post_all(view: Any, command: Post, policy: Any, now: Instant) -> Decision:
    return Decision((Posted(),), effects=tuple(Send(command.to, Pass(0)) for _ in range(command.count)))


POSTER: Decider[Runner] = Decider(
    kind="poster", state=Runner, commands=Post, events=Posted, decide=post_all, fold=lambda state, event: Runner()
)
NEWER: Decider[Runner] = replace(RUNNER, kind="newer")
BATCH = 4


@asynccontextmanager
async def half_upgraded(backend: Backend, folder: Path) -> AsyncIterator[Store]:
    """A store whose oldest sends are to a kind of stream that some processes do not know; more than they look at."""
    clock = VirtualClock()
    async with backend.pair(clock, folder) as pair:
        async with Engine(pair.one, (POSTER,), name="one") as one:

            async def post(source: str, to: StreamId, count: int = 1) -> None:
                command = Post(to, count)
                await one.submit(Submission(stream=StreamId("acme", "poster", source), command=command))
                clock.advance(1)

            known, unknown = StreamId("acme", "runner", "r"), StreamId("acme", "newer", "n")
            await post("far", unknown, 2 * BATCH)
            await post("mixed", unknown)
            await post("mixed", known, 2 * BATCH)  # known, but behind one that is not
            await post("near", known)
        clock.advance(60)
        yield pair.two


async def test_a_tick_gets_past_sends_it_cannot_apply(backend: Backend, tmp_path: Path) -> None:
    async with half_upgraded(backend, tmp_path) as store, Engine(store, (POSTER, RUNNER), name="two") as two:
        assert (await two.tick(limit=BATCH)).sends == 1
        assert not (await two.tick(limit=BATCH)).complete  # some to a kind it knows wait for one it does not


async def test_sends_to_kinds_a_process_does_not_know_are_not_its_business(backend: Backend, tmp_path: Path) -> None:
    async with half_upgraded(backend, tmp_path) as store, Engine(store, (POSTER,), name="two") as two:
        assert (await two.tick()).complete


async def test_recovery_gets_past_sends_it_cannot_apply(backend: Backend, tmp_path: Path) -> None:
    settings = EngineSettings(batch_max=BATCH, send_recovery_s=0.01)
    async with (
        half_upgraded(backend, tmp_path) as store,
        Engine(store, (POSTER, RUNNER), name="two", settings=settings) as two,
        asyncio.timeout(HANGS_S),
    ):
        two.start_workers()
        while not await store.load([StreamId("acme", "runner", "r")]):  # noqa: ASYNC110 — a database signals nobody
            await asyncio.sleep(0)


async def test_sends_wait_in_order_for_the_process_that_knows_their_kind(backend: Backend, tmp_path: Path) -> None:
    async with half_upgraded(backend, tmp_path) as store:
        async with Engine(store, (POSTER, RUNNER), name="two") as two:
            await two.tick(limit=BATCH)
        async with Engine(store, (POSTER, RUNNER, NEWER), name="three") as three:
            assert (await three.tick()).complete
            history = await store.ledger(LedgerQuery(kind="runner"))
        assert [segment.cause for segment in history[:2]] == ["poster:near:1:0", "poster:mixed:2:0"]
        assert len(history) == 1 + 2 * BATCH
