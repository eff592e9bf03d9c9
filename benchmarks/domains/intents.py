"""Intents: claims and fires by so many workers, next to job queues that drain as many jobs of the same server.

A pair is two writes: an intent is claimed for a worker, with a fence and an alarm for when it does not come back, and
fired, with its next check. `pool` is one claimer that fills so many places at once, by the code of the built-in worker,
which claims ahead of them because the work is quick; `each` are so many workers outside that claim ten at a time by
themselves. The queues take a job, run an empty function and mark the job as done, as many at once. All of them run in
one process, on one server, with its durability as it is, in turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import count
from statistics import median
from typing import Any, TypeAlias

import asyncpg

from benchmarks.places import PLACES, TENANT, Place
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import log_report
from betimes.intents.claim_stock import ClaimStock
from betimes.intents.claimer import Claimer
from betimes.intents.decide import DECIDERS, SECTIONS
from betimes.intents.due import AT_LEAST, DueIntents
from betimes.intents.lists import statuses
from betimes.intents.model import Claimed, ClaimIntent, DefineIntent, Definition, FireIntent
from betimes.intents.worker import PASSES_AHEAD, REPORTS_AT_LEAST, REPORTS_MAX

ROUNDS = 3
WORKERS = (1, 8, 64)
BULK = 10
PER_USER = 20
POLICY = {"intents": {"enabled_per_user_max": 1_000}}
_names = count(1)
Worker: TypeAlias = Callable[[Engine, str, int], Awaitable[int]]


async def claim_and_fire(kind: str, scale: float) -> list[dict[str, Any]]:
    """Claim and fire pairs a second by workers, next to Procrastinate and PgQueuer draining as many jobs."""
    return [await _measured(kind, workers, int((300 if workers == 1 else 2_000) * scale)) for workers in WORKERS]


async def _measured(kind: str, workers: int, total: int) -> dict[str, Any]:
    async with PLACES[kind]() as place, engine_on(place) as engine:
        contestants: dict[str, Callable[[], Awaitable[float]]] = {
            "pool_per_s": lambda: ours(engine, 1, total, workers, builtin_worker),
            "each_per_s": lambda: ours(engine, workers, total, BULK, outside_worker),
        }
        if kind == "postgres":
            procrastinate, pgqueuer = await Procrastinate.on(place), await PgQueuerQueue.on(place)
            contestants["procrastinate_per_s"] = lambda: procrastinate.drained(workers, total)
            contestants["pgqueuer_per_s"] = lambda: pgqueuer.drained(workers, total)
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, run in contestants.items():
                rates[name].append(await run())
    return _row(kind, workers, total, rates)


def _row(kind: str, workers: int, total: int, rates: dict[str, list[float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"store": kind, "workers": workers, "jobs": total}
    row |= {name: median(runs) for name, runs in rates.items()}
    for queue in ("procrastinate", "pgqueuer"):
        theirs = rates.get(f"{queue}_per_s")
        ratio = median(a / b for a, b in zip(rates["pool_per_s"], theirs, strict=True)) if theirs else None
        row[f"pool_over_{queue}"] = ratio
    return row


def engine_on(place: Place) -> Engine:
    return Engine(place.store(), DECIDERS, name=f"intents{next(_names)}", sections=SECTIONS, policy=POLICY)


async def ours(engine: Engine, workers: int, total: int, bulk: int, worker: Worker) -> float:
    """Make so many due intents, then time how they are claimed and fired."""
    prefix = f"r{next(_names)}"
    made = await engine.submit_many([_definition(f"{prefix}-{n}", f"{prefix}-u{n // PER_USER}") for n in range(total)])
    assert all(isinstance(one, Recorded) for one in made)
    begun_s = time.perf_counter()
    fired = await asyncio.gather(*(worker(engine, f"{prefix}-w{n}", bulk) for n in range(workers)))
    elapsed_s = time.perf_counter() - begun_s
    assert sum(fired) == total, f"{sum(fired)} of {total} were fired"
    return total / elapsed_s


def _definition(intent_id: str, user_id: str) -> Submission:
    body = {
        "user_id": user_id,
        "trigger_type": "price",
        "condition": {"ticker": "NVDA", "operator": "<", "value": 130},
        "action_type": "notify",
        "action_context": "Tell me when NVDA falls under 130.",
    }
    return Submission(stream=StreamId(TENANT, "intent", intent_id), command=DefineIntent(body))


async def builtin_worker(engine: Engine, name: str, places: int) -> int:
    """Claim and report as the built-in worker does: ahead of its places, and reporting while it goes on."""
    among, ahead = statuses(None, True, ("any", "builtin")), max(AT_LEAST, PASSES_AHEAD * places)
    due = DueIntents(engine, TENANT, among, _is_fit, name=name, ahead=ahead)
    claimer = Claimer(engine, due, ClaimIntent(name, among_many=True, builtin=True), log_report)
    stock, reports_max = ClaimStock(engine, claimer, name, log_report), max(REPORTS_MAX * places, REPORTS_AT_LEAST)
    fired, reports = 0, set[asyncio.Task[int]]()
    while held := await stock.take(places):
        claims = [(claim.stream, claim.token) for claim in held]
        reports.add(asyncio.create_task(_fire(engine, claims)))
        if len(reports) * places > reports_max:
            done, reports = await asyncio.wait(reports, return_when=asyncio.FIRST_COMPLETED)
            fired += sum(report.result() for report in done)
    return fired + sum(await asyncio.gather(*reports))


async def _is_fit(stream: StreamId, definition: Definition) -> bool:
    return True


async def outside_worker(engine: Engine, name: str, bulk: int) -> int:
    """Claim in bulk as those do who ask over HTTP, and report what was claimed together."""
    command, fired = ClaimIntent(name, among_many=True), 0
    while taken := await engine.submit_due(("intent",), lambda stream: command, bulk, tenant=TENANT):
        claims = [(entry.stream, entry.reply.claim_token) for entry in taken if isinstance(entry.reply, Claimed)]
        fired += await _fire(engine, claims)
    return fired


async def _fire(engine: Engine, claims: Sequence[tuple[StreamId, int]]) -> int:
    reports = await engine.submit_many([_report(stream, token) for stream, token in claims])
    return sum(isinstance(report, Recorded) for report in reports)


def _report(stream: StreamId, token: int) -> Submission:
    return Submission(stream=stream, command=FireIntent(status="condition_not_met", claim_token=token))


# -- the queues


async def _fresh_schema(place: Place) -> str:
    schema = f"{place.schema}_queue{next(_names)}"
    connection = await asyncpg.connect(place.path)
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    return schema


class Procrastinate:
    """Its own worker in this process, without waiting for more jobs."""

    def __init__(self, dsn: str, schema: str) -> None:
        from procrastinate import App, PsycopgConnector

        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        options = f"-c search_path={schema}"
        self._app = App(connector=PsycopgConnector(conninfo=dsn, kwargs={"options": options}, max_size=8))
        self._done = 0

        @self._app.task(name="nothing")  # type: ignore[untyped-decorator]
        async def nothing(n: int) -> None:
            self._done += 1

        self._task = nothing

    @classmethod
    async def on(cls, place: Place) -> Procrastinate:
        queue = cls(place.path, await _fresh_schema(place))
        async with queue._app.open_async():
            await queue._app.schema_manager.apply_schema_async()
        return queue

    async def drained(self, workers: int, total: int) -> float:
        async with self._app.open_async():
            await self._task.batch_defer_async(*({"n": n} for n in range(total)))
            self._done = 0
            begun_s = time.perf_counter()
            await self._app.run_worker_async(
                concurrency=workers, wait=False, listen_notify=False, install_signal_handlers=False
            )
            elapsed_s = time.perf_counter() - begun_s
        assert self._done == total, f"{self._done} of {total} were done"
        return total / elapsed_s


class PgQueuerQueue:
    """Its own manager in this process, told to drain and end.

    It takes ten jobs at once, as by default, but no more than it has workers; or half as many as it has workers if that
    is more, the most it allows for as many at work.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema

    @classmethod
    async def on(cls, place: Place) -> PgQueuerQueue:
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        queue = cls(place.path, await _fresh_schema(place))
        connection = await queue._connected()
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()
        return queue

    async def _connected(self) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(self._dsn, server_settings={"search_path": self._schema})

    async def drained(self, workers: int, total: int) -> float:
        from pgqueuer import PgQueuer
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.types import QueueExecutionMode

        logging.getLogger("pgqueuer").setLevel(logging.ERROR)
        connection = await self._connected()
        queue = PgQueuer(AsyncpgDriver(connection))
        done = 0

        @queue.entrypoint("nothing")  # type: ignore[untyped-decorator]
        async def nothing(job: Any) -> None:
            nonlocal done
            done += 1

        await queue.qm.queries.enqueue(["nothing"] * total, [None] * total, [0] * total)
        batch = max(min(BULK, workers), workers // 2)
        begun_s = time.perf_counter()
        await queue.qm.run(
            dequeue_timeout=timedelta(seconds=1),
            batch_size=batch,
            mode=QueueExecutionMode.drain,
            max_concurrent_tasks=max(workers, 2 * batch),
        )
        elapsed_s = time.perf_counter() - begun_s
        await connection.close()
        assert done == total, f"{done} of {total} were done"
        return total / elapsed_s


SUITES = {"intents": claim_and_fire}
