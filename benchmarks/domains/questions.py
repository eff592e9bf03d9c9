"""Questions at a million streams and ten million segments, as a ratio to the same at a hundredth of it; live readers.

The database is filled by SQL: real rows of every kind are made once and copied, a tally of two days is written. What is
measured is the service behind each route, on an open application without workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from statistics import quantiles
from typing import Any

import apsw
import asyncpg

from benchmarks.places import PLACES, Place, server
from betimes.app import Betimes
from betimes.catalogue import AREAS
from betimes.core.instants import SECOND
from betimes.domain.service import Caller
from betimes.http.process import Streams
from betimes.ledger.live_routes import stream_frames
from betimes.ledger.pulse import PulseFeed, PulseTail
from betimes.ledger.service import Ledger
from betimes.ledger.verdict_feed import FeedFilters

Row = dict[str, Any]
STREAMS, SEGMENTS = 1_000_000, 10_000_000
SMALL = 0.01
REPEATS = 40
COMBINATIONS = 40
READERS = 20
ROUNDS = 5
QUIET = {"quiet_hours": [{"start": "00:00", "end": "23:59"}], "timezone": "UTC"}
NOTE = {"event_type": "MESSAGE", "title": "Hi", "message": "You have mail.", "source": "m", "channels": ["in_app"]}


async def questions(kind: str, scale: float) -> list[Row]:
    """Every list, count and search: p99 and CPU, and their ratio to the same at a hundredth."""
    small = await _measure(kind, scale * SMALL)
    large = await _measure(kind, scale)
    return [
        {
            "store": kind,
            "question": name,
            "streams": int(STREAMS * scale),
            "segments": int(SEGMENTS * scale),
            "p99_ms": wall,
            "cpu_ms": cpu,
            "cpu_ratio": cpu / max(small[name][1], 0.01),
        }
        for name, (wall, cpu) in large.items()
    ]


async def _measure(kind: str, scale: float) -> dict[str, tuple[float, float]]:
    async with PLACES[kind](0) as place:
        bt = Betimes("memory://", workers=False)
        bt._store = place.store()
        async with bt:
            await _make_originals(bt)
        await _fill(place, int(STREAMS * scale), int(SEGMENTS * scale))
        bt._store = place.store()
        async with bt:
            ledger = Ledger(bt.engine, Caller("default", "bench"), frozenset(AREAS))
            return {name: await _time(ask) for name, ask in _asked(ledger, bt).items()}


def _asked(ledger: Ledger, bt: Betimes) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "stats 24h": lambda: ledger.stats(by="outcome,reason"),
        "stats 1h": lambda: ledger.stats(by="domain,outcome", step="1h"),
        "verdicts": lambda: ledger.verdicts({}),
        "verdicts by reason": lambda: ledger.verdicts({"reason": "QUIET_HOURS"}),
        "verdicts by rare reason": lambda: ledger.verdicts({"reason": "RARE"}),
        "verdicts of one": lambda: ledger.verdicts({"id": "u-1"}),
        "upcoming 24h": lambda: ledger.upcoming(),
        "upcoming items": lambda: ledger.upcoming_items(),
        "timeline": lambda: ledger.timeline(user_id="u-1"),
        "search": lambda: ledger.search("u-1"),
        "streams": lambda: ledger.streams(kind="inbox"),
        "streams by prefix": lambda: ledger.streams(kind="inbox", prefix="u-1~5"),
        "streams by status": lambda: ledger.streams(kind="inbox", status="waiting"),
        "backlog": lambda: ledger.backlog(),
        "ticks": lambda: bt.schedules.all_ticks(),
        "ledger since": lambda: ledger.segments({"since": "2026-01-01T00:00:00Z"}, order="desc"),
    }


async def _time(ask: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the 99th percentile of the wall's time and the mean of the processor's, in milliseconds."""
    await ask()
    walls, begun = [], time.process_time()
    for _ in range(REPEATS):
        started = time.perf_counter()
        await ask()
        walls.append(time.perf_counter() - started)
    cpu = (time.process_time() - begun) / REPEATS
    return quantiles(walls, n=100)[98] * 1e3, cpu * 1e3


async def _make_originals(bt: Betimes) -> None:
    await bt.notifications.set_preferences("u-1", QUIET)
    for number in range(3):
        await bt.notifications.send({"user_id": "u-1", "event_id": f"e-{number}", **NOTE})
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k-{number}"})
    await bt.scores.create({"user_id": "u-1"})
    target = {"kind": "handler", "name": "note"}
    await bt.schedules.create({"schedule_id": "s", "cron": "*/5 * * * *", "target": target})
    await bt.schedules.trigger("s")


async def _fill(place: Place, streams: int, segments: int) -> None:
    """Copy what there is so often that there are so many, with alarms over the next day; write a tally."""
    now = int(time.time()) * SECOND
    if place.kind == "sqlite":
        _fill_sqlite(place.path, streams, segments, now)
        return
    connection = await asyncpg.connect(server())
    try:
        await connection.execute(_POSTGRES.format(s=place.schema, streams=streams, segments=segments, now=now))
        await connection.execute(_TALLY_POSTGRES.format(s=place.schema, now=now, combinations=COMBINATIONS))
        await connection.execute(f"ANALYZE {place.schema}.stream; ANALYZE {place.schema}.ledger")
    finally:
        await connection.close()


def _fill_sqlite(path: str, streams: int, segments: int, now: int) -> None:
    shell = apsw.Connection(path)
    shell.pragma("synchronous", "OFF")
    bound = {"streams": streams, "segments": segments, "now": now, "combinations": COMBINATIONS}
    with shell:
        for statement in _SQLITE:
            shell.execute(statement, {name: value for name, value in bound.items() if f":{name}" in statement})
    shell.close()


_COLUMNS = "tenant, kind, version, turn, schema, command, events, policy, prev, digest, verdict, reply, actor, cause"
_SQLITE = (
    """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :streams / 2)
    INSERT INTO stream (tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, digest, state)
    SELECT tenant, kind, id || '~' || i, version, schema, owner, status, created_at - i, at,
        iif(kind = 'inbox', :now + 1000000 * (i % 86400), NULL), digest, state
    FROM n CROSS JOIN stream WHERE kind IN ('inbox', 'score') AND instr(id, '~') = 0
    """,
    f"""
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :segments / 8)
    INSERT INTO ledger ({_COLUMNS}, id, at, correlation)
    SELECT {_COLUMNS}, id || '~' || i, :now - 172800000000 + i * (172800000000 / (:segments / 8)), ''
    FROM n CROSS JOIN (SELECT * FROM ledger WHERE kind <> 'tenant' AND instr(id, '~') = 0 ORDER BY seq LIMIT 8)
    """,
    """
    WITH RECURSIVE m (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM m WHERE i < 2879),
    c (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM c WHERE j < :combinations - 1)
    INSERT INTO tally (level, tenant, at, kind, outcome, reasons, count, first_seq, last_seq)
    SELECT 60000000, 'default', (:now / 60000000 - i) * 60000000, 'inbox', 'LATER',
        CASE WHEN j = 0 THEN 'QUIET_HOURS' WHEN j = 1 AND i % 1000 = 999 THEN 'RARE' ELSE 'R' || j END, 9,
        max(1, s.last * (2880 - i) / 2880 - s.last / 2880), s.last * (2880 - i) / 2880
    FROM m CROSS JOIN c CROSS JOIN (SELECT max(seq) AS last FROM ledger) AS s
    """,
    """
    INSERT INTO tally SELECT 3600000000, tenant, at / 3600000000 * 3600000000, kind, outcome, reasons, sum(count),
        min(first_seq), max(last_seq)
    FROM tally WHERE level = 60000000 GROUP BY 3, 4, 5, 6
    """,
    "UPDATE tally_position SET seq = (SELECT max(seq) FROM ledger), at = :now",
    "ANALYZE",
)
_POSTGRES = (
    """
    INSERT INTO {s}.stream (tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, digest, state)
    SELECT tenant, kind, id || '~' || i, version, schema, owner, status, created_at - i, at,
        CASE WHEN kind = 'inbox' THEN {now} + 1000000 * (i % 86400) END, digest, state
    FROM generate_series(1, {streams} / 2) i CROSS JOIN {s}.stream
    WHERE kind IN ('inbox', 'score') AND strpos(id, '~') = 0;
    """
    f"""
    INSERT INTO {{s}}.ledger ({_COLUMNS}, id, at, correlation)
    SELECT {_COLUMNS}, id || '~' || i, {{now}} - 172800000000 + i * (172800000000 / ({{segments}} / 8)), ''
    FROM generate_series(1, {{segments}} / 8) i CROSS JOIN
        (SELECT * FROM {{s}}.ledger WHERE kind <> 'tenant' AND strpos(id, '~') = 0 ORDER BY seq LIMIT 8) l
    ORDER BY i;
    """
)
_TALLY_POSTGRES = """
    INSERT INTO {s}.tally (level, tenant, at, kind, outcome, reasons, count, first_seq, last_seq)
    SELECT 60000000, 'default', ({now} / 60000000 - i) * 60000000, 'inbox', 'LATER',
        CASE WHEN j = 0 THEN 'QUIET_HOURS' WHEN j = 1 AND i % 1000 = 999 THEN 'RARE' ELSE 'R' || j END, 9,
        greatest(1, l.last * (2880 - i) / 2880 - l.last / 2880), l.last * (2880 - i) / 2880
    FROM generate_series(0, 2879) i CROSS JOIN generate_series(0, {combinations} - 1) j
        CROSS JOIN (SELECT max(seq) AS last FROM {s}.ledger) l;
    INSERT INTO {s}.tally SELECT 3600000000, tenant, at / 3600000000 * 3600000000, kind, outcome, reasons, sum(count),
        min(first_seq), max(last_seq)
    FROM {s}.tally WHERE level = 60000000 GROUP BY 2, 3, 4, 5, 6;
    UPDATE {s}.tally_position SET seq = (SELECT max(seq) FROM {s}.ledger), at = {now};
    ANALYZE {s}.tally;
"""


# -- live


async def live(kind: str, scale: float) -> list[Row]:
    """Decisions with twenty open pulses against without, in alternating rounds, by the processor's time of each."""
    total, numbers = int(2_000 * scale), count(1)
    async with PLACES[kind](0) as place:
        bt = Betimes("memory://", workers=False)
        bt._store = place.store()
        async with bt:
            bt.start_workers()
            await _decide(bt, numbers, 200)
            alone, watched, ended, frames = [], [], 0, 0
            for _ in range(ROUNDS):
                alone.append(await _decide(bt, numbers, total))
                streams = Streams()
                tail = PulseTail(bt.engine)
                readers = [asyncio.create_task(_watch(bt, tail, streams)) for _ in range(READERS)]
                await asyncio.sleep(0.1)
                watched.append(await _decide(bt, numbers, total))
                ended += sum(reader.done() for reader in readers)
                streams.close()
                frames += sum([await reader for reader in readers])
    ratios = sorted(a / b for a, b in zip(alone, watched, strict=True))
    return [
        {
            "store": kind,
            "readers": READERS,
            "alone_per_cpu_s": total / min(alone),
            "watched_per_cpu_s": total / min(watched),
            "watched_over_alone": ratios[len(ratios) // 2],
            "readers_ended": ended,
            "frames": frames,
        }
    ]


async def _watch(bt: Betimes, tail: PulseTail, streams: Streams) -> int:
    feed = PulseFeed(tail, "default", frozenset(AREAS), FeedFilters(), 20)
    await feed.start(None)
    frames = 0

    async def always() -> bool:
        return True

    with suppress(asyncio.CancelledError):
        async for raw in stream_frames(feed, bt.engine, streams, always):
            frames += raw.startswith(b"id:")
    return frames


async def _decide(bt: Betimes, numbers: Any, total: int) -> float:
    """Trigger runs, 64 at a time; return the processor's time it took."""
    begun = time.process_time()

    async def submit() -> None:
        for _ in range(total // 64 + 1):
            number = next(numbers)
            await bt.runs.trigger(
                {"account_id": f"a-{number}", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k-{number}"}
            )

    await asyncio.gather(*(submit() for _ in range(64)))
    return time.process_time() - begun


SUITES = {"questions": questions, "live": live}
