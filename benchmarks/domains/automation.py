"""Automation: many schedules due at one second, next to APScheduler 3 and DBOS; cron; the export."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec

from benchmarks.places import PLACES, TENANT, Place
from betimes.core.deciders import EffectCall
from betimes.core.instants import SECOND, Instant, parse
from betimes.core.streams import StreamId
from betimes.domains.automation import decide as automation
from betimes.domains.automation.calendar import calendar_of
from betimes.domains.automation.model import DefineSchedule, ScheduleDefinition
from betimes.domains.automation.policy import AutomationPolicy
from betimes.domains.hooks import Hooks
from betimes.domains.runs import decide as runs
from betimes.domains.runs.policy import RunsPolicy
from betimes.domains.targets import HandlerTarget
from betimes.effects.lake.export import export
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import PAGE_MAX, LedgerQuery, Store
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore

Row = dict[str, Any]
SECTIONS: dict[str, type[msgspec.Struct]] = {"automation": AutomationPolicy, "runs": RunsPolicy, "hooks": Hooks}
DUE_AT = parse("2026-06-01T12:00:00Z")
ROUNDS = 3
DBOS_MAX = 1_000
"""DBOS has a thread for each schedule."""
_names = count(1)


class HeldClock:
    """Stands just before the schedules are due until it is let go, and then runs like any other."""

    def __init__(self) -> None:
        self._let_go_s: float | None = None

    def __call__(self) -> Instant:
        if self._let_go_s is None:
            return DUE_AT - 1
        return DUE_AT + round((time.monotonic() - self._let_go_s) * SECOND)

    def let_go(self) -> None:
        self._let_go_s = time.monotonic()


def _store(place: Place, clock: Callable[[], Instant]) -> Store:
    if place.kind == "sqlite":
        return SqliteStore(place.path, clock=clock)
    return PostgresStore(place.path, schema=place.schema, clock=clock)


class Ticking:
    """So many schedules due at one instant, and when the handler of each was called."""

    def __init__(self, place: Place, schedules: int) -> None:
        self._place = place
        self._clock = HeldClock()
        self._schedules = schedules
        self._called: list[Instant] = []
        self._all_called = asyncio.Event()
        self.engine = Engine(
            _store(place, self._clock), (*automation.DECIDERS, *runs.DECIDERS), name=f"bench-ticks{next(_names)}",
            sections=SECTIONS, executors={"handler:brief": self._brief},
        )  # fmt: skip

    async def _brief(self, call: EffectCall) -> None:
        self._called.append(self._clock())
        if len(self._called) >= self._schedules:
            self._all_called.set()

    async def run(self) -> Row:
        async with self.engine:
            await self._define()
            self.engine.start_workers()
            watching = asyncio.create_task(self._ticked())
            self._clock.let_go()
            await self._all_called.wait()
            ticked = sorted((at - DUE_AT) / 1_000 for at in await watching)
        late = sorted((at - DUE_AT) / 1_000 for at in self._called)
        return {
            "ticks_per_s": len(ticked) / (ticked[-1] / 1e3), "tick_p50_ms": median(ticked),
            "tick_p99_ms": _p99(ticked), "runs_per_s": len(late) / (late[-1] / 1e3), "run_p50_ms": median(late),
            "run_p99_ms": _p99(late),
        }  # fmt: skip

    async def _define(self) -> None:
        command = DefineSchedule(ScheduleDefinition(cron="0 12 1 6 *", target=HandlerTarget("brief")))
        for first in range(0, self._schedules, 2_000):
            streams = [
                StreamId(TENANT, "schedule", f"s{first + n}") for n in range(min(2_000, self._schedules - first))
            ]
            await asyncio.gather(*(self.engine.submit(Submission(stream=s, command=command)) for s in streams))

    async def _ticked(self) -> list[Instant]:
        """When each tick was first seen on the ledger, by a reader of its own."""
        found: list[Instant] = []
        store = self._place.store()
        await store.open()
        after = 0
        while len(found) < self._schedules:
            page = await store.ledger(LedgerQuery(kind="schedule", after=after, limit=PAGE_MAX))
            found += [self._clock()] * sum("ScheduleTicked" in segment.events for segment in page)
            after = page[-1].seq if page else after
            await asyncio.sleep(0 if page else 0.005)
        await store.close()
        return found


async def _peer(module: str, place: Place, schedules: int) -> Row:
    """The same in a process of its own, on a fresh database of the same kind."""
    async with _peer_database(place) as url:
        program = [sys.executable, "-m", f"benchmarks.peers.{module}", url, str(schedules)]
        process = await asyncio.create_subprocess_exec(*program, stdout=PIPE, stderr=PIPE)
        said, wrong = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{module} failed: {wrong.decode()[-500:]}")
    found: Row = json.loads(said.splitlines()[-1])
    return found


@asynccontextmanager
async def _peer_database(place: Place) -> AsyncIterator[str]:
    if place.kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="betimes-bench-peer-") as folder:
            yield f"sqlite:///{folder}/peer.db"
        return
    name = f"peer_{os.getpid()}_{next(_names)}"
    connection = await asyncpg.connect(place.path)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(place.path)._replace(path=f"/{name}").geturl()
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


async def ticks(kind: str, scale: float) -> list[Row]:
    """Schedules due at one second: when each tick was durable and its handler called; jobs of APScheduler and DBOS."""
    rows = []
    for schedules in (int(1_000 * scale), int(10_000 * scale)):
        ours, theirs, elsewhere = [], [], []
        for number in range(ROUNDS if schedules <= DBOS_MAX else 1):
            async with PLACES[kind]() as place:
                ours.append(await Ticking(place, schedules).run())
                theirs.append(await _peer("apscheduler_jobs", place, schedules))
                if schedules <= DBOS_MAX and number == 0:
                    elsewhere.append(await _peer("dbos_schedules", place, schedules))
        rows.append(_row(kind, schedules, ours, theirs, elsewhere))
    return rows


def _row(kind: str, schedules: int, ours: list[Row], theirs: list[Row], elsewhere: list[Row]) -> Row:
    def middle(rows: list[Row], name: str) -> float | str:
        return median(row[name] for row in rows) if rows else "–"

    ratio = median(one["runs_per_s"] / other["per_s"] for one, other in zip(ours, theirs, strict=True))
    return {
        "store": kind, "schedules": schedules, **{name: middle(ours, name) for name in ours[0]},
        "apscheduler_per_s": middle(theirs, "per_s"), "apscheduler_p99_ms": middle(theirs, "p99_ms"),
        "over_apscheduler": ratio, "dbos_per_s": middle(elsewhere, "per_s"), "dbos_p50_ms": middle(elsewhere, "p50_ms"),
        "dbos_p99_ms": middle(elsewhere, "p99_ms"),
    }  # fmt: skip


CRONS = ("*/5 * * * *", "30 2 * * *", "0 9 * * MON-FRI", "0 0 1 * *", "*/10 * * * * *")


async def cron(kind: str, scale: float) -> list[Row]:
    """The next occurrence in Europe/Berlin: ours, with its gaps and overlaps, cronsim alone, croniter. No database."""
    number = int(2_000 * scale)
    rounds = [(_ours(number), _cronsim(number), _croniter(number)) for _ in range(ROUNDS)]
    ours, cronsim, croniter = (median(found) for found in zip(*rounds, strict=True))
    return [{
        "store": kind, "next_per_s": ours, "cronsim_per_s": cronsim, "croniter_per_s": croniter,
        "over_cronsim": median(a / b for a, b, _ in rounds), "over_croniter": median(a / c for a, _, c in rounds),
    }]  # fmt: skip


def _starts(number: int) -> list[int]:
    return [DUE_AT + n * 7_919 * SECOND for n in range(number)]


def _ours(number: int) -> float:
    def following(expression: str, at: Instant) -> Any:
        return next(calendar_of(expression, "Europe/Berlin").after(at))

    return _rate(following, number)


def _cronsim(number: int) -> float:
    from zoneinfo import ZoneInfo

    from cronsim import CronSim

    berlin = ZoneInfo("Europe/Berlin")
    return _rate(lambda expression, at: next(CronSim(expression, datetime.fromtimestamp(at // SECOND, berlin))), number)


def _croniter(number: int) -> float:
    from zoneinfo import ZoneInfo

    croniter = import_module("croniter").croniter  # comes with a peer and has no types
    berlin = ZoneInfo("Europe/Berlin")

    def following(expression: str, at: Instant) -> Any:
        start = datetime.fromtimestamp(at // SECOND, berlin)
        return croniter(expression, start, second_at_beginning=True).get_next(datetime)

    return _rate(following, number)


def _rate(following: Callable[[str, Instant], Any], number: int) -> float:
    started = time.perf_counter()
    for expression in CRONS:
        for at in _starts(number):
            following(expression, at)
    return number * len(CRONS) / (time.perf_counter() - started)


async def lake(kind: str, scale: float) -> list[Row]:
    """The ledger of so many ticks into Parquet, all at once, and then nothing new."""
    async with PLACES[kind]() as place:
        ticking = Ticking(place, int(10_000 * scale))
        await ticking.run()
        store = place.store()
        await store.open()
        with tempfile.TemporaryDirectory(prefix="betimes-bench-lake-") as folder:
            started = time.perf_counter()
            report = await export(store, ticking.engine.kinds, str(Path(folder) / "lake"))
            elapsed_s = time.perf_counter() - started
            started = time.perf_counter()
            await export(store, ticking.engine.kinds, str(Path(folder) / "lake"))
            idle_s = time.perf_counter() - started
        await store.close()
    rows = sum(report.rows.values())
    return [{"store": kind, "segments": report.segments, "rows": rows, "segments_per_s": report.segments / elapsed_s,
             "rows_per_s": rows / elapsed_s, "nothing_new_ms": idle_s * 1e3}]  # fmt: skip


def _p99(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


SUITES = {"ticks": ticks, "cron": cron, "lake": lake}
