"""One process: `python -m tests.automation.fleet_worker ORDERS` rings alarms and carries out what they ask for.

It says on its standard output, a line each: `ready`, `called` for each call of the handler, `report WHAT`, `drained`
when SIGTERM was obeyed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import msgspec

from betimes.core.deciders import EffectCall
from betimes.engine.engine import Engine
from tests.automation.worlds import DECIDERS, SECTIONS
from tests.crash.scene import Place


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    place: Place


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def engine_on(place: Place, name: str) -> Engine:
    async def brief(call: EffectCall) -> None:
        say("called")

    return Engine(
        place.store(),
        DECIDERS,
        name=name,
        sections=SECTIONS,
        executors={"handler:brief": brief},
        report=lambda report: say(f"report {report.what}"),
    )


async def main(orders: Orders) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = engine_on(orders.place, orders.name)
    await engine.open()
    engine.start_workers()
    say("ready")
    await stop.wait()
    await engine.close()
    say("drained")


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Orders)))
