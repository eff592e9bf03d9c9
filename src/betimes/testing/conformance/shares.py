"""Shares: what is due taken by tenant, and which tenants have something due."""

from __future__ import annotations

from betimes.core.instants import HOUR, MINUTE
from betimes.engine.store import Changes, DueIndex, OwedIndex
from betimes.testing.conformance.expectations import expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import KIND, call, causing, moved, settled, stream, together

INDEXES: tuple[DueIndex, ...] = ("alarm", "due")
BRIEF = "handler:brief"


async def _written(pair: Pair, late_by: dict[str, list[int]]) -> None:
    """Streams of each tenant, named by their place, that are due so long before now; and a call of each."""
    now = pair.clock()
    parts: list[Changes] = []
    for tenant, lates in late_by.items():
        for place, late in enumerate(lates):
            of, at = stream(str(place), tenant=tenant), now - late
            parts += [
                moved(of, 1, now, alarm_at=at, due_at=at),
                Changes(effects=[call(of, 1, now, next_attempt_at=at)]),
            ]
    await pair.commit(together(*parts))


async def of_each_tenant_its_share_is_taken_oldest_first(pair: Pair) -> None:
    await _written(pair, {"a": [5, 9, 7, 3], "b": [1, 2], "c": [4], "d": [-MINUTE]})
    shares = {"a": 2, "b": 5, "d": 5, "nobody": 5}
    wanted = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "0")]
    for index in INDEXES:
        async with pair.two.begin_due(index, [KIND, "other"], 10, shares=shares) as tx:
            in_turn = [wanted[0], wanted[2], wanted[1], wanted[3]]
            expect_equal([(of.tenant, of.id) for of in tx.rows], in_turn, f"streams taken by {index}")
        async with pair.two.begin_due(index, ["other"], 10, shares=shares) as tx:
            expect_equal(tx.rows, {}, f"streams of other kinds taken by {index}")
    leases = await pair.one.lease_calls([BRIEF, "handler:z"], 10, shares=shares)
    expect_equal([(lease.call.id.tenant, lease.call.id.id) for lease in leases], wanted, "calls")
    expect_equal(await pair.one.lease_calls([BRIEF], 10, shares={"b": 5}), [], "calls that were taken")
    expect_equal(len(await pair.two.lease_calls([BRIEF], 10)), 3, "calls that are left")


async def a_bound_holds_over_all_shares(pair: Pair) -> None:
    await _written(pair, {"a": [5, 9], "b": [1]})
    for index in INDEXES:
        async with pair.two.begin_due(index, [KIND], 2, shares={"a": 2, "b": 2}) as tx:
            expect_equal([of.tenant for of in tx.rows], ["a", "b"], f"the oldest of each are taken by {index}")
    expect_equal(len(await pair.one.lease_calls([BRIEF], 2, shares={"a": 2, "b": 2})), 2, "how many calls were taken")


async def a_share_can_be_bounded_by_an_earlier_instant(pair: Pair) -> None:
    await _written(pair, {"a": [HOUR, MINUTE]})
    for index in INDEXES:
        async with pair.two.begin_due(index, [KIND], 9, until_at=pair.clock() - HOUR, shares={"a": 9}) as tx:
            expect_equal([of.id for of in tx.rows], ["0"], f"streams taken by {index}")


async def tenants_that_have_something_due_are_told_by_name(pair: Pair) -> None:
    await _written(pair, {"c": [1, 5], "a": [0], "later": [-MINUTE], "b": [-MINUTE, 3]})
    asked: list[tuple[OwedIndex, list[str]]] = [("alarm", [KIND]), ("due", ["other", KIND]), ("call", [BRIEF])]
    for index, names in asked:
        found = await pair.two.due_tenants(index, names, limit=10)
        expect_equal((found.tenants, found.reached), (("a", "b", "c"), ""), f"tenants with something due by {index}")
        found = await pair.two.due_tenants(index, names, after="a", limit=10)
        expect_equal(found.tenants, ("b", "c"), f"those after one, by {index}")
        found = await pair.two.due_tenants(index, names, after="zeta", limit=10)
        expect_equal((found.tenants, found.reached), ((), ""), f"nobody comes after the last, by {index}")
        found = await pair.two.due_tenants(index, names, limit=2)
        expect_equal((found.tenants, found.reached), (("a", "b"), "b"), f"the first two, by {index}")
        expect_equal((await pair.two.due_tenants(index, ["none"], limit=10)).tenants, (), f"of other names, by {index}")


async def what_is_done_or_rests_is_due_no_more(pair: Pair) -> None:
    now = pair.clock()
    of = stream("0", tenant="a")
    await pair.commit(causing(of, 1, now, called := call(of, 1, now)))
    await pair.commit(moved(of, 2, now, alarm_at=now))
    await pair.one.snooze(of, 2, now + HOUR)
    [lease] = await pair.one.lease_calls([BRIEF], 1, shares={"a": 1})
    expect_equal((await pair.two.due_tenants("alarm", [KIND], limit=9)).tenants, (), "an alarm that was snoozed")
    expect_equal((await pair.two.due_tenants("call", [BRIEF], limit=9)).tenants, (), "a call that is leased")
    await pair.commit(settled(called.id, lease.call.fence, "done", now))
    pair.clock.advance(2 * 3_600)
    expect_equal((await pair.two.due_tenants("alarm", [KIND], limit=9)).tenants, ("a",), "when the snooze has ended")
    expect_equal((await pair.two.due_tenants("call", [BRIEF], limit=9)).tenants, (), "a call that was made")
