"""Upkeep: the store's time, policies, checkpoints in place of history, forgetting, and what is owed."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.core.errors import Conflict
from betimes.core.instants import DAY, HOUR, MINUTE
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.store import Backlog, Changes, DeadSend, EffectQuery, LedgerQuery, Store
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import (
    KEY,
    KIND,
    A,
    B,
    C,
    call,
    causing,
    keyed,
    locking,
    moved,
    segment,
    send,
    settled,
    stream,
    together,
    write,
)


async def both_connections_follow_the_injected_clock(pair: Pair) -> None:
    for _ in range(2):
        expect_equal([await pair.one.now(), await pair.two.now()], [pair.clock()] * 2, "the store's time")
        pair.clock.advance(0.000_001)
    async with pair.two.begin(locking(A)) as tx:
        expect_equal(tx.now, pair.clock(), "a transaction's time")


async def a_policy_is_kept_under_its_fingerprint(pair: Pair) -> None:
    body = msgspec.json.encode({"runs": {"note": 'it\'s "ü" \x00'}}).decode()
    expect_equal(await pair.one.policy("f1"), None, "a policy nobody saved")
    await _save(pair.one, A, {"f1": body})
    await _save(pair.two, B, {"f2": "{}", "f3": "[]"})
    expect_equal([await pair.two.policy("f1"), await pair.one.policy("f2")], [body, "{}"], "the saved bodies")


async def saving_a_policy_again_changes_nothing(pair: Pair) -> None:
    await _save(pair.one, A, {"f1": "{}"})
    await _save(pair.two, B, {"f1": '{"other":1}'})
    expect_equal(await pair.one.policy("f1"), "{}", "the body saved first")


async def a_policy_is_saved_only_with_its_commit(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        with expect_refusal(Conflict, "a version that was skipped"):
            await tx.commit(Changes(streams=[write(A, 3, pair.clock())], policies={"f1": "{}"}))
    expect_equal(await pair.two.policy("f1"), None, "the policy of a refused commit")


async def _save(store: Store, of: StreamId, policies: dict[str, str]) -> None:
    """Move a new stream to its first version, naming these policies."""
    async with store.begin(locking(of)) as tx:
        at = tx.now
        await tx.commit(Changes(streams=[write(of, 1, at)], segments=[segment(of, 1, at)], policies=policies))


def _checkpoint(of: StreamId, version: int, at: int) -> Segment:
    return segment(of, version, at, turn="checkpoint", command=None, events='[{"type":"Checkpoint"}]', prev="")


async def _ledger(pair: Pair) -> list[Segment]:
    return await pair.two.ledger(LedgerQuery())


async def a_checkpoint_stands_for_the_history_up_to_its_version(pair: Pair) -> None:
    for of, version in ((A, 1), (B, 1), (A, 2), (C, 1), (A, 3)):
        await pair.commit(moved(of, version, pair.clock()))
    before = await _ledger(pair)
    row, _ = await pair.two.history(A, 0, 10)
    checkpoint = _checkpoint(A, 2, pair.clock())
    expect_equal(await pair.one.replace_history(checkpoint), 2, "how many segments went")
    after, history = await pair.two.history(A, 0, 10)
    expect_equal(after, row, "the row is as it was")
    expect_equal([replace(history[0], seq=0), history[1]], [checkpoint, before[4]], "the stream's history")
    wanted = [before[1], history[0], before[3], before[4]]
    expect_equal(await _ledger(pair), wanted, "the ledger, with the checkpoint in its place")
    expect_equal(history[0].seq, before[2].seq, "the checkpoint's position is that of the last segment it replaces")


async def a_stream_goes_on_after_a_checkpoint(pair: Pair) -> None:
    for version in (1, 2, 3):
        await pair.commit(moved(A, version, pair.clock()))
    await pair.one.replace_history(_checkpoint(A, 3, pair.clock()))
    await pair.commit(moved(A, 4, pair.clock()))
    _, history = await pair.two.history(A, 0, 10)
    expect_equal([(s.version, s.turn) for s in history], [(3, "checkpoint"), (4, "turn.a.4")], "the history")
    expect_equal(await pair.one.replace_history(_checkpoint(A, 4, pair.clock())), 2, "a checkpoint over a checkpoint")
    expect_equal([s.version for s in await _ledger(pair)], [4], "what is left")


async def a_checkpoint_of_nothing_replaces_nothing(pair: Pair) -> None:
    await pair.commit(moved(B, 1, pair.clock()))
    expect_equal(await pair.one.replace_history(_checkpoint(A, 2, pair.clock())), 0, "how many segments went")
    expect_equal([s.stream for s in await _ledger(pair)], [B], "the ledger")
    expect_equal(await pair.two.history(A, 0, 10), (None, []), "the stream that does not exist")


async def history_that_a_live_key_needs_is_kept(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now))
    await pair.commit(keyed(KEY, A, 2, now, expires_at=now + HOUR))
    await pair.commit(moved(A, 3, now))
    before = await _ledger(pair)
    for version in (2, 3):
        expect_equal(await pair.one.replace_history(_checkpoint(A, version, now)), 0, "how many segments went")
    expect_equal(await _ledger(pair), before, "the ledger while the key is live")
    expect_equal(await pair.one.replace_history(_checkpoint(A, 1, now)), 1, "segments before the key's may go")
    pair.clock.advance_to(now + HOUR)
    expect_equal(await pair.one.replace_history(_checkpoint(A, 3, now)), 3, "all may go when the key has expired")
    expect_equal(await pair.two.seen(KEY), None, "the expired key")
    await pair.commit(keyed(KEY, A, 4, pair.clock()))
    seen = await pair.two.seen(KEY)
    expect_equal(seen and seen.segment.version, 4, "the key used again")


async def expired_keys_are_forgotten_and_live_ones_kept(pair: Pair) -> None:
    now = pair.clock()
    keys = [KEY._replace(key=f"k-{n}") for n in range(4)]
    for version, (key, hours) in enumerate(zip(keys, (1, 2, 3, 4), strict=True), start=1):
        await pair.commit(keyed(key, A, version, now, expires_at=now + hours * HOUR))
    expect_equal(await pair.one.forget(before_at=now + DAY, limit=100), 0, "nothing has expired")
    pair.clock.advance_to(now + 3 * HOUR)
    expect_equal(await pair.one.forget(before_at=0, limit=2), 2, "no more than asked")
    expect_equal(await pair.two.forget(before_at=0, limit=100), 1, "the rest")
    expect_equal(await pair.two.forget(before_at=0, limit=100), 0, "nothing is left")
    expect_equal([await pair.two.seen(key) is not None for key in keys], [False] * 3 + [True], "the keys kept")


async def calls_that_ended_are_forgotten_and_owed_ones_kept(pair: Pair) -> None:
    now = pair.clock()
    names = ["done", "failed", "dead", "pending", "leased", "late"]
    calls = [call(A, 1, now, place=place, executor=name) for place, name in enumerate(names)]
    await pair.commit(causing(A, 1, now, *calls, send(A, 1, now, B, place=9)))
    leases = await pair.one.lease_calls([name for name in names if name != "pending"], 10)
    fences = {lease.call.executor: lease.call.fence for lease in leases}
    for place, status in enumerate(("done", "failed", "dead")):
        await pair.commit(settled(calls[place].id, fences[status], status, now))
    await pair.commit(settled(calls[5].id, fences["late"], "done", now + HOUR))
    expect_equal(await pair.one.forget(before_at=now, limit=10), 0, "nothing ended before")
    expect_equal(await pair.one.forget(before_at=now + 1, limit=1), 1, "no more than asked")
    expect_equal(await pair.one.forget(before_at=now + HOUR, limit=10), 1, "those that ended before the instant")
    left = [row.executor for row in await pair.two.effects(EffectQuery())]
    expect_equal(left, ["dead", "pending", "leased", "late", "send"], "dead letters and what is owed are kept")
    expect_equal(await pair.one.forget(before_at=now + DAY, limit=10), 1, "the one that ended late")


async def a_dead_send_is_not_forgotten(pair: Pair) -> None:
    now = pair.clock()
    sent = send(A, 1, now, B)
    await pair.commit(causing(A, 1, now, sent))
    await pair.commit(Changes(sends_dead=[DeadSend(sent.id, now, "no such target")]))
    expect_equal(await pair.one.forget(before_at=now + DAY, limit=10), 0, "how much was forgotten")
    expect_equal(len(await pair.two.effects(EffectQuery(status="dead"))), 1, "the dead letter")


async def nothing_is_owed_at_first(pair: Pair) -> None:
    expect_equal(await pair.one.backlog([KIND]), Backlog(0, None, 0, 0, 0, {}), "the backlog of an empty database")


async def the_backlog_counts_alarms_of_the_kinds_asked_for(pair: Pair) -> None:
    now = pair.clock()
    other = stream("a", kind="other")
    await pair.commit(
        together(
            moved(A, 1, now, alarm_at=now - HOUR),
            moved(B, 1, now, alarm_at=now - MINUTE),
            moved(C, 1, now, alarm_at=now + 1),
            moved(other, 1, now, alarm_at=now - DAY),
        )
    )
    found = await pair.two.backlog([KIND])
    expect_equal((found.alarms_due, found.oldest_alarm_at, found.snoozed), (2, now - HOUR, 0), "alarms due")
    await pair.one.snooze(A, 1, now + HOUR)
    found = await pair.two.backlog([KIND])
    expect_equal((found.alarms_due, found.oldest_alarm_at, found.snoozed), (1, now - MINUTE, 1), "one is snoozed")
    found = await pair.two.backlog(["other"])
    expect_equal((found.alarms_due, found.oldest_alarm_at, found.snoozed), (1, now - DAY, 0), "of the other kind")
    pair.clock.advance_to(now + HOUR)
    expect_equal((await pair.two.backlog([KIND]))[2], 0, "a snooze that ended")


async def the_backlog_counts_effects_that_are_owed(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place=place, executor=f"x{place}") for place in range(4)]
    await pair.commit(causing(A, 1, now, *calls, send(A, 1, now, B, place=9)))
    expect_equal((await pair.two.backlog([]))[3:5], (5, 0), "calls and sends that are pending, and dead letters")
    leases = await pair.one.lease_calls(["x0", "x1", "x2"], 10)
    fences = {lease.call.id: lease.call.fence for lease in leases}
    for place, status in enumerate(("dead", "done")):
        await pair.commit(settled(calls[place].id, fences[calls[place].id], status, now))
    expect_equal((await pair.two.backlog([]))[3:5], (3, 1), "pending or leased, and dead letters")


async def calls_nobody_takes_for_a_minute_are_reported(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place=place, executor=name) for place, name in enumerate(["x", "x", "y", "held"])]
    later = call(A, 1, now, place=8, executor="later", next_attempt_at=now + HOUR)
    await pair.commit(causing(A, 1, now, *calls, later, send(A, 1, now, B, place=9)))
    [held] = await pair.one.lease_calls(["held"], 1)
    pair.clock.advance_to(now + MINUTE - 1)
    expect_equal((await pair.two.backlog([])).orphaned, {}, "not for a minute yet")
    pair.clock.advance_to(now + MINUTE)
    expect_equal((await pair.two.backlog([])).orphaned, {"x": 2, "y": 1}, "calls nobody took, by executor")
    await pair.one.renew_lease(held.call.id, held.call.fence)
    expect(await pair.one.lease_calls(["x", "y"], 10) != [], "they can be taken")
    expect_equal((await pair.two.backlog([])).orphaned, {}, "when they were taken")
