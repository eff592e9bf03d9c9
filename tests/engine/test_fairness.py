"""A tenant that floods a process delays its own work, and hardly anybody else's."""

from __future__ import annotations

import asyncio

import pytest

from betimes.core.errors import Overloaded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.fair_queue import FairQueue
from betimes.engine.jobs import WAKE, Job, Submission
from betimes.engine.settings import EngineSettings
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock
from betimes.testing.sample import SAMPLE, SECTIONS, Knock


def knocking(tenant: str, visitor: str) -> Submission:
    return Submission(stream=StreamId(tenant, "gate", "front"), command=Knock(visitor))


def job(tenant: str, number: int) -> Job:
    return Job(StreamId(tenant, "gate", str(number)), WAKE)


def names(jobs: list[Job]) -> list[str]:
    return [f"{job.stream.tenant}{job.stream.id}" for job in jobs if job.stream]


def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    queue = FairQueue()
    for waiting in (job("a", 1), job("a", 2), job("a", 3), job("b", 1), job("c", 1), job("c", 2)):
        queue.append(waiting)
    assert names(queue.take(4)) == ["a1", "b1", "c1", "a2"]
    assert len(queue) == 2
    assert names(queue.take(9)) == ["c2", "a3"]
    assert not queue


def test_what_is_put_back_is_taken_first_of_its_tenant_in_its_order() -> None:
    queue = FairQueue()
    for number in range(1, 5):
        queue.append(job("a", number))
    queue.put_back(queue.take(3)[1:])
    assert names(queue.take(9)) == ["a2", "a3", "a4"]


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
    with pytest.raises(Overloaded, match="'loud' wait, which is its bound"):
        raise refused[0]
