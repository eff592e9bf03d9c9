"""One sweep over overdue scores, next to the same rows swept by hand-written set-based SQL, in one database.

Two tenants have a million scores of chapter 1 each, one to six hours overdue in no particular order. Then, three times
and each time an hour later by the store's clock, the service sweeps one of them and the statement written by hand
(`scores_by_hand`) the other, changing places each time, so that both meet scores in the order they were made (first)
and in the order the last sweep left them. Beside it, an update of a table of plain columns. After the first round every
score of the tenant that was swept is held against a calculation with fractions, and at the end a sample of both
tenants' streams is verified: digests, chains and states, also of what was written by hand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec

from benchmarks.domains import scores_by_hand as by_hand
from benchmarks.domains import scores_filled as filled
from benchmarks.places import PLACES, Place
from betimes import VirtualClock
from betimes.core.instants import DAY, HOUR, MINUTE
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.replay import verify_stream
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store, StreamQuery
from betimes.scores.decide import DECIDERS
from betimes.scores.policy import ScoresPolicy
from betimes.scores.service import Scores
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore

Row = dict[str, Any]
SCORES = 1_000_000
ROUNDS = 3
BATCH = 4_096
TENANTS = ("acme", "globex")
FILL_CACHE_KIB = 1024 * 1024
TERMS = {"interval": MINUTE, "grace": 24 * HOUR, "rate": 800_000, "cap": 15_000_000, "cycle": 20_000_000}


class Hand(Protocol):
    """Somebody at the database's own shell."""

    async def fill(self, count: int) -> None: ...
    async def same_rows(self, values: Row) -> int:
        """Sweep a tenant; how many scores were taken."""

    async def plain(self, values: Row) -> None: ...
    async def settle(self) -> None: ...
    async def close(self) -> None: ...


_PLAIN = "(n BIGINT PRIMARY KEY, score BIGINT, interacted_at BIGINT, applied_at BIGINT, due_at BIGINT)"


class SqliteHand:
    def __init__(self, place: Place) -> None:
        self._path = place.path
        self._connection = apsw.Connection(place.path)
        self._connection.pragma("synchronous", "FULL")
        self._connection.pragma("cache_size", -64 * 1024)
        self._connection.pragma("temp_store", "MEMORY")
        self._connection.create_scalar_function("sha256", by_hand.sha256_of, 1, deterministic=True)

    async def fill(self, count: int) -> None:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(_fill_sqlite, self._path, count).result()
        await self.settle()

    async def same_rows(self, values: Row) -> int:
        with self._connection as connection:
            for statement in (by_hand.SQLITE_PICK, by_hand.SQLITE_UPDATE, by_hand.SQLITE_INSERT):
                connection.execute(statement, values)
            taken = connection.changes()
        self._connection.execute("DROP TABLE swept")
        return taken

    async def plain(self, values: Row) -> None:
        with self._connection as connection:
            connection.execute(by_hand.SQLITE_PLAIN, values)

    async def settle(self) -> None:
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    async def close(self) -> None:
        self._connection.close()


def _fill_sqlite(path: str, count: int) -> None:
    """In a process of its own: what filling takes is not in the memory of what is measured."""
    connection = apsw.Connection(path)
    connection.pragma("synchronous", "OFF")
    connection.pragma("cache_size", -FILL_CACHE_KIB)
    connection.create_scalar_function("sha256", by_hand.sha256_of, 1, deterministic=True)
    stream, ledger = _given(connection, "stream"), _given(connection, "ledger")
    for tenant in TENANTS:
        with connection:
            for statement in filled.statements(filled.SQLITE, tenant, count, stream, ledger):
                connection.execute(statement)
    with connection:
        connection.execute(f"CREATE TABLE plain {_PLAIN}")
        connection.execute(
            "INSERT INTO plain SELECT n, state ->> 'score', state ->> 'interacted_at', NULL, due_at FROM stream "
            "WHERE kind = 'score' AND tenant = ?",
            (TENANTS[0],),
        )
        connection.execute("CREATE INDEX plain_due ON plain (due_at)")
        connection.execute("ANALYZE")
    connection.close()


def _given(connection: apsw.Connection, table: str) -> list[str]:
    """The columns that a row is given."""
    rows = list(connection.execute(f"PRAGMA table_xinfo({table})"))
    return [row[1] for row in rows if not row[6] and row[1] not in ("n", "seq")]


class PostgresHand:
    def __init__(self, connection: Any, schema: str) -> None:
        self._connection, self._schema = connection, schema

    async def fill(self, count: int) -> None:
        schema = self._schema
        stream, ledger = await self._columns("stream"), await self._columns("ledger")
        for tenant in TENANTS:
            for statement in filled.statements(filled.POSTGRES, tenant, count, stream, ledger, f"{schema}."):
                await self._connection.execute(statement)
        await self._connection.execute(f"CREATE TABLE {schema}.plain {_PLAIN}")
        await self._connection.execute(
            f"INSERT INTO {schema}.plain SELECT row_number() OVER (), (state::json ->> 'score')::bigint, "
            f"(state::json ->> 'interacted_at')::bigint, NULL, due_at FROM {schema}.stream WHERE kind = 'score' "
            f"AND tenant = '{TENANTS[0]}'"
        )
        await self._connection.execute(f"CREATE INDEX plain_due ON {schema}.plain (due_at)")
        await self.settle()

    async def _columns(self, table: str) -> list[str]:
        rows = await self._connection.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 "
            "AND is_generated = 'NEVER' AND column_name <> 'seq'",
            self._schema,
            table,
        )
        return [row[0] for row in rows]

    async def same_rows(self, values: Row) -> int:
        done = await self._connection.execute(by_hand.written_out(by_hand.POSTGRES_SAME_ROWS, values, self._schema))
        return int(done.rpartition(" ")[2])

    async def plain(self, values: Row) -> None:
        await self._connection.execute(by_hand.written_out(by_hand.POSTGRES_PLAIN, values, self._schema))

    async def settle(self) -> None:
        for table in ("stream", "ledger", "plain"):
            await self._connection.execute(f"VACUUM ANALYZE {self._schema}.{table}")
        await self._connection.execute("CHECKPOINT")

    async def close(self) -> None:
        await self._connection.close()


async def sweep(kind: str, scale: float) -> list[Row]:
    """One sweep over a million overdue scores, over hand-written set-based SQL; ratios of neighbouring rounds."""
    count, clock = int(SCORES * scale), VirtualClock(filled.START + 6 * HOUR)
    async with PLACES[kind]() as place:
        store = _store(place, clock)
        engine = Engine(
            store,
            DECIDERS,
            name="bench-sweep",
            sections={"scores": ScoresPolicy, "hooks": Hooks},
            settings=EngineSettings(batch_max=BATCH, cache_chars_max=1_000_000),
        )
        hand: Hand = (
            SqliteHand(place) if kind == "sqlite" else PostgresHand(await asyncpg.connect(place.path), place.schema)
        )
        async with engine:
            await filled.make_model(engine, clock)
            await hand.fill(count)
            clock.advance_to(filled.FIRST_SWEEP)
            row = await _measured(engine, hand, clock, count)
        await hand.close()
    return [{"store": kind, "scores": count, **row}]


def _store(place: Place, clock: VirtualClock) -> Store:
    if place.kind == "sqlite":
        return SqliteStore(place.path, clock=clock)
    return PostgresStore(place.path, schema=place.schema, clock=clock)


async def _measured(engine: Engine, hand: Hand, clock: VirtualClock, count: int) -> Row:
    peak, policy = Peak(), (await engine.policy_of(TENANTS[0])).fingerprint
    ours: list[float] = []
    same: list[float] = []
    plain: list[float] = []

    async def swept(tenant: str) -> None:
        result = await Scores(engine, Caller(tenant)).sweep(unbounded=True, progress=lambda _: peak.look())
        assert (result.decayed, result.complete) == (count, True), result

    async def swept_by_hand(values: Row) -> None:
        taken = await hand.same_rows(values)
        assert taken == count, taken

    for number in range(ROUNDS):
        mine, theirs = TENANTS[number % 2], TENANTS[(number + 1) % 2]
        values = {**TERMS, "until": clock(), "now": clock(), "policy": policy, "tenant": theirs}
        ours.append(await _timed(swept(mine)))
        await hand.settle()
        peak.ends()
        same.append(await _timed(swept_by_hand(values)))
        plain.append(await _timed(hand.plain(values)))
        await hand.settle()
        if number == 0:
            await _check_every_score(engine.store, count, clock(), mine)
        clock.advance(3600)
    await _verify_some(engine, count)
    return {
        "sweep_per_s": count / median(ours),
        "by_hand_per_s": count / median(same),
        "plain_per_s": count / median(plain),
        "over_by_hand": median(b / a for a, b in zip(ours, same, strict=True)),
        "first_over_by_hand": same[0] / ours[0],
        "over_plain": median(b / a for a, b in zip(ours, plain, strict=True)),
        "rss_before_mb": peak.before_mb,
        "rss_peak_mb": peak.peak_mb,
    }


class Peak:
    """The process's memory during the first sweep; later ones share it with what was done by hand."""

    def __init__(self) -> None:
        self.before_mb = self.peak_mb = _rss_mb()
        self._looks = True

    def look(self) -> None:
        if self._looks:
            self.peak_mb = max(self.peak_mb, _rss_mb())

    def ends(self) -> None:
        self._looks = False


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def _timed(work: Awaitable[None]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _check_every_score(store: Store, count: int, now: int, tenant: str) -> None:
    """Every score against a calculation with fractions."""
    after, seen = None, 0
    while rows := await store.streams(StreamQuery(tenant=tenant, kind="score", after=after, limit=1_000)):
        after = rows[-1].stream
        for row in rows:
            number = int(row.stream.id.removeprefix("user-"))
            overdue = now - filled.interacted_at(number) - 24 * HOUR
            lost = min(Fraction(15), Fraction(8, 10) * Fraction(overdue, HOUR))
            assert overdue < DAY
            assert msgspec.json.decode(row.state or "")["score"] == filled.points_at_first(number) - int(
                lost * 1_000_000
            )
            seen += 1
    assert seen == count, (seen, count)


async def _verify_some(engine: Engine, count: int) -> None:
    for tenant in TENANTS:
        for number in range(0, count, max(1, count // 300)):
            stream = StreamId(tenant, "score", f"user-{number:07}")
            replayed = await verify_stream(engine.store, engine.kinds, stream)
            assert not replayed.findings, replayed.findings
            assert replayed.version == 1 + ROUNDS, replayed.version


SUITES = {"sweep": sweep}
