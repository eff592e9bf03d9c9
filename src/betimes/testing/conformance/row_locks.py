"""Row locks: what one connection holds, the other skips. Only for stores that lock rows, not their whole database."""

from __future__ import annotations

import asyncio

from betimes.core.errors import Conflict
from betimes.core.streams import KeyId, StreamId
from betimes.engine.store import NO_ROW, NOT_CACHED, LedgerQuery, LockRequest, Presumes, Store
from betimes.testing.conformance.expectations import expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import (
    KEY,
    KIND,
    A,
    B,
    C,
    causing,
    keyed,
    locking,
    moved,
    send,
    stream,
    together,
)


async def a_row_held_by_one_connection_is_skipped_by_the_other(pair: Pair) -> None:
    await pair.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock())))
    async with pair.one.begin(locking(A)), pair.two.begin(LockRequest(locks={A: 1, B: 1})) as tx:
        expect_equal((set(tx.rows), tx.unchanged), (set(), {B}), "what is left of the rows asked for")
    async with pair.two.begin(locking(A)) as tx:
        expect_equal(set(tx.rows), {A}, "the row after its holder left")


async def a_row_being_created_by_one_connection_is_skipped_by_the_other(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as creator:
        async with pair.two.begin(LockRequest(locks={A: 0, B: NOT_CACHED})) as tx:
            expect_equal((tx.rows, tx.unchanged), ({B: NO_ROW}, set()), "what is left of the rows asked for")
        await creator.commit(moved(A, 1, pair.clock()))
    async with pair.two.begin(locking(A)) as tx:
        expect_equal(tx.rows[A].version, 1, "the version after it was created")


async def only_the_rows_named_are_waited_for(pair: Pair) -> None:
    async def ask() -> set[StreamId]:
        async with pair.two.begin(LockRequest(locks=dict.fromkeys((A, B, C), NOT_CACHED), waits={B})) as tx:
            return set(tx.rows)

    async with pair.one.begin(locking(A)):
        taken = await pair.wait_behind(locking(B), ask(), "a row named in `waits` must be waited for")
        expect_equal(taken, {B, C}, "the row waited for and the one that was free; not the other that is held")


async def a_row_held_by_the_same_connection_is_skipped_too(pair: Pair) -> None:
    async with pair.one.begin(locking(A)), pair.one.begin(locking(A, B)) as tx:
        expect_equal(set(tx.rows), {B}, "what is left of the rows asked for")


async def different_rows_are_decided_at_the_same_time(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as first, pair.two.begin(locking(B)) as second:
        await second.commit(moved(B, 1, pair.clock()))
        await first.commit(moved(A, 1, pair.clock()))
    expect_equal([s.stream for s in await pair.one.ledger(LedgerQuery())], [B, A], "the order of the commits")


async def a_row_that_is_read_is_not_locked(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    async with pair.one.begin(LockRequest(reads={A: NOT_CACHED})) as reader:
        async with pair.two.begin(locking(A)) as writer:
            await writer.commit(moved(A, 2, pair.clock()))
        expect_equal(reader.rows[A].version, 1, "the row as it was read")


async def a_row_that_is_held_can_be_read(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    async with pair.one.begin(locking(A)), pair.two.begin(LockRequest(reads={A: NOT_CACHED})) as reader:
        expect_equal(reader.rows[A].version, 1, "the row as it is committed")


async def asking_for_more_never_waits(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as first, pair.two.begin(locking(B)) as second:
        await first.extend(LockRequest(locks={B: NOT_CACHED, C: NOT_CACHED}, waits={B, C}))
        expect_equal(set(first.rows), {A, C}, "the rows held after asking for more")
        await second.extend(locking(C))
        expect_equal(set(second.rows), {B}, "the rows held when the one asked for is taken")


async def what_was_asked_for_later_is_held_as_well(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        await tx.extend(locking(B))
        async with pair.two.begin(locking(A, B, C)) as other:
            expect_equal(set(other.rows), {C}, "what is left of the rows asked for")


async def a_reservation_does_not_stop_other_keys(pair: Pair) -> None:
    other = KEY._replace(key="k-2")
    async with pair.one.begin(LockRequest(keys=[KEY])), pair.two.begin(LockRequest(keys=[other])) as tx:
        expect_equal(tx.seen, {}, "keys seen")


async def a_key_is_waited_for_although_rows_are_skipped(pair: Pair) -> None:
    async def ask() -> tuple[set[object], set[KeyId]]:
        async with pair.two.begin(LockRequest(locks={A: NOT_CACHED, B: NOT_CACHED}, keys=[KEY])) as tx:
            return set(tx.rows), set(tx.seen)

    used, says = keyed(KEY, A, 1, pair.clock()), "a key that is reserved must be waited for"
    held = LockRequest(locks={A: NOT_CACHED}, keys=[KEY])
    found = await pair.wait_behind(held, ask(), says, lambda holder: holder.commit(used))
    expect_equal(found, ({B}, {KEY}), "the row that was held is skipped, the key is seen")


async def a_send_taken_by_one_is_not_taken_by_the_other(pair: Pair) -> None:
    now = pair.clock()
    first, second = send(A, 1, now, C, place=0), send(A, 1, now, C, place=1)
    await pair.commit(causing(A, 1, now, first, second))
    async with pair.one.begin(LockRequest(sends=[first.id])) as taker:
        expect_equal(taker.sends, {first.id}, "the oldest send")
        async with pair.two.begin(LockRequest(sends=[first.id, second.id])) as other:
            expect_equal(other.sends, set(), "neither the one that is held nor the one behind it")


async def streams_that_are_held_are_not_taken_when_due(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now, due_at=now) for of in (A, B, C))))
    async with pair.one.begin(locking(B)):
        for index in ("alarm", "due"):
            async with pair.two.begin_due(index, [KIND], 2) as tx:
                expect_equal(list(tx.rows), [A, C], f"the streams taken by {index} while one is held")


async def two_who_take_what_is_due_take_different_streams(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(*(moved(stream(f"s{n}"), 1, now, alarm_at=now - 10 + n) for n in range(6))))
    async with pair.one.begin_due("alarm", [KIND], 2) as first, pair.two.begin_due("alarm", [KIND], 3) as second:
        expect_equal([of.id for of in first.rows], ["s0", "s1"], "the first takes the oldest")
        expect_equal([of.id for of in second.rows], ["s2", "s3", "s4"], "the second takes the oldest that are left")


async def what_was_taken_when_due_is_held(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock(), alarm_at=pair.clock()))
    async with pair.one.begin_due("alarm", [KIND], 5) as tx:
        async with pair.two.begin(locking(A)) as other:
            expect_equal(set(other.rows), set(), "a stream that was taken when due is held")
        await tx.commit(moved(A, 2, pair.clock()))


async def transactions_of_many_rows_cross_without_deadlock(pair: Pair) -> None:
    streams = [stream(f"s{number}") for number in range(8)]

    async def sweep(store: Store) -> None:
        for _ in range(10):
            async with store.begin(locking(*streams[::2])) as tx:
                await tx.extend(locking(*streams[1::2]))
                await tx.commit(together(*(moved(of, row.version + 1, tx.now) for of, row in tx.rows.items())))

    await asyncio.gather(*(sweep(store) for store in (pair.one, pair.two, pair.one, pair.two)))
    for of in streams:
        row, history = await pair.one.history(of, 0, 100)
        expect_equal([s.version for s in history], list(range(1, (row.version if row else 0) + 1)), f"history of {of}")


async def a_presumption_upon_a_stream_that_is_held_is_refused(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now))
    begin = pair.one.presume(LockRequest(locks={A: 1})) if isinstance(pair.one, Presumes) else None
    if begin is None:
        return
    async with pair.two.begin(locking(A)):
        with expect_refusal(Conflict, "a presumption upon a stream that is held"):
            async with begin as tx:
                await tx.commit(moved(A, 2, now))
    expect_equal((await pair.two.load([A]))[A].version, 1, "the version after the refusal")
