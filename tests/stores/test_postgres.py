"""What is particular to the store on PostgreSQL: its locks, its clock, its errors and its sessions."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest
from msgspec.structs import replace

from betimes.core.errors import Conflict, Invalid, MissingExtra, Unavailable
from betimes.core.instants import HOUR, MINUTE
from betimes.core.streams import StreamId
from betimes.engine.store import NO_ROW, NOT_CACHED, LockRequest, StreamQuery
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.rows import Record
from betimes.stores.postgres.session import Session
from betimes.stores.postgres.statements import Prepared
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import KEY, A, B, C, call, causing, keyed, locking, moved, settled, stream
from betimes.testing.conformance.samples import waiting as waiting_for
from tests.postgres import opened_stores, raw_connection, server_dsn, somebody_waits, two_stores, with_settings

pytestmark = pytest.mark.postgres


async def test_time_is_the_databases() -> None:
    async with two_stores() as (one, _), raw_connection() as connection:
        async with one.begin(locking(A)) as tx:
            epoch = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())")
        assert abs(int(epoch * 1_000_000) - tx.now) < MINUTE
        assert tx.now <= await one.now()


async def test_rows_being_created_are_left_out_and_the_others_made() -> None:
    new = [stream(f"new-{n}") for n in range(5)]
    async with two_stores(lock_timeout_s=60) as (one, two):
        await commit(one, moved(A, 1, await one.now()))
        async with one.begin(locking(new[1], new[3])), two.begin(locking(A, *new)) as tx:
            assert set(tx.rows) == {A, new[0], new[2], new[4]}
            assert tx.rows[new[0]] == NO_ROW
            assert await tx._session.value(("SHOW lock_timeout", [])) == "1min", (
                "the short patience was for the creation"
            )
            await tx.commit(moved(new[0], 1, tx.now))
        assert set(await one.load(new)) == {new[0]}


async def test_a_row_held_too_long_is_unavailable() -> None:
    async with two_stores(lock_timeout_s=0.2) as (one, two):
        async with one.begin(locking(A)):
            with pytest.raises(Unavailable, match="held what was asked for until the lock time-out"):
                await commit(two, moved(A, 1, await two.now()))
        await commit(two, moved(A, 1, await two.now()))


async def test_a_key_reserved_too_long_is_unavailable() -> None:
    async with two_stores(lock_timeout_s=0.2) as (one, two):
        async with one.begin(LockRequest(keys=[KEY])):
            with pytest.raises(Unavailable, match="lock time-out"):
                await commit(two, keyed(KEY, A, 1, await two.now()))
        await commit(two, keyed(KEY, A, 1, await two.now()))


async def test_a_deadlock_is_a_conflict() -> None:
    first, second = KEY, KEY._replace(key="k-2")
    dsn = with_settings(server_dsn(), deadlock_timeout="50ms")
    async with opened_stores(dsn, dsn) as (one, two):
        async with one.begin(LockRequest(keys=[first])) as a, two.begin(LockRequest(keys=[second])) as b:
            ended = await asyncio.gather(
                a.extend(LockRequest(keys=[second])), b.extend(LockRequest(keys=[first])), return_exceptions=True
            )
        assert [type(result) for result in ended if result] == [Conflict]


async def test_a_stream_somebody_locks_can_still_be_created_after_them() -> None:
    async with two_stores() as (one, two):
        async with one.begin(locking(A)) as creating:
            async with two.begin(locking(B)):
                creation = asyncio.create_task(creating.commit(moved(B, 1, creating.now)))
                await somebody_waits()
            await creation
        assert set(await two.load([A, B])) == {B}


async def test_names_are_ordered_as_in_python() -> None:
    names = ["a", "B", "_", "Z", "0", "a-b", "a_b", "a.b", "A", "~", "é", "z|"]
    async with two_stores() as (one, _):
        for name in names:
            await commit(one, moved(stream(name), 1, await one.now()))
        listed = await one.streams(StreamQuery())
        assert [row.stream.id for row in listed] == sorted(names)
        async with one.begin(waiting_for(*map(stream, names))) as tx:
            assert [of.id for of in tx.rows] == sorted(names)


async def test_what_an_executor_says_may_hold_anything() -> None:
    async with two_stores() as (one, _):
        now = await one.now()
        called = call(A, 1, now)
        await commit(one, causing(A, 1, now, called))
        [lease] = await one.lease_calls([called.executor], 1)
        await commit(one, settled(called.id, lease.call.fence, "dead", now, error="bad \0 byte and \ud800"))
        assert await one.revive_effect(called.id)


async def test_a_cancelled_wait_leaves_the_only_connection_clean(caplog: pytest.LogCaptureFixture) -> None:
    async with opened_stores(server_dsn(), server_dsn(), pool_max=1) as (one, two):
        async with one.begin(locking(A)):
            task = asyncio.create_task(commit(two, moved(A, 1, 0)))
            await somebody_waits()
            task.cancel()
            await asyncio.wait({task})
        await commit(two, moved(A, 1, await two.now()))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_waiting_for_a_connection_of_the_pool_ends_in_unavailable() -> None:
    async with opened_stores(server_dsn(), pool_max=1) as (store,):
        store._sessions._settings = replace(store._sessions._settings, connect_timeout_s=0.2)
        async with store.begin(locking(A)):
            with pytest.raises(Unavailable, match="connections are busy"):
                await store.now()
        await store.now()


async def test_behind_a_pooler_each_transaction_brings_its_settings() -> None:
    async with two_stores(behind_pooler=True, lock_timeout_s=0.2, durability="relaxed") as (one, two):
        async with one.begin(locking(A)) as tx:
            assert await tx._session.value(("SHOW lock_timeout", [])) == "200ms"
            assert await tx._session.value(("SHOW synchronous_commit", [])) == "off"
            with pytest.raises(Unavailable):
                await commit(two, moved(A, 1, tx.now))
            await tx.commit(moved(A, 1, tx.now))
        async with two._sessions.session() as session:
            assert await session.value(("SHOW lock_timeout", [])) == "0"
        assert set(await two.load([A])) == {A}


async def test_many_due_at_one_instant_are_found_along_the_index() -> None:
    async with two_stores() as (one, _), raw_connection() as connection:
        await connection.execute(f"""
            INSERT INTO {one._schema}.stream (tenant, kind, id, version, state, alarm_at)
            SELECT 'acme', 'thing', 's' || n, 1, '{{}}', 7 FROM generate_series(1, 3000) n
        """)
        async with one.begin_due("alarm", ["thing"], 3) as tx:
            assert [of.id for of in tx.rows] == ["s1", "s10", "s100"]


async def test_a_cached_version_is_known_without_sending_the_state() -> None:
    async with two_stores() as (one, two):
        await commit(one, moved(A, 1, await one.now()))
        async with two.begin(LockRequest(locks={A: 1, B: 0}, reads={C: 0})) as tx:
            assert tx.unchanged == {A, B, C}
            assert tx.rows == {}
        async with two.begin(LockRequest(locks={A: NOT_CACHED, B: 4}, reads={C: 4})) as tx:
            assert {of: row.version for of, row in tx.rows.items()} == {A: 1, B: 0, C: 0}


async def test_what_the_last_pick_looked_at_is_read_along_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    rows = Session.rows

    async def noting(session: Session, statement: Prepared, timeout_s: float | None = None) -> list[Record]:
        statements.append(statement[0])
        return await rows(session, statement, timeout_s)

    async with two_stores() as (one, two):
        monkeypatch.setattr(Session, "rows", noting)

        async def look(*cached: tuple[StreamId, int]) -> tuple[dict[StreamId, int], set[StreamId], int]:
            statements.clear()
            async with one.begin_due("alarm", ["thing"], 3) as tx:
                assert tx.rows == {}, "what is only looked at was not picked"
                await tx.extend(LockRequest(reads=dict(cached)))
                return {of: row.version for of, row in tx.rows.items()}, tx.unchanged, len(statements)

        assert await look((B, 0), (C, 0)) == ({}, {B, C}, 2)
        assert await look((B, 0), (C, 0)) == ({}, {B, C}, 1)
        await commit(two, moved(B, 1, await two.now()))
        assert await look((B, 0), (C, 0)) == ({B: 1}, {C}, 1)
        assert await look((B, 1), (C, 0)) == ({}, {B, C}, 2), "another version is asked for anew"
        assert await look((A, 7), (B, 1)) == ({A: 0}, {B}, 2), "and so is another stream"


async def test_an_expired_key_is_forgotten_whenever_it_expires() -> None:
    async with two_stores() as (one, _):
        now = await one.now()
        await commit(one, keyed(KEY, A, 1, now, expires_at=now + 1))
        await commit(one, keyed(KEY._replace(key="k-2"), A, 2, now, expires_at=now + 400 * 24 * HOUR))
        assert await one.forget(before_at=now, limit=10) == 1


def test_a_schema_name_is_checked() -> None:
    with pytest.raises(Invalid, match="not a schema name"):
        PostgresStore(server_dsn(), schema="x; DROP TABLE y")


def test_the_driver_is_imported_when_a_store_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, betimes.stores.postgres; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'betimes\[postgres\]'"):
        PostgresStore("postgresql://localhost/betimes")


async def test_emptying_the_tally_takes_along_what_was_being_added() -> None:
    """Counted again from the beginning, it would be in there twice."""
    async with opened_stores(server_dsn()) as [store], raw_connection() as adding:
        schema = store._schema
        await adding.execute(
            f"BEGIN; UPDATE {schema}.tally_position SET seq = 7;"
            f"INSERT INTO {schema}.tally VALUES (60000000, 'acme', 0, 'run', 'ALLOW', '', 1, 1, 7)"
        )
        emptying = asyncio.create_task(store.reset_tally())
        await somebody_waits()
        await adding.execute("COMMIT")
        await emptying
        assert await adding.fetchval(f"SELECT count(*) FROM {schema}.tally") == 0
        assert (await store.tally_position()).seq == 0
