"""Questions at a million streams and ten million segments, as a ratio to the same at ten thousand streams.

Every list that there is over HTTP is asked for under every filter and pair of filters, and every question that is no
list, through the whole application without a socket. A row of the table is a route; what it shows is the worst of all
the ways to ask it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import asyncpg

from benchmarks.domains.questions_filled import HOT, RARE, SEGMENTS, SPAN, STREAMS, fill
from benchmarks.places import PLACES, Place
from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.core.instants import SECOND
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore
from tests.http.populated import declare, populate
from tests.http.question_paths import LISTS, QUESTIONS
from tests.http.served import Client

Row = dict[str, Any]
P99_MS, CPU_MS = 200, 20
"""What a question may take among a million streams, the processor of the database included."""
SMALL = 0.01
REPEATS = 20
MORE = (
    "/v1/verdicts?reason=QUIET_HOURS",
    f"/v1/verdicts?reason={RARE}",
    "/v1/verdicts?reason=ACCOUNT_BANNED",
    "/v1/verdicts?reason=SCORE_DEFER",
    "/v1/verdicts?outcome=NOW",
    "/v1/verdicts?domain=intents",
    "/v1/ledger?since=2026-01-07T12:00:00Z",
    "/v1/ledger?order=desc",
    "/v1/effects/groups",
    f"/v1/verdicts?id={HOT}",
    f"/v1/timeline?user_id={HOT}",
    "/v1/stats?by=outcome,reason",
    "/v1/stats?step=1m&since=2026-01-07T10:00:00Z&by=outcome",
    "/v1/streams?kind=inbox&prefix=u-8~5",
    "/v1/streams?kind=inbox&status=waiting",
    f"/v1/streams/inbox/{HOT}~5/verification",
    "/v1/search?q=u-8~77",
    "/v1/search?q=e-a~",
    "/v1/runs?status=failed",
    "/v1/effects?status=pending",
)
"""Values that much, little and nothing has."""
TOO_LONG = f"/v1/streams/inbox/{HOT}/verification"
"""Refused: it would replay a hundredth of the ledger."""
ASKED = tuple(path.replace("limit=2", "limit=50") for path in (*LISTS, *QUESTIONS, *MORE) if path != TOO_LONG)


class Cost(NamedTuple):
    """Of one question, in milliseconds: the 99th percentile on the wall, and the processor's time.

    Of this process the median, of PostgreSQL's sessions the mean.
    """

    wall_ms: float
    cpu_ms: float
    backend_ms: float


async def questions(kind: str, scale: float) -> list[Row]:
    """Every list, count and search, the worst way to ask it: p99 and CPU, and the ratio to the same at 10k streams."""
    small = await _measure(kind, min(SMALL, scale / 10))
    large = await _measure(kind, scale)
    by_route = groupby(sorted(large, key=_route), key=_route)
    return [_compare(kind, scale, route, small, {path: large[path] for path in paths}) for route, paths in by_route]


def _route(path: str) -> str:
    return path.partition("?")[0]


def _compare(kind: str, scale: float, route: str, small: dict[str, Cost], large: dict[str, Cost]) -> Row:
    """Return the row of one route; the ratio is that of the question which took most of the processors' time."""
    worst = max(large, key=lambda path: large[path].cpu_ms + large[path].backend_ms)
    cost, before = large[worst], small[worst]
    p99_ms, cpu_ms = max(one.wall_ms for one in large.values()), cost.cpu_ms + cost.backend_ms
    missed = [name for name, is_missed in (("p99", p99_ms > P99_MS), ("CPU", cpu_ms > CPU_MS)) if is_missed]
    return {
        "store": kind,
        "route": route,
        "asked": len(large),
        "streams": int(STREAMS * scale),
        "segments": int(SEGMENTS * scale),
        "p99_ms": p99_ms,
        "cpu_ms": cost.cpu_ms,
        "backend_ms": cost.backend_ms,
        "cpu_ratio": cpu_ms / max(before.cpu_ms + before.backend_ms, 0.01),
        "goal": f"p99 ≤ {P99_MS} ms, CPU ≤ {CPU_MS} ms",
        "missed": " and ".join(missed),
        "worst": worst.partition("?")[2].replace("limit=50", "").strip("&"),
    }


async def _measure(kind: str, scale: float) -> dict[str, Cost]:
    clock = VirtualClock()
    async with PLACES[kind](0) as place:
        async with _served(place, clock) as (bt, client):
            await populate(client, bt, clock)
            await bt.tick()
            clock.advance(SPAN / SECOND)
            await fill(place, bt.engine, clock(), scale)
        async with _served(place, clock) as (_, client), _backends(place) as backends:
            return {path: await _time(client, path, backends) for path in ASKED}


@asynccontextmanager
async def _served(place: Place, clock: VirtualClock) -> AsyncIterator[tuple[Betimes, Client]]:
    bt = Betimes("memory://", clock=clock, workers=False)
    if place.kind == "sqlite":
        bt._store = SqliteStore(place.path, clock=clock)
    else:
        bt._store = PostgresStore(place.path, schema=place.schema, clock=clock)
    declare(bt)
    async with bt:
        yield bt, Client(serve(bt, ROUTES, dev=True))


class Backends:
    """The processor's time of all sessions of a PostgreSQL server."""

    def __init__(self, connection: asyncpg.Connection[Any] | None) -> None:
        self._connection = connection

    async def seconds(self) -> float:
        if self._connection is None:
            return 0.0
        sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        pids = [row[0] for row in await self._connection.fetch(sql)]
        return sum(map(_seconds_of, pids))


def _seconds_of(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@asynccontextmanager
async def _backends(place: Place) -> AsyncIterator[Backends]:
    connection = await asyncpg.connect(place.path) if place.kind == "postgres" else None
    try:
        yield Backends(connection)
    finally:
        if connection:
            await connection.close()


async def _time(client: Client, path: str, backends: Backends) -> Cost:
    for _ in range(2):  # PostgreSQL plans a statement anew for some time
        answer = await client("GET", path)
        assert answer.status == 200, (path, answer.raw)
    walls, cpus, before_s = [], [], await backends.seconds()
    for _ in range(REPEATS):
        started, begun = time.perf_counter(), time.process_time()
        await client("GET", path)
        walls.append(time.perf_counter() - started)
        cpus.append(time.process_time() - begun)
    behind = (await backends.seconds() - before_s) / REPEATS
    return Cost(quantiles(walls, n=100, method="inclusive")[98] * 1e3, median(cpus) * 1e3, behind * 1e3)


SUITES = {"questions": questions}
