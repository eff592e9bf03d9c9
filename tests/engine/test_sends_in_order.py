"""Commands to other streams are applied in the order they were sent, whatever order they are found in."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Send
from betimes.core.instants import HOUR
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Job, Submission
from betimes.engine.store import WaitingSend
from betimes.engine.tenants.model import EndHold, SetHold, tenant_stream
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import GATE, QUOTA, SAMPLE, SECTIONS, TALLY, Count, Knock


class BackwardStore(MemoryStore):
    """Shows commands that wait the newest first."""

    async def waiting_sends(self, *args: Any, **kwargs: Any) -> list[WaitingSend]:
        return (await super().waiting_sends(*args, **kwargs))[::-1]


async def test_sends_found_backwards_are_applied_forwards() -> None:
    clock = VirtualClock()
    store = BackwardStore(clock)
    policy = {"gates": {"tally": True, "cooldown_s": 0}}
    gates_only = Engine(MemoryStore(clock, store.database), (GATE, QUOTA), name="one", sections=SECTIONS, policy=policy)
    async with gates_only as one, Engine(store, SAMPLE, name="two", sections=SECTIONS, policy=policy) as two:
        for visitor in ("ann", "bob", "cid"):
            await one.submit(Submission(stream=StreamId("acme", "gate", "front"), command=Knock(visitor)))
        assert (await two.tick()).sends == 3
        counted = store.database.histories[StreamId("acme", "tally", "all")]
        assert [segment.cause for segment in counted] == [f"gate:front:{version}:0" for version in (1, 2, 3)]


class Ring(msgspec.Struct, frozen=True, tag=True): ...


class Rang(msgspec.Struct, frozen=True, tag=True): ...


class Bell(msgspec.Struct, frozen=True): ...


COUNTS = tuple(Send(StreamId("acme", "tally", name), Count("ann")) for name in ("east", "west"))
BELL: Decider[Bell] = Decider(
    kind="bell",
    state=Bell,
    commands=Ring,
    events=Rang,
    fold=lambda state, event: Bell(),
    decide=lambda view, command, policy, now: Decision((Rang(),), effects=COUNTS),
)


async def test_a_send_left_for_a_newer_process_is_not_overtaken() -> None:
    store = MemoryStore(VirtualClock())
    async with Engine(store, (BELL, TALLY), name="one", sections=SECTIONS) as engine:
        east = StreamId("acme", "tally", "east")
        await engine.submit(Submission(stream=east, command=Count("zoe")))
        store.database.rows[east] = replace(store.database.rows[east], schema=99, version=2)
        await engine.submit(Submission(stream=StreamId("acme", "bell", "door"), command=Ring()))
        await engine.tick()
        assert [effect.write.to for effect in store.database.effects.values()] == [send.to for send in COUNTS]


async def test_a_send_that_was_held_is_not_overtaken_in_the_batch_that_ends_the_hold() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    policy = {"gates": {"tally": True, "cooldown_s": 0}}
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS, policy=policy) as engine:
        acme = tenant_stream("acme")
        await engine.submit(Submission(stream=acme, command=SetHold(("gates",), clock() + HOUR, "a wrong template")))
        for visitor in ("ann", "bob"):
            await engine.submit(Submission(stream=StreamId("acme", "gate", "front"), command=Knock(visitor)))
        await engine._queue.idle.wait()
        first, second = [
            (id, Job.of_send(id, effect.write.to or acme, effect.write.payload, engine.kinds))
            for id, effect in sorted(store.database.effects.items())
        ]
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        engine._queue.put_send(*first)
        engine._queue.put(Job(Submission(stream=acme, command=EndHold()), answer=ended))
        engine._queue.put_send(*second)
        await ended
        await engine.tick()
        counted = store.database.histories[StreamId("acme", "tally", "all")]
        assert [segment.cause for segment in counted] == ["gate:front:1:0", "gate:front:2:0"]
