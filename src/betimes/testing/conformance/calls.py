"""Calls to the outside: leased under a fence, tried again, settled once, and kept as dead letters in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from betimes.core.errors import Fenced
from betimes.core.instants import HOUR, SECOND
from betimes.core.streams import EffectId
from betimes.engine.store import PAGE_MAX, Changes, DeadSend, EffectQuery, EffectRow, Lease, Settlement, Store
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair, commit
from betimes.testing.conformance.samples import ABSENT, A, B, call, causing, send, settled, stream, together

BRIEF = "handler:brief"


async def _with_call(pair: Pair, **columns: Any) -> EffectId:
    now = pair.clock()
    called = call(A, 1, now, **columns)
    await pair.commit(causing(A, 1, now, called))
    return called.id


async def _lease(store: Store) -> Lease:
    leases = await store.lease_calls([BRIEF], 10)
    expect_equal(len(leases), 1, "how many calls are due")
    return leases[0]


async def _none_is_due(pair: Pair, why: str) -> None:
    for store in (pair.one, pair.two):
        expect_equal(await store.lease_calls([BRIEF], 10), [], f"calls that are due {why}")


async def _row(pair: Pair) -> EffectRow:
    [row] = await pair.two.effects(EffectQuery())
    return row


async def a_call_is_due_from_its_first_attempt_on(pair: Pair) -> None:
    at = pair.clock() + HOUR
    await _with_call(pair, next_attempt_at=at)
    pair.clock.advance_to(at - 1)
    await _none_is_due(pair, "before the first attempt")
    pair.clock.advance_to(at)
    lease = await _lease(pair.two)
    expect_equal((lease.call.attempt, lease.expired), (1, False), "the first attempt")


async def a_process_takes_only_what_it_can_execute(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place=n, executor=name) for n, name in enumerate(["handler:a", "webhook:b", "handler:c"])]
    await pair.commit(causing(A, 1, now, *calls))
    expect_equal(await pair.one.lease_calls([], 10), [], "calls for no executor")
    taken = await pair.one.lease_calls(["handler:c", "handler:a", "handler:z"], 10)
    expect_equal({lease.call.executor for lease in taken}, {"handler:a", "handler:c"}, "calls it can execute")
    taken = await pair.two.lease_calls(["webhook:b"], 10)
    expect_equal([lease.call.executor for lease in taken], ["webhook:b"], "calls the other can execute")


async def a_leased_call_is_not_leased_again_before_its_lease_runs_out(pair: Pair) -> None:
    start = pair.clock()
    await _with_call(pair, lease_s=30)
    first = await _lease(pair.one)
    await _none_is_due(pair, "while one is leased")
    row = await _row(pair)
    expect_equal((row.status, row.attempts, row.next_attempt_at), ("leased", 1, start + 30 * SECOND), "the leased call")
    pair.clock.advance_to(start + 30 * SECOND - 1)
    await _none_is_due(pair, "just before the lease runs out")
    pair.clock.advance_to(start + 30 * SECOND)
    second = await _lease(pair.two)
    expect_equal((second.call.attempt, second.expired), (2, False), "the second attempt")
    expect_equal(second.call.id, first.call.id, "an attempt keeps the id")
    expect(second.call.fence > first.call.fence, "every lease has a greater fence")


async def a_call_at_most_once_is_never_started_again(pair: Pair) -> None:
    effect = await _with_call(pair, at_most_once=True, attempts_max=1)
    first = await _lease(pair.one)
    expect(not first.expired, "the first lease may be started")
    again = first
    for _ in range(2):
        pair.clock.advance(3600)
        again = await _lease(pair.two)
        expect_equal((again.expired, again.call.attempt), (True, 1), "a lease that ran out may only be settled")
    await pair.commit(settled(effect, again.call.fence, "failed", pair.clock(), error="its process died"))
    pair.clock.advance(3600)
    await _none_is_due(pair, "after it was settled")


async def a_call_without_attempts_left_may_only_be_settled(pair: Pair) -> None:
    effect = await _with_call(pair, attempts_max=2)
    leases = []
    for _ in range(4):
        leases.append(await _lease(pair.one))
        pair.clock.advance(3600)
    found = [(lease.call.attempt, lease.expired) for lease in leases]
    expect_equal(found, [(1, False), (2, False), (2, True), (2, True)], "attempts and whether they are over")
    await pair.commit(settled(effect, leases[-1].call.fence, "dead", pair.clock()))
    expect_equal((await _row(pair)).status, "dead", "the call after it was settled")


async def a_settled_call_is_over(pair: Pair) -> None:
    effect = await _with_call(pair)
    lease = await _lease(pair.one)
    at = pair.clock.advance(1)
    await commit(pair.two, settled(effect, lease.call.fence, "done", at))
    row = await _row(pair)
    expect_equal((row.status, row.finished_at, row.next_attempt_at), ("done", at, None), "the call that is done")
    pair.clock.advance(3600)
    await _none_is_due(pair, "after it was done")
    with expect_refusal(Fenced, "settling a call a second time"):
        await pair.commit(settled(effect, lease.call.fence, "failed", at))
    expect_equal((await _row(pair)).status, "done", "the call after the refusal")


async def a_failed_attempt_is_made_again_at_its_time(pair: Pair) -> None:
    effect = await _with_call(pair)
    lease = await _lease(pair.one)
    retry_at = pair.clock() + HOUR
    await pair.commit(
        settled(effect, lease.call.fence, "pending", pair.clock(), next_attempt_at=retry_at, error="busy")
    )
    row = await _row(pair)
    found = (row.status, row.attempts, row.next_attempt_at, row.last_error, row.finished_at)
    expect_equal(found, ("pending", 1, retry_at, "busy", None), "the call that waits for its next attempt")
    pair.clock.advance_to(retry_at - 1)
    await _none_is_due(pair, "before the next attempt")
    pair.clock.advance_to(retry_at)
    again = await _lease(pair.two)
    expect_equal((again.call.attempt, again.expired), (2, False), "the next attempt")
    expect(again.call.fence > lease.call.fence, "every lease has a greater fence")


async def who_lost_the_lease_is_fenced_off(pair: Pair) -> None:
    effect = await _with_call(pair)
    lost = await _lease(pair.one)
    pair.clock.advance(3600)
    held = await _lease(pair.two)
    with expect_refusal(Fenced, "settling under a lease another took"):
        await pair.commit(settled(effect, lost.call.fence, "done", pair.clock()))
    with expect_refusal(Fenced, "renewing a lease another took"):
        await pair.one.renew_lease(effect, lost.call.fence)
    expect_equal((await _row(pair)).status, "leased", "the call after the refusals")
    await commit(pair.two, settled(effect, held.call.fence, "done", pair.clock()))


async def a_lease_that_ran_out_is_still_ones_own_until_another_takes_it(pair: Pair) -> None:
    effect = await _with_call(pair)
    lease = await _lease(pair.one)
    pair.clock.advance(3600)
    await pair.commit(settled(effect, lease.call.fence, "done", pair.clock()))
    expect_equal((await _row(pair)).status, "done", "the call settled late")


async def a_renewed_lease_lasts_its_own_length_again(pair: Pair) -> None:
    effect = await _with_call(pair, lease_s=30)
    lease = await _lease(pair.one)
    pair.clock.advance(20)
    await pair.two.renew_lease(effect, lease.call.fence)
    pair.clock.advance(29)
    await _none_is_due(pair, "while the renewed lease lasts")
    pair.clock.advance(1)
    expect_equal((await _lease(pair.two)).call.attempt, 2, "the attempt after the renewed lease ran out")


async def only_a_lease_that_is_held_can_be_renewed(pair: Pair) -> None:
    effect = await _with_call(pair)
    with expect_refusal(Fenced, "renewing what was never leased"):
        await pair.one.renew_lease(effect, 0)
    with expect_refusal(Fenced, "renewing what does not exist"):
        await pair.one.renew_lease(ABSENT, 1)
    lease = await _lease(pair.one)
    with expect_refusal(Fenced, "renewing under another fence"):
        await pair.one.renew_lease(effect, lease.call.fence + 1)
    await pair.commit(settled(effect, lease.call.fence, "done", pair.clock()))
    with expect_refusal(Fenced, "renewing what is done"):
        await pair.one.renew_lease(effect, lease.call.fence)


async def _dead(pair: Pair) -> tuple[EffectId, int]:
    effect = await _with_call(pair, attempts_max=2)
    lease = await _lease(pair.one)
    await pair.commit(settled(effect, lease.call.fence, "dead", pair.clock(), error="gave up"))
    await _none_is_due(pair, "when it is dead")
    return effect, lease.call.fence


async def a_dead_letter_that_is_revived_has_fresh_attempts(pair: Pair) -> None:
    effect, fence = await _dead(pair)
    at = pair.clock.advance(60)
    expect(await pair.two.revive_effect(effect), "a dead letter can be revived")
    row = await _row(pair)
    found = (row.status, row.attempts, row.next_attempt_at, row.finished_at)
    expect_equal(found, ("pending", 0, at, None), "the revived call")
    again = await _lease(pair.one)
    expect_equal((again.call.attempt, again.expired), (1, False), "the first of its fresh attempts")
    expect(again.call.fence > fence, "every lease has a greater fence, after a revival too")


async def a_dead_letter_that_is_discarded_is_gone(pair: Pair) -> None:
    effect, _ = await _dead(pair)
    expect(await pair.two.discard_effect(effect), "a dead letter can be discarded")
    expect_equal(await pair.one.effects(EffectQuery()), [], "the effects listed")
    expect(not await pair.one.discard_effect(effect), "a letter that is gone cannot be discarded")
    expect(not await pair.one.revive_effect(effect), "a letter that is gone cannot be revived")
    expect_equal(await pair.one.revive_effects([effect]), [], "nor with others")
    expect_equal(await pair.one.discard_effects([]), [], "of none, none")


async def many_dead_letters_are_revived_or_discarded_at_once(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place) for place in range(4)]
    await pair.commit(causing(A, 1, now, *calls))
    dead = [lease.call.id for lease in await pair.one.lease_calls([BRIEF], 3)]
    for lease_id in dead:
        await pair.commit(settled(lease_id, 1, "dead", now))
    [waiting] = [one.id for one in calls if one.id not in dead]
    expect_equal(sorted(await pair.two.revive_effects([*dead[:2], waiting, ABSENT])), sorted(dead[:2]), "revived")
    expect_equal(await pair.two.discard_effects([*dead, waiting]), dead[2:], "discarded")
    left = {row.id: row.status for row in await pair.one.effects(EffectQuery())}
    expect_equal(left, dict.fromkeys([*dead[:2], waiting], "pending"), "what is left")


async def only_dead_letters_are_revived_or_discarded(pair: Pair) -> None:
    effect = await _with_call(pair)

    async def stays(status: str) -> None:
        expect(not await pair.two.revive_effect(effect), f"a call that is {status} is not revived")
        expect(not await pair.two.discard_effect(effect), f"a call that is {status} is not discarded")
        expect_equal((await _row(pair)).status, status, "the call")

    await stays("pending")
    lease = await _lease(pair.one)
    await stays("leased")
    await pair.commit(settled(effect, lease.call.fence, "failed", pair.clock()))
    await stays("failed")


async def calls_are_taken_from_the_oldest_attempt(pair: Pair) -> None:
    now = pair.clock()
    delays = [4, 0, 3, 1, 2]
    calls = [call(A, 1, now, place=place, next_attempt_at=now + delay) for place, delay in enumerate(delays)]
    await pair.commit(causing(A, 1, now, *calls))
    pair.clock.advance(1)
    taken = await pair.one.lease_calls([BRIEF], 3)
    expect_equal({lease.call.id.place for lease in taken}, {1, 3, 4}, "the three oldest")
    taken = await pair.two.lease_calls([BRIEF], 3)
    expect_equal({lease.call.id.place for lease in taken}, {2, 0}, "those that are left")


async def only_calls_of_the_tenant_asked_for_are_taken(pair: Pair) -> None:
    now, other = pair.clock(), stream("a", tenant="other")
    early = [call(A, 1, now, place=place, next_attempt_at=now - HOUR) for place in range(5)]
    late = [call(other, 1, now, place=place, next_attempt_at=now - place) for place in range(3)]
    await pair.commit(together(causing(A, 1, now, *early), causing(other, 1, now, *late)))
    expect_equal(await pair.one.lease_calls([BRIEF], 10, shares={"nobody": 5}), [], "calls of a tenant that has none")
    taken = await pair.one.lease_calls([BRIEF], 10, shares={"other": 2})
    expect_equal({lease.call.id for lease in taken}, {late[2].id, late[1].id}, "the oldest of the tenant")
    taken = await pair.two.lease_calls([BRIEF, "handler:z"], 10, shares={"other": 9})
    expect_equal([lease.call.id for lease in taken], [late[0].id], "what is left of the tenant")
    expect_equal(len(await pair.two.lease_calls([BRIEF], 10)), 5, "calls of everybody that are left")


async def two_who_take_calls_at_once_take_different_ones(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(causing(A, 1, now, *(call(A, 1, now, place=place) for place in range(20))))
    stores = (pair.one, pair.two, pair.one, pair.two)
    batches = await asyncio.gather(*(store.lease_calls([BRIEF], 5) for store in stores))
    batches.append(await pair.one.lease_calls([BRIEF], 100))
    taken = [lease.call.id.place for batch in batches for lease in batch]
    expect_equal(sorted(taken), list(range(20)), "every call was taken once")


async def effects_are_listed_by_what_is_asked(pair: Pair) -> None:
    now, other = pair.clock(), stream("a", tenant="other")
    await pair.commit(
        together(
            causing(A, 1, now, call(A, 1, now), send(A, 1, now, B, place=1)),
            causing(B, 1, now, call(B, 1, now, executor="webhook:crm")),
            causing(other, 1, now, call(other, 1, now)),
        )
    )
    [lease] = await pair.one.lease_calls(["webhook:crm"], 1)
    listed = await pair.two.effects(EffectQuery())
    expect_equal(len(listed), 4, "all effects")
    asked: list[tuple[EffectQuery, Callable[[EffectRow], bool]]] = [
        (EffectQuery(tenant="other"), lambda row: row.id.tenant == "other"),
        (EffectQuery(source=A), lambda row: row.id.source == A),
        (EffectQuery(source=A, version=1), lambda row: row.id.source == A),
        (EffectQuery(source=A, version=2), lambda row: False),
        (EffectQuery(executor=BRIEF), lambda row: row.executor == BRIEF),
        (EffectQuery(status="leased"), lambda row: row.id == lease.call.id),
        (EffectQuery(status="pending", tenant="acme"), lambda row: row.status == "pending" and row.id.tenant == "acme"),
    ]
    for query, fits in asked:
        expect_equal(await pair.two.effects(query), [row for row in listed if fits(row)], f"effects by {query}")


async def effects_are_listed_in_order_of_their_ids_page_by_page(pair: Pair) -> None:
    now = pair.clock()
    for version in range(1, 12):
        await pair.commit(causing(A, version, now, *(call(A, version, now, place=place) for place in range(11))))
    wanted = [EffectId(*A, version, place) for version in range(1, 12) for place in range(11)]
    found: list[EffectId] = []
    while page := await pair.two.effects(EffectQuery(after=found[-1] if found else None, limit=25)):
        expect(len(page) <= 25, "a page is no longer than asked")
        found += [row.id for row in page]
    expect_equal(found, wanted, "all effects, in order of their numbers")


async def the_newest_effects_are_listed_first_page_by_page(pair: Pair) -> None:
    now, other = pair.clock(), stream("z", tenant="other")
    effects = [call(A, 1, now, place=place, created_at=now + place // 3) for place in range(11)]
    sends = [send(B, 1, now, A, place=place, created_at=now + place) for place in range(4)]
    theirs = [call(other, 1, now, created_at=now + 2)]
    await pair.commit(
        together(causing(A, 1, now, *effects), causing(B, 1, now, *sends), causing(other, 1, now, *theirs))
    )
    newest = [w.id for w in sorted([*effects, *sends], key=lambda w: (w.created_at, w.id), reverse=True)]
    for query, wanted in (
        (EffectQuery(tenant="acme", newest_first=True, limit=4), newest),
        (EffectQuery(tenant="acme", newest_first=True, executor="send", limit=3), [s.id for s in sends[::-1]]),
        (EffectQuery(source=A, newest_first=True, limit=3), [e.id for e in effects[::-1]]),
        (EffectQuery(tenant="acme", newest_first=True, status="dead"), []),
    ):
        found: list[EffectId] = []
        while page := await pair.two.effects(query):
            found += [row.id for row in page]
            query = replace(query, after=page[-1].id, after_created_at=page[-1].created_at)
        expect_equal(found, wanted, f"the newest first by {query}")
    everybodys = [row.id for row in await pair.two.effects(EffectQuery(newest_first=True))]
    expect_equal(sorted(everybodys), sorted([*newest, theirs[0].id]), "of all tenants")


async def dead_letters_are_listed_from_the_newest(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place=place, created_at=now + place) for place in range(4)]
    sent = send(B, 1, now, A, created_at=now + 2)
    await pair.commit(together(causing(A, 1, now, *calls), causing(B, 1, now, sent)))
    leases = await pair.one.lease_calls([BRIEF], 10)
    ends = [Settlement(lease.call.id, lease.call.fence, "dead", now) for lease in leases if lease.call.id.place != 1]
    await pair.commit(Changes(settlements=ends, sends_dead=[DeadSend(sent.id, now, "no such stream")]))
    listed = await pair.two.effects(EffectQuery(tenant="acme", status="dead", newest_first=True))
    wanted = [calls[3].id, sent.id, calls[2].id, calls[0].id]
    expect_equal([row.id for row in listed], wanted, "dead letters, calls and sends")


async def a_page_of_effects_has_a_bound_whatever_is_asked(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(causing(A, 1, now, *(call(A, 1, now, place=place) for place in range(PAGE_MAX + 5))))
    expect_equal(len(await pair.two.effects(EffectQuery(limit=10 * PAGE_MAX))), PAGE_MAX, "the longest page")
