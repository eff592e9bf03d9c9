"""Opening a store on PostgreSQL: migrations, durability, and refusals that say what to do."""

from __future__ import annotations

import asyncio
import sys

import asyncpg
import pytest

from betimes.core.errors import Invalid, NewerVersion, Unavailable, UnsafeDurability
from betimes.engine.store import LedgerQuery
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.functions import function_set
from betimes.stores.postgres.migrations import migrations
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, locking, moved, stream, together
from tests.postgres import elsewhere, fresh_schema, own_server, raw_connection, server_dsn, with_settings

pytestmark = pytest.mark.postgres

OPEN = """
import asyncio, sys
from betimes.stores.postgres import PostgresStore

async def main(dsn, schema):
    store = PostgresStore(dsn, schema=schema)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def waiting_process(schema: str) -> asyncio.subprocess.Process:
    """A process that opens a store as soon as it is told to."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, server_dsn(), schema, stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdout
    await process.stdout.readline()
    return process


async def test_processes_that_start_together_migrate_once() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        processes = [await waiting_process(schema) for _ in range(4)]
        answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
        assert [(process.returncode, told[1]) for process, told in zip(processes, answers, strict=True)] == [
            (0, b"")
        ] * 4
        applied = await connection.fetch(f"SELECT number, checksum FROM {schema}.migration ORDER BY number")
        assert [tuple(row) for row in applied] == [(known.number, known.checksum) for known in migrations()]
        sets = await connection.fetch(f"SELECT checksum FROM {schema}.function_set")
        assert [tuple(row) for row in sets] == [(function_set().checksum,)]


async def test_an_open_database_needs_no_right_to_create() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        await opened_and_closed(PostgresStore(server_dsn(), schema=schema))
        role = f"reader_{schema}"
        await connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}")
        try:
            await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")
            await connection.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
            store = PostgresStore(with_settings(server_dsn(), role=role), schema=schema)
            await store.open()
            await commit(store, moved(A, 1, await store.now()))
            await store.close()
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def opened_and_closed(store: PostgresStore) -> None:
    await store.open()
    await store.close()


@pytest.mark.parametrize(
    "change",
    ["INSERT INTO {}.migration VALUES (9999, 'later', 'x')", "UPDATE {}.migration SET checksum = 'x' WHERE number = 1"],
)
async def test_a_database_of_another_betimes_is_refused(change: str) -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = PostgresStore(server_dsn(), schema=schema)
        await opened_and_closed(store)
        await connection.execute(change.format(schema))
        with pytest.raises(NewerVersion):
            await store.open()
        with pytest.raises(Unavailable, match="not open"):
            await store.now()


async def test_a_session_that_would_not_wait_for_the_disk_is_refused() -> None:
    dsn = with_settings(server_dsn(), synchronous_commit="off")
    async with fresh_schema() as schema:
        with pytest.raises(UnsafeDurability, match="synchronous_commit is off"):
            await PostgresStore(dsn, schema=schema).open()
        await opened_and_closed(PostgresStore(dsn, schema=schema, durability="relaxed"))


async def test_relaxed_sessions_do_not_wait_for_the_disk() -> None:
    async with fresh_schema() as schema:
        store = PostgresStore(server_dsn(), schema=schema, durability="relaxed")
        await store.open()
        async with store.begin(locking(A)) as tx:
            assert await tx._session.value(("SHOW synchronous_commit", [])) == "off"
        await store.close()


async def test_a_server_without_fsync_is_refused() -> None:
    server = own_server()
    dsn = str(server.get_uri())
    try:
        for setting in ("fsync", "full_page_writes"):
            await set_and_reload(dsn, setting, "off")
            with pytest.raises(UnsafeDurability, match=f"{setting} is off"):
                await PostgresStore(dsn).open()
            await opened_and_closed(PostgresStore(dsn, durability="relaxed"))
            await set_and_reload(dsn, setting, "on")
        await opened_and_closed(PostgresStore(dsn))
    finally:
        server.cleanup()


async def set_and_reload(dsn: str, setting: str, value: str) -> None:
    """Change a setting of the whole server and return when new sessions have it."""
    async with raw_connection(dsn) as connection:
        await connection.execute(f"ALTER SYSTEM SET {setting} = {value}")
        await connection.execute("SELECT pg_reload_conf()")
        while await connection.fetchval("SELECT current_setting($1)", setting) != value:
            pass


async def test_a_read_only_database_is_unavailable() -> None:
    store = PostgresStore(with_settings(server_dsn(), default_transaction_read_only="on"))
    with pytest.raises(Unavailable, match="read-only; point the DSN at the primary"):
        await store.open()


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("postgresql://me:secret@127.0.0.1:1/mine", "127.0.0.1:1, database mine"),
        ("postgresql://me:secret@/mine?host=/nowhere", "/nowhere, database mine"),
    ],
)
async def test_a_server_that_is_not_there_is_named_without_the_password(dsn: str, told: str) -> None:
    with pytest.raises(Unavailable, match="check that the server is up") as caught:
        await PostgresStore(dsn).open()
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_parameter_of_the_url_that_postgresql_does_not_know_is_named() -> None:
    dsn = server_dsn()
    with pytest.raises(Invalid, match="parameter 'schema', which PostgreSQL does not know") as caught:
        await PostgresStore(f"{dsn}{'&' if '?' in dsn else '?'}schema=mine").open()
    assert [path for path, _ in caught.value.problems] == ["db"]


async def test_a_database_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match="database nobody_made_this: there is no such database"):
        await PostgresStore(elsewhere(server_dsn(), database="nobody_made_this")).open()


async def test_a_server_with_too_many_connections_is_unavailable() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        role = f"single_{schema}"
        await connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1 PASSWORD 'x'")
        dsn = elsewhere(server_dsn(), user=role)
        try:
            first = await asyncpg.connect(dsn)
            with pytest.raises(Unavailable, match="too many connections"):
                await PostgresStore(dsn, schema=schema).open()
            await first.close()
        finally:
            await connection.execute(f"DROP ROLE {role}")


BEFORE_BLOCKS = """
DROP TRIGGER ledger_block_written ON {0}.ledger; DROP TABLE {0}.ledger_block; DROP INDEX {0}.ledger_key;
DELETE FROM {0}.migration WHERE number = 5
"""


async def test_a_ledger_written_before_there_were_blocks_is_searched_by_roles_that_used_it() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        owner, role = PostgresStore(server_dsn(), schema=schema), f"reader_{schema}"
        await owner.open()
        now = await owner.now()
        await _write(owner, range(1_500), now)
        await owner.close()
        await connection.execute(BEFORE_BLOCKS.format(schema))
        await connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}")
        try:
            await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")
            await connection.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
            await opened_and_closed(owner)
            store = PostgresStore(with_settings(server_dsn(), role=role), schema=schema)
            await store.open()
            await _write(store, range(1_500, 4_000), now)
            for since in (0, 1_000, 1_030, 2_000, 3_999, 4_000):
                found = await store.ledger(LedgerQuery(since_at=now + since, limit=1_000))
                assert [segment.at - now for segment in found] == list(range(since, 4_000))[:1_000]
            await store.close()
            ended = await connection.fetchval(f"SELECT count(*) FROM {schema}.ledger_block")
            assert ended >= 3, "writers end blocks as they go"
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def _write(store: PostgresStore, numbers: range, now: int) -> None:
    for start in range(0, len(numbers), 250):
        batch = [moved(stream(f"s{number}"), 1, now + number) for number in numbers[start : start + 250]]
        await commit(store, together(*batch))
