"""A command to another stream is applied in the end, whatever the store answered the first time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from betimes.core.deciders import Decider, Decision, Send
from betimes.core.errors import Unavailable
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.engine.store import WaitingSend
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import GATE, QUOTA, SAMPLE, SECTIONS, Knock
from tests.engine.test_store_failures import StumblingStore

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
        store.stumbles = True
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
