"""The sample domain under simulation: visitors who knock again and again, doorkeepers whose orders change.

Every visitor's name is used for one errand only, so the ledger can be read without asking the decider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import EffectCall, Wake
from betimes.core.errors import BetimesError, KeyConflict, Overloaded, StoreError
from betimes.core.instants import SECOND
from betimes.core.policies import Body
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.tenants.model import EndHold, SetHold, SetPolicy, tenant_stream
from betimes.testing.sample import SAMPLE, SECTIONS, Knock, Open, Shut
from betimes.testing.simulator.gates_oracle import check_gates
from betimes.testing.simulator.worker import Lost
from betimes.testing.simulator.workload import Workload
from betimes.testing.simulator.world import World

TENANTS = ("acme", "bolt")


class Visitors:
    """One client: a few errands, one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/client {number}")
        self.number = number
        self._errands = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(4, 8)):
            await self.world.pause(self.random.choice((0.2, 2.0, 8.0)))
            errand = self.random.choices(
                (
                    self.knock,
                    self.knock_without_key,
                    self.knock_twice,
                    self.burst,
                    self.doorkeeping,
                    self.sweep,
                    self.world.tick,
                ),
                (10, 3, 2, 4, 2, 1, 3),
            )[0]
            await errand()

    def _gate(self, tenant: str | None = None) -> StreamId:
        """One of a few, so that clients meet."""
        tenants = TENANTS[: 1 + self.world.seed % 2]
        return StreamId(
            tenant or self.random.choice(tenants), "gate", f"g{self.random.randrange(1 + self.world.seed % 3)}"
        )

    def _knocking(self) -> Submission:
        self._errands += 1
        name = f"v{self.number}.{self._errands}"
        return Submission(stream=self._gate(), command=Knock(name), key=name, actor=f"client {self.number}")

    async def knock(self) -> None:
        """Under a key, until it is heard; perhaps once more after that, perhaps at the wrong gate."""
        knocking = self._knocking()
        heard = await self.world.insist(knocking)
        if self.random.random() < 0.2:
            await self.world.insist(knocking)
        if heard and self.random.random() < 0.15:
            await self._at_the_wrong_gate(knocking)

    async def _at_the_wrong_gate(self, knocking: Submission) -> None:
        other = replace(knocking, stream=knocking.stream._replace(id="elsewhere"))
        try:
            recorded = await self.world.ask(other)
        except (KeyConflict, StoreError, Overloaded, Lost):
            return
        except BetimesError as error:
            self.world.findings.append(f"a key used for another gate was answered {error!r}")
        else:
            self.world.findings.append(f"a key used for another gate was accepted as {recorded.segment_id}")

    async def knock_without_key(self) -> None:
        await self.world.insist(replace(self._knocking(), key=None))

    async def knock_twice(self) -> None:
        """The same errand to two workers at the same time, perhaps to two gates."""
        knocking = self._knocking()
        again = knocking if self.random.random() < 0.6 else replace(knocking, stream=self._gate(knocking.stream.tenant))
        await asyncio.gather(self.world.insist(knocking), self.world.insist(again))

    async def burst(self) -> None:
        """Several at one gate at once, through one worker."""
        gate = self._gate()
        try:
            worker = self.world.some_worker()
        except Lost:
            return
        errands = [replace(self._knocking(), stream=gate) for _ in range(3)]
        await asyncio.gather(*(self.world.ask(errand, worker) for errand in errands), return_exceptions=True)

    async def doorkeeping(self) -> None:
        gate = self._gate()
        await self.world.insist(Submission(stream=gate, command=Shut()))
        await self.world.pause(3.0)
        await self.world.insist(Submission(stream=gate, command=Open()))

    async def sweep(self) -> None:
        """Somebody knocks at every gate where anybody was admitted before."""
        self._errands += 1
        name = f"v{self.number}.{self._errands}"
        await self.world.sweep(("gate",), lambda stream: Knock(f"{name}@{stream.tenant}.{stream.id}"))


async def administration(world: World) -> None:
    """Orders change while visitors knock."""
    random = Random(f"{world.seed}/administration")
    for _ in range(random.randint(0, 4)):
        await world.pause(8.0)
        stream = tenant_stream(random.choice(TENANTS))
        await world.insist(Submission(stream=stream, command=SetPolicy(dict(orders(random)))))


async def holding(world: World) -> None:
    """Now and then nothing may fire at the gates of a tenant, for seconds or minutes."""
    random = Random(f"{world.seed}/holding")
    for _ in range(random.choice((0, 0, 1, 3))):
        await world.pause(8.0)
        stream, until_at = tenant_stream(random.choice(TENANTS)), world.now() + random.choice((5, 40, 300)) * SECOND
        await world.insist(Submission(stream=stream, command=SetHold(("gates",), until_at, "a test")))
        if random.random() < 0.4:
            await world.pause(20.0)
            await world.insist(Submission(stream=stream, command=EndHold()))


def orders(random: Random) -> Body:
    return {
        "gates": {
            "cooldown_s": random.choice((0, 1, 5, 20)),
            "per_hour": random.choice((2, 6, *[100] * 8)),
            "tenant_per_hour": random.choice((4, *[None] * 5, *[100] * 4)),
            "waiting_max": random.choice((1, 3, 16)),
            "greet": random.random() < 0.5,
            "announce": random.random() < 0.5,
            "tally": random.random() < 0.6,
        }
    }


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    yield administration(world)
    yield holding(world)
    for number in range(world.random.randint(1, 3)):
        yield Visitors(world, number).go()


async def greet(call: EffectCall) -> str:
    return f"hello {call.payload['visitor']}"


async def announce(call: EffectCall) -> None:
    return None


def nobody_waits(world: World) -> bool:
    """No alarm is set at all, and nothing is owed."""
    return not world.effects_open() and all(row.alarm_at is None for row in world.server.database.rows.values())


GATES = Workload(
    name="gates",
    deciders=SAMPLE,
    sections=SECTIONS,
    clients=clients,
    check=check_gates,
    policy=orders,
    executors={"handler:greet": greet, "handler:announce": announce},
    is_settled=nobody_waits,
    fails_on=(Wake, Knock, Open, Shut),
)
