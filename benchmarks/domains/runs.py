"""Runs: full verdicts a second, next to what people write by hand and next to a debounce elsewhere."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, islice
from typing import Any

import apsw
import asyncpg

from benchmarks.measuring import STRIDE, Measured, measured, middle, paired_ratio, submitting
from benchmarks.places import PLACES, TENANT, Place
from betimes.core.errors import BetimesError
from betimes.domain.hooks import Hooks
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.runs.decide import DECIDERS
from betimes.runs.policy import RunsPolicy
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest

ACCOUNTS = 10_000
SUBMITTERS = 64
BATCHERS, BATCH = 2, 256
"""Callers of ours, each with batch after batch, and the triggers of a batch."""
ROUNDS = 3
LIMITS = {
    "debounce_seconds": 60,
    "cooldown_seconds": 300,
    "max_per_account_per_hour": 12,
    "max_per_tenant_per_hour": 100_000,
}
POLICY = {"runs": {"registry": {"SIGNAL_ARRIVED": LIMITS}, "tenant_daily_run_budget": 1_000_000_000}}
_names = count(1)

Submit = Callable[[str, str], Awaitable[None]]
SubmitMany = Callable[[Sequence[tuple[str, str]]], Awaitable[None]]


def triggers(prefix: str) -> Iterator[tuple[str, str]]:
    """Endless (account, key) pairs, each key new."""
    return ((f"a{n * STRIDE % ACCOUNTS}", f"{prefix}-{n}") for n in count())


@asynccontextmanager
async def by_betimes(place: Place) -> AsyncIterator[SubmitMany]:
    sections = {"runs": RunsPolicy, "hooks": Hooks}
    name = f"bench-runs{next(_names)}"
    async with Engine(place.store(), DECIDERS, name=name, sections=sections, policy=POLICY) as engine:  # type: ignore[arg-type]
        runs = Runs(engine, Caller(TENANT))

        async def submit_many(asked: Sequence[tuple[str, str]]) -> None:
            requests = [
                TriggerRequest(account_id=account, trigger_type="SIGNAL_ARRIVED", idempotency_key=key)
                for account, key in asked
            ]
            for answer in await runs.trigger_many(requests):
                if isinstance(answer, BetimesError):
                    raise answer

        yield submit_many


async def in_batches(submit_many: SubmitMany, source: Iterator[tuple[str, str]], total: int) -> Measured:
    """So many triggers by a few callers; the latency is that of a batch."""
    waits: list[float] = []

    async def batcher() -> None:
        for _ in range(max(1, total // (BATCHERS * BATCH))):
            asked = list(islice(source, BATCH))
            started = time.perf_counter()
            await submit_many(asked)
            waits.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(batcher() for _ in range(BATCHERS)))
    return measured(len(waits) * BATCH, time.perf_counter() - started, waits)


class ByHand:
    """Moving windows of `limits` in memory, which a restart forgets, and one durable row with the verdict."""

    def __init__(self, insert: Callable[[str, str, str], Awaitable[None]]) -> None:
        from limits import RateLimitItemPerDay, RateLimitItemPerHour, RateLimitItemPerSecond
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import MovingWindowRateLimiter

        self._insert = insert
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._rules = (
            ("DEBOUNCED", RateLimitItemPerSecond(1, LIMITS["debounce_seconds"]), "type"),
            ("BUDGET_EXHAUSTED", RateLimitItemPerDay(1_000_000_000), "tenant"),
            ("COOLDOWN", RateLimitItemPerSecond(1, LIMITS["cooldown_seconds"]), "account"),
            ("ACCOUNT_HOURLY_CAP", RateLimitItemPerHour(LIMITS["max_per_account_per_hour"]), "type"),
            ("TENANT_HOURLY_CAP", RateLimitItemPerHour(LIMITS["max_per_tenant_per_hour"]), "tenant-type"),
        )

    async def submit(self, account: str, key: str) -> None:
        await self._insert(key, account, await self._verdict(account))

    async def _verdict(self, account: str) -> str:
        names = {"type": f"{account}/SIGNAL_ARRIVED", "account": account, "tenant": TENANT, "tenant-type": "SIGNAL"}
        for reason, rule, scope in self._rules:
            if not await self._limiter.test(rule, names[scope]):
                return reason
        for _, rule, scope in self._rules:
            await self._limiter.hit(rule, names[scope])
        return "ALLOW"


TABLE = "CREATE TABLE verdict_by_hand (key TEXT PRIMARY KEY, account TEXT NOT NULL, verdict TEXT NOT NULL)"
ROW = "INSERT INTO verdict_by_hand VALUES ({}) ON CONFLICT DO NOTHING"


@asynccontextmanager
async def by_hand(place: Place) -> AsyncIterator[Submit]:
    if place.kind == "sqlite":
        connection = apsw.Connection(place.path)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(TABLE)

        async def insert(*row: str) -> None:
            connection.execute(ROW.format("?, ?, ?"), row)

        yield ByHand(insert).submit
        connection.close()
        return
    settings = {"search_path": place.schema}
    async with asyncpg.create_pool(place.path, min_size=8, max_size=8, server_settings=settings) as pool:
        await pool.execute(TABLE)

        async def store(*row: str) -> None:
            await pool.execute(ROW.format("$1, $2, $3"), *row)

        yield ByHand(store).submit


async def by_dbos(place: Place, total: int) -> float:
    """Debounces a second in DBOS, in a process of its own, on a database of the same kind."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-dbos-") as folder:
        url = f"sqlite:///{folder}/dbos.db" if place.kind == "sqlite" else place.path
        threads = 1 if place.kind == "sqlite" else 16
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.peers.dbos_debounce",
            url,
            str(total),
            str(threads),
            stdout=PIPE,
            stderr=DEVNULL,
        )
        said, _ = await process.communicate()
    return float(json.loads(said.splitlines()[-1])["per_s"])


async def verdicts(kind: str, scale: float) -> list[dict[str, Any]]:
    """Full verdicts with a durable reason: betimes, `limits` plus one insert, and a debounce in DBOS."""
    total = max(1, int(9_600 * scale) // SUBMITTERS) * SUBMITTERS
    async with PLACES[kind]() as place, by_betimes(place) as submit_many, by_hand(place) as submit:
        ours, theirs, elsewhere = [], [], []
        sources = triggers("ours"), triggers("theirs")
        await in_batches(submit_many, sources[0], BATCH * 4)
        await submitting(submit, sources[1], SUBMITTERS, SUBMITTERS * 10)
        for _ in range(ROUNDS):
            ours.append(await in_batches(submit_many, sources[0], total))
            theirs.append(await submitting(submit, sources[1], SUBMITTERS, max(SUBMITTERS, total // 4)))
            elsewhere.append(await by_dbos(place, int(800 * scale)))
    return [_row(kind, ours, theirs, elsewhere)]


def _row(kind: str, ours: list[Measured], theirs: list[Measured], elsewhere: list[float]) -> dict[str, Any]:
    return {
        "store": kind,
        "verdicts_per_s": middle(ours).per_s,
        "p50_ms": middle(ours).p50_ms,
        "p99_ms": middle(ours).p99_ms,
        "limits_and_insert_per_s": middle(theirs).per_s,
        "over_limits": paired_ratio(ours, theirs, lambda run: run.per_s),
        "dbos_debounces_per_s": sorted(elsewhere)[len(elsewhere) // 2],
        "over_dbos": sorted(run.per_s / per_s for run, per_s in zip(ours, elsewhere, strict=True))[len(ours) // 2],
    }


SUITES = {"verdicts": verdicts}
