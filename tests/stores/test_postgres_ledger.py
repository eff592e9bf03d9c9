"""The ledger of PostgreSQL is read in commit order, although its numbers are drawn before the commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.store import Changes, LedgerQuery, Store
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.transaction import PostgresTx
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, B, C, locking, moved, stream, waiting
from tests.postgres import raw_connection, two_stores

pytestmark = pytest.mark.postgres


@asynccontextmanager
async def written_but_not_committed(tx: PostgresTx, changes: Changes) -> AsyncIterator[asyncio.Event]:
    """The transaction has written everything, numbers drawn, and sends its COMMIT when the event is set."""
    drawn, go = asyncio.Event(), asyncio.Event()
    session, send_commit = tx._session, tx._session.commit

    async def commit_when_told(last: str = "") -> None:
        await session.execute(last)
        drawn.set()
        await go.wait()
        await send_commit()

    session.commit = commit_when_told  # type: ignore[method-assign]
    task = asyncio.create_task(tx.commit(changes))
    await drawn.wait()
    yield go
    await task


async def streams_of(store: PostgresStore, *, after: int = 0, backwards: bool = False) -> list[StreamId]:
    return [s.stream for s in await store.ledger(LedgerQuery(after=after, backwards=backwards))]


async def numbers_anybody_can_see(store: PostgresStore) -> list[int]:
    """What a plain reader of the table would go on from."""
    async with raw_connection() as connection:
        records = await connection.fetch(f"SELECT seq FROM {store._schema}.ledger ORDER BY seq")
        return [record["seq"] for record in records]


@pytest.mark.parametrize("began_first", ["the late one", "the early one"])
async def test_a_reader_does_not_pass_a_batch_that_commits_late(began_first: str) -> None:
    async with two_stores() as (one, two), AsyncExitStack() as stack:
        if began_first == "the late one":
            late = await stack.enter_async_context(one.begin(locking(A)))
            early = await stack.enter_async_context(two.begin(locking(B)))
        else:
            early = await stack.enter_async_context(two.begin(locking(B)))
            late = await stack.enter_async_context(one.begin(locking(A)))
        async with written_but_not_committed(late, moved(A, 1, late.now)) as go:
            await early.commit(moved(B, 1, early.now))
            [seen_by_plain_reader] = await numbers_anybody_can_see(one)
            assert await streams_of(two) == []
            assert await streams_of(two, backwards=True) == []
            go.set()
        assert await streams_of(two) == [A, B]
        assert await streams_of(two, backwards=True) == [B, A]
        first, second = await two.ledger(LedgerQuery())
        assert first.seq < second.seq == seen_by_plain_reader, "a plain reader would have gone on after the late one"


async def test_what_was_committed_before_is_read_while_a_commit_is_under_way() -> None:
    async with two_stores() as (one, two):
        await commit(one, moved(C, 1, await one.now()))
        async with one.begin(locking(A)) as late, written_but_not_committed(late, moved(A, 1, late.now)) as go:
            assert await streams_of(two) == [C]
            go.set()
        assert await streams_of(two) == [C, A]


async def test_a_batch_that_drew_numbers_and_rolled_back_holds_up_nobody() -> None:
    async with two_stores() as (one, two):
        async with one.begin(locking(A)) as tx:
            await tx._session.rows(tx._statement("commit_batch", **tx._everything(moved(A, 1, tx.now))))
        await commit(two, moved(B, 1, await two.now()))
        assert await streams_of(one) == [B]


async def test_a_transaction_that_is_merely_open_holds_up_nobody() -> None:
    async with two_stores() as (one, two), raw_connection() as other, other.transaction(), one.begin(locking(A)):
        await other.fetchval("SELECT pg_current_xact_id()")
        await commit(two, moved(B, 1, await two.now()))
        assert await streams_of(two) == [B]


async def move(store: PostgresStore, streams: list[StreamId], times: int) -> None:
    for _ in range(times):
        async with store.begin(waiting(*streams)) as tx:
            changes = Changes()
            for of in streams:
                step = moved(of, tx.rows[of].version + 1, tx.now)
                changes.streams += step.streams
                changes.segments += step.segments
            await tx.commit(changes)


async def follow(store: Store, until: asyncio.Event) -> list[Segment]:
    """Everything from the beginning on, read page by page while it is written."""
    found: list[Segment] = []
    while True:
        last_round = until.is_set()
        page = await store.ledger(LedgerQuery(after=found[-1].seq if found else 0, limit=7))
        found += page
        if last_round and not page:
            return found


async def test_a_follower_misses_nothing_and_sees_versions_in_order() -> None:
    shared, own = [stream(f"s{n}") for n in range(3)], [stream(f"own{n}") for n in range(4)]
    over = asyncio.Event()
    async with two_stores() as (one, two):
        followers = [asyncio.create_task(follow(store, over)) for store in (one, two)]
        await asyncio.gather(*(move(s, [*shared, own[n]], 15) for n, s in enumerate([one, two, one, two])))
        over.set()
        for found in await asyncio.gather(*followers):
            assert len(found) == 4 * 15 * 4
            for of in (*shared, *own):
                versions = [s.version for s in found if s.stream == of]
                assert versions == list(range(1, len(versions) + 1)), of
