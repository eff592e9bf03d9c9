"""The service: what HTTP adds to a decision.

`betimes serve --role api` runs in a process of its own, with keys and full durability, and is asked over loopback
by kept-alive connections; the same requests then go through the same services in this process, on a database of its
own, round after round in turns. Nobody rings alarms or carries out effects meanwhile, so both only judge and write. The
client is as small as one can be, since it shares the machine with what it measures: it writes bytes made beforehand and
reads an answer's status and length.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec

from benchmarks.measuring import STRIDE, Measured, measured, middle, paired_ratio
from benchmarks.places import TENANT, server
from betimes.admin.service import NewKey
from betimes.app.betimes import Betimes
from betimes.core.errors import BetimesError
from betimes.domain.service import Caller
from betimes.tenancy import Tenancy

Body = dict[str, Any]
ROUNDS = 5
SUBJECTS = 10_000
SINGLES, BATCHES, BATCH = 64, 4, 100
"""Connections with single requests, connections with batches, items of a batch."""
_names = count(1)


def notifications() -> Iterator[Body]:
    """Endless notifications, each with a new id and a new text, into the inboxes of people in turn."""
    for n in count():
        yield {
            "event_id": f"e-{n}",
            "user_id": f"u{n * STRIDE % SUBJECTS}",
            "event_type": "MESSAGE",
            "priority_hint": "HIGH",
            "title": f"News about parcel {n}",
            "message": f"Your parcel number {n} was changed today, please look at it before the evening",
            "source": "bench",
            "channels": ["push", "email"],
        }


def triggers() -> Iterator[Body]:
    """Endless triggers, each with a new key, for accounts in turn."""
    for n in count():
        yield {
            "account_id": f"a{n * STRIDE % SUBJECTS}",
            "trigger_type": "SIGNAL_ARRIVED",
            "idempotency_key": f"k-{n}",
            "payload": {"signal": n},
        }


# -- over HTTP


class Connection:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    async def post(self, body: bytes) -> None:
        self._writer.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        answer = await self._reader.readuntil(b"\r\n\r\n")
        head, _, rest = answer.lower().partition(b"content-length:")
        told = await self._reader.readexactly(int(rest.split(b"\r\n", 1)[0]))
        if b" 20" not in head[:12]:
            raise RuntimeError(f"the server answered {told[:300]!r}")

    def close(self) -> None:
        self._writer.close()


class Served:
    """A server, and connections to it."""

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self._secret = secret

    async def connections(self, path: str, wanted: int) -> list[Connection]:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._secret}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        opened = [await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22) for _ in range(wanted)]
        return [Connection(reader, writer, head) for reader, writer in opened]


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Served]:
    """A server on a free port, in a process of its own that ends with the block."""
    async with Betimes(url, tenant=TENANT, workers=False) as bt:
        wanted = NewKey(name="bench", scopes=("notifications:write", "runs:write"))
        key = await bt.mine.tenants.create_key(wanted)
    words = ("serve", "--role", "api", "--port", "0", "--json", "--db", url)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "betimes", *words, stdout=PIPE)
    assert process.stdout is not None
    try:
        told = msgspec.json.decode(await process.stdout.readline())
        yield Served(told["port"], key.secret or "")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def over_http(connections: list[Connection], source: Iterator[Body], total: int, size: int) -> Measured:
    """So many items, `size` in a request; bodies are made before the clock runs."""
    share = max(1, total // (len(connections) * size))
    bodies = [[_encoded(source, size) for _ in range(share)] for _ in connections]

    def asking(connection: Connection, own: list[bytes]) -> Callable[[], Awaitable[None]]:
        waiting = iter(own)
        return lambda: connection.post(next(waiting))

    return await _timed([asking(*pair) for pair in zip(connections, bodies, strict=True)], share, size)


def _encoded(source: Iterator[Body], size: int) -> bytes:
    items = list(islice(source, size))
    return msgspec.json.encode(items[0] if size == 1 else {"items": items})


# -- in this process, with traces where HTTP has them


async def notified(services: Tenancy, items: list[Body]) -> None:
    for answer in await services.notifications.send_many(items, trace=len(items) == 1):
        if isinstance(answer, BetimesError):
            raise answer


async def triggered(services: Tenancy, items: list[Body]) -> None:
    for answer in await services.runs.trigger_many(items, trace=len(items) == 1):
        if isinstance(answer, BetimesError):
            raise answer


async def inside(
    ask: Callable[[Tenancy, list[Body]], Awaitable[None]],
    services: Tenancy,
    source: Iterator[Body],
    total: int,
    tasks: int,
    size: int,
) -> Measured:
    share = max(1, total // (tasks * size))
    return await _timed([lambda: ask(services, list(islice(source, size)))] * tasks, share, size)


async def _timed(askers: list[Callable[[], Awaitable[None]]], share: int, size: int) -> Measured:
    waits: list[float] = []

    async def asker(ask: Callable[[], Awaitable[None]]) -> None:
        for _ in range(share):
            started = time.perf_counter()
            await ask()
            waits.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*map(asker, askers))
    return measured(len(waits) * size, time.perf_counter() - started, waits)


# -- the suite

ASKED: dict[str, tuple[str, Callable[[], Iterator[Body]], Callable[[Tenancy, list[Body]], Awaitable[None]]]] = {
    "notifications": ("/v1/notifications", notifications, notified),
    "triggers": ("/v1/triggers", triggers, triggered),
}


async def http(kind: str, scale: float) -> list[Body]:
    """Items a second and latency over HTTP, single and in batches, next to the same services in process."""
    rows = []
    for name in ASKED:
        for tasks, size in ((SINGLES, 1), (BATCHES, BATCH)):
            async with AsyncExitStack() as stack:
                urls = [await stack.enter_async_context(DATABASES[kind]()) for _ in range(2)]
                server_ = await stack.enter_async_context(served(urls[0]))
                bt = await stack.enter_async_context(Betimes(urls[1], tenant=TENANT, workers=False))
                rows.append(await _row(kind, name, server_, bt, tasks, size, scale))
    return rows


async def _row(kind: str, name: str, there: Served, bt: Betimes, tasks: int, size: int, scale: float) -> Body:
    path, make, ask = ASKED[name]
    total = max(tasks * size, int((4_000 if size == 1 else 12_000) * scale))
    services = bt.for_caller(Caller(TENANT, "bench"))
    ours, theirs = make(), make()
    over: list[Measured] = []
    within: list[Measured] = []
    for _ in range(ROUNDS + 1):
        connections = await there.connections(path, tasks)  # the server lets go of those that rest for seconds
        over.append(await over_http(connections, ours, total, size))
        for connection in connections:
            connection.close()
        within.append(await inside(ask, services, theirs, total, tasks, size))
    over, within = over[1:], within[1:]  # the first round warms up
    return {
        "store": kind,
        "asked": name,
        "connections": tasks,
        "items": size,
        "http_per_s": middle(over).per_s,
        "http_p50_ms": middle(over).p50_ms,
        "http_p99_ms": middle(over).p99_ms,
        "inside_per_s": middle(within).per_s,
        "inside_p99_ms": middle(within).p99_ms,
        "http_over_inside": paired_ratio(over, within, lambda run: run.per_s),
    }


@asynccontextmanager
async def _sqlite_database() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'betimes.db'}"


@asynccontextmanager
async def _postgres_database() -> AsyncIterator[str]:
    dsn, name = server(), f"bench_http_{os.getpid()}_{next(_names)}"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


DATABASES = {"sqlite": _sqlite_database, "postgres": _postgres_database}
SUITES = {"http": http}
