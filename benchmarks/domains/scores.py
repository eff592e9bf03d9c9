"""One sweep over overdue scores, next to the same rows swept by hand-written set-based SQL, in one database.

A million scores of chapter 1 are made, one to six hours overdue in no particular order. Then, three times in turn and
each time an hour later by the store's clock: the service's sweep; the same by hand (`scores_by_hand`); an update of a
table of plain columns. After the first sweep every score is held against a calculation with fractions, and at the end a
sample of streams is verified: digests, chains and states, also of what was written by hand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec

from benchmarks.domains import scores_by_hand as by_hand
from benchmarks.places import PLACES, TENANT, Place
from betimes.core.canonical import encode
from betimes.core.instants import DAY, HOUR, MINUTE
from betimes.core.segments import GENESIS, Segment, chained_digest
from betimes.core.streams import StreamId
from betimes.domains.hooks import Hooks
from betimes.domains.scores.decide import DECIDERS
from betimes.domains.scores.model import CreateScore, ScoreCreated
from betimes.domains.scores.policy import ScoresPolicy
from betimes.engine.engine import Engine
from betimes.engine.replay import verify_stream
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Ask, Changes, Store, StreamQuery, StreamWrite
from betimes.services.caller import Caller
from betimes.services.scores import Scores
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore
from betimes.testing.clock import VirtualClock

Row = dict[str, Any]
SCORES = 1_000_000
ROUNDS = 3
BATCH = 4_096
FILL = 5_000
START = 1_767_600_000_000_000
STRIDE = 7_919
"""Prime, so that neighbours in the table are not due one after the other."""
TERMS = {"interval": MINUTE, "grace": 24 * HOUR, "rate": 800_000, "cap": 15_000_000, "cycle": 20_000_000}


class Hand(Protocol):
    """Somebody at the database's own shell."""

    async def prepare(self) -> None: ...
    async def same_rows(self, values: Row) -> None: ...
    async def plain(self, values: Row) -> None: ...
    async def settle(self) -> None: ...
    async def close(self) -> None: ...


_PLAIN = "(n BIGINT PRIMARY KEY, score BIGINT, interacted_at BIGINT, applied_at BIGINT, due_at BIGINT)"


class SqliteHand:
    def __init__(self, place: Place) -> None:
        self._connection = apsw.Connection(place.path)
        self._connection.pragma("synchronous", "FULL")
        self._connection.pragma("cache_size", -64 * 1024)
        self._connection.pragma("temp_store", "MEMORY")
        self._connection.create_scalar_function("sha256", by_hand.sha256_of, 1, deterministic=True)

    async def prepare(self) -> None:
        with self._connection as connection:
            connection.execute(f"CREATE TABLE plain {_PLAIN}")
            connection.execute(
                "INSERT INTO plain SELECT n, state ->> 'score', state ->> 'interacted_at', NULL, due_at FROM stream "
                "WHERE kind = 'score'"
            )
            connection.execute("CREATE INDEX plain_due ON plain (due_at)")

    async def same_rows(self, values: Row) -> None:
        with self._connection as connection:
            for statement in (by_hand.SQLITE_PICK, by_hand.SQLITE_UPDATE, by_hand.SQLITE_INSERT):
                connection.execute(statement, values)
        self._connection.execute("DROP TABLE swept")

    async def plain(self, values: Row) -> None:
        with self._connection as connection:
            connection.execute(by_hand.SQLITE_PLAIN, values)

    async def settle(self) -> None:
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    async def close(self) -> None:
        self._connection.close()


class PostgresHand:
    def __init__(self, connection: Any, schema: str) -> None:
        self._connection, self._schema = connection, schema

    async def prepare(self) -> None:
        schema = self._schema
        await self._connection.execute(f"CREATE TABLE {schema}.plain {_PLAIN}")
        await self._connection.execute(
            f"INSERT INTO {schema}.plain SELECT row_number() OVER (), (state::json ->> 'score')::bigint, "
            f"(state::json ->> 'interacted_at')::bigint, NULL, due_at FROM {schema}.stream WHERE kind = 'score'"
        )
        await self._connection.execute(f"CREATE INDEX plain_due ON {schema}.plain (due_at)")
        await self.settle()

    async def same_rows(self, values: Row) -> None:
        await self._connection.execute(by_hand.written_out(by_hand.POSTGRES_SAME_ROWS, values, self._schema))

    async def plain(self, values: Row) -> None:
        await self._connection.execute(by_hand.written_out(by_hand.POSTGRES_PLAIN, values, self._schema))

    async def settle(self) -> None:
        for table in ("stream", "plain"):
            await self._connection.execute(f"VACUUM ANALYZE {self._schema}.{table}")
        await self._connection.execute("CHECKPOINT")

    async def close(self) -> None:
        await self._connection.close()


async def sweep(kind: str, scale: float) -> list[Row]:
    """One sweep over a million overdue scores, over hand-written set-based SQL; ratios of neighbouring rounds."""
    count, clock = int(SCORES * scale), VirtualClock(START + 31 * HOUR)
    async with PLACES[kind]() as place:
        store = _store(place, clock)
        engine = Engine(
            store, DECIDERS, name="bench-sweep", sections={"scores": ScoresPolicy, "hooks": Hooks},
            settings=EngineSettings(batch_max=BATCH, cache_chars_max=1_000_000),
        )  # fmt: skip
        hand: Hand = SqliteHand(place) if kind == "sqlite" else PostgresHand(
            await asyncpg.connect(place.path), place.schema
        )  # fmt: skip
        async with engine:
            policy = await engine.policy_of(TENANT)
            await _fill(store, count, policy.fingerprint)
            await hand.prepare()
            row = await _measured(engine, hand, clock, count, policy.fingerprint)
        await hand.close()
    return [{"store": kind, "scores": count, **row}]


def _store(place: Place, clock: VirtualClock) -> Store:
    if place.kind == "sqlite":
        return SqliteStore(place.path, clock=clock)
    return PostgresStore(place.path, schema=place.schema, clock=clock)


async def _measured(engine: Engine, hand: Hand, clock: VirtualClock, count: int, policy: str) -> Row:
    scores, peak = Scores(engine, Caller(TENANT)), Peak()
    ours: list[float] = []
    same: list[float] = []
    plain: list[float] = []

    async def swept() -> None:
        result = await scores.sweep(unbounded=True, progress=lambda _: peak.look())
        assert (result.decayed, result.complete) == (count, True), result

    for number in range(ROUNDS):
        ours.append(await _timed(swept))
        if number == 0:
            peak.ends()
            await _check_every_score(engine.store, count, clock())
        await hand.settle()
        clock.advance(3600)
        values = {**TERMS, "until": clock(), "now": clock(), "policy": policy}
        same.append(await _timed(lambda: hand.same_rows(values)))  # noqa: B023 — it is awaited at once
        plain.append(await _timed(lambda: hand.plain(values)))  # noqa: B023
        await hand.settle()
        clock.advance(3600)
    await _verify_some(engine, count)
    return {
        "sweep_per_s": count / median(ours),
        "by_hand_per_s": count / median(same),
        "plain_per_s": count / median(plain),
        "over_by_hand": median(b / a for a, b in zip(ours, same, strict=True)),
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


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


# -- a million scores, and whether they are right


def _interacted_at(number: int) -> int:
    """So that the score is one to six hours overdue at the first sweep, to the second."""
    return START + (number * STRIDE % 18_000) * 1_000_000


def _points_at_first(number: int) -> int:
    return 60_000_000 + number % 1_000


async def _fill(store: Store, count: int, policy: str) -> None:
    """Rows and ledger as creating the scores one by one would have left them."""
    asked = encode(CreateScore())
    for start in range(0, count, FILL):
        changes = Changes()
        for number in range(start, min(start + FILL, count)):
            _add(changes, number, asked, policy)
        async with store.begin(Ask()) as tx:
            await tx.commit(changes)


def _add(changes: Changes, number: int, asked: str, policy: str) -> None:
    stream, at = StreamId(TENANT, "score", f"user-{number:07}"), _interacted_at(number)
    due_at = at + 24 * HOUR + 4_500
    created = ScoreCreated(_points_at_first(number), 1, "active", START, at, None, due_at)
    events, turn = encode((created,)), f"fill-{number}"
    digest = chained_digest(
        GENESIS, stream, 1, turn, START + 6 * HOUR, 1, asked, events, policy, None, None, None, "", "", ""
    )
    state = encode(DECIDERS[0].fold(None, created))
    changes.streams.append(
        StreamWrite(stream, 0, 1, 1, state, START + 6 * HOUR, None, digest, "active", "", due_at)
    )  # fmt: skip
    changes.segments.append(
        Segment(stream, 1, turn, START + 6 * HOUR, 1, asked, events, policy, GENESIS, digest)
    )  # fmt: skip


async def _check_every_score(store: Store, count: int, now: int) -> None:
    """Every score against a calculation with fractions."""
    after, seen = None, 0
    while rows := await store.streams(StreamQuery(tenant=TENANT, kind="score", after=after, limit=1_000)):
        after = rows[-1].stream
        for row in rows:
            number = int(row.stream.id.removeprefix("user-"))
            overdue = now - _interacted_at(number) - 24 * HOUR
            lost = min(Fraction(15), Fraction(8, 10) * Fraction(overdue, HOUR))
            assert overdue < DAY
            assert msgspec.json.decode(row.state or "")["score"] == _points_at_first(number) - int(lost * 1_000_000)
            seen += 1
    assert seen == count, (seen, count)


async def _verify_some(engine: Engine, count: int) -> None:
    for number in range(0, count, max(1, count // 500)):
        stream = StreamId(TENANT, "score", f"user-{number:07}")
        replayed = await verify_stream(engine.store, engine.kinds, stream)
        assert not replayed.findings, replayed.findings
        assert replayed.version == 1 + 2 * ROUNDS, replayed.version


SUITES = {"sweep": sweep}
