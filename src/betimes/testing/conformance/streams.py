"""Streams and their versions: what a transaction is shown, and what its commit leaves."""

from __future__ import annotations

import asyncio

from betimes.core.errors import Conflict
from betimes.core.instants import HOUR
from betimes.engine.store import NO_ROW, NOT_CACHED, Changes, LockRequest
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair, commit
from betimes.testing.conformance.samples import A, B, C, deleted, locking, moved, segment, together, write


async def a_stream_that_does_not_exist_is_shown_at_version_0(pair: Pair) -> None:
    async with pair.one.begin(LockRequest(locks={A: NOT_CACHED}, reads={B: NOT_CACHED})) as tx:
        expect_equal(tx.rows, {A: NO_ROW, B: NO_ROW}, "what a transaction sees of streams that do not exist")
        expect_equal(tx.unchanged, set(), "nothing was cached")


async def a_committed_row_is_seen_by_both_connections(pair: Pair) -> None:
    changes = moved(A, 1, pair.clock(), alarm_at=pair.clock() + HOUR)
    await pair.commit(changes)
    for store in (pair.one, pair.two):
        expect_equal(await store.load([A, B]), {A: changes.streams[0].row()}, "the rows that exist")
        async with store.begin(locking(A)) as tx:
            expect_equal(tx.rows, {A: changes.streams[0].row()}, "the row under its lock")


async def a_commit_is_visible_when_it_returns(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        expect_equal(await pair.two.load([A]), {}, "nothing is visible before the commit")
        await tx.commit(moved(A, 1, pair.clock()))
        expect((await pair.two.load([A]))[A].version == 1, "a commit that returned is visible to all")


async def a_cached_row_is_sent_again_only_when_it_moved(pair: Pair) -> None:
    await pair.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock())))
    moved_on = moved(B, 2, pair.clock())
    await commit(pair.two, moved_on)
    async with pair.one.begin(LockRequest(locks={A: 1, B: 1, C: 0})) as tx:
        expect_equal(tx.unchanged, {A, C}, "streams whose cached version is the stored one")
        expect_equal(tx.rows, {B: moved_on.streams[0].row()}, "streams that moved since cached")


async def a_cached_row_that_is_only_read_is_sent_again_only_when_it_moved(pair: Pair) -> None:
    await pair.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock())))
    async with pair.one.begin(LockRequest(reads={A: 1, B: NOT_CACHED, C: 0})) as tx:
        expect_equal(tx.unchanged, {A, C}, "read streams whose cached version is the stored one")
        expect_equal(set(tx.rows), {B}, "read streams that moved since cached")


async def a_cached_version_ahead_of_the_store_is_not_trusted(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    async with pair.one.begin(LockRequest(locks={A: 5, B: 3})) as tx:
        expect_equal(tx.unchanged, set(), "no cached version was the stored one")
        expect_equal({of: row.version for of, row in tx.rows.items()}, {A: 1, B: 0}, "the stored versions")


async def a_batch_may_move_a_stream_by_several_versions(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now))
    three = [segment(A, version, now) for version in (2, 3, 4)]
    await pair.commit(Changes(streams=[write(A, 4, now, expected=1)], segments=three))
    row, history = await pair.two.history(A, 1, 10)
    expect_equal(row and row.version, 4, "the version after the batch")
    expect_equal([s.version for s in history], [2, 3, 4], "the versions in the history")


async def a_version_that_moved_is_refused_under_the_lock(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    await pair.commit(moved(A, 2, pair.clock()))
    for expected in (0, 1, 3):
        with expect_refusal(Conflict, f"a write that expects version {expected} of a stream at 2"):
            await pair.commit(moved(A, 3, pair.clock(), expected=expected))
    expect_equal((await pair.one.load([A]))[A].version, 2, "the version after the refusals")
    await pair.commit(moved(A, 3, pair.clock()))


async def a_write_to_a_stream_that_should_exist_is_refused(pair: Pair) -> None:
    with expect_refusal(Conflict, "a write that expects version 3 of a stream that does not exist"):
        await pair.commit(moved(A, 4, pair.clock()))
    expect_equal(await pair.one.load([A]), {}, "the refused write")


async def a_stream_may_be_created_without_being_locked(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        await tx.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock())))
    expect_equal(set(await pair.two.load([A, B])), {A, B}, "the streams that exist")


async def creating_a_stream_that_exists_is_refused_without_its_lock(pair: Pair) -> None:
    await pair.commit(moved(B, 1, pair.clock()))
    with expect_refusal(Conflict, "a second creation of a stream that was not locked"):
        async with pair.one.begin(locking(A)) as tx:
            await tx.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock())))
    expect_equal(set(await pair.two.load([A, B])), {B}, "the streams that exist")


async def a_deleted_stream_keeps_its_version(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now))
    gone = deleted(A, 2, now)
    await pair.commit(gone)
    expect_equal(await pair.two.load([A]), {A: gone.streams[0].row()}, "the row of a deleted stream")
    with expect_refusal(Conflict, "a creation at version 1 of a stream that was deleted at 2"):
        await pair.commit(moved(A, 1, now))
    again = moved(A, 3, now)
    await pair.commit(again)
    expect_equal(await pair.two.load([A]), {A: again.streams[0].row()}, "the stream made again")


async def a_stream_that_was_locked_and_not_written_does_not_exist(pair: Pair) -> None:
    async with pair.one.begin(locking(A, B)) as tx:
        await tx.commit(moved(B, 1, pair.clock()))
    async with pair.one.begin(locking(C)):
        pass
    for store in (pair.one, pair.two):
        expect_equal(set(await store.load([A, B, C])), {B}, "the streams that exist")
        expect_equal(await store.history(A, 0, 10), (None, []), "the history of a stream that was never written")
        expect_equal(await store.history(C, 0, 10), (None, []), "the history of a stream that was only locked")


async def a_commit_without_changes_is_allowed(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        await tx.commit(Changes())
    async with pair.two.begin(LockRequest()) as tx:
        await tx.commit(Changes())
    expect_equal(await pair.one.load([A]), {}, "nothing was written")


async def streams_of_different_tenants_and_kinds_are_different(pair: Pair) -> None:
    alike = [A, A._replace(tenant="other"), A._replace(kind="other")]
    for number, of in enumerate(alike):
        await pair.commit(moved(of, 1, pair.clock(), state=f'{{"number":{number}}}'))
    rows = await pair.two.load(alike)
    expect_equal([rows[of].state for of in alike], [f'{{"number":{n}}}' for n in range(3)], "three states")


async def the_turn_of_a_version_can_be_asked_under_the_lock(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(
        Changes(
            streams=[write(A, 2, now, expected=0)],
            segments=[segment(A, 1, now, turn="first"), segment(A, 2, now, turn="second")],
        )
    )
    async with pair.two.begin(locking(A, B)) as tx:
        turns = [await tx.turn_at(A, version) for version in (1, 2, 3)]
        expect_equal(turns, ["first", "second", None], "the turns that wrote versions 1 to 3")
        expect_equal(await tx.turn_at(B, 1), None, "the turn of a stream that does not exist")


async def a_transaction_may_ask_for_more(pair: Pair) -> None:
    await pair.commit(together(moved(A, 1, pair.clock()), moved(B, 1, pair.clock()), moved(C, 1, pair.clock())))
    async with pair.one.begin(LockRequest(locks={A: 1})) as tx:
        await tx.extend(LockRequest(locks={B: NOT_CACHED, A: 1}, reads={C: 1}))
        expect_equal(tx.unchanged, {A, C}, "unchanged streams after asking for more")
        expect_equal(set(tx.rows), {B}, "changed streams after asking for more")
        await tx.commit(together(moved(A, 2, pair.clock()), moved(B, 2, pair.clock())))
    rows = await pair.two.load([A, B])
    expect_equal([rows[A].version, rows[B].version], [2, 2], "versions after the commit")


async def a_store_that_was_closed_can_be_opened_again(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    await pair.two.close()
    await pair.two.open()
    await commit(pair.two, moved(A, 2, pair.clock()))
    expect_equal((await pair.one.load([A]))[A].version, 2, "the version written after opening again")


async def stores_may_open_together(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock()))
    await asyncio.gather(pair.one.close(), pair.two.close())
    await asyncio.gather(pair.one.open(), pair.two.open())
    await commit(pair.two, moved(A, 2, pair.clock()))
    expect_equal((await pair.one.load([A]))[A].version, 2, "the version written after opening again")
