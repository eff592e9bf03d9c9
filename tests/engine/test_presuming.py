"""Deciding by what is cached, without having asked: nobody can tell, whatever others did meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from betimes.core.errors import Refused
from betimes.core.segments import Recorded
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
