"""Locks, whether a store locks rows or its whole database: one decides at a time, and nobody is left holding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from betimes.core.streams import StreamId
from betimes.engine.store import NO_ROW, Changes, LockRequest, Row, Store, Tx
from betimes.testing.conformance.expectations import expect_equal
from betimes.testing.conformance.pairs import Pair, beside, commit, hold_for_ever
from betimes.testing.conformance.samples import A, B, locking, moved, stream, together, waiting

CREATOR_WAITS = "a second creator must wait while the first decides"


async def _rows(store: Store, ask: LockRequest) -> dict[StreamId, Row]:
    async with store.begin(ask) as tx:
        return tx.rows


async def one_who_waits_sees_what_the_holder_committed(pair: Pair) -> None:
    changes, asking = moved(A, 1, pair.clock()), _rows(pair.two, waiting(A))
    seen = await pair.wait_behind(locking(A), asking, CREATOR_WAITS, lambda holder: holder.commit(changes))
    expect_equal(seen, {A: changes.streams[0].row()}, "what the one who waited sees")


async def one_who_waits_sees_nothing_of_a_holder_who_left(pair: Pair) -> None:
    seen = await pair.wait_behind(locking(A), _rows(pair.two, waiting(A)), CREATOR_WAITS)
    expect_equal(seen, {A: NO_ROW}, "what the one who waited sees")


async def the_clock_is_read_after_the_wait(pair: Pair) -> None:
    async def began_at() -> int:
        async with pair.two.begin(waiting(A)) as tx:
            return tx.now

    async def let_time_pass(holder: Tx) -> None:
        expect_equal(holder.now, pair.clock(), "a transaction's time is the injected clock's")
        pair.clock.advance(90)

    found = await pair.wait_behind(locking(A), began_at(), CREATOR_WAITS, let_time_pass)
    expect_equal(found, pair.clock(), "the time of a transaction that waited is from after the wait")


async def _increment(store: Store, of: StreamId, times: int) -> None:
    for _ in range(times):
        async with store.begin(waiting(of)) as tx:
            await asyncio.sleep(0)
            await tx.commit(moved(of, tx.rows[of].version + 1, tx.now))


async def increments_from_all_sides_are_all_counted(pair: Pair) -> None:
    await asyncio.gather(*(_increment(store, A, 10) for store in (pair.one, pair.two, pair.one, pair.two)))
    row, history = await pair.one.history(A, 0, 100)
    expect_equal(row and row.version, 40, "the version after 40 increments")
    expect_equal([s.version for s in history], list(range(1, 41)), "one segment for each")


async def _move_all(store: Store, streams: Sequence[StreamId], times: int) -> None:
    for _ in range(times):
        async with store.begin(waiting(*streams)) as tx:
            await asyncio.sleep(0)
            await tx.commit(together(*(moved(of, tx.rows[of].version + 1, tx.now) for of in streams)))


async def batches_that_lock_in_different_orders_all_finish(pair: Pair) -> None:
    streams = [stream(f"s{number}") for number in range(6)]
    orders = (streams, streams[::-1], streams[3:] + streams[:3], streams[1::2] + streams[::2])
    stores = (pair.one, pair.two, pair.one, pair.two)
    await asyncio.gather(*(_move_all(store, order, 5) for store, order in zip(stores, orders, strict=True)))
    rows = await pair.one.load(streams)
    expect_equal([row.version for row in rows.values()], [20] * 6, "all batches were counted on all streams")


async def of_two_creators_only_one_finds_nothing(pair: Pair) -> None:
    async def create(store: Store, of: StreamId) -> bool:
        async with store.begin(waiting(of)) as tx:
            if tx.rows[of].version:
                return False
            await tx.commit(moved(of, 1, tx.now))
            return True

    for number in range(10):
        of = stream(f"new-{number}")
        made = await asyncio.gather(create(pair.one, of), create(pair.two, of))
        expect_equal(sorted(made), [False, True], "who created the stream")


async def reads_do_not_wait_for_an_open_transaction(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    async with pair.one.begin(locking(A, B)) as tx:
        for store in (pair.two, pair.one):
            expect_equal({of: row.version for of, row in (await store.load([A, B])).items()}, {A: 1}, "rows meanwhile")
            expect_equal(len((await store.history(A, 0, 10))[1]), 1, "history meanwhile")
        await tx.commit(moved(A, 2, pair.clock()))
    expect_equal((await pair.one.load([A]))[A].version, 2, "the version after the commit")


async def a_holder_that_is_cancelled_leaves_nothing_behind(pair: Pair) -> None:
    held = asyncio.Event()
    async with beside(hold_for_ever(pair.two, locking(A), held)) as holder:
        await held.wait()
        holder.cancel()
        await asyncio.wait({holder})
    await pair.commit(moved(A, 1, pair.clock()))
    await commit(pair.two, moved(A, 2, pair.clock()))


async def one_cancelled_while_it_waits_leaves_nothing_behind(pair: Pair) -> None:
    async with pair.one.begin(locking(B)) as holder:
        async with beside(_rows(pair.two, waiting(A, B))):
            await pair.others_run()
        await holder.commit(moved(B, 1, pair.clock()))
    await pair.commit(together(moved(A, 1, pair.clock()), moved(B, 2, pair.clock())))
    await commit(pair.two, moved(A, 2, pair.clock()))


async def an_error_of_the_caller_comes_through_and_undoes_all(pair: Pair) -> None:
    class Mine(Exception):
        pass

    try:
        async with pair.one.begin(locking(A)):
            raise Mine
    except Mine:
        pass
    else:
        raise AssertionError("the caller's own error was swallowed")
    async with pair.two.begin(locking(A)) as tx:
        expect_equal(tx.rows, {A: NO_ROW}, "the row after the error")
        await tx.commit(Changes())
