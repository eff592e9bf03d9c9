"""A tenant that floods a process delays its own work, and hardly anybody else's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.core.deciders import EffectCall
from betimes.core.errors import Overloaded
from betimes.core.streams import StreamId
from betimes.engine.effects import BoundedExecutor, Executor
from betimes.engine.engine import Engine
from betimes.engine.jobs import LATELY_BATCHES, WAKE, FairQueue, Job, Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import DueIndex
from betimes.engine.tenant_turns import LOOKED_AT_MAX, PassTurns, TenantRotation, call_shares
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import moved, together
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from tests.engine.worlds import World, world
from tests.patience import HANGS_S
from tests.stores.backends import Backend


def knocking(tenant: str, visitor: str, gate: str = "front") -> Submission:
    return Submission(stream=StreamId(tenant, "gate", gate), command=Knock(visitor))


def job(tenant: str, number: int) -> Job:
    return Job(Submission(stream=StreamId(tenant, "gate", str(number)), command=WAKE))


def names(jobs: list[Job]) -> list[str]:
    return [f"{job.stream.tenant}{job.stream.id}" for job in jobs if job.stream]


def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    queue = FairQueue()
    for waiting in (job("a", 1), job("a", 2), job("a", 3), job("b", 1), job("c", 1), job("c", 2)):
        queue.append(waiting)
    assert names(queue.take(4)) == ["a1", "b1", "c1", "a2"]
    assert queue.size == 2
    assert names(queue.take(9)) == ["c2", "a3"]
    assert queue.size == 0


def test_a_tenant_alone_fills_a_batch_although_the_deployment_put_its_policy_there() -> None:
    queue = FairQueue()
    queue.append(job("*", 1))
    queue.take(256)
    for number in range(300):
        queue.append(job("a", number))
    assert len(queue.take(256)) == 256


def test_what_is_put_back_is_taken_first_of_its_tenant_in_its_order() -> None:
    queue = FairQueue()
    for number in range(1, 5):
        queue.append(job("a", number))
    queue.put_back(queue.take(3)[1:])
    assert names(queue.take(9)) == ["a2", "a3", "a4"]


def test_one_of_several_tenants_gets_a_part_of_a_batch_until_it_is_alone_again() -> None:
    queue = FairQueue()
    for number in range(1_000):
        queue.append(job("loud", number))
    assert len(queue.take(256)) == 256
    queue.append(job("quiet", 1))
    assert Counter(one.tenant for one in queue.take(256)) == {"quiet": 1, "loud": 32}
    assert len(queue.take(256)) == 32
    for _ in range(LATELY_BATCHES):
        queue.append(job("loud", 0))
        queue.take(1)
    assert len(queue.take(256)) == 256


async def test_a_flood_of_one_tenant_delays_another_by_a_few_batches_at_most() -> None:
    settings = EngineSettings(batch_max=16)
    answered: list[str] = []
    async with Engine(MemoryStore(VirtualClock()), SAMPLE, name="one", sections=SECTIONS, settings=settings) as engine:

        async def ask(tenant: str, number: int) -> None:
            await engine.submit(knocking(tenant, f"v{number}"))
            answered.append(tenant)

        flood = [asyncio.create_task(ask("loud", number)) for number in range(400)]
        await asyncio.sleep(0)
        await ask("quiet", 0)
        behind = answered.index("quiet")
        await asyncio.gather(*flood)
    assert behind <= 3 * settings.batch_max, f"{behind} of 400 commands of the other tenant were answered first"


async def test_a_tenant_may_not_take_all_the_room_of_the_queue() -> None:
    settings = EngineSettings(queue_max=20, queue_tenant_max=10)
    async with Engine(MemoryStore(VirtualClock()), SAMPLE, name="one", sections=SECTIONS, settings=settings) as engine:
        flood = [asyncio.create_task(engine.submit(knocking("loud", f"v{number}"))) for number in range(15)]
        await asyncio.sleep(0)
        await engine.submit(knocking("quiet", "ann"))
        answers = await asyncio.gather(*flood, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert len(refused) == 5
    with pytest.raises(Overloaded, match="'loud' are waiting, which is its limit"):
        raise refused[0]


# -- what is due


GREETS: dict[str, Any] = {"gates": {"greet": True, "cooldown_s": 0, "per_hour": 1_000_000}}


async def wait_for(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not holds():  # noqa: ASYNC110 — told by what the engine did
            await asyncio.sleep(0)


async def test_slow_calls_of_one_tenant_leave_room_for_anothers(backend: Backend, tmp_path: Path) -> None:
    began: list[str] = []
    done = asyncio.Event()

    async def greet(call: EffectCall) -> None:
        began.append(call.id.tenant)
        if call.id.tenant == "loud":
            await done.wait()

    settings = EngineSettings(calls_max=8, poll_s=0.01)
    executors = {"handler:greet": greet}
    async with world(backend, tmp_path, body=GREETS, executors=executors, settings=settings) as w:
        for number in range(40):
            await w.engine.submit(knocking("loud", f"v{number}", f"g{number}"))
        w.engine.start_workers()
        await wait_for(lambda: len(began) >= 6)
        await w.engine.submit(knocking("quiet", "ann"))
        await wait_for(lambda: "quiet" in began)
        assert began.count("loud") == 6, "a tenant alone takes three quarters of the slots"
        done.set()
        await wait_for(lambda: began.count("loud") == 40)


async def test_calls_that_wait_are_taken_of_each_tenant_in_turn(backend: Backend, tmp_path: Path) -> None:
    began: list[str] = []

    async def greet(call: EffectCall) -> None:
        began.append(call.id.tenant)

    executors = {"handler:greet": greet}
    settings = EngineSettings(calls_max=4)
    async with world(backend, tmp_path, body=GREETS, executors=executors, settings=settings) as w:
        for number in range(30):
            await w.engine.submit(knocking("loud", f"v{number}", f"g{number}"))
        w.clock.advance(1)
        for tenant in ("quiet", "still"):
            await w.engine.submit(knocking(tenant, "ann"))
        await w.engine.tick()
    assert began.count("loud") == 30
    behind = max(began.index("quiet"), began.index("still"))
    assert behind < 8, f"{behind} of 30 calls of the other tenant were made first"


async def test_calls_of_a_bounded_executor_wait_in_the_store_and_not_in_slots(backend: Backend, tmp_path: Path) -> None:
    began: list[str] = []
    done = asyncio.Event()

    async def greet(call: EffectCall) -> None:
        began.append(call.id.tenant)
        await done.wait()

    async def announce(call: EffectCall) -> None:
        began.append("announced")

    executors: dict[str, Executor] = {"handler:greet": BoundedExecutor(greet, 1), "handler:announce": announce}
    settings = EngineSettings(calls_max=4, poll_s=0.01)
    body = {"gates": {"greet": True, "announce": True}}
    async with world(backend, tmp_path, body=body, executors=executors, settings=settings) as w:
        w.engine.start_workers()
        for tenant in ("a", "b", "c", "d", "e"):
            await w.engine.submit(knocking(tenant, "ann"))
        # Greetings are taken from the store, so the first may come behind all that were leased by their commits.
        await wait_for(lambda: began.count("announced") == 5 and len(began) > 5)
        assert len(began) == 6
        done.set()
        await wait_for(lambda: len(began) == 10)


async def test_alarms_of_one_tenant_delay_anothers_by_a_few_passes(backend: Backend, tmp_path: Path) -> None:
    woken: list[str] = []
    settings = EngineSettings(batch_max=8)
    async with world(backend, tmp_path, settings=settings) as w:
        await wait_at_gates(w, "loud", 80)
        w.clock.advance(1)
        await wait_at_gates(w, "quiet", 1)
        w.clock.advance(120)
        w.engine._queue.observe = lambda written: woken.extend(segment.stream.tenant for segment, _, _ in written)
        while not (await w.engine.tick(limit=8)).complete:
            pass
    assert woken.count("loud") == 80
    behind = woken.index("quiet")
    assert behind <= 2 * settings.batch_max, f"{behind} of 80 alarms of the other tenant rang first"


async def wait_at_gates(w: World, tenant: str, count: int) -> None:
    """Leave a visitor waiting at each gate of a tenant."""
    await asyncio.gather(
        *(w.engine.submit(knocking(tenant, visitor, f"g{n}")) for n in range(count) for visitor in ("ann", "bob"))
    )


async def test_every_tenant_of_very_many_has_its_turn() -> None:
    store = MemoryStore(VirtualClock())
    now = await store.now()
    names = [f"t{number:04}" for number in range(2 * LOOKED_AT_MAX + 10)]
    await commit(store, together(*(moved(StreamId(name, "thing", "a"), 1, now, alarm_at=now) for name in names)))
    rotation, seen = TenantRotation(store, "alarm"), list[str]()
    while len(seen) < len(names):
        seen += await rotation.next(["thing"], 100)
    assert seen == names
    assert rotation.is_at_start


async def plans(tenants: int, passes: int, index: DueIndex = "alarm") -> list[dict[str, int] | None]:
    """Return whom passes take, when so many tenants have something that is due."""
    store = MemoryStore(VirtualClock())
    now = await store.now()
    streams = [StreamId(f"t{number:03}", "thing", "a") for number in range(tenants)]
    due = (moved(stream, 1, now, alarm_at=now, due_at=now) for stream in streams)
    await commit(store, together(*due))
    turns = PassTurns(store)
    return [(await turns.plan(index, ["thing"], 256))[1] for _ in range(passes)]


async def test_where_every_pass_reaches_every_tenant_none_waits_for_the_oldest_of_all() -> None:
    assert await plans(2, 10) == [{"t000": 32, "t001": 32}] * 10
    assert (await plans(100, 10)).count(None) == 2


async def test_three_of_four_passes_of_a_sweep_take_as_much_of_every_tenant() -> None:
    in_turn = {"t000": 64, "t001": 64, "t002": 64, "t003": 64}
    assert await plans(4, 8, "due") == [in_turn, in_turn, in_turn, None] * 2


async def test_passes_over_a_backlog_follow_each_other_without_a_question() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    asked: list[int] = []
    woken: list[str] = []
    next_due = store.next_due

    async def count_questions(*args: Any, **kwargs: Any) -> Any:
        asked.append(len(woken))
        return await next_due(*args, **kwargs)

    settings = EngineSettings(batch_max=16)
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS, settings=settings) as engine:
        for visitor in ("ann", "bob"):
            await asyncio.gather(*(engine.submit(knocking("loud", visitor, f"g{number}")) for number in range(80)))
        clock.advance(120)
        engine._queue.observe = lambda written: woken.extend(segment.stream.id for segment, _, _ in written)
        store.next_due = count_questions  # type: ignore[method-assign]
        engine.start_workers()
        await wait_for(lambda: len(woken) == 80)
    assert [count for count in asked if 0 < count < 80] == []


@pytest.mark.parametrize(
    ("held", "free", "shares"),
    [
        ({"a": 0}, 64, {"a": 48}),
        ({"a": 48}, 16, {}),
        ({"a": 48, "b": 0}, 16, {"b": 12}),
        ({"a": 0, "b": 0}, 8, {"a": 4, "b": 3}),
        ({"a": 0}, 1, {"a": 1}),
        ({"a": 1, "b": 0}, 1, {"b": 1}),
    ],
)
def test_slots_go_to_whoever_has_the_fewest_and_some_stay_free(
    held: dict[str, int], free: int, shares: dict[str, int]
) -> None:
    assert call_shares(held, held, free, 64) == shares
