"""Commands to other streams: each applied exactly once, in the order of its source, never overtaking."""

from __future__ import annotations

import asyncio
from functools import partial

from betimes.core.errors import Fenced
from betimes.core.streams import EffectId
from betimes.engine.store import SEND, Changes, DeadSend, EffectQuery, LockRequest, Store, WaitingSend
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair, commit
from betimes.testing.conformance.samples import A, B, C, causing, locking, moved, send, stream, together


async def _with_sends(pair: Pair, *versions: int, count: int = 1) -> list[EffectId]:
    """Stream A at the last version, with sends from each of these."""
    now = pair.clock()
    sends = [send(A, version, now, B, place=place) for version in versions for place in range(count)]
    await pair.commit(together(moved(A, versions[-1], now, expected=0), Changes(effects=sends)))
    return [sent.id for sent in sends]


async def _taken(store: Store, *asked: EffectId) -> set[EffectId]:
    async with store.begin(LockRequest(sends=asked)) as tx:
        return tx.sends


async def _waiting(pair: Pair) -> list[EffectId]:
    return [sent.id for sent in await pair.two.waiting_sends(100, created_before=pair.clock() + 1)]


async def only_a_run_from_the_oldest_send_is_taken(pair: Pair) -> None:
    first, second, third = await _with_sends(pair, 1, count=3)
    expect_equal(await _taken(pair.two, first), {first}, "the oldest alone")
    expect_equal(await _taken(pair.two, second), set(), "the second without the first")
    expect_equal(await _taken(pair.two, second, first), {first, second}, "the two oldest, in any order")
    expect_equal(await _taken(pair.two, third, first), {first}, "a run that is broken")
    expect_equal(await _taken(pair.two, first, second, third), {first, second, third}, "all of them")


async def sends_are_ordered_by_number_not_by_text(pair: Pair) -> None:
    ids = await _with_sends(pair, 9, 10, count=11)
    expect_equal(await _waiting(pair), ids, "the sends that wait, in order")
    expect_equal(await _taken(pair.two, ids[0]), {ids[0]}, "version 9 is older than version 10")
    expect_equal(await _taken(pair.two, EffectId(*A, 10, 0)), set(), "version 10 is not the oldest")
    expect_equal(await _taken(pair.two, *ids[:3], ids[10]), set(ids[:3]), "place 10 comes after place 2")


async def an_applied_send_is_gone_and_the_next_is_the_oldest(pair: Pair) -> None:
    first, second = await _with_sends(pair, 1, count=2)
    await commit(pair.two, together(moved(B, 1, pair.clock()), Changes(sends_applied=[first])))
    expect_equal(await _waiting(pair), [second], "the sends that wait")
    expect_equal(await _taken(pair.one, first, second), {second}, "the sends that can be taken")
    expect_equal([row.id for row in await pair.one.effects(EffectQuery())], [second], "the effects listed")


async def a_send_that_was_left_can_be_taken_again(pair: Pair) -> None:
    [first] = await _with_sends(pair, 1)
    for store in (pair.one, pair.two, pair.one):
        expect_equal(await _taken(store, first), {first}, "the send nobody applied")
    expect_equal(await _waiting(pair), [first], "the sends that wait")


async def applying_a_send_twice_is_refused(pair: Pair) -> None:
    [first] = await _with_sends(pair, 1)
    await pair.commit(together(moved(B, 1, pair.clock()), Changes(sends_applied=[first])))
    again = together(moved(B, 2, pair.clock()), Changes(sends_applied=[first]))
    with expect_refusal(Fenced, "a second application of one send"):
        await commit(pair.two, again)
    dead = together(moved(B, 2, pair.clock()), Changes(sends_dead=[DeadSend(first, pair.clock(), "late")]))
    with expect_refusal(Fenced, "burying a send that was applied"):
        await commit(pair.two, dead)
    expect_equal((await pair.one.load([B]))[B].version, 1, "the target after the refusals")


async def sends_of_different_sources_do_not_wait_for_each_other(pair: Pair) -> None:
    now = pair.clock()
    older, younger = send(A, 1, now, C), send(B, 1, now, C)
    await pair.commit(together(causing(A, 1, now, older), causing(B, 1, now, younger)))
    expect_equal(await _taken(pair.two, younger.id), {younger.id}, "the oldest of its own source")


async def a_send_nobody_can_decide_leaves_the_way(pair: Pair) -> None:
    first, second = await _with_sends(pair, 1, count=2)
    await pair.commit(Changes(sends_dead=[DeadSend(first, pair.clock(), "no such target")]))
    expect_equal(await _waiting(pair), [second], "the sends that wait")
    expect_equal(await _taken(pair.two, first), set(), "a dead send")
    expect_equal(await _taken(pair.two, second), {second}, "the send behind the dead one")
    dead, _ = await pair.two.effects(EffectQuery())
    found = (dead.id, dead.status, dead.last_error, dead.finished_at)
    expect_equal(found, (first, "dead", "no such target", pair.clock()), "the dead letter")


async def a_dead_send_that_is_revived_is_the_oldest_again(pair: Pair) -> None:
    first, second = await _with_sends(pair, 1, count=2)
    expect(not await pair.one.revive_effect(first), "a send that waits is not a dead letter")
    await pair.commit(Changes(sends_dead=[DeadSend(first, pair.clock(), "no such target")]))
    expect(await pair.two.revive_effect(first), "a dead send can be revived")
    expect_equal(await _waiting(pair), [first, second], "the sends that wait")
    expect_equal(await _taken(pair.one, second), set(), "the send behind the revived one")
    await pair.commit(together(moved(B, 1, pair.clock()), Changes(sends_applied=[first, second])))
    expect_equal(await _waiting(pair), [], "the sends that wait in the end")


async def a_dead_send_that_is_discarded_is_gone(pair: Pair) -> None:
    [first] = await _with_sends(pair, 1)
    expect(not await pair.one.discard_effect(first), "a send that waits is not a dead letter")
    await pair.commit(Changes(sends_dead=[DeadSend(first, pair.clock(), "no such target")]))
    expect(await pair.two.discard_effect(first), "a dead send can be discarded")
    expect_equal(await pair.one.effects(EffectQuery()), [], "the effects listed")


async def waiting_sends_are_listed_from_the_oldest(pair: Pair) -> None:
    start = pair.clock()
    await pair.commit(causing(B, 1, start, send(B, 1, start, C, place=0), send(B, 1, start, C, place=1)))
    later = pair.clock.advance(10)
    await pair.commit(causing(A, 1, later, send(A, 1, later, C)))
    oldest = [EffectId(*B, 1, 0), EffectId(*B, 1, 1), EffectId(*A, 1, 0)]
    expect_equal(await _waiting(pair), oldest, "the sends that wait, oldest first")
    found = await pair.two.waiting_sends(2, created_before=later + 1)
    expect_equal([sent.id for sent in found], oldest[:2], "the two oldest")
    found = await pair.two.waiting_sends(9, created_before=later)
    expect_equal([sent.id for sent in found], oldest[:2], "those created before the instant")


async def waiting_sends_of_one_tenant_are_told_apart(pair: Pair) -> None:
    now, other = pair.clock(), stream("z", tenant="other")
    theirs = [send(A, 1, now, B, place=place, created_at=now - 9) for place in range(3)]
    ours = [send(other, 1, now, B, place=place, created_at=now - place) for place in range(3)]
    await pair.commit(together(causing(A, 1, now, *theirs), causing(other, 1, now, *ours)))
    found = await pair.two.waiting_sends(2, created_before=now, tenant="other")
    expect_equal([sent.id for sent in found], [ours[2].id, ours[1].id], "the oldest of the tenant that sends")
    found = await pair.two.waiting_sends(10, created_before=now + 1, tenant="other")
    expect_equal([sent.id.place for sent in found], [2, 1, 0], "all of the tenant that sends")
    expect_equal(await pair.two.waiting_sends(9, created_before=now + 1, tenant="nobody"), [], "of one that has none")


async def waiting_sends_to_some_kinds_are_told_apart(pair: Pair) -> None:
    now, elsewhere = pair.clock(), stream("b", kind="other")
    sends = [send(A, 1, now, elsewhere if place < 3 else B, place=place) for place in range(5)]
    await pair.commit(causing(A, 1, now, *sends))
    for tenant in (None, A.tenant):
        asked = partial(pair.two.waiting_sends, created_before=now + 1, tenant=tenant)
        found = await asked(2, kinds=[B.kind])
        expect_equal([sent.id.place for sent in found], [3, 4], "those to one kind, behind as many as are asked for")
        found = await asked(9, kinds=["other", "none"])
        expect_equal([sent.id.place for sent in found], [0, 1, 2], "those to the other")
        expect_equal(await asked(9, kinds=[]), [], "those to no kind")


async def waiting_sends_are_listed_page_by_page(pair: Pair) -> None:
    now = pair.clock()
    ours = [send(A, 10, now, B, place=place) for place in range(3)]
    theirs = [send(C, version, now, B, created_at=now + version % 2) for version in (2, 9, 10)]
    streams = together(moved(A, 10, now, expected=0), moved(C, 10, now, expected=0))
    await pair.commit(together(streams, Changes(effects=[*ours, *theirs])))
    for tenant in (None, A.tenant):
        asked = partial(pair.two.waiting_sends, created_before=now + 9, tenant=tenant)
        everything, found = await asked(9), list[WaitingSend]()
        while page := await asked(2, after=found[-1] if found else None):
            found += page
            expect(len(found) <= len(everything), "pages come to an end")
        expect_equal(found, everything, "all pages together")


async def a_send_is_never_leased_as_a_call(pair: Pair) -> None:
    await _with_sends(pair, 1)
    expect_equal(await pair.one.lease_calls(["handler:brief"], 10), [], "calls that are due")


async def a_send_may_be_asked_for_later(pair: Pair) -> None:
    first, second = await _with_sends(pair, 1, count=2)
    async with pair.one.begin(locking(B)) as tx:
        await tx.extend(LockRequest(sends=[first, second]))
        expect_equal(tx.sends, {first, second}, "the sends taken later")
        await tx.commit(together(moved(B, 1, pair.clock()), Changes(sends_applied=[first, second])))
    expect_equal(await _waiting(pair), [], "the sends that wait")


async def one_commit_may_apply_a_send_and_leave_another(pair: Pair) -> None:
    [first] = await _with_sends(pair, 1)
    now = pair.clock()
    await pair.commit(together(causing(B, 1, now, send(B, 1, now, A)), Changes(sends_applied=[first])))
    [waiting] = await pair.two.effects(EffectQuery(executor=SEND))
    expect_equal((waiting.id, waiting.to), (EffectId(*B, 1, 0), A), "the send of the answer")


async def many_who_apply_sends_apply_each_once_and_in_order(pair: Pair) -> None:
    ids = await _with_sends(pair, 1, 2, 3, count=4)
    applied: list[EffectId] = []

    async def apply(store: Store) -> None:
        while waiting := await store.waiting_sends(3, created_before=pair.clock() + 1):
            async with store.begin(LockRequest(sends=[sent.id for sent in waiting])) as tx:
                taken = sorted(tx.sends)
                await tx.commit(Changes(sends_applied=taken))
                applied.extend(taken)

    await asyncio.gather(*(apply(store) for store in (pair.one, pair.two, pair.one)))
    expect_equal(sorted(applied), ids, "each send was applied once")
    expect_equal(applied, ids, "they were applied in order")
