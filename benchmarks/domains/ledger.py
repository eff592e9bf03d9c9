"""The ledger as it is asked by people: pages by instant and by key, out of a million segments."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import apsw
import asyncpg

from benchmarks.places import PLACES, TENANT, Place, end_blocks, server
from betimes.catalogue import DECIDERS, SECTIONS
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.ledger.service import Ledger, LedgerFilters

SEGMENTS = 1_000_000
ROUNDS = 5
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
STEP_US = 100_000
"""Ten segments a second."""
DOMAINS = frozenset({"runs"})
_COLUMNS = """(
    tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, collection, key, actor,
    correlation, cause
)"""
_VALUES = """
    '{tenant}', 'account', 'a' || x, 1, 't' || x, {start} + x * {step}, 1, NULL, '[]', 'p', '', 'd', 'triggers',
    'k-' || x, '', '', '{padding}'
"""


async def ledger(kind: str, scale: float) -> list[dict[str, Any]]:
    """A page of 50 by instant and by key, in milliseconds (the middle of five)."""
    count = max(10_000, int(SEGMENTS * scale))
    last = START + timedelta(microseconds=count * STEP_US)
    asked = {
        "the last minute": LedgerFilters(since=last - timedelta(minutes=1)),
        "the first minute": LedgerFilters(until=START + timedelta(minutes=1)),
        "a minute in the middle": LedgerFilters(
            since=START + (last - START) / 2, until=START + (last - START) / 2 + timedelta(minutes=1)
        ),
        "after the end": LedgerFilters(since=last + timedelta(days=1)),
        "a key": LedgerFilters(key=f"k-{count // 2}"),
        "an unknown key": LedgerFilters(key="none"),
    }
    rows: list[dict[str, Any]] = []
    async with PLACES[kind](0) as place:
        await _fill(place, count)
        async with Engine(place.store(), DECIDERS, name="ledger", sections=SECTIONS, policy={}) as engine:
            reader = Ledger(engine, Caller(TENANT), DOMAINS)
            for question, filters in asked.items():
                rows.append({"store": kind, "segments": count, "asked": question, **await _timed(reader, filters)})
    return rows


async def _timed(reader: Ledger, filters: LedgerFilters) -> dict[str, Any]:
    """Pages of one question until it is answered: the first that has something, or the last."""
    times, pages, found = [], 0, 0
    for _ in range(ROUNDS):
        started_s, pages, cursor = time.perf_counter(), 0, None
        while True:
            page = await reader.segments(filters, cursor=cursor)
            pages, cursor, found = pages + 1, page.next_cursor, len(page.items)
            if found or cursor is None:
                break
        times.append((time.perf_counter() - started_s) * 1_000)
    return {"requests": pages, "found": found, "ms": median(times)}


async def _fill(place: Place, count: int) -> None:
    start = int(START.timestamp()) * 1_000_000
    values = _VALUES.format(tenant=TENANT, start=start, step=STEP_US, padding="x" * 400)
    await _fill_postgres(place, values, count) if place.schema else _fill_sqlite(place, values, count)


def _fill_sqlite(place: Place, values: str, count: int) -> None:
    connection = apsw.Connection(place.path)
    connection.execute(f"""
        WITH RECURSIVE numbers(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM numbers WHERE x < {count})
        INSERT INTO ledger {_COLUMNS.replace("(", "(stream_n,")} SELECT -x, {values} FROM numbers
    """)
    end_blocks(connection)
    connection.close()


async def _fill_postgres(place: Place, values: str, count: int) -> None:
    connection = await asyncpg.connect(server())
    for first in range(1, count + 1, 1_024):  # in many transactions, as in life
        numbers = f"generate_series({first}, {min(first + 1_023, count)}) x"
        await connection.execute(f"INSERT INTO {place.schema}.ledger {_COLUMNS} SELECT {values} FROM {numbers}")
    await connection.execute(f"ANALYZE {place.schema}.ledger")
    await connection.close()


SUITES = {"ledger": ledger}
