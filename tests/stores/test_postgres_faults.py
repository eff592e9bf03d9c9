"""Servers that die, connections that break and processes that stop: nothing is lost, and the store goes on."""

from __future__ import annotations

import asyncio
import signal
import sys
from random import Random
from typing import Any

import asyncpg
import pytest

from betimes.core.errors import Unavailable, Unknown
from betimes.engine.store import Changes, LockRequest
from betimes.stores.postgres import PostgresStore
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, B, call, causing, locking, moved, together, turn_of, waiting
from tests.patience import HANGS_S
from tests.postgres import Proxy, kill, opened_stores, own_server, patient_store, raw_connection, server_dsn, two_stores

pytestmark = pytest.mark.postgres

END_OTHERS = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'betimes' AND pid <> pg_backend_pid()
"""

HOLD = """
import asyncio, sys
from betimes.core.streams import StreamId
from betimes.engine.store import LockRequest
from betimes.stores.postgres import PostgresStore

async def main(dsn, schema, *stream):
    store = PostgresStore(dsn, schema=schema, idle_timeout_s=3)
    await store.open()
    async with store.begin(LockRequest(locks={StreamId(*stream): -1})):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_server_is_unavailable_and_the_pool_heals_when_it_is_back() -> None:
    server = own_server()
    store = patient_store(str(server.get_uri()))
    try:
        await store.open()
        await commit(store, moved(A, 1, await store.now()))
        async with store.begin(locking(A)) as tx:
            await asyncio.to_thread(kill, server)
            with pytest.raises(Unavailable, match=f"PostgreSQL at {server.pgdata}, database postgres"):
                await tx.commit(moved(A, 2, tx.now))
        with pytest.raises(Unavailable):
            await store.load([A])
        await asyncio.to_thread(server.ensure_postgres_running)
        assert (await store.load([A]))[A].version == 1
        await commit(store, moved(A, 2, await store.now()))
    finally:
        await store.close()
        await asyncio.to_thread(server.cleanup)


async def commit_at_last(store: PostgresStore, changes: Changes) -> None:
    """Each connection of the pool that broke may be found so by one attempt."""
    for _ in range(3):
        try:
            return await commit(store, changes)
        except Unavailable:
            continue
    raise AssertionError("the pool did not heal")


async def test_connections_ended_by_the_server_are_replaced() -> None:
    async with two_stores() as (one, _), raw_connection() as other:
        for version in (1, 2, 3):
            await other.fetchval(END_OTHERS)
            await commit_at_last(one, moved(A, version, 0))
        assert (await one.load([A]))[A].version == 3


async def test_a_connection_lost_before_the_commit_was_sent_means_nothing_was_written() -> None:
    async with two_stores() as (one, two), raw_connection() as other:
        async with one.begin(locking(A)) as tx:
            await other.fetchval(END_OTHERS)
            async with asyncio.timeout(HANGS_S):
                while not tx._session.is_lost():  # noqa: ASYNC110 — the driver tells nobody
                    await asyncio.sleep(0.01)
            with pytest.raises(Unavailable):
                await tx.commit(moved(A, 1, tx.now))
        await commit_at_last(two, moved(A, 1, 0))


async def test_a_ready_connection_that_broke_is_replaced_unnoticed() -> None:
    async with two_stores() as (one, _), raw_connection() as other:
        for version in range(1, 6):
            await commit(one, moved(A, version, 0))
            assert one._sessions._ready, "the next transaction has begun"
            await other.fetchval(END_OTHERS)
        assert (await one.load([A]))[A].version == 5


async def test_a_spare_connection_serves_the_next_statement_and_is_replaced_when_it_broke() -> None:
    async with two_stores() as (one, _), raw_connection() as other:
        await commit(one, moved(A, 1, 0))
        for _ in range(3):
            assert (await one.load([A]))[A].version == 1
            assert one._sessions._spare, "it is kept"
            await other.fetchval(END_OTHERS)
        assert (await one.load([A]))[A].version == 1


async def test_what_is_kept_does_not_use_up_the_pool() -> None:
    async with opened_stores(server_dsn(), pool_max=1) as (store,):
        for version in (1, 2, 3):
            await commit(store, moved(A, version, 0))
            assert (await store.load([A]))[A].version == version


@pytest.mark.parametrize("kept", ["ready", "pooled"])
async def test_a_connection_whose_last_words_came_before_its_end_is_replaced(kept: str) -> None:
    """What the driver then says looks as if two used the connection at once."""
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through) as (store,), raw_connection() as other:
        await commit(store, moved(A, 1, 0))
        assert store._sessions._ready, "the next transaction has begun"
        if kept == "pooled":
            await store._sessions._ready.give_back()
        proxy.shows_ends.clear()
        proxy.ended.clear()
        await other.fetchval(END_OTHERS)
        await proxy.ended.wait()
        await other.fetchval("SELECT 1")  # by now the last words are here
        await commit(store, moved(A, 2, 0))
        assert (await store.load([A]))[A].version == 2
        proxy.shows_ends.set()


async def test_a_commit_that_the_driver_never_sent_wrote_nothing() -> None:
    """The server's last words came between two statements of a transaction, and its end not yet."""
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through) as (store,), raw_connection() as other:
        await commit(store, moved(A, 1, 0))
        async with store.begin(locking(A)) as tx:
            proxy.shows_ends.clear()
            proxy.ended.clear()
            await other.fetchval(END_OTHERS)
            await proxy.ended.wait()
            await other.fetchval("SELECT 1")  # by now the last words are here
            with pytest.raises(Unavailable):
                await tx.commit(moved(A, 2, 0))
            proxy.shows_ends.set()
        assert (await store.load([A]))[A].version == 1


async def test_operations_cancelled_at_any_moment_leave_no_busy_connection() -> None:
    """Whatever is cut off while its answer is on the way, the next one gets a connection that is free."""
    random, version = Random(7), 0
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through, pool_max=2) as (store,):
        operations = (
            lambda: store.load([A]),
            store.now,
            lambda: commit(store, moved(B, 1_000, 0)),
            lambda: begin_and_leave(store),
        )
        for _ in range(60):
            cut_off = [asyncio.create_task(random.choice(operations)()) for _ in range(random.randint(1, 3))]
            for _ in range(random.randrange(12)):
                await asyncio.sleep(0)
            for task in cut_off:
                task.cancel()
            version += 1
            await commit(store, moved(A, version, 0))
            await asyncio.gather(*cut_off, return_exceptions=True)
        assert (await store.load([A]))[A].version == version


async def begin_and_leave(store: PostgresStore) -> None:
    async with store.begin(locking(B)):
        await asyncio.sleep(0)


async def test_a_ready_connection_stands_for_a_moment_only_and_is_given_to_whoever_needs_it() -> None:
    idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'betimes' AND state = 'idle in transaction'"
    async with opened_stores(server_dsn(), pool_max=1) as (store,), raw_connection() as other:
        await commit(store, moved(A, 1, 0))
        assert (await store.load([A]))[A].version == 1, "the only connection was ready for something else"
        await commit(store, moved(A, 2, 0))
        assert store._sessions._ready, "the next transaction has begun"
        async with asyncio.timeout(HANGS_S / 2):
            while await other.fetchval(idle):
                pass
        await commit(store, moved(A, 3, 0))


async def test_the_callers_error_comes_through_although_the_connection_is_gone() -> None:
    async with two_stores() as (one, _), raw_connection() as other:
        with pytest.raises(LookupError):
            await end_connections_and_fail(one, other)
        await commit_at_last(one, moved(A, 1, 0))


async def end_connections_and_fail(store: PostgresStore, other: asyncpg.Connection[Any]) -> None:
    async with store.begin(locking(A)):
        await other.fetchval(END_OTHERS)
        raise LookupError


@pytest.mark.parametrize(("cut", "written"), [("before", False), ("after", True)])
async def test_a_connection_lost_during_the_commit_leaves_the_outcome_unknown(cut: str, written: bool) -> None:
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through, server_dsn()) as (one, two):
        async with one.begin(locking(A, B)) as tx:
            proxy.cut = cut
            with pytest.raises(Unknown, match="ask again under the same key"):
                await tx.commit(together(moved(A, 1, tx.now), moved(B, 1, tx.now)))
        async with two.begin(waiting(A, B)) as tx:
            found = [await tx.turn_at(of, 1) for of in (A, B)]
        assert found == ([turn_of(A, 1), turn_of(B, 1)] if written else [None, None])
        await commit(one, moved(A, 2 if written else 1, await one.now()))


async def test_a_call_whose_lease_was_taken_and_not_answered_is_not_lost() -> None:
    """A statement that commits by itself is as unknown as a COMMIT when its answer does not come."""
    async with two_stores() as (one, two), raw_connection() as other:
        called = call(A, 1, await one.now())
        await commit(one, causing(A, 1, called.created_at, called))
        async with two.begin(locking(A)):
            snoozing = asyncio.create_task(one.snooze(A, 1, called.created_at))
            while not await other.fetchval("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE NOT granted"):
                pass
            with pytest.raises(Unknown):
                await snoozing
        [lease] = await one.lease_calls([called.executor], 1)
        assert lease.call.id == called.id


async def test_the_transaction_of_a_stopped_process_is_ended_by_the_server() -> None:
    async with opened_stores(server_dsn()) as (store,):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD, server_dsn(), store._schema, *A, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout
            assert await process.stdout.readline() == b"held\n"
            process.send_signal(signal.SIGSTOP)
            async with store.begin(waiting(A)) as tx:
                await tx.commit(moved(A, 1, tx.now))
        finally:
            process.kill()
            await process.wait()
        assert set(await store.load([A])) == {A}


async def test_a_process_stopped_in_the_middle_of_an_answer_is_ended_by_whoever_waited_for_it() -> None:
    """The server waits for it to read on, for which there is no time-out."""
    async with opened_stores(server_dsn(), lock_timeout_s=0.3) as (store,), raw_connection() as stopped:
        await commit(store, moved(A, 1, 0))
        await stopped.execute("SET application_name = 'betimes'")
        transport: asyncio.ReadTransport = getattr(stopped, "_transport")  # noqa: B009
        transport.pause_reading()
        reading = asyncio.create_task(
            stopped.execute(
                f"BEGIN; SELECT repeat('x', 100000) FROM {store._schema}.stream, generate_series(1, 1000) "
                "FOR UPDATE OF stream"
            )
        )
        async with raw_connection() as other:
            while not await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"):
                pass
            with pytest.raises(Unavailable, match="lock time-out"):
                await commit_after_waiting(store)
            while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"):
                pass
        await commit_after_waiting(store)
        transport.resume_reading()
        with pytest.raises(asyncpg.PostgresError):
            await reading


async def commit_after_waiting(store: PostgresStore) -> None:
    async with store.begin(waiting(A)) as tx:
        await tx.commit(moved(A, 2, tx.now))


async def test_a_transaction_that_stood_idle_too_long_is_unavailable() -> None:
    async with two_stores() as (one, two):
        async with one.begin(locking(A)) as idle:
            await idle._session.execute("SET LOCAL idle_in_transaction_session_timeout = '500ms'")
            await commit(two, moved(A, 1, await two.now()))
            with pytest.raises(Unavailable):
                await idle.commit(moved(A, 1, idle.now))
        async with one.begin(LockRequest()) as tx:
            await tx.commit(Changes())
