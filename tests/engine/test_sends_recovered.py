"""A command to another stream is applied in the end, whatever the store answered the first time."""

from __future__ import annotations

from betimes.core.errors import Unavailable
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock
from betimes.testing.sample import GATE, QUOTA, SAMPLE, SECTIONS, Knock
from tests.engine.test_store_failures import StumblingStore


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
