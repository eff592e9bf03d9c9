"""A database of a million streams and ten million segments within minutes: real rows of every kind, copied.

The application makes two of everything over HTTP (`tests/http/populated.py`). A few rows of each kind are copied, each
time with names and instants of their own: segments over the last two days in the order of time, alarms over the next
day. One person has a long history. The tally is what counting the copies would have left, with more reasons in it, and
one reason, `RARE`, that there are a handful of verdicts with. One text of SQL does for both stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import apsw
import asyncpg

from benchmarks.places import Place, end_blocks
from betimes.core.instants import DAY, MINUTE, SECOND
from betimes.engine.engine import Engine
from betimes.engine.read_model import LEVELS
from betimes.ledger.tally import BY_EVENTS, count_outcomes

Row: TypeAlias = Sequence[Any]
STREAMS, SEGMENTS = 1_000_000, 10_000_000
EFFECTS, KEYS = 500_000, 2_000_000
ALIKE_MAX = {"stream": 4, "ledger": 8, "effect": 8, "key": 4}
"""Rows of one sort that are copied, so that no sort is most of the database."""
SORTS = {"stream": "kind, status", "ledger": "kind", "effect": "executor, status", "key": "collection"}
ORDERS = {"stream": "tenant, kind, id", "ledger": "seq", "effect": "tenant, kind, id, version, place", "key": "key"}
BATCHES = 20
COMBINATIONS = 40
"""Sorts of outcomes in every minute of the tally."""
RARE = "COOLDOWN"
RARE_SETS = 3
HOT = "u-8"
"""The person whose history is a hundredth of the ledger."""
SPAN = 2 * DAY


class Shell:
    """Sends SQL to a place, whichever store it is."""

    def __init__(self, run: Callable[[str], Any], columns: Callable[[str], Any], schema: str) -> None:
        self._run = run
        self._columns = columns
        self.schema = schema

    async def run(self, sql: str) -> list[Row]:
        found: list[Row] = await self._run(sql)
        return found

    async def columns(self, table: str) -> list[str]:
        """Return the columns of a table that a copy of a row brings along."""
        found = await self._columns(table)
        return [name for name in found if name not in ("n", "seq")]


@asynccontextmanager
async def sqlite_shell(place: Place) -> AsyncIterator[Shell]:
    connection = apsw.Connection(place.path)
    for name, value in (("synchronous", "OFF"), ("cache_size", -1_000_000)):
        connection.pragma(name, value)

    async def run(sql: str) -> list[Row]:
        return list(connection.execute(sql))

    async def columns(table: str) -> list[str]:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]

    yield Shell(run, columns, "main")
    end_blocks(connection)
    connection.execute("ANALYZE")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


@asynccontextmanager
async def postgres_shell(place: Place) -> AsyncIterator[Shell]:
    connection = await asyncpg.connect(place.path)
    await connection.execute("SET synchronous_commit = off; SET work_mem = '256MB'; SET maintenance_work_mem = '1GB'")

    async def columns(table: str) -> list[str]:
        found = await connection.fetch(
            "SELECT column_name FROM information_schema.columns"
            f" WHERE table_schema = '{place.schema}' AND table_name = '{table}' AND is_generated = 'NEVER'"
        )
        return [row[0] for row in found]

    try:
        yield Shell(connection.fetch, columns, place.schema)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


SHELLS = {"sqlite": sqlite_shell, "postgres": postgres_shell}


async def fill(place: Place, engine: Engine, now: int, scale: float) -> None:
    """Copy what there is until there is so much of everything; the application is closed meanwhile."""
    sizes = {"stream": STREAMS, "ledger": SEGMENTS, "effect": EFFECTS, "key": KEYS}
    async with SHELLS[place.kind](place) as shell:
        originals = {table: await _choose(shell, table) for table in sizes}
        last = await _last(shell)
        for table, size in sizes.items():
            sets = max(1, int(size * scale) // originals[table])
            await _copy(shell, table, sets, now)
            if table == "ledger":
                await _tally(shell, engine, sets, last, now)
        await _lengthen(shell, int(SEGMENTS * scale) // 100, now)
        await shell.run(f"UPDATE {shell.schema}.tally_position SET seq = {await _last(shell)}, at = {now}")


async def _last(shell: Shell) -> int:
    return int((await shell.run(f"SELECT max(seq) FROM {shell.schema}.ledger"))[0][0])


async def _choose(shell: Shell, table: str) -> int:
    """Put the rows that are copied aside, numbered; return how many there are."""
    await shell.run(
        f"CREATE TEMP TABLE original_{table} AS SELECT o.*, row_number() OVER (ORDER BY {ORDERS[table]}) AS k FROM ("
        f" SELECT *, row_number() OVER (PARTITION BY {SORTS[table]} ORDER BY {ORDERS[table]}) AS nth"
        f" FROM {shell.schema}.{table}) AS o WHERE nth <= {ALIKE_MAX[table]}"
    )
    return int((await shell.run(f"SELECT count(*) FROM original_{table}"))[0][0])


async def _copy(shell: Shell, table: str, sets: int, now: int) -> None:
    """Write copies of what was put aside, one of each after the other; a copy's names end in the number of its set."""
    columns = await shell.columns(table)
    changed = _change(table, sets, now)
    told = ", ".join(changed.get(column, column) for column in columns)
    for batch in range(BATCHES):
        first, last = sets * batch // BATCHES + 1, sets * (batch + 1) // BATCHES
        if first > last:
            continue
        await shell.run(
            f"{_sets(last, first)} INSERT INTO {shell.schema}.{table} ({', '.join(columns)})"
            f" SELECT {told} FROM sets CROSS JOIN original_{table} AS o WHERE {_is_copied(table, sets)}"
        )


def _sets(last: int, first: int = 1) -> str:
    return (
        f"WITH RECURSIVE sets (i) AS (SELECT CAST({first} AS bigint) UNION ALL SELECT i + 1 FROM sets WHERE i < {last})"
    )


def _change(table: str, sets: int, now: int) -> dict[str, str]:
    at = _instant("i", sets, now)
    if table == "ledger":
        # SQLite finds segments by the row of their stream; one whose stream was not copied has a number of no row.
        row = "SELECT n FROM stream AS s WHERE s.tenant = o.tenant AND s.kind = o.kind AND s.id = o.id || '~' || i"
        correlation = "CASE WHEN i % 9 = 0 THEN 'corr~' || i ELSE '' END"
        stream_n = f"ifnull(({row}), -abs(random()))"
        return {**_named("id", "key"), "correlation": correlation, "at": at, "stream_n": stream_n}
    if table == "key":
        return {**_named("key", "id", "stream_id"), "expires_at": f"{now} + {DAY} + i"}
    if table == "effect":
        is_open = "executor LIKE 'handler%' AND i % 10 = 0"
        return {
            **_named("id"),
            "created_at": at,
            "status": f"CASE WHEN {is_open} THEN 'pending' ELSE status END",
            "next_attempt_at": f"CASE WHEN {is_open} THEN {at} END",
            "finished_at": f"CASE WHEN {is_open} THEN NULL ELSE finished_at END",
        }
    soon = f"{now} + {SECOND} * (i % 86400 - 1800)"
    moved = {name: f"CASE WHEN {name} IS NOT NULL THEN {soon} END" for name in ("alarm_at", "due_at", "listed_at")}
    owner = "CASE WHEN owner = '' THEN '' ELSE owner || '~' || (i / 10) END"
    return {**_named("id"), **moved, "created_at": at, "at": at, "owner": owner}


def _named(*columns: str) -> dict[str, str]:
    return {name: f"{name} || '~' || i" for name in columns}


def _instant(number: str, sets: int, now: int) -> str:
    return f"({now} - {SPAN} + {number} * ({SPAN} / {sets}))"


def _is_copied(table: str, sets: int) -> str:
    if table == "ledger":
        return f"(i % {sets // RARE_SETS + 1} = 0 OR coalesce(verdict, '') NOT LIKE '%{RARE}%')"
    return "kind <> 'tenant'" if table == "stream" else "1 = 1"


async def _tally(shell: Shell, engine: Engine, sets: int, last: int, now: int) -> None:
    """Count the copies after a position: in every set what the projection finds in the originals."""
    chosen = [row[0] for row in await shell.run("SELECT seq FROM original_ledger ORDER BY k")]
    entries = []
    for seq in chosen:
        [row] = await engine.store.tally_source(seq - 1, 1, BY_EVENTS)
        entries += [entry for entry in count_outcomes(engine.kinds, [row]) if entry.level == MINUTE]
    cells = {(entry.kind, entry.outcome, entry.reasons) for entry in entries}
    more = [("inbox", "LATER", f"R{number}") for number in range(COMBINATIONS - len(cells))]
    await shell.run("CREATE TEMP TABLE cell (kind text, outcome text, reasons text, many bigint)")
    for kind, outcome, reasons in (*sorted(cells), *more):
        many = sum((entry.kind, entry.outcome, entry.reasons) == (kind, outcome, reasons) for entry in entries) or 1
        await shell.run(f"INSERT INTO cell VALUES ('{kind}', '{outcome}', '{reasons}', {many})")
    rare = f"coalesce(verdict, '') LIKE '%{RARE}%'"
    every, often = f"{sets // RARE_SETS + 1}", f"count(*) - sum(CASE WHEN {rare} THEN 1 ELSE 0 END)"
    [(size, rarely)] = await shell.run(f"SELECT {often}, sum(CASE WHEN {rare} THEN 1 ELSE 0 END) FROM original_ledger")
    for level in LEVELS:
        at = f"{_instant('i', sets, now)} / {level} * {level}"
        await shell.run(
            f"{_sets(sets)} INSERT INTO {shell.schema}.tally"
            " (level, tenant, at, kind, outcome, reasons, count, first_seq, last_seq)"
            f" SELECT {level}, 'default', {at}, kind, outcome, reasons, sum(many),"
            f" min({last} + (i - 1) * {size} + {rarely} * ((i - 1) / {every}) + 1),"
            f" max({last} + i * {size} + {rarely} * (i / {every})) FROM sets CROSS JOIN cell"
            f" WHERE reasons <> '{RARE}' OR i % {every} = 0"
            f" GROUP BY 3, 4, 5, 6 ON CONFLICT DO NOTHING"
        )


async def _lengthen(shell: Shell, segments: int, now: int) -> None:
    """Give one person a long history, all of the last second."""
    columns = await shell.columns("ledger")
    changed = {"version": "1000 + i", "at": f"{now} - {segments} + i", "key": "NULL", "collection": "NULL"}
    told = ", ".join(changed.get(column, column) for column in columns)
    await shell.run(
        f"{_sets(segments)} INSERT INTO {shell.schema}.ledger ({', '.join(columns)}) SELECT {told} FROM sets CROSS JOIN"
        f" (SELECT * FROM original_ledger WHERE kind = 'inbox' AND id = '{HOT}' AND verdict IS NOT NULL LIMIT 1) AS o"
    )
    last = await _last(shell)
    for level in LEVELS:
        await shell.run(
            f"INSERT INTO {shell.schema}.tally AS t VALUES ({level}, 'default', {now} / {level} * {level}, 'inbox',"
            f" 'LATER', 'QUIET_HOURS', {segments}, {last - segments + 1}, {last})"
            " ON CONFLICT (level, tenant, at, kind, outcome, reasons)"
            " DO UPDATE SET count = t.count + excluded.count, last_seq = excluded.last_seq"
        )
    version = f"version = (SELECT max(version) FROM {shell.schema}.ledger WHERE kind = 'inbox' AND id = '{HOT}')"
    await shell.run(f"UPDATE {shell.schema}.stream SET {version} WHERE kind = 'inbox' AND id = '{HOT}'")
