"""A town under the console: recorded once, on SQLite, and served by real servers at a virtual clock."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration, ServerSettings
from betimes.app.server import Serving, answer_requests, listening
from betimes.console.settings import ConsoleSettings
from betimes.core.errors import Invalid
from betimes.core.instants import SECOND, Instant, parse
from betimes.demo.town import POLICY, START, STEP_S, Town
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.sqlite import SqliteStore

BY_DEFAULT = ConsoleSettings()
DATABASE = "town.db"
PEOPLE = 40
PORTS: list[int] = []
"""Ports that servers had and gave back: what a browser has cached of the console's files, it has by the port."""
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
    server = ServerSettings(port=port or (PORTS.pop() if PORTS else 0), dev=dev)
    configuration = Configuration(server=server, console=console)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()
    with _listen(configuration) as listener:
        taken = listener.getsockname()[1]
        said = asyncio.create_task(
            answer_requests(Serving(bt, configuration), listener, ending, lambda told: ready.set_result(told["url"]))
        )
        try:
            yield Served(await ready, bt)
        finally:
            ending.set()
            await said
            PORTS.append(taken)


def _listen(configuration: Configuration) -> socket.socket:
    """Listen on the port of a configuration, or on any if somebody else has taken it meanwhile."""
    try:
        return listening(configuration)
    except Invalid:
        return listening(replace(configuration, server=replace(configuration.server, port=0)))


@asynccontextmanager
async def populated(folder: Path, people: int = PEOPLE, steps: int = STEPS) -> AsyncIterator[Served]:
    """A town after a day and a half or so many steps, served without keys."""
    async with _opened(folder / DATABASE, parse(START), people) as (bt, town):
        await _live(town, steps)
        async with served(bt) as found:
            yield found


async def record(folder: Path) -> None:
    """Leave a town's database in a folder, complete or not at all."""
    async with _opened(folder / "recording.db", parse(START), PEOPLE) as (_, town):
        await _live(town, STEPS)
    (folder / "recording.db").rename(folder / DATABASE)


@asynccontextmanager
async def reopened(database: Path) -> AsyncIterator[Served]:
    """Serve a town that was recorded, at the instant it was left."""
    async with _opened(database, parse(START) + STEPS * STEP_S * SECOND, PEOPLE) as (bt, _), served(bt) as found:
        yield found


@asynccontextmanager
async def _opened(database: Path, now: Instant, people: int) -> AsyncIterator[tuple[Betimes, Town]]:
    clock = VirtualClock(now)
    bt = Betimes(f"sqlite:///{database}", clock=clock, policy=POLICY, report=lambda _: None)
    # No page shows what a power cut would take, and a commit waits for no disk.
    bt._store = SqliteStore(database, clock=clock, durability="relaxed")
    town = Town(bt, people)
    town.declare()
    async with bt:
        yield bt, town


async def _live(town: Town, steps: int) -> None:
    await town.settle(asyncio.Event())
    for _ in range(steps):
        await town.ten_minutes()


@asynccontextmanager
async def unpopulated() -> AsyncIterator[Served]:
    """A server where nothing has happened, without keys."""
    async with Betimes("memory://", clock=VirtualClock(START), report=lambda _: None) as bt, served(bt) as found:
        yield found
