"""What is due: alarms and due times, taken oldest first inside the deciding transaction."""

from __future__ import annotations

from betimes.core.instants import HOUR, MINUTE, SECOND
from betimes.core.streams import StreamId
from betimes.engine.store import NO_ROW, NOT_CACHED, Changes, DueIndex, LockRequest, Reached, Store, StreamQuery
from betimes.testing.conformance.expectations import expect, expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import (
    KIND,
    TENANT,
    A,
    B,
    C,
    call,
    causing,
    deleted,
    locking,
    moved,
    settled,
    stream,
    together,
)

INDEXES: tuple[DueIndex, ...] = ("alarm", "due")


async def _due(store: Store, index: DueIndex = "alarm", limit: int = 100) -> list[StreamId]:
    async with store.begin_due(index, [KIND], limit) as tx:
        expect_equal(tx.unchanged, set(), "nothing was cached")
        return list(tx.rows)


async def a_stream_is_due_from_its_instant_on(pair: Pair) -> None:
    at = pair.clock() + HOUR
    await pair.commit(together(moved(A, 1, 0, alarm_at=at), moved(B, 1, 0, due_at=at), moved(C, 1, 0)))
    pair.clock.advance_to(at - 1)
    for index in INDEXES:
        expect_equal(await _due(pair.two, index), [], f"{index} before its instant")
    pair.clock.advance_to(at)
    expect_equal([await _due(pair.two, index) for index in INDEXES], [[A], [B]], "alarm and due at their instant")


async def streams_that_are_due_are_taken_oldest_first(pair: Pair) -> None:
    now = pair.clock()
    late = {"a": 3, "b": 9, "c": 1, "d": 9}
    written = (moved(stream(id), 1, now, alarm_at=now - by, due_at=now - by) for id, by in late.items())
    await pair.commit(together(*written))
    for index in INDEXES:
        expect_equal([of.id for of in await _due(pair.two, index)], ["b", "d", "a", "c"], f"{index}, oldest first")
        expect_equal([of.id for of in await _due(pair.two, index, 2)], ["b", "d"], f"the two oldest by {index}")


async def a_stream_that_is_due_comes_with_its_row_and_the_time(pair: Pair) -> None:
    changes = moved(A, 1, pair.clock(), alarm_at=pair.clock(), state='{"awake":false}')
    await pair.commit(changes)
    later = pair.clock.advance(5)
    async with pair.two.begin_due("alarm", [KIND], 10) as tx:
        expect_equal(tx.rows, {A: changes.streams[0].row()}, "the row that is due")
        expect_equal(tx.now, later, "the transaction's time")
        expect_equal((tx.seen, tx.sends), ({}, set()), "no keys and no sends were asked for")


async def only_the_kinds_asked_for_are_taken(pair: Pair) -> None:
    now = pair.clock()
    streams = [stream("a", kind=kind) for kind in ("run", "inbox", "score")]
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now, due_at=now) for of in streams)))
    for index in INDEXES:
        async with pair.two.begin_due(index, ["score", "run", "none"], 10) as tx:
            expect_equal({of.kind for of in tx.rows}, {"run", "score"}, f"the kinds taken by {index}")
        async with pair.two.begin_due(index, [], 10) as tx:
            expect_equal(tx.rows, {}, "no kinds, no streams")


async def only_the_tenant_asked_for_is_taken(pair: Pair) -> None:
    now = pair.clock()
    streams = [stream("a", tenant=tenant) for tenant in ("acme", "other")]
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now, due_at=now) for of in streams)))
    for index in INDEXES:
        async with pair.two.begin_due(index, [KIND], 10, tenant="other") as tx:
            expect_equal(list(tx.rows), [streams[1]], f"the streams taken by {index}")


async def what_is_due_can_be_bounded_by_an_earlier_instant(pair: Pair) -> None:
    now = pair.clock()
    alarms = {A: now - HOUR, B: now - MINUTE, C: now + MINUTE}
    await pair.commit(together(*(moved(of, 1, 0, alarm_at=at, due_at=at) for of, at in alarms.items())))
    for index in INDEXES:
        for until_at, wanted in ((now - HOUR - 1, []), (now - HOUR, [A]), (now, [A, B]), (now + HOUR, [A, B])):
            async with pair.two.begin_due(index, [KIND], 10, until_at=until_at) as tx:
                expect_equal(list(tx.rows), wanted, f"{index}, never later than the store's time")


async def whoever_takes_all_that_is_due_gets_each_once(pair: Pair) -> None:
    """Batch by batch from where the last one ended, whatever order the store prefers; others' work is left alone."""
    now = pair.clock()
    overdue = {stream(f"s{n * 7 % 40:02}"): now - n * 13 % 17 * MINUTE for n in range(40)}
    theirs = {of._replace(tenant="other"): at for of, at in list(overdue.items())[:7]}
    everything = overdue | theirs | {stream("later"): now + MINUTE}
    await pair.commit(together(*(moved(of, 1, 0, due_at=at) for of, at in everything.items())))
    taken: list[StreamId] = []
    after: Reached | None = None
    while True:
        async with pair.one.begin_due("due", [KIND], 6, after=after, tenant=TENANT) as tx:
            picked = list(tx.rows)
            await tx.commit(together(*(moved(of, 2, now, due_at=now + HOUR) for of in picked)))
        taken += picked
        if after is None and not picked:
            break
        after = Reached(everything[picked[-1]], picked[-1]) if len(picked) == 6 else None
    expect_equal(sorted(taken), sorted(overdue), "what was taken, all in all")
    async with pair.two.begin_due("due", [KIND], 100) as tx:
        expect_equal(set(tx.rows), set(theirs), "what another tenant has due")


async def a_decided_wake_is_no_longer_due(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(moved(A, 1, now, alarm_at=now), moved(B, 1, now, alarm_at=now)))
    async with pair.one.begin_due("alarm", [KIND], 1) as tx:
        await tx.commit(moved(A, 2, now, alarm_at=now + HOUR))
    expect_equal(await _due(pair.two), [B], "what is due after one was decided")


async def a_wake_that_was_left_is_still_due(pair: Pair) -> None:
    await pair.commit(moved(A, 1, pair.clock(), alarm_at=pair.clock()))
    for store in (pair.one, pair.two):
        expect_equal(await _due(store), [A], "what is due while nobody decides it")


async def a_wake_may_ask_for_other_streams(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now))
    async with pair.one.begin_due("alarm", [KIND], 1) as tx:
        await tx.extend(LockRequest(locks={B: NOT_CACHED}, reads={C: NOT_CACHED}))
        expect_equal((tx.rows[B], tx.rows[C]), (NO_ROW, NO_ROW), "the streams asked for later")
        await tx.commit(together(moved(A, 2, now), moved(B, 1, now)))
    expect_equal(set(await pair.two.load([A, B])), {A, B}, "the streams written by one wake")


async def a_deleted_stream_is_not_due(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now, due_at=now))
    await pair.commit(deleted(A, 2, now))
    for index in INDEXES:
        expect_equal(await _due(pair.two, index), [], f"{index} of a deleted stream")
    expect_equal(await pair.two.next_due("alarm", [KIND]), None, "the next alarm")


async def a_snoozed_wake_rests_until_its_time(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now, due_at=now))
    await pair.one.snooze(A, 1, now + HOUR)
    expect_equal(await _due(pair.two), [], "a snoozed wake")
    expect_equal(await _due(pair.two, "due"), [A], "only alarms heed snoozes")
    expect_equal(await pair.two.next_due("alarm", [KIND]), now + HOUR, "the next alarm is when the snooze ends")
    [row] = await pair.two.streams(StreamQuery())
    expect_equal((row.version, row.alarm_at, row.snooze_until), (1, now, now + HOUR), "a snooze is beside the state")
    pair.clock.advance_to(now + HOUR - 1)
    expect_equal(await _due(pair.two), [], "just before the snooze ends")
    pair.clock.advance_to(now + HOUR)
    expect_equal(await _due(pair.two), [A], "when the snooze ends")


async def a_snooze_does_not_bring_an_alarm_forward(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now + HOUR))
    await pair.one.snooze(A, 1, now + MINUTE)
    pair.clock.advance_to(now + MINUTE)
    expect_equal(await _due(pair.two), [], "an alarm later than its snooze")
    expect_equal(await pair.two.next_due("alarm", [KIND]), now + HOUR, "the next alarm")


async def any_commit_to_the_stream_ends_its_snooze(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now))
    await pair.one.snooze(A, 1, now + HOUR, "it failed")
    await pair.commit(moved(B, 1, now))
    expect_equal(await _due(pair.two), [], "a commit to another stream does not end it")
    await pair.commit(moved(A, 2, now, alarm_at=now))
    expect_equal(await _due(pair.two), [A], "a commit to the stream ends its snooze")
    rows = {row.stream: row for row in await pair.two.streams(StreamQuery())}
    expect_equal(rows[A].snooze_until, None, "the snooze after the commit")


async def a_snooze_for_a_version_that_moved_does_nothing(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now))
    await pair.commit(moved(A, 2, now, alarm_at=now))
    await pair.one.snooze(A, 1, now + HOUR)
    await pair.one.snooze(B, 1, now + HOUR)
    expect_equal(await _due(pair.two), [A], "what is due after a snooze that came too late")


async def a_snooze_survives_a_transaction_that_was_left(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, alarm_at=now))
    await pair.one.snooze(A, 1, now + HOUR)
    async with pair.two.begin(locking(A)):
        pass
    expect_equal(await _due(pair.two), [], "what is due after a transaction that wrote nothing")


async def the_next_instant_is_the_earliest_of_the_kinds_asked_for(pair: Pair) -> None:
    now = pair.clock()
    expect_equal(await pair.two.next_due("alarm", [KIND]), None, "nothing is due, ever")
    await pair.commit(
        together(
            moved(A, 1, now, alarm_at=now + 2 * HOUR, due_at=now + 5 * HOUR),
            moved(B, 1, now, alarm_at=now + HOUR, due_at=now + 6 * HOUR),
            moved(stream("a", kind="other"), 1, now, alarm_at=now, due_at=now),
        )
    )
    expect_equal(await pair.two.next_due("alarm", [KIND]), now + HOUR, "the next alarm")
    expect_equal(await pair.two.next_due("due", [KIND]), now + 5 * HOUR, "the next due time")
    expect_equal(await pair.two.next_due("alarm", [KIND, "other"]), now, "the next alarm of both kinds")
    expect_equal(await pair.two.next_due("alarm", []), None, "the next alarm of no kind")


async def the_next_instant_counts_calls_of_the_executors_asked_for(pair: Pair) -> None:
    now = pair.clock()
    called = call(A, 1, now, next_attempt_at=now + MINUTE, lease_s=30)
    await pair.commit(together(causing(A, 1, now, called), moved(B, 1, now, alarm_at=now + HOUR)))
    asked = [called.executor]
    expect_equal(await pair.two.next_due("alarm", [KIND]), now + HOUR, "the next alarm")
    expect_equal(await pair.two.next_due("alarm", [KIND], ["other"]), now + HOUR, "without calls it cannot execute")
    expect_equal(await pair.two.next_due("alarm", [KIND], asked), now + MINUTE, "the call's first attempt")
    pair.clock.advance(60)
    [lease] = await pair.one.lease_calls(asked, 1)
    expect_equal(await pair.two.next_due("alarm", [KIND], asked), pair.clock() + 30 * SECOND, "the end of its lease")
    await pair.commit(settled(called.id, lease.call.fence, "done", pair.clock()))
    expect_equal(await pair.two.next_due("alarm", [KIND], asked), now + HOUR, "the next alarm when the call is done")
    expect(await pair.two.next_due("alarm", [], asked) is None, "nothing is due, ever")


async def the_next_instant_of_one_tenant_is_told_apart(pair: Pair) -> None:
    now, other = pair.clock(), stream("z", tenant="other")
    called = call(other, 1, now, next_attempt_at=now + MINUTE)
    await pair.commit(
        together(
            moved(A, 1, now, alarm_at=now, due_at=now),
            causing(B, 1, now, call(B, 1, now)),
            moved(other, 1, now, alarm_at=now + HOUR, due_at=now + 2 * HOUR),
        )
    )
    await pair.commit(Changes(effects=[called]))
    asked = [called.executor]
    expect_equal(await pair.two.next_due("alarm", [KIND], tenant="other"), now + HOUR, "the tenant's next alarm")
    expect_equal(await pair.two.next_due("due", [KIND], tenant="other"), now + 2 * HOUR, "its next due time")
    expect_equal(await pair.two.next_due("alarm", [KIND], asked, tenant="other"), now + MINUTE, "its next call")
    expect_equal(await pair.two.next_due("due", [KIND], asked, tenant="nobody"), None, "of a tenant that has nothing")
