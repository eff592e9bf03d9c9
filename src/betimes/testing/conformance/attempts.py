"""The history of an effect: every attempt and how it ended, the last ones kept."""

from __future__ import annotations

from betimes.core.errors import Fenced
from betimes.core.instants import SECOND
from betimes.core.streams import EffectId
from betimes.engine.store import ATTEMPTS_KEPT, LEASE_RAN_OUT, Attempt, Changes, DeadSend, EffectQuery
from betimes.testing.conformance.expectations import expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import A, B, call, causing, send, settled

BRIEF = "handler:brief"


async def _with_call(pair: Pair, attempts_max: int = 3) -> EffectId:
    now = pair.clock()
    called = call(A, 1, now, attempts_max=attempts_max)
    await pair.commit(causing(A, 1, now, called))
    return called.id


async def _fail(pair: Pair, effect: EffectId, error: str, duration_ms: int | None = None) -> Attempt:
    """One more attempt that is to be tried again at once."""
    at = pair.clock.advance(1)
    [lease] = await pair.one.lease_calls([BRIEF], 1)
    end = settled(effect, lease.call.fence, "pending", at, next_attempt_at=at, error=error, duration_ms=duration_ms)
    await pair.commit(end)
    return Attempt(at, False, error, duration_ms)


async def _expect_history(pair: Pair, wanted: list[Attempt], what: str) -> None:
    [row] = await pair.two.effects(EffectQuery())
    expect_equal(list(row.history), wanted, what)


async def every_attempt_at_a_call_is_on_record(pair: Pair) -> None:
    effect = await _with_call(pair)
    await _expect_history(pair, [], "before the first attempt")
    wanted = [await _fail(pair, effect, "busy", 120), await _fail(pair, effect, "gone", None)]
    await _expect_history(pair, wanted, "after two that failed")
    at = pair.clock.advance(1)
    [lease] = await pair.two.lease_calls([BRIEF], 1)
    await _expect_history(pair, wanted, "while the third is under way")
    await pair.commit(settled(effect, lease.call.fence, "done", at, duration_ms=7))
    await _expect_history(pair, [*wanted, Attempt(at, True, "", 7)], "after one that succeeded")


async def an_attempt_nobody_settled_is_on_record_when_the_call_is_taken_again(pair: Pair) -> None:
    effect = await _with_call(pair, attempts_max=2)
    await pair.one.lease_calls([BRIEF], 1)
    again_at = pair.clock.advance(3600)
    await pair.two.lease_calls([BRIEF], 1)
    lost = Attempt(again_at, False, LEASE_RAN_OUT, None)
    await _expect_history(pair, [lost], "after its lease ran out")
    at = pair.clock.advance(3600)
    [lease] = await pair.two.lease_calls([BRIEF], 1)
    await _expect_history(pair, [lost], "while the last is only to be settled")
    await pair.commit(settled(effect, lease.call.fence, "dead", at, error=LEASE_RAN_OUT))
    await _expect_history(pair, [lost, lost._replace(at=at)], "after it was settled")


async def a_call_is_leased_by_the_commit_that_makes_it(pair: Pair) -> None:
    now = pair.clock()
    ends_at = now + 60 * SECOND
    called, other = call(A, 1, now, is_leased=True, next_attempt_at=ends_at), call(A, 1, now, place=1)
    await pair.commit(causing(A, 1, now, called, other))
    rows = {row.id: (row.status, row.attempts, row.next_attempt_at) for row in await pair.two.effects(EffectQuery())}
    expect_equal(rows, {called.id: ("leased", 1, ends_at), other.id: ("pending", 0, now)}, "one leased, one not")
    leases = await pair.two.lease_calls([BRIEF], 10)
    expect_equal([lease.call.id for lease in leases], [other.id], "what is left to take")
    await pair.commit(settled(other.id, leases[0].call.fence, "done", now))
    at = pair.clock.advance(60)
    [again] = await pair.two.lease_calls([BRIEF], 10)
    expect_equal((again.call.id, again.call.attempt, again.call.fence), (called.id, 2, 2), "taken when its lease ended")
    with expect_refusal(Fenced, "a settlement by whoever lost the lease"):
        await pair.commit(settled(called.id, 1, "done", at))
    await pair.commit(settled(called.id, 2, "done", at))


async def what_a_commit_leased_is_settled_under_its_first_fence(pair: Pair) -> None:
    now = pair.clock()
    called = call(A, 1, now, is_leased=True, next_attempt_at=now + 60 * SECOND)
    await pair.commit(causing(A, 1, now, called))
    await pair.one.renew_lease(called.id, 1)
    await pair.commit(settled(called.id, 1, "done", now, duration_ms=7))
    await _expect_history(pair, [Attempt(now, True, "", 7)], "its only attempt")


async def the_last_attempts_are_kept(pair: Pair) -> None:
    effect = await _with_call(pair, attempts_max=100)
    made = [await _fail(pair, effect, f"attempt {number}", number) for number in range(ATTEMPTS_KEPT + 3)]
    await _expect_history(pair, made[3:], "the last ones, the oldest first")


async def a_revived_letter_keeps_its_history(pair: Pair) -> None:
    effect = await _with_call(pair)
    failed = await _fail(pair, effect, "busy")
    at = pair.clock.advance(1)
    [lease] = await pair.one.lease_calls([BRIEF], 1)
    await pair.commit(settled(effect, lease.call.fence, "dead", at, error="gave up"))
    await pair.two.revive_effect(effect)
    wanted = [failed, Attempt(at, False, "gave up", None)]
    await _expect_history(pair, wanted, "after a revival")
    await _expect_history(pair, [*wanted, await _fail(pair, effect, "busy again")], "after one more attempt")


async def a_send_nobody_could_decide_has_its_attempt_on_record(pair: Pair) -> None:
    now = pair.clock()
    sent = send(A, 1, now, B)
    await pair.commit(causing(A, 1, now, sent))
    at = now + SECOND
    await pair.commit(Changes(sends_dead=[DeadSend(sent.id, at, "no such stream")]))
    await _expect_history(pair, [Attempt(at, False, "no such stream", None)], "the dead command")
