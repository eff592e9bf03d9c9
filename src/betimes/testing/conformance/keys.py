"""Idempotency keys: reserved under the lock, seen when used, free again when left, unused or expired."""

from __future__ import annotations

import asyncio

from betimes.core.errors import Duplicate
from betimes.core.instants import DAY, HOUR
from betimes.core.streams import KeyId, StreamId
from betimes.engine.store import NOT_CACHED, Changes, LockRequest, SeenKey, Store
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.pairs import Pair, beside, commit
from betimes.testing.conformance.samples import KEY, A, B, keyed, locking, moved, stream, together

OTHER = KEY._replace(key="k-2")


async def _seen_in_both_ways(store: Store, key: KeyId) -> SeenKey | None:
    alone = await store.seen(key)
    async with store.begin(LockRequest(keys=[key])) as tx:
        expect_equal(tx.seen.get(key), alone, f"the key {key} under its reservation and without")
    return alone


async def a_key_nobody_used_is_not_seen(pair: Pair) -> None:
    expect_equal(await _seen_in_both_ways(pair.one, KEY), None, "a key nobody used")


async def a_used_key_returns_its_request_and_its_segment(pair: Pair) -> None:
    changes = keyed(KEY, A, 1, pair.clock(), request='{"user":"u-1"}')
    await pair.commit(changes)
    await pair.commit(moved(A, 2, pair.clock()))
    [recorded] = (await pair.one.history(A, 0, 1))[1]
    expect_equal(recorded.key, KEY, "the segment names its key")
    for store in (pair.one, pair.two):
        expect_equal(await _seen_in_both_ways(store, KEY), SeenKey('{"user":"u-1"}', recorded), "a used key")


async def one_transaction_sees_used_keys_beside_new_ones(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock()))
    async with pair.two.begin(LockRequest(locks={A: NOT_CACHED}, keys=[OTHER, KEY])) as tx:
        expect_equal(set(tx.seen), {KEY}, "the keys that were used")
        await tx.commit(keyed(OTHER, A, 2, pair.clock()))
    expect((await pair.one.seen(OTHER)) is not None, "the new key is used now")


async def a_key_is_unique_within_its_tenant_and_collection(pair: Pair) -> None:
    alike = [KEY, KEY._replace(collection="notifications"), KEY._replace(tenant="other")]
    for key in alike:
        of = StreamId(key.tenant, key.collection, "a")
        await pair.commit(keyed(key, of, 1, pair.clock(), request=f'"{key}"'))
    for key in alike:
        seen = await _seen_in_both_ways(pair.two, key)
        expect_equal(seen and seen.request, f'"{key}"', f"the request under {key}")


async def using_a_key_that_is_on_record_is_refused(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock(), request='"first"'))
    for store in (pair.one, pair.two):
        with expect_refusal(Duplicate, "a second use of a key"):
            await commit(store, keyed(KEY, B, 1, pair.clock(), request='"second"'))
    expect_equal(await pair.one.load([B]), {}, "nothing of the refused batch")
    seen = await pair.one.seen(KEY)
    expect_equal(seen and seen.request, '"first"', "the request on record")


async def a_key_is_free_from_the_instant_it_expires(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(keyed(KEY, A, 1, now, request='"old"', expires_at=now + HOUR))
    pair.clock.advance_to(now + HOUR - 1)
    expect(await _seen_in_both_ways(pair.two, KEY) is not None, "a key is seen until it expires")
    pair.clock.advance_to(now + HOUR)
    expect_equal(await _seen_in_both_ways(pair.two, KEY), None, "an expired key")
    await pair.commit(keyed(KEY, B, 1, pair.clock(), request='"new"'))
    seen = await _seen_in_both_ways(pair.two, KEY)
    expect_equal(seen and (seen.request, seen.segment.stream), ('"new"', B), "the key used again")


async def an_expired_key_that_was_reserved_and_left_stays_free(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock()))
    pair.clock.advance_to(pair.clock() + DAY)
    async with pair.one.begin(LockRequest(keys=[KEY])) as tx:
        expect_equal(tx.seen, {}, "an expired key")
    async with pair.one.begin(LockRequest(keys=[KEY])) as tx:
        await tx.commit(Changes())
    expect_equal(await _seen_in_both_ways(pair.two, KEY), None, "an expired key")
    await commit(pair.two, keyed(KEY, A, 2, pair.clock()))


async def a_reservation_that_was_left_is_free(pair: Pair) -> None:
    async with pair.one.begin(LockRequest(locks={A: NOT_CACHED}, keys=[KEY])):
        pass
    expect_equal(await _seen_in_both_ways(pair.two, KEY), None, "a key whose reservation was left")
    await commit(pair.two, keyed(KEY, A, 1, pair.clock()))
    expect(await pair.one.seen(KEY) is not None, "the key is used now")


async def a_reservation_the_commit_does_not_use_is_free(pair: Pair) -> None:
    async with pair.one.begin(LockRequest(locks={A: NOT_CACHED}, keys=[KEY, OTHER])) as tx:
        await tx.commit(keyed(KEY, A, 1, pair.clock()))
    expect_equal(await _seen_in_both_ways(pair.two, OTHER), None, "a key that was reserved and not used")
    await commit(pair.two, keyed(OTHER, A, 2, pair.clock()))
    expect(await pair.one.seen(OTHER) is not None, "the key is used now")


async def a_key_refused_with_its_batch_is_free(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock()))
    with expect_refusal(Duplicate, "a batch with one used key"):
        await pair.commit(together(keyed(OTHER, A, 2, pair.clock()), keyed(KEY, B, 1, pair.clock())))
    expect_equal(await _seen_in_both_ways(pair.two, OTHER), None, "the other key of the refused batch")
    await commit(pair.two, keyed(OTHER, A, 2, pair.clock()))


KEY_WAITS = "a key that is reserved must be waited for"


async def _ask(store: Store, key: KeyId) -> SeenKey | None:
    async with store.begin(LockRequest(keys=[key])) as tx:
        return tx.seen.get(key)


async def a_key_being_used_is_waited_for_and_then_seen(pair: Pair) -> None:
    await _use_while_asked(pair, 1, KEY_WAITS)


async def _use_while_asked(pair: Pair, version: int, says: str) -> None:
    """Write a version with the key while the other store asks for the key, which must wait and then see the version."""
    ask, used = LockRequest(locks={A: NOT_CACHED}, keys=[KEY]), keyed(KEY, A, version, pair.clock())
    seen = await pair.wait_behind(ask, _ask(pair.two, KEY), says, lambda holder: holder.commit(used))
    expect_equal(seen and seen.segment.version, version, "the segment the key led to meanwhile")


async def a_key_being_reserved_is_waited_for_and_then_free(pair: Pair) -> None:
    ask = LockRequest(locks={A: NOT_CACHED}, keys=[KEY])
    seen = await pair.wait_behind(ask, _ask(pair.two, KEY), KEY_WAITS)
    expect_equal(seen, None, "a key whose reservation was left")


async def one_cancelled_while_it_waits_for_a_key_leaves_nothing_behind(pair: Pair) -> None:
    async with pair.one.begin(LockRequest(keys=[KEY])), beside(_ask(pair.two, KEY)):
        await pair.others_run()
    expect_equal(await _seen_in_both_ways(pair.one, KEY), None, "the key nobody used")
    await commit(pair.two, keyed(KEY, A, 1, pair.clock()))


async def an_expired_key_being_used_again_is_waited_for(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock()))
    pair.clock.advance_to(pair.clock() + DAY)
    await _use_while_asked(pair, 2, "an expired key that is reserved again must be waited for")


async def a_key_is_used_by_one_of_many_who_try_at_once(pair: Pair) -> None:
    async def attempt(store: Store, of: StreamId) -> bool:
        async with store.begin(LockRequest(locks={of: NOT_CACHED}, keys=[KEY], waits={of})) as tx:
            if KEY in tx.seen:
                return False
            await tx.commit(keyed(KEY, of, 1, tx.now))
            return True

    stores = [pair.one, pair.two] * 4
    used = await asyncio.gather(*(attempt(store, stream(f"s{n}")) for n, store in enumerate(stores)))
    expect_equal(sum(used), 1, "how many used the key")
    expect_equal(len(await pair.one.load([stream(f"s{n}") for n in range(8)])), 1, "how many streams were written")


async def keys_reserved_in_different_orders_do_not_deadlock(pair: Pair) -> None:
    wanted = [KEY._replace(key=f"k-{n}") for n in range(6)]

    async def reserve(store: Store, order: list[KeyId]) -> None:
        for _ in range(5):
            async with store.begin(LockRequest(keys=order)) as tx:
                await asyncio.sleep(0)
                expect_equal(tx.seen, {}, "keys nobody used")

    await asyncio.gather(*(reserve(store, order) for store in (pair.one, pair.two) for order in (wanted, wanted[::-1])))


async def a_key_may_be_asked_for_later(pair: Pair) -> None:
    await pair.commit(keyed(KEY, A, 1, pair.clock()))
    async with pair.one.begin(locking(A)) as tx:
        await tx.extend(LockRequest(keys=[KEY, OTHER]))
        expect_equal(set(tx.seen), {KEY}, "the keys that were used, asked for later")
        await tx.commit(keyed(OTHER, A, 2, pair.clock()))
    expect(await pair.two.seen(OTHER) is not None, "the key asked for later is used now")
