"""One process: `python -m tests.runs.process ORDERS` opens an engine with the runs domain and does what it is told.

It says on its standard output, a line each: `ready`, `verdict RESULT REASON`, `called`, `report WHAT`, `done`.
It goes on until SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.deciders import EffectCall
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.runs.decide import DECIDERS
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from betimes.runs.worker import RunStarter
from tests.crash.scene import Place
from tests.runs.scenes import SECTIONS

POLICY = {
    "runs": {
        "handler_lease_seconds": 1,
        "registry": {
            "CALLED": {"debounce_seconds": 0, "cooldown_seconds": 0, "handler": {"kind": "python", "name": "brief"}}
        },
    }
}


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of a process."""

    name: str
    place: Place
    journal: str = ""
    """A file to which every call of the handler adds a line."""
    triggers: tuple[str, ...] = ()
    """Keys to trigger, all at once, for one account."""
    trigger_type: str = "SIGNAL_ARRIVED"
    dies_when_called: bool = False
    works: bool = False


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def note(path: str, run_id: str) -> None:
    with Path(path).open("a") as journal:
        journal.write(f"{run_id}\n")


async def main(orders: Orders) -> None:
    async def brief(call: EffectCall) -> Any:
        if orders.dies_when_called:
            os.kill(os.getpid(), signal.SIGKILL)
        note(orders.journal, call.payload["run_id"])
        say("called")

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    starter = RunStarter(orders.name)
    engine = Engine(
        orders.place.store(),
        DECIDERS,
        name=orders.name,
        sections=SECTIONS,
        policy=POLICY,
        executors=starter.wrap({"handler:brief": brief}),
        report=lambda report: say(f"report {report.what}"),
    )
    starter.engine = engine
    async with engine:
        if orders.works:
            engine.start_workers()
        say("ready")
        runs = Runs(engine, Caller("acme"))
        await asyncio.gather(*(trigger(runs, orders, key) for key in orders.triggers))
        say("done")
        await stop.wait()


async def trigger(runs: Runs, orders: Orders, key: str) -> None:
    request = TriggerRequest(account_id="new", trigger_type=orders.trigger_type, idempotency_key=key)
    verdict = await runs.trigger(request, trace=False)
    say(f"verdict {verdict.result} {verdict.reason}")


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Orders)))
