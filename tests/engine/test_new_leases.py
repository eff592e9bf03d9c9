"""Calls that are leased by the commit that makes them, and the slots they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from betimes.core.deciders import Call, EffectCall
from betimes.core.instants import DAY
from betimes.core.streams import StreamId
from betimes.engine.call_slots import AHEAD_MAX, LATELY_S, CallPace, CallSlots
from betimes.engine.dispatcher import NEW_LEASE_MIN_S
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery
from betimes.engine.tenants.model import SetHold, SetPolicy, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import SAMPLE, SECTIONS, Knock, decide
from tests.engine.worlds import World, world
from tests.patience import HANGS_S
from tests.stores.backends import Backend

ANNOUNCES = {"announce": True, "cooldown_s": 0, "per_hour": 1_000_000}


class Announcer:
    """An executor that remembers its calls, and how many there were at once."""

    def __init__(self) -> None:
        self.calls: list[EffectCall] = []
        self.peak = self._now = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, call: EffectCall) -> None:
        self.calls.append(call)
        self._now += 1
        self.peak = max(self.peak, self._now)
        await asyncio.sleep(0)
        await self.go_on.wait()
        self._now -= 1


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not holds():  # noqa: ASYNC110 — told by what the engine did
            await asyncio.sleep(0)


async def wait_for_status(w: World, status: str, count: int) -> None:
    async with asyncio.timeout(HANGS_S):
        while sum(row.status == status for row in await w.store.effects(EffectQuery())) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)


def forbid_leases(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*args: Any, **bounds: Any) -> Any:
        raise AssertionError("a call was taken from the store")

    monkeypatch.setattr(w.engine.store, "lease_calls", refuse)


async def test_a_call_is_leased_by_the_commit_that_makes_it(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce = Announcer()
    async with world(backend, tmp_path, policy=ANNOUNCES, executors={"handler:announce": announce}) as w:
        forbid_leases(w, monkeypatch)
        w.engine.start_workers()
        await asyncio.sleep(0)
        await w.knock("ann")
        await wait_for_status(w, "done", 1)
        [call] = announce.calls
        assert (call.payload, call.attempt, call.fence) == ({"visitor": "ann"}, 1, 1)
        assert not [report for report in w.reported() if report == "calls_failed"]


async def test_a_call_for_at_most_once_is_taken_from_the_store(backend: Backend, tmp_path: Path) -> None:
    announce = Announcer()
    announce.go_on.clear()
    policy = {"greet": True, "cooldown_s": 0, "per_hour": 1_000_000}
    async with world(backend, tmp_path, policy=policy, executors={"handler:greet": announce}) as w:
        leased: list[Any] = []
        w.engine._calls.begin_new = leased.append  # type: ignore[method-assign, assignment]
        w.engine.start_workers()
        await asyncio.sleep(0)
        await w.knock("ann")
        await wait_until(lambda: bool(announce.calls))
        assert leased == []
        announce.go_on.set()
        await wait_for_status(w, "done", 1)


async def test_a_call_whose_process_died_after_the_commit_is_made_when_its_lease_has_ended(
    backend: Backend, tmp_path: Path
) -> None:
    announce = Announcer()
    async with world(backend, tmp_path, policy=ANNOUNCES, executors={"handler:announce": announce}) as w:
        w.engine._calls.begin_new = lambda leases: None  # type: ignore[method-assign]  # it died
        w.engine.start_workers()
        await asyncio.sleep(0)
        await w.knock("ann")
        [row] = await w.store.effects(EffectQuery())
        assert (row.status, row.attempts) == ("leased", 1)
        assert (await w.other.tick()).effects == {}
        w.clock.advance(60)
        async with asyncio.timeout(HANGS_S):
            while not announce.calls:  # either process may find it
                await w.other.tick()
        assert [call.attempt for call in announce.calls] == [2]


async def test_a_single_attempt_is_not_lost_with_a_process_that_died_after_the_commit(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce = Announcer()
    monkeypatch.setattr(decide, "Call", partial(Call, attempts_max=1))
    async with world(backend, tmp_path, policy=ANNOUNCES, executors={"handler:announce": announce}) as w:
        leased: list[Any] = []
        w.engine._calls.begin_new = leased.append  # type: ignore[method-assign, assignment]
        w.engine.start_workers()
        await asyncio.sleep(0)
        await w.knock("ann")
        assert leased == [], "were it to die now, its only attempt would count as made"
        await wait_for_status(w, "done", 1)
        assert [call.attempt for call in announce.calls] == [1]


async def test_calls_of_a_tenant_on_hold_are_left_in_the_store(backend: Backend, tmp_path: Path) -> None:
    announce = Announcer()
    async with world(backend, tmp_path, policy=ANNOUNCES, executors={"handler:announce": announce}) as w:
        w.engine.start_workers()
        await asyncio.sleep(0)
        hold = SetHold(("gates",), w.clock() + DAY, "maintenance")
        await w.engine.submit(Submission(stream=tenant_stream("acme"), command=hold))
        await w.knock("ann")
        assert [row.status for row in await w.store.effects(EffectQuery())] == ["pending"]
        assert announce.calls == []


async def test_no_more_calls_are_made_at_once_than_there_are_slots(backend: Backend, tmp_path: Path) -> None:
    announce, settings = Announcer(), EngineSettings(calls_max=4, poll_s=0.01)
    async with world(
        backend, tmp_path, policy=ANNOUNCES, executors={"handler:announce": announce}, settings=settings
    ) as w:
        w.engine.start_workers()
        for _ in range(40):
            w.engine._calls._caller.pace.note_end(asyncio.get_running_loop().time())
        announce.go_on.clear()
        knocks = [
            Submission(stream=StreamId("acme", "gate", f"g{number}"), command=Knock("ann")) for number in range(24)
        ]
        await w.engine.submit_many(knocks)
        await wait_for_status(w, "leased", 24)
        await wait_until(lambda: len(announce.calls) == 3)
        # Another tenant's call does not wait for those that were leased before it.
        await w.engine.submit(Submission(stream=StreamId("other", "gate", "front"), command=Knock("ann")))
        await wait_until(lambda: announce.calls[-1].id.tenant == "other")
        announce.go_on.set()
        await wait_for_status(w, "done", 25)
        assert announce.peak == 4


async def test_calls_held_ready_of_one_tenant_do_not_keep_those_of_another_in_the_store(
    backend: Backend, tmp_path: Path
) -> None:
    announce, greet, settings = Announcer(), Announcer(), EngineSettings(calls_max=4, poll_s=0.01)
    executors = {"handler:announce": announce, "handler:greet": greet}
    async with world(backend, tmp_path, policy=ANNOUNCES, executors=executors, settings=settings) as w:
        greets = SetPolicy({"gates": {"greet": True, "announce": False}})
        await w.engine.submit(Submission(stream=tenant_stream("other"), command=greets))
        w.engine.start_workers()
        for _ in range(40):
            w.engine._calls._caller.pace.note_end(asyncio.get_running_loop().time())
        announce.go_on.clear()
        knocks = [
            Submission(stream=StreamId("acme", "gate", f"g{number}"), command=Knock("ann")) for number in range(24)
        ]
        await w.engine.submit_many(knocks)
        await wait_until(lambda: len(announce.calls) == 3)
        await w.engine.submit(Submission(stream=StreamId("other", "gate", "front"), command=Knock("ann")))
        await wait_until(lambda: len(greet.calls) == 1)
        announce.go_on.set()
        await wait_for_status(w, "done", 25)


async def test_a_call_that_waits_for_its_slot_is_given_back_when_the_engine_closes() -> None:
    store, announce = MemoryStore(VirtualClock()), Announcer()
    announce.go_on.clear()
    settings = EngineSettings(calls_max=1, drain_s=0.0)
    executors, policy = {"handler:announce": announce}, {"gates": ANNOUNCES}
    async with Engine(
        store, SAMPLE, name="one", sections=SECTIONS, policy=policy, executors=executors, settings=settings
    ) as engine:
        engine.start_workers()
        for _ in range(9):
            engine._calls._caller.pace.note_end(asyncio.get_running_loop().time())
        for gate in ("front", "back"):
            await engine.submit(Submission(stream=StreamId("acme", "gate", gate), command=Knock("ann")))
        rows = await store.effects(EffectQuery())
        assert [row.status for row in rows] == ["leased", "leased"]
    assert [row.status for row in await store.effects(EffectQuery())] == ["pending", "pending"]
    assert len(announce.calls) == 1


async def test_calls_leased_by_a_commit_that_ends_after_the_drain_are_given_back() -> None:
    store, announce = MemoryStore(VirtualClock()), Announcer()
    executors, policy = {"handler:announce": announce}, {"gates": ANNOUNCES}
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS, policy=policy, executors=executors) as engine:
        engine.start_workers()
        await asyncio.sleep(0)
        begin = engine._calls.begin_new

        def begin_late(leases: Any) -> None:
            engine._calls._has_drained = True
            begin(leases)

        engine._calls.begin_new = begin_late  # type: ignore[method-assign]
        await engine.submit(Submission(stream=StreamId("acme", "gate", "front"), command=Knock("ann")))
        await engine._queue.idle.wait()
        [row] = await store.effects(EffectQuery())
        assert (row.status, announce.calls) == ("pending", [])


# -- slots and pace


async def test_a_tenant_alone_takes_three_quarters_of_the_slots() -> None:
    slots = CallSlots(8)
    taken = [slots.take("loud") for _ in range(8)]
    assert taken.count(None) == 6
    assert slots.take("quiet") is None
    slots.leave("loud")
    assert [waiter.done() for waiter in taken if waiter] == [True, False]
    slots.leave("quiet")
    assert [waiter.done() for waiter in taken if waiter] == [True, False], "what is free is for whoever comes"


async def test_the_tenant_with_the_fewest_slots_is_served_first() -> None:
    slots = CallSlots(4)
    for tenant in ("a", "a", "a", "b"):
        assert slots.take(tenant) is None
    waiters = [slots.take("a"), slots.take("b"), slots.take("c")]
    slots.leave("a")
    assert [waiter is not None and waiter.done() for waiter in waiters] == [False, False, True]


async def test_a_slot_is_not_lost_with_whoever_waited_for_it() -> None:
    slots = CallSlots(1)
    assert slots.take("a") is None
    gone, late, last = slots.take("a"), slots.take("a"), slots.take("a")
    assert gone is not None
    assert late is not None
    assert last is not None
    slots.give_up("a", gone)
    slots.leave("a")
    assert late.done()
    slots.give_up("a", late)  # it has got its slot meanwhile
    assert last.done()


def test_as_many_calls_are_held_ready_as_ended_lately() -> None:
    pace = CallPace()
    assert pace.ahead_max(0.0) == 0
    for _ in range(5):
        pace.note_end(0.0)
    assert pace.ahead_max(LATELY_S / 2) == 5
    assert pace.ahead_max(1.5 * LATELY_S) == 5
    assert pace.ahead_max(3 * LATELY_S) == 0
    for _ in range(2 * AHEAD_MAX):
        pace.note_end(9.0)
    assert pace.ahead_max(9.0) == AHEAD_MAX


def test_a_lease_outlives_its_commit() -> None:
    assert EngineSettings().unknown_resolve_s <= NEW_LEASE_MIN_S
