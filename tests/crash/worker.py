"""One process: `python -m tests.crash.worker ORDERS` opens an engine, starts its workers and submits what it is told.

It keeps a journal and says on its standard output, a line each, what whoever started it may wait for:

    ready             the engine is open
    answered          a command was answered
    failed CODE       a command was not
    at POINT          the process is about to kill or stop itself
    refused CODE      the store refused a commit
    report WHAT       the engine reported something
    idle              everything was submitted and answered
    drained           SIGTERM was obeyed

SIGTERM closes the engine: what it had accepted is answered, and the exit code is 0.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.errors import BetimesError, Overloaded, StoreError
from betimes.engine.engine import Engine
from betimes.engine.settings import EngineSettings
from tests.crash.journal import Answered, Asked, Called, Failed, Journal
from tests.crash.perils import Peril, Perils, perilous
from tests.crash.scene import Place, Rules, engine_on
from tests.crash.workload import Workload, submission
from tests.patience import HANGS_S

RETRY_S = 0.05


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of a process."""

    name: str
    place: Place
    folder: str
    """For its journal."""
    rules: Rules = Rules()
    load: Workload = Workload()
    peril: Peril | None = None
    call_s: float = 0.0
    """How long a call takes."""
    works: bool = True
    """Whether it rings alarms and carries out effects."""
    settings: EngineSettings = EngineSettings(drain_s=HANGS_S)


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


class Worker:
    """A process at work."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._journal = Journal(Path(orders.folder), orders.name)
        self._perils = Perils(orders.peril, say)
        store = perilous(orders.place.store(), self._perils)
        self._engine: Engine = engine_on(
            store, orders.rules, orders.name, self._greet, lambda report: say(f"report {report.what}"), orders.settings
        )

    async def run(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await self._engine.open()
        if self._orders.works:
            self._engine.start_workers()
        say("ready")
        errands = self._orders.load.errands(self._orders.name)
        at_work = [asyncio.create_task(self._submit(errands, stop)) for _ in range(self._orders.load.at_once)]
        all_done = asyncio.gather(*at_work)
        all_done.add_done_callback(lambda _: say("idle"))
        await stop.wait()
        await self._engine.close()
        await all_done
        say("drained")

    async def _submit(self, errands: Iterator[Asked], stop: asyncio.Event) -> None:
        for errand in errands:
            if stop.is_set():
                return
            self._journal.write(errand)
            while not await self._ask(errand) and not stop.is_set():  # noqa: ASYNC110 — there is nobody to set an event
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(self._orders.load.pause_s)

    async def _ask(self, errand: Asked) -> bool:
        """Ask once; whether there is nothing more to wait for."""
        try:
            recorded = await self._engine.submit(submission(errand, self._orders.name))
        except BetimesError as error:
            self._journal.write(Failed.of(errand.key, error))
            say(f"failed {error.code}")
            return not isinstance(error, StoreError | Overloaded)
        self._journal.write(Answered.of(errand.key, recorded))
        say("answered")
        return True

    async def _greet(self, call: EffectCall) -> None:
        self._journal.write(Called.of(call.id))
        if self._orders.call_s:
            await asyncio.sleep(self._orders.call_s)
        self._perils.reach("called")


if __name__ == "__main__":
    asyncio.run(Worker(msgspec.json.decode(sys.argv[1], type=Orders)).run())
