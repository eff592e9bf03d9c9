"""Functions and types of the database: applied when their files changed, one set for each version of betimes at work.

`recordings/postgres_at_migration_17.sql.gz` is the dump of a database that was made when functions were still defined
in numbered migrations, by `recorded_town(dsn, 3, 2)`. It is never made again.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

import betimes
from betimes.app.betimes import Betimes
from betimes.core.errors import Unavailable
from betimes.demo.town import POLICY, Town
from betimes.engine.replay import verify
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.functions import function_set, qualify_names
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, moved
from tests.postgres import fresh_database, fresh_schema, patient_store, raw_connection, server_dsn, somebody_waits

pytestmark = pytest.mark.postgres

RECORDING = Path(__file__).with_name("recordings") / "postgres_at_migration_17.sql.gz"
RECORDED_UNTIL = "2026-03-27T06:20:00Z"
ROUTINES = """
    SELECT p.proname FROM pg_proc p WHERE p.pronamespace = $1::regnamespace
    UNION ALL
    SELECT t.typname FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = $1::regnamespace AND c.relkind = 'c'
"""
COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = 'betimes' AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'betimes')
    ORDER BY table_name, column_name
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'betimes' ORDER BY indexname"
TRIGGERS = """
    SELECT tgname, tgrelid::regclass::text, tgfoid::regproc::text FROM pg_trigger
    WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'betimes.%' ORDER BY tgname
"""
OPEN_AND_WRITE = """
import asyncio, sys
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.functions import function_set
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, moved

async def main(dsn, schema, version):
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    await commit(store, moved(A, int(version), await store.now()))
    await store.close()
    print(function_set().checksum)

asyncio.run(main(*sys.argv[1:]))
"""


async def names_in(connection: Any, schema: str) -> set[str]:
    return {name for (name,) in await connection.fetch(ROUTINES, schema)}


async def sets_in(connection: Any, schema: str) -> list[str]:
    found = await connection.fetch(f"SELECT checksum FROM {schema}.function_set ORDER BY applied_at")
    return [checksum for (checksum,) in found]


def own_names() -> set[str]:
    return {f"{name}_{function_set().suffix}" for name in function_set().names}


@asynccontextmanager
async def recorded_database() -> AsyncIterator[str]:
    """Yield the DSN of the recorded database."""
    async with fresh_database() as dsn:
        async with raw_connection(dsn) as connection:
            await connection.execute("SET check_function_bodies = off")
            await connection.execute(gzip.decompress(RECORDING.read_bytes()).decode())
        yield dsn


async def open_and_close(dsn: str) -> None:
    store = patient_store(dsn)
    await store.open()
    await store.close()


async def test_a_database_with_functions_from_migrations_opens_and_goes_on() -> None:
    async with recorded_database() as dsn, raw_connection(dsn) as connection:
        before = await connection.fetchval("SELECT count(*) FROM betimes.ledger")
        bt = Betimes(dsn, clock=VirtualClock(RECORDED_UNTIL), policy=POLICY, report=lambda report: None)
        town = Town(bt, 3)
        town.declare()
        async with bt:
            for _ in range(2):
                await town.ten_minutes()
            report = await verify(bt.engine.store, bt.engine.kinds)
        assert report.is_sound, report.findings
        assert before > 0
        assert await connection.fetchval("SELECT count(*) FROM betimes.ledger") > before
        assert await names_in(connection, "betimes") == own_names()


async def test_a_migrated_database_has_the_tables_of_a_fresh_one() -> None:
    shapes = []
    async with recorded_database() as recorded, fresh_database() as fresh:
        for dsn in (recorded, fresh):
            await open_and_close(dsn)
            async with raw_connection(dsn) as connection:
                shapes.append([await connection.fetch(query) for query in (COLUMNS, INDEXES, TRIGGERS)])
    assert shapes[0] == shapes[1]


async def test_functions_are_applied_again_when_the_recorded_ones_are_others() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = patient_store(server_dsn(), schema=schema)
        await store.open()
        await store.close()
        spoilt = (
            "CREATE OR REPLACE FUNCTION betimes.clock(p_now bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"
        )
        await connection.execute(qualify_names(schema, spoilt))
        await store.open()
        assert await store.now() == 1
        await store.close()
        await connection.execute(f"UPDATE {schema}.function_set SET checksum = 'another'")
        await store.open()
        assert await store.now() > 1
        await commit(store, moved(A, 1, await store.now()))
        await store.close()
        assert await sets_in(connection, schema) == ["another", function_set().checksum]


def other_version(folder: Path, name: str) -> Path:
    """Copy the package with a change in one of its functions; where it can be imported from."""
    root = folder / name
    copytree(Path(betimes.__file__).parent, root / "betimes", ignore=ignore_patterns("__pycache__", "static"))
    file = root / "betimes" / "stores" / "postgres" / "functions" / "begin.sql"
    file.write_text(f"-- {name}\n{file.read_text()}")
    return root


async def run_version(root: Path, schema: str, version: int) -> str:
    """Open and write with another version in a process of its own; the checksum of its functions."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OPEN_AND_WRITE, server_dsn(), schema, str(version)),
        env={"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return told.decode().strip()


async def test_two_versions_work_side_by_side_and_the_third_ends_the_first(tmp_path: Path) -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = patient_store(server_dsn(), schema=schema)
        await store.open()
        await commit(store, moved(A, 1, await store.now()))
        second = await run_version(other_version(tmp_path, "second"), schema, 2)
        assert await sets_in(connection, schema) == [function_set().checksum, second]
        await commit(store, moved(A, 3, await store.now()))
        await store.check_writable()

        third = await run_version(other_version(tmp_path, "third"), schema, 4)
        assert await sets_in(connection, schema) == [second, third]
        for attempt in (store.check_writable(), commit(store, moved(A, 5, 0))):
            with pytest.raises(Unavailable, match="restart this process"):
                await attempt
        await store.close()

        # Started again, it brings its functions along: the tables are those it knows.
        await store.open()
        await commit(store, moved(A, 5, await store.now()))
        await store.close()
        assert await sets_in(connection, schema) == [third, function_set().checksum]


async def test_a_version_that_follows_a_rolled_back_one_keeps_the_set_at_work(tmp_path: Path) -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = patient_store(server_dsn(), schema=schema)
        await store.open()
        await run_version(other_version(tmp_path, "given_up"), schema, 1)
        await store.close()
        await store.open()
        third = await run_version(other_version(tmp_path, "third"), schema, 2)
        await commit(store, moved(A, 3, await store.now()))
        await store.close()
        assert await sets_in(connection, schema) == [function_set().checksum, third]


async def test_a_numbered_migration_ends_all_other_sets() -> None:
    async with fresh_schema() as schema, raw_connection() as connection:
        store = PostgresStore(server_dsn(), schema=schema)
        await store.open()
        await store.close()
        await connection.execute(f"""
            INSERT INTO {schema}.function_set (checksum) VALUES ('0123456789');
            CREATE FUNCTION {schema}.clock_01234567() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            CREATE OR REPLACE TRIGGER ledger_block_written AFTER INSERT ON {schema}.ledger
                FOR EACH ROW EXECUTE FUNCTION {schema}.clock_01234567();
            DELETE FROM {schema}.migration WHERE number = 12; ALTER TABLE {schema}.stream DROP COLUMN snooze_error;
        """)
        await store.open()
        await commit(store, moved(A, 1, await store.now()))
        await store.close()
        assert await sets_in(connection, schema) == [function_set().checksum]
        assert await names_in(connection, schema) == own_names()


async def write_beside(writer: Any, schema: str, work: Coroutine[Any, Any, Any]) -> None:
    """Write as a commit does, effects first and then the ledger; between the two the work comes to a lock."""
    async with asyncio.TaskGroup() as tasks, writer.transaction():
        await writer.execute(f"DELETE FROM {schema}.effect WHERE false")
        tasks.create_task(work)
        await somebody_waits()
        await writer.execute(f"DELETE FROM {schema}.ledger WHERE false")


async def test_another_set_is_applied_beside_commits(tmp_path: Path) -> None:
    async with fresh_schema() as schema, raw_connection() as writer:
        store = patient_store(server_dsn(), schema=schema)
        await store.open()
        await write_beside(writer, schema, run_version(other_version(tmp_path, "second"), schema, 1))
        await store.close()
        assert len(await sets_in(writer, schema)) == 2


async def test_the_functions_of_migrations_are_dropped_beside_commits() -> None:
    async with recorded_database() as dsn, raw_connection(dsn) as writer:
        await write_beside(writer, "betimes", open_and_close(dsn))
        assert await names_in(writer, "betimes") == own_names()
