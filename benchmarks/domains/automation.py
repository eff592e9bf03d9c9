"""Automation: many schedules due at one second, next to APScheduler 3 and DBOS; cron; the export."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec

from benchmarks.places import PLACES, TENANT, Place
from betimes.core.calendar import calendar_of
from betimes.core.deciders import EffectCall
from betimes.core.errors import BetimesError
from betimes.core.instants import DAY, SECOND, Instant, parse
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks
from betimes.domain.targets import HandlerTarget
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Written
from betimes.engine.store import Store
from betimes.ledger.lake.export import export
from betimes.runs.domain import DOMAIN as RUNS
from betimes.runs.policy import RunsPolicy
from betimes.schedules.domain import DOMAIN as SCHEDULES
from betimes.schedules.model import DefineSchedule, ScheduleDefinition
from betimes.sensors.domain import DOMAIN as SENSORS
from betimes.sensors.policy import AutomationPolicy
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore

Row = dict[str, Any]
SECTIONS: dict[str, type[msgspec.Struct]] = {"automation": AutomationPolicy, "runs": RunsPolicy, "hooks": Hooks}
DUE_AT = parse("2026-06-01T12:00:00Z")
DUE = (
    ("0 12 1 6 *", "UTC"),
    ("*/5 * * * *", "UTC"),
    ("0 * * * *", "UTC"),
    ("0,30 12-18 * * *", "UTC"),
    ("0 14 * * *", "Europe/Berlin"),
    ("0 8 * * MON-FRI", "America/New_York"),
    ("30 17 * * *", "Asia/Kolkata"),
    ("0 21 1 * *", "Asia/Tokyo"),
)
"""Expressions that all occur at that instant; schedules have them by turns."""
ROUNDS = 2
PEER_LIMIT_S = 40
"""How long a peer may take over what is due; what it has not called by then counts as late by so much."""
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
    """So many schedules due at one instant, when the tick of each was committed, and when its handler was called."""

    def __init__(self, place: Place, schedules: int) -> None:
        self._clock = HeldClock()
        self._schedules = schedules
        self._ticked: list[Instant] = []
        self._called: list[Instant] = []
        self._all_called = asyncio.Event()
        self.engine = Engine(
            _store(place, self._clock),
            (*SCHEDULES.deciders, *SENSORS.deciders, *RUNS.deciders),
            name=f"bench-ticks{next(_names)}",
            sections=SECTIONS,
            executors={"handler:brief": self._brief},
            observe=self._committed,
        )

    def _committed(self, written: Sequence[Written]) -> None:
        ticks = sum(
            segment.stream.kind == "schedule" and "ScheduleTicked" in segment.events for segment, _, _ in written
        )
        self._ticked += [self._clock()] * ticks

    async def _brief(self, call: EffectCall) -> None:
        self._called.append(self._clock())
        if len(self._called) >= self._schedules:
            self._all_called.set()

    async def run(self) -> Row:
        async with self.engine:
            await self._define()
            self.engine.start_workers()
            self._clock.let_go()
            await self._all_called.wait()
        ticked, called = ([(at - DUE_AT) / 1_000 for at in sorted(found)] for found in (self._ticked, self._called))
        return {
            "ticks_per_s": len(ticked) / (ticked[-1] / 1e3),
            "tick_p50_ms": median(ticked),
            "tick_p99_ms": _p99(ticked),
            "runs_per_s": len(called) / (called[-1] / 1e3),
            "run_p50_ms": median(called),
            "run_p99_ms": _p99(called),
        }

    async def _define(self) -> None:
        target = HandlerTarget("brief")
        commands = [DefineSchedule(ScheduleDefinition(cron=cron, timezone=zone, target=target)) for cron, zone in DUE]
        for first in range(0, self._schedules, 2_000):
            numbers = range(first, min(first + 2_000, self._schedules))
            defined = [
                Submission(stream=StreamId(TENANT, "schedule", f"s{n}"), command=command)
                for n, command in zip(numbers, cycle(commands), strict=False)
            ]
            for answer in await self.engine.submit_many(defined):
                if isinstance(answer, BetimesError):
                    raise answer


async def _peer(module: str, place: Place, schedules: int) -> Row:
    """The same in a process of its own, on a fresh database of the same kind."""
    async with _peer_database(place) as url:
        program = [sys.executable, "-m", f"benchmarks.peers.{module}", url, str(schedules), str(PEER_LIMIT_S)]
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
        is_few = schedules <= DBOS_MAX
        ours, apscheduler, dbos = [], [], []
        for _ in range(ROUNDS if is_few else 1):
            async with PLACES[kind]() as place:
                ours.append(await Ticking(place, schedules).run())
                apscheduler.append(await _peer("apscheduler_jobs", place, schedules))
        if is_few:
            async with PLACES[kind]() as place:
                dbos.append(await _peer("dbos_schedules", place, schedules))
        rows.append(_row(kind, schedules, ours, apscheduler, dbos))
    return rows


def _row(kind: str, schedules: int, ours: list[Row], apscheduler: list[Row], dbos: list[Row]) -> Row:
    ratio = median(one["runs_per_s"] / other["per_s"] for one, other in zip(ours, apscheduler, strict=True))
    row = {"store": kind, "schedules": schedules, **{name: _middle(ours, name) for name in ours[0]}}
    for peer, rounds in (("apscheduler", apscheduler), ("dbos", dbos)):
        row |= {f"{peer}_{name}": _middle(rounds, name) for name in ("called", "per_s", "p50_ms", "p99_ms")}
    return row | {"over_apscheduler": ratio}


def _middle(rounds: list[Row], name: str) -> float | str:
    return median(found[name] for found in rounds) if rounds else "–"


CRONS = ("*/5 * * * *", "30 2 * * *", "0 9 * * MON-FRI", "0 0 1 * *", "*/10 * * * * *")


async def cron(kind: str, scale: float) -> list[Row]:
    """The next occurrence in Europe/Berlin: ours, with its gaps and overlaps, cronsim alone, croniter. No database."""
    number = int(1_000 * scale)
    _ours(number)  # so that the zone's years are read
    rounds = [(_ours(number), _again(number), _cronsim(number), _croniter(number)) for _ in range(3)]
    ours, again, cronsim, croniter = (median(found) for found in zip(*rounds, strict=True))
    return [
        {
            "store": kind,
            "next_per_s": ours,
            "again_per_s": again,
            "cronsim_per_s": cronsim,
            "croniter_per_s": croniter,
            "over_cronsim": median(a / b for a, _, b, _ in rounds),
            "over_croniter": median(a / c for a, _, _, c in rounds),
        }
    ]


def _starts(number: int) -> list[int]:
    """Each in a stretch of its own, whatever the expression, so that none is answered from the one before."""
    return [DUE_AT + n * (32 * DAY + 7_919 * SECOND) % (20 * 365 * DAY) for n in range(number)]


def _ours(number: int) -> float:
    def following(expression: str, at: Instant) -> Any:
        return next(calendar_of(expression, "Europe/Berlin").after(at))

    return _rate(following, number)


def _again(number: int) -> float:
    """As when many schedules with the same expression are due."""
    calendars = {expression: calendar_of(expression, "Europe/Berlin") for expression in CRONS}
    return _rate(lambda expression, _: next(calendars[expression].after(DUE_AT)), number)


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
    return [
        {
            "store": kind,
            "segments": report.segments,
            "rows": rows,
            "segments_per_s": report.segments / elapsed_s,
            "rows_per_s": rows / elapsed_s,
            "nothing_new_ms": idle_s * 1e3,
        }
    ]


def _p99(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


SUITES = {"ticks": ticks, "cron": cron, "lake": lake}
