"""A town under the console: recorded once per process, on SQLite, and served by a real server at a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration, ServerSettings
from betimes.app.server import Serving, answer_requests, listening
from betimes.console.settings import ConsoleSettings
from betimes.demo.town import POLICY, START, Town
from betimes.engine.virtual_clock import VirtualClock

BY_DEFAULT = ConsoleSettings()
PEOPLE = 40
STEPS = 200
"""Ten minutes each: a day and a half, over a change of daylight saving time."""


class Served(NamedTuple):
    """A server, and the application behind it."""

    address: str
    bt: Betimes


@asynccontextmanager
async def served(
    bt: Betimes, *, dev: bool = True, port: int = 0, console: ConsoleSettings = BY_DEFAULT
) -> AsyncIterator[Served]:
    """Serve an application that is open."""
    configuration = Configuration(server=ServerSettings(port=port, dev=dev), console=console)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()
    with listening(configuration) as listener:
        said = asyncio.create_task(
            answer_requests(Serving(bt, configuration), listener, ending, lambda told: ready.set_result(told["url"]))
        )
        try:
            yield Served(await ready, bt)
        finally:
            ending.set()
            await said


@asynccontextmanager
async def populated(folder: Path, people: int = PEOPLE, steps: int = STEPS) -> AsyncIterator[Served]:
    """A town after a day and a half or so many steps, served without keys."""
    bt = Betimes(f"sqlite:///{folder / 'town.db'}", clock=VirtualClock(START), policy=POLICY, report=lambda _: None)
    town = Town(bt, people)
    town.declare()
    async with bt:
        await town.settle(asyncio.Event())
        for _ in range(steps):
            await town.ten_minutes()
        async with served(bt) as found:
            yield found


@asynccontextmanager
async def unpopulated() -> AsyncIterator[Served]:
    """A server where nothing has happened, without keys."""
    async with Betimes("memory://", clock=VirtualClock(START), report=lambda _: None) as bt, served(bt) as found:
        yield found
