"""A segment dated far ahead costs a search by instant its own block, not all that was written after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from betimes.core.instants import DAY
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.functions import qualify_names
from betimes.stores.postgres.statements import Prepared
from betimes.stores.sqlite import SqliteStore
from tests.postgres import PATIENCE, fresh_schema, raw_connection, server_dsn
from tests.stores.sqlite_files import end_blocks

COUNT = 40 * 1024
AHEAD = 1_500
"""The number of the segment that is dated ahead."""
ROW = (
    "SELECT 1, n * 1000 + (n = {ahead}){cast} * {far}, 1, 'acme', 'thing', 's' || n, 't' || n, '{{}}', '[]', 'p', '',"
    " 'd', '', '', ''"
)
COLUMNS = (
    "version, at, schema, tenant, kind, id, turn, command, events, policy, prev, digest, actor, correlation, cause"
)
SINCE_AT = (COUNT - 100) * 1000
STEPS_MAX = 60_000
"""Of SQLite's machine: about two blocks. Everything after the segment would be half a million."""
PAGES_MAX = 400
FAR = 1_000 * DAY
EXPECTED = [AHEAD, *range(COUNT - 100, COUNT + 1)]


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Yield the steps of every statement that connections made meanwhile carry out."""
    found: list[int] = []

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: found.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )

    apsw.connection_hooks.append(watch)
    try:
        yield found
    finally:
        apsw.connection_hooks.remove(watch)


@pytest.mark.parametrize("backwards", [False, True])
async def test_sqlite_passes_over_blocks_behind_a_segment_dated_ahead(tmp_path: Path, backwards: bool) -> None:
    store = SqliteStore(tmp_path / "betimes.db", clock=VirtualClock())
    await store.open()
    await store.close()
    shell = apsw.Connection(str(tmp_path / "betimes.db"))
    numbers = f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {COUNT})"
    row = ROW.format(ahead=AHEAD, far=FAR, cast="")
    row = row.replace("SELECT", "SELECT n,")
    shell.execute(f"{numbers} INSERT INTO ledger (stream_n, {COLUMNS}) {row} FROM numbers")
    end_blocks(shell)
    shell.close()
    with counted_steps() as steps:
        await store.open()
        steps.clear()
        query = LedgerQuery(tenant="acme", since_at=SINCE_AT, backwards=backwards, limit=500)
        found = await store.ledger(query)
        await store.close()
    assert [segment.seq for segment in found] == (EXPECTED[::-1] if backwards else EXPECTED)
    assert 0 < sum(steps) < STEPS_MAX


@pytest.mark.parametrize("backwards", [False, True])
async def test_every_page_is_whole_however_often_instants_jump(tmp_path: Path, backwards: bool) -> None:
    """Every second block holds one that is asked for: more spans than one page is looked for in."""
    store = SqliteStore(tmp_path / "betimes.db", clock=VirtualClock())
    await store.open()
    await store.close()
    count, expected = 160 * 1024, [n for n in range(1, 160 * 1024 + 1) if n % 2048 == 5]
    shell = apsw.Connection(str(tmp_path / "betimes.db"))
    numbers = f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
    row = ROW.format(ahead="n / 2048 * 2048 + 5", far=FAR, cast="")
    row = row.replace("SELECT", "SELECT n,")
    shell.execute(f"{numbers} INSERT INTO ledger (stream_n, {COLUMNS}) {row} FROM numbers")
    end_blocks(shell)
    shell.close()
    await store.open()
    for limit in (7, 33, 500):
        query, found = LedgerQuery(tenant="acme", since_at=FAR, backwards=backwards, limit=limit), list[int]()
        while page := await store.ledger(replace(query, after=found[-1] if found else 0)):
            found += [segment.seq for segment in page]
            assert len(page) == limit or len(found) == len(expected)
        assert found == (expected[::-1] if backwards else expected)
    await store.close()


class _Recorded(PostgresStore):
    """Keeps the statements that are sent."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[Prepared] = []

    def _statement(self, name: str, **values: Any) -> Prepared:
        self.sent.append(super()._statement(name, **values))
        return self.sent[-1]


@pytest.mark.postgres
@pytest.mark.parametrize("backwards", [False, True])
async def test_postgres_passes_over_blocks_behind_a_segment_dated_ahead(backwards: bool) -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = _Recorded(server_dsn(), schema=schema, **PATIENCE)
        await store.open()
        row = ROW.format(ahead=AHEAD, far=FAR, cast="::integer::bigint")
        await connection.execute(
            f"INSERT INTO {schema}.ledger ({COLUMNS}) {row} FROM generate_series(1, {COUNT}) n ORDER BY n"
        )
        await connection.execute(qualify_names(schema, f"SELECT betimes.end_ledger_blocks({COUNT})"))
        await connection.execute(f"ANALYZE {schema}.ledger; ANALYZE {schema}.ledger_block")
        store.sent.clear()
        found = await store.ledger(LedgerQuery(tenant="acme", since_at=SINCE_AT, backwards=backwards, limit=500))
        assert [int(segment.stream.id[1:]) for segment in found] == (EXPECTED[::-1] if backwards else EXPECTED)
        pages = 0
        for sql, arguments in store.sent:
            told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", *arguments)
            plan = json.loads(told)[0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        await store.close()
        assert 0 < pages < PAGES_MAX
