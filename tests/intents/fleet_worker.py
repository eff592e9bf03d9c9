"""One process of a fleet: `python -m tests.intents.fleet_worker ORDERS` has so many workers that claim and fire.

It says on its standard output, a line each: `ready`, `claimed` for each bulk, `fired`, `failed REASON`, `idle` when
nothing was due for a worker, `drained` when SIGTERM was obeyed. With `waits` a worker that has claimed goes on only
after a SIGUSR1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import msgspec

from betimes.core.errors import BetimesError, Refused
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.intents.decide import DECIDERS, SECTIONS
from betimes.intents.model import Claimed, ClaimIntent, FireIntent
from tests.crash.scene import Place

POLICY = {"intents": {"retry_minutes": 0, "retry_minutes_max": 0, "enabled_per_user_max": 1_000}}
IDLE_S = 0.05


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    workers: int = 25
    bulk: int = 10
    lease_s: int = 8
    waits: bool = False


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def engine_on(place: Place, name: str) -> Engine:
    return Engine(
        place.store(),
        DECIDERS,
        name=name,
        sections=SECTIONS,
        policy=POLICY,
        report=lambda report: say(f"report {report.what}"),
    )


class Process:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._engine = engine_on(orders.place, orders.name)
        self._stop, self._go = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGUSR1, self._go.set)
        await self._engine.open()
        self._engine.start_workers()
        say("ready")
        await asyncio.gather(*(self._work(f"{self._orders.name}.{n}") for n in range(self._orders.workers)))
        await self._engine.close()
        say("drained")

    async def _work(self, name: str) -> None:
        command = ClaimIntent(name, self._orders.lease_s, among_many=True)
        while not self._stop.is_set():
            try:
                taken = await self._engine.submit_due(("intent",), lambda stream: command, self._orders.bulk)
            except BetimesError as error:
                say(f"failed {error.code}")
                continue
            claims = [entry for entry in taken if isinstance(entry.reply, Claimed)]
            if not claims:
                say("idle")
                await asyncio.sleep(IDLE_S)
                continue
            say("claimed")
            if self._orders.waits:
                await self._go.wait()
            await asyncio.gather(*(self._fire(entry.stream, entry.reply.claim_token) for entry in claims))

    async def _fire(self, stream: object, token: int) -> None:
        command = FireIntent(status="success", claim_token=token)
        try:
            await self._engine.submit(Submission(stream=stream, command=command))  # type: ignore[arg-type]
        except Refused as refused:
            say(f"failed {refused.reason}")
        except BetimesError as error:
            say(f"failed {error.code}")
        else:
            say("fired")


if __name__ == "__main__":
    asyncio.run(Process(msgspec.json.decode(sys.argv[1], type=Orders)).run())
