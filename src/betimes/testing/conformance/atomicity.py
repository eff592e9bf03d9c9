"""A commit is all or nothing: whatever refuses, breaks off or leaves a batch, no part of it is ever visible."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from betimes.core.errors import Conflict, Duplicate, Fenced, StoreError
from betimes.core.instants import HOUR
from betimes.core.streams import EffectId
from betimes.engine.store import Changes
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair, beside, commit, hold_for_ever
from betimes.testing.conformance.samples import (
    ABSENT,
    KEY,
    A,
    B,
    C,
    call,
    causing,
    deleted,
    keyed,
    locking,
    moved,
    needed,
    send,
    settled,
    together,
)
from betimes.testing.conformance.visible import Visible, everything

STREAMS = (A, B, C)
NEW_KEY = KEY._replace(key="k-2")
KEYS = (KEY, NEW_KEY)


async def _prepared(pair: Pair) -> Changes:
    """A database with a used key, a waiting send, a leased call and a snoozed wake; and a batch that moves it all."""
    now = pair.clock()
    sent, called = send(A, 1, now, B, place=0), call(A, 1, now, place=1)
    await pair.commit(together(causing(A, 1, now, sent, called), keyed(KEY, C, 1, now)))
    await pair.commit(moved(B, 1, now, alarm_at=now, status="waiting", owner="u-1", due_at=now))
    await pair.one.snooze(B, 1, now + HOUR)
    [lease] = await pair.one.lease_calls([called.executor], 1)
    return together(
        causing(A, 2, now, call(A, 2, now, place=0), send(A, 2, now, B, place=1)),
        moved(B, 2, now, status="done"),
        keyed(NEW_KEY, C, 2, now),
        Changes(sends_applied=[sent.id]),
        settled(called.id, lease.call.fence, "done", now),
    )


async def _seen_by_both(pair: Pair) -> Visible:
    first, second = [await everything(store, STREAMS, KEYS) for store in (pair.one, pair.two)]
    expect_equal(first, second, "what the two connections see")
    return first


async def _refused_whole(pair: Pair, kind: type[StoreError], batch: Changes, bad: Changes, what: str) -> None:
    """With the bad part last, and first, nothing of the batch is written; without it, all of it is."""
    before = await _seen_by_both(pair)
    for refused in (together(batch, bad), together(bad, batch)):
        with expect_refusal(kind, what):
            await commit(pair.one, refused)
        expect_equal(await _seen_by_both(pair), before, f"{what}: what is visible afterwards")
    await commit(pair.one, batch)
    await _expect_all_of_it(pair)


async def _expect_all_of_it(pair: Pair) -> None:
    after = await _seen_by_both(pair)
    expect_equal([row.version for row in after.rows.values()], [2, 2, 2], "versions after the batch")
    expect_equal(len(after.ledger), 6, "segments after the batch")
    expect_equal([row.id.version for row in after.effects], [1, 2, 2], "effects after the batch")
    expect_equal([row.status for row in after.effects], ["done", "pending", "pending"], "effects after the batch")
    expect(after.keys[NEW_KEY] is not None, "the batch's key is used")
    expect_equal(after.backlog.snoozed, 0, "the batch ended the snooze")


async def a_version_that_moved_refuses_the_whole_batch(pair: Pair) -> None:
    batch = await _prepared(pair)
    bad = moved(B._replace(id="d"), 8, pair.clock())
    await _refused_whole(pair, Conflict, batch, bad, "a batch with one wrong version")


async def a_key_on_record_refuses_the_whole_batch(pair: Pair) -> None:
    batch = await _prepared(pair)
    bad = keyed(KEY, B._replace(id="d"), 1, pair.clock())
    await _refused_whole(pair, Duplicate, batch, bad, "a batch with one used key")


async def a_lost_lease_refuses_the_whole_batch(pair: Pair) -> None:
    batch = await _prepared(pair)
    bad = settled(ABSENT, 1, "done", pair.clock())
    await _refused_whole(pair, Fenced, batch, bad, "a batch that settles what it does not hold")


async def a_wrong_fence_refuses_the_whole_batch(pair: Pair) -> None:
    batch = await _prepared(pair)
    [held] = batch.settlements
    batch.settlements = [replace(held, fence=held.fence + 1)]
    before = await _seen_by_both(pair)
    with expect_refusal(Fenced, "a batch with a fence that is not the lease's"):
        await commit(pair.one, batch)
    expect_equal(await _seen_by_both(pair), before, "what is visible afterwards")
    batch.settlements = [held]
    await commit(pair.one, batch)
    await _expect_all_of_it(pair)


async def a_send_applied_by_another_refuses_the_whole_batch(pair: Pair) -> None:
    batch = await _prepared(pair)
    bad = Changes(sends_applied=[ABSENT])
    await _refused_whole(pair, Fenced, batch, bad, "a batch that applies a send that is gone")


async def leaving_without_a_commit_undoes_all(pair: Pair) -> None:
    batch = await _prepared(pair)
    before = await _seen_by_both(pair)
    async with pair.one.begin(needed(batch)) as tx:
        expect_equal(tx.sends, set(batch.sends_applied), "the sends taken")
    expect_equal(await _seen_by_both(pair), before, "what is visible afterwards")
    await commit(pair.two, batch)
    await _expect_all_of_it(pair)


async def an_error_after_the_commit_does_not_undo_it(pair: Pair) -> None:
    batch = await _prepared(pair)
    try:
        async with pair.one.begin(needed(batch)) as tx:
            await tx.commit(batch)
            raise LookupError
    except LookupError:
        pass
    await _expect_all_of_it(pair)


async def a_task_cancelled_before_its_commit_undoes_all(pair: Pair) -> None:
    batch = await _prepared(pair)
    before = await _seen_by_both(pair)
    held = asyncio.Event()
    async with beside(hold_for_ever(pair.two, needed(batch), held)):
        await held.wait()
    expect_equal(await _seen_by_both(pair), before, "what is visible afterwards")
    await commit(pair.one, batch)
    await _expect_all_of_it(pair)


async def a_task_cancelled_at_any_step_leaves_all_or_nothing(pair: Pair) -> None:
    for steps in range(12):
        now, of = pair.clock(), A._replace(id=f"s{steps}")
        batch = together(moved(of, 1, now), keyed(KEY._replace(key=of.id), of._replace(kind="other"), 1, now))
        async with beside(commit(pair.two, batch)) as task:
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
        rows = await pair.one.load([written.stream for written in batch.streams])
        expect(len(rows) in (0, 2), f"cancelled after {steps} steps: all of the batch or nothing, not {rows}")
        expect_equal((await pair.one.seen(batch.keys[0].key)) is not None, bool(rows), "the key goes with the rows")
        expect(task.cancelled() or bool(rows), "a commit that returned has written")
        await commit(pair.two, moved(of, 2 if rows else 1, now))


async def a_refused_transaction_gives_its_locks_back(pair: Pair) -> None:
    now = pair.clock()
    with expect_refusal(Conflict, "a wrong version"):
        await pair.commit(moved(A, 5, now))
    async with pair.two.begin(locking(A)) as tx:
        expect(A in tx.rows, "the row can be locked after its holder was refused")
        await tx.commit(moved(A, 1, now))
    await pair.commit(deleted(A, 2, now))


async def effects_of_a_refused_batch_do_not_happen(pair: Pair) -> None:
    now = pair.clock()
    batch = causing(A, 1, now, call(A, 1, now, place=0), send(A, 1, now, B, place=1))
    with expect_refusal(Conflict, "a batch with one wrong version"):
        await pair.commit(together(batch, moved(C, 3, now)))
    expect_equal(await pair.two.lease_calls(["handler:brief"], 10), [], "calls that are due")
    expect_equal(await pair.two.waiting_sends(10, created_before=now + 1), [], "sends that wait")
    await pair.commit(batch)
    [lease] = await pair.two.lease_calls(["handler:brief"], 10)
    expect_equal(lease.call.id, EffectId(*A, 1, 0), "the call of the batch that was committed")
