"""Deciding by what is cached, without having asked: nobody can tell, whatever others did meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from betimes.core.errors import Refused
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import LockRequest
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.sample import SAMPLE, SECTIONS, Knock, Open, Shut
from tests.engine.worlds import GATE, World, world
from tests.stores.backends import Backend


async def other_knocks(w: World, visitor: str, key: str | None = None) -> Recorded:
    return await w.other.submit(Submission(stream=GATE, command=Knock(visitor), key=key))


async def test_what_another_process_wrote_is_seen(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 3}) as w:
        answers = [await knock(w, name) for name in "abcd" for knock in (World.knock, other_knocks)]
        assert [answer.version for answer in answers] == list(range(1, 9))
        told = [answer.verdict.answer for answer in answers if answer.verdict]
        assert told == ["NOW"] * 3 + ["LATER"] * 5


async def test_a_key_that_another_process_used_is_seen(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.knock("ann")
        theirs = await other_knocks(w, "bob", key="k")
        ours = await w.knock("bob", key="k")
        assert (ours.version, ours.verdict, ours.replayed) == (theirs.version, theirs.verdict, True)


async def test_a_refusal_is_not_told_by_what_was_cached(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await w.submit(Shut())
        with pytest.raises(Refused, match="shut already"):
            await w.submit(Shut())
        await w.other.submit(Submission(stream=GATE, command=Open()))
        assert (await w.submit(Shut())).version == 3


async def test_a_repeated_request_gets_its_recorded_answer_where_it_would_be_refused_now(
    backend: Backend, tmp_path: Path
) -> None:
    """Also when an alarm that is due is written ahead of the refusal, so that there is something to commit."""
    async with world(backend, tmp_path) as w:
        await w.submit(Shut())
        opened = await w.submit(Open(), key="k")
        await w.knock("ann")
        waits = await w.knock("bob")
        assert waits.verdict
        assert waits.verdict.answer == "LATER"
        w.clock.advance(3600)
        again = await w.submit(Open(), key="k")
        assert (again.version, again.replayed) == (opened.version, True)


async def test_a_policy_that_another_process_set_is_in_force_at_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0}) as w:
        before = await w.knock("ann")
        change = SetPolicy({"gates": {"cooldown_s": 3600}})
        await w.other.submit(Submission(stream=tenant_stream("acme"), command=change))
        after = await w.knock("bob")
        assert before.verdict
        assert after.verdict
        assert (before.verdict.answer, after.verdict.answer) == ("NOW", "LATER")
        assert before.policy != after.policy


class Counting(MemoryStore):
    """Counts what it is asked, and what is presumed."""

    begun = presumed = 0

    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[MemoryTx]:
        self.begun += 1
        async with super().begin(ask) as tx:
            yield tx

    def presume(self, ask: LockRequest) -> AbstractAsyncContextManager[MemoryTx] | None:
        presumed = super().presume(ask)
        self.presumed += presumed is not None
        return presumed


async def test_an_idle_engine_that_has_everything_cached_asks_nothing() -> None:
    store = Counting(VirtualClock())
    async with Engine(store, SAMPLE, sections=SECTIONS, name="one") as engine:
        await engine.submit(Submission(stream=GATE, command=Knock("first")))
        begun = store.begun
        for number in range(20):
            await engine.submit(Submission(stream=GATE, command=Knock(f"v{number}"), key=f"k{number}"))
        assert (store.begun - begun, store.presumed) == (0, 20)


async def test_where_others_are_at_work_it_is_asked_first_for_a_while() -> None:
    store = Counting(VirtualClock())
    other = MemoryStore(store.clock, store.database)
    settings = EngineSettings(asked_after_conflict=5)
    async with (
        Engine(store, SAMPLE, sections=SECTIONS, name="one", settings=settings) as engine,
        Engine(other, SAMPLE, sections=SECTIONS, name="two") as second,
    ):
        for of in (engine, engine, second):
            await of.submit(Submission(stream=GATE, command=Knock("somebody")))
        before = store.presumed
        for number in range(7):
            await engine.submit(Submission(stream=GATE, command=Knock(f"v{number}")))
        assert store.presumed - before == 2


GATES = [StreamId("acme", "gate", f"gate-{number}") for number in range(10)]


def knocks(visitor: str, gates: list[StreamId] = GATES) -> list[Submission]:
    return [Submission(stream=gate, command=Knock(visitor), key=f"{visitor}-{gate.id}") for gate in gates]


async def test_a_batch_that_has_everything_cached_asks_nothing() -> None:
    store = Counting(VirtualClock())
    async with Engine(store, SAMPLE, sections=SECTIONS, name="one") as engine:
        await engine.submit_many(knocks("first"))
        begun = store.begun
        answers = await engine.submit_many(knocks("second"))
        assert [answer.version for answer in answers if isinstance(answer, Recorded)] == [2] * len(GATES)
        assert (store.begun - begun, store.presumed) == (0, 1)


async def test_a_batch_of_which_one_stream_moved_elsewhere_is_decided_by_how_it_is(
    backend: Backend, tmp_path: Path
) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "per_hour": 2}) as w:
        for visitor in ("first", "second"):
            await w.engine.submit_many(knocks(visitor, GATES[1:] if visitor == "second" else GATES))
        await w.other.submit_many(knocks("theirs", GATES[:1]))
        answers = await w.engine.submit_many(knocks("third"))
        told = [answer.verdict.answer for answer in answers if isinstance(answer, Recorded) and answer.verdict]
        assert told == ["LATER"] * len(GATES)
        again = await w.other.submit_many(knocks("third"))
        assert all(isinstance(answer, Recorded) and answer.replayed for answer in again)


async def test_where_others_stay_at_work_ever_more_batches_ask_first() -> None:
    store = Counting(VirtualClock())
    other = MemoryStore(store.clock, store.database)
    settings = EngineSettings(asked_after_conflict=1)
    async with (
        Engine(store, SAMPLE, sections=SECTIONS, name="one", settings=settings) as engine,
        Engine(other, SAMPLE, sections=SECTIONS, name="two") as second,
    ):
        await engine.submit_many(knocks("first"))
        for number in range(31):
            await second.submit_many(knocks(f"theirs-{number}", GATES[:1]))
            await engine.submit_many(knocks(f"ours-{number}"))
        assert store.presumed == 5, "after 0, 1, 2, 4 and 8 that asked"
