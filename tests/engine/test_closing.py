"""Closing the engine while calls are being taken, and waking up after their leases ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from betimes.core.deciders import EffectCall
from betimes.core.errors import Unknown
from betimes.core.streams import StreamId
from betimes.engine.effects import NotStarted
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery, Lease
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from tests.patience import HANGS_S

FRONT = StreamId("acme", "gate", "front")
LEASE_S = 60


class Slow(MemoryStore):
    """Keeps its answer back after it has leased calls."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.leased = asyncio.Event()
        self.go_on = asyncio.Event()

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        leases = await super().lease_calls(executors, limit, shares=shares)
        if leases:
            self.leased.set()
            await self.go_on.wait()
        return leases


def greeting(store: MemoryStore, calls: list[EffectCall]) -> Engine:
    async def greet(call: EffectCall) -> None:
        calls.append(call)

    policy = {"gates": {"greet": True}}
    executors: dict[str, Any] = {"handler:greet": greet}
    reports: list[Report] = []
    return Engine(
        store, SAMPLE, name="one", sections=SECTIONS, policy=policy, executors=executors, report=reports.append
    )


async def test_a_call_that_is_being_taken_when_the_engine_closes_is_made() -> None:
    store, calls = Slow(), list[EffectCall]()
    engine = greeting(store, calls)
    await engine.open()
    engine.start_workers()
    await engine.submit(Submission(stream=FRONT, command=Knock("ann")))
    await store.leased.wait()
    closing = asyncio.create_task(engine.close())
    asyncio.get_running_loop().call_later(0.01, store.go_on.set)
    await closing
    assert len(calls) == 1
    assert [effect.status for effect in await store.effects(EffectQuery())] == ["done"]


async def test_a_call_whose_process_slept_past_its_lease_before_making_it_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, calls = Slow(), list[EffectCall]()
    loop = asyncio.get_running_loop()
    awake: Callable[[], float] = loop.time
    async with greeting(store, calls) as engine:
        await engine.submit(Submission(stream=FRONT, command=Knock("ann")))
        ticking = asyncio.create_task(engine.tick())
        await store.leased.wait()
        monkeypatch.setattr(loop, "time", lambda: awake() + LEASE_S)
        store.go_on.set()
        assert (await ticking).effects == {"fenced": 1}
        assert calls == []


async def test_a_tick_under_way_when_the_engine_closes_is_finished() -> None:
    store, calls = Slow(), list[EffectCall]()
    engine = greeting(store, calls)
    await engine.open()
    await engine.submit(Submission(stream=FRONT, command=Knock("ann")))
    ticking = asyncio.create_task(engine.tick())
    await store.leased.wait()
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    store.go_on.set()
    await closing
    assert (await ticking).effects == {"done": 1}
    assert [call.attempt for call in calls] == [1]


@pytest.mark.parametrize("at_most_once", [True, False])
async def test_a_call_that_may_be_made_again_is_given_back_when_the_engine_closes(at_most_once: bool) -> None:
    store, made = MemoryStore(VirtualClock()), list[int]()
    started = asyncio.Event()

    async def work(call: EffectCall) -> None:
        made.append(call.attempt)
        if call.attempt > 1:
            return
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if call.at_most_once:
                raise NotStarted("it left no trace", (0.0,)) from None
            raise

    executor = "handler:greet" if at_most_once else "handler:announce"
    policy = {"gates": {"greet" if at_most_once else "announce": True}}
    settings = EngineSettings(drain_s=0.0)

    def engine(name: str) -> Engine:
        return Engine(
            store, SAMPLE, name=name, sections=SECTIONS, policy=policy, executors={executor: work}, settings=settings
        )

    async with engine("one") as first:
        first.start_workers()
        await first.submit(Submission(stream=FRONT, command=Knock("ann")))
        await started.wait()
    assert [effect.status for effect in await store.effects(EffectQuery(executor=executor))] == ["pending"]
    async with engine("two") as second:
        assert (await second.tick()).effects == {"done": 1}
    assert made == [1, 2]


async def test_a_call_at_most_once_that_was_begun_when_the_engine_closes_is_not_made_again() -> None:
    store, started = MemoryStore(VirtualClock()), asyncio.Event()

    async def greet(call: EffectCall) -> None:
        started.set()
        await asyncio.Event().wait()

    engine = Engine(
        store,
        SAMPLE,
        name="one",
        sections=SECTIONS,
        policy={"gates": {"greet": True}},
        executors={"handler:greet": greet},
        settings=EngineSettings(drain_s=0.0),
    )
    async with engine:
        engine.start_workers()
        await engine.submit(Submission(stream=FRONT, command=Knock("ann")))
        await started.wait()
    assert [effect.status for effect in await store.effects(EffectQuery())] == ["leased"]


async def test_a_tick_under_way_takes_no_more_calls_once_the_engine_closes() -> None:
    store, started, made = MemoryStore(VirtualClock()), asyncio.Event(), list[int]()
    reports: list[Report] = []

    async def announce(call: EffectCall) -> None:
        made.append(call.attempt)
        started.set()
        await asyncio.Event().wait()

    engine = Engine(
        store,
        SAMPLE,
        name="one",
        sections=SECTIONS,
        policy={"gates": {"announce": True}},
        executors={"handler:announce": announce},
        settings=EngineSettings(drain_s=0.05),
        report=reports.append,
    )
    await engine.open()
    await engine.submit(Submission(stream=FRONT, command=Knock("ann")))
    ticking = asyncio.create_task(engine.tick())
    await started.wait()
    await engine.close()
    assert (await asyncio.wait_for(ticking, HANGS_S)).effects == {"retrying": 1}
    assert made == [1]
    assert [effect.status for effect in await store.effects(EffectQuery())] == ["pending"]
    assert reports == []


class Stuck(MemoryStore):
    """Never gets as far as the streams that are due."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def begin_due(self, *args: Any, **kwargs: Any) -> AsyncIterator[MemoryTx]:
        self.asked.set()
        await asyncio.Event().wait()
        async with super().begin_due(*args, **kwargs) as tx:
            yield tx


async def test_a_pass_that_is_cut_off_when_the_engine_closes_is_answered() -> None:
    store = Stuck()
    engine = Engine(store, SAMPLE, name="one", sections=SECTIONS, settings=EngineSettings(drain_s=0.05))
    await engine.open()
    sweeping = asyncio.create_task(engine.submit_due(("gate",), lambda stream: Knock("ann"), 10))
    await store.asked.wait()
    await engine.close()
    with pytest.raises(Unknown, match="closed during this pass"):
        await asyncio.wait_for(sweeping, HANGS_S)
