"""What is measured, one function per question."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from typing import Any

import apsw
import asyncpg

from benchmarks.loops import hand_written
from benchmarks.measuring import GATES, engine_on, knocks, measured, middle, paired_ratio, through_engine, through_loop
from benchmarks.places import PLACES, Place

Row = dict[str, Any]
ROUNDS = 5
IDLE_GATES = 200
IDLE_ROUNDS = 20
"""Short ones, so that what is compared stands close together."""


async def engine_against_loop(kind: str, scale: float) -> list[Row]:
    """64 submitters at the engine and at the hand-written loop, in turns, on one database.

    Each has gates of its own, as the one process of a deployment has: an engine whose gates another program writes
    meanwhile would measure conflicts.
    """
    total = int(12_800 * scale) // 64 * 64
    async with PLACES[kind](2 * GATES) as place, engine_on(place) as engine:
        loop = await hand_written(place)
        source, others = knocks("vs", GATES), knocks("by-hand", GATES, first=GATES)
        # Once around, so that both find what they would have in memory after a while.
        await through_engine(engine, source, 64, GATES)
        await through_loop(loop, others, 64, GATES)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(await through_engine(engine, source, 64, total))
            theirs.append(await through_loop(loop, others, 64, total))
        await loop.close()
    ratio = paired_ratio(ours, theirs, lambda run: run.per_s)
    return [
        {
            "store": kind,
            "engine_per_s": middle(ours).per_s,
            "loop_per_s": middle(theirs).per_s,
            "engine_over_loop": ratio,
        }
    ]


async def concurrency(kind: str, scale: float) -> list[Row]:
    """Rate and latency by the number of submitters and the size of batches."""
    rows: list[Row] = []
    async with PLACES[kind](GATES) as place:
        for submitters, batch_max in ((1, 256), (8, 256), (64, 64), (64, 256), (256, 256), (1024, 1024)):
            async with engine_on(place, batch_max) as engine:
                source = knocks(f"c{submitters}-{batch_max}", GATES)
                await through_engine(engine, source, submitters, submitters * 4)
                total = int((600 if submitters == 1 else 8_000) * scale)
                run = await through_engine(engine, source, submitters, total)
            rows.append({"store": kind, "submitters": submitters, "batch_max": batch_max, **run._asdict()})
    return rows


async def many_streams(kind: str, scale: float) -> list[Row]:
    """What a decision costs when there are 10k, 100k and 1M streams, at 64 submitters, relative to 10k."""
    total = int(12_800 * scale)
    costs: list[tuple[int, float]] = []
    for streams in (10_000, 100_000, 1_000_000):
        streams = max(10_000, int(streams * min(scale, 1.0)))
        async with PLACES[kind](streams) as place, engine_on(place) as engine:
            source = knocks("m", streams)
            await through_engine(engine, source, 64, 1_280)
            runs = [await through_engine(engine, source, 64, total) for _ in range(3)]
            costs.append((streams, 1e6 / middle(runs).per_s))
    first = costs[0][1]
    return [{"store": kind, "streams": n, "cost_us": cost, "over_10k": cost / first} for n, cost in costs]


async def idle_submit(kind: str, scale: float) -> list[Row]:
    """One submit on an idle engine, next to one hand-written transaction of the same rows and one bare insert.

    The engine's gates are its own: it has them cached, and nobody else writes them.
    """
    share = int(1_600 * scale) // IDLE_ROUNDS
    async with PLACES[kind]() as place, engine_on(place) as engine:
        source, others = knocks("i", IDLE_GATES), knocks("h", IDLE_GATES, "h")
        bare, loop = await bare_write(place), await hand_written(place)
        await through_engine(engine, source, 64, 1_280)
        await through_loop(loop, others, 1, 40)
        ours, by_hand, inserts = [], [], []
        for _ in range(IDLE_ROUNDS):
            by_hand.append(await through_loop(loop, others, 1, share))
            ours.append(await through_engine(engine, source, 1, share))
            inserts.append(await bare.run(share))
        await bare.close()
        await loop.close()
    return [
        {
            "store": kind,
            "submit_p50_ms": middle(ours).p50_ms,
            "by_hand_p50_ms": middle(by_hand).p50_ms,
            "insert_p50_ms": middle(inserts).p50_ms,
            "submit_over_by_hand": paired_ratio(ours, by_hand, lambda run: run.p50_ms),
            "submit_over_insert": paired_ratio(ours, inserts, lambda run: run.p50_ms),
        }
    ]


class BareSqlite:
    """One transaction that writes one small row, again and again."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.set_busy_timeout(5_000)
        self._connection.execute("CREATE TABLE bare (n INTEGER PRIMARY KEY, text TEXT)")
        self._connection.pragma("synchronous", "FULL")

    async def run(self, total: int) -> Any:
        return await _timed(total, self._write)

    async def _write(self) -> None:
        await asyncio.to_thread(self._connection.execute, "INSERT INTO bare (text) VALUES (?)", ("x" * 400,))

    async def close(self) -> None:
        self._connection.close()


class BarePostgres:
    def __init__(self, connection: asyncpg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._insert = f"INSERT INTO {schema}.bare (text) VALUES ($1)"

    async def run(self, total: int) -> Any:
        return await _timed(total, self._write)

    async def _write(self) -> None:
        await self._connection.execute(self._insert, "x" * 400)

    async def close(self) -> None:
        await self._connection.close()


async def bare_write(place: Place) -> BareSqlite | BarePostgres:
    if place.kind == "sqlite":
        return BareSqlite(place.path)
    connection = await asyncpg.connect(place.path)
    await connection.execute(f"CREATE TABLE {place.schema}.bare (n bigserial PRIMARY KEY, text text)")
    return BarePostgres(connection, place.schema)


async def _timed(total: int, write: Any) -> Any:
    waits = []
    started = time.perf_counter()
    for _ in range(total):
        begun = time.perf_counter()
        await write()
        waits.append(time.perf_counter() - begun)
    return measured(total, time.perf_counter() - started, waits)


async def processes(kind: str, scale: float) -> list[Row]:
    """One, two and three processes on one database, 64 submitters each."""
    rates: list[float] = []
    for number in (1, 2, 3):
        async with PLACES[kind](GATES) as place:
            rates.append(sum(await _together(place, number, int(12_800 * scale))))
    return [
        {"store": kind, "processes": number, "per_s": rate, "over_one": rate / rates[0]}
        for number, rate in enumerate(rates, 1)
    ]


async def _together(place: Place, number: int, total: int) -> list[float]:
    """Children say that they are ready, start together, and print their rate."""
    program = [sys.executable, "-m", "benchmarks.child", place.kind, place.path, place.schema]
    children = [
        await asyncio.create_subprocess_exec(*program, str(n), str(total), stdin=PIPE, stdout=PIPE)
        for n in range(number)
    ]
    for child in children:
        assert child.stdout
        await child.stdout.readline()
    for child in children:
        assert child.stdin
        child.stdin.write(b"go\n")
    outputs = [await child.communicate() for child in children]
    return [float(output.decode()) for output, _ in outputs]


SUITES = {
    "loop": engine_against_loop,
    "idle": idle_submit,
    "concurrency": concurrency,
    "streams": many_streams,
    "processes": processes,
}
