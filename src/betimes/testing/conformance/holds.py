"""Holds: what a process was told to pass over is due for nobody there, and for everybody else as ever."""

from __future__ import annotations

from betimes.core.instants import HOUR, MINUTE
from betimes.core.streams import StreamId
from betimes.engine.store import Changes, DueIndex, OwedIndex, StreamQuery
from betimes.testing.conformance.expectations import expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import KIND, call, moved, send, stream, together

INDEXES: tuple[DueIndex, ...] = ("alarm", "due")
KINDS = [KIND, "other"]
BRIEF = "handler:brief"
OWED: tuple[tuple[OwedIndex, list[str]], ...] = (("alarm", KINDS), ("due", KINDS), ("call", [BRIEF]))
HELD = {"a": [KIND], "b": [KIND, "other"]}


async def _write(pair: Pair) -> None:
    """Of each of three tenants and two kinds: a stream that is due, a call of it and a send; the held ones first."""
    now = pair.clock()
    parts: list[Changes] = []
    for place, (tenant, kind) in enumerate((tenant, kind) for tenant in "abc" for kind in KINDS):
        of, at = stream("x", kind, tenant), now - HOUR + place * MINUTE
        waiting = call(of, 1, now, next_attempt_at=at), send(of, 1, now, of, place=1, created_at=at)
        parts += [moved(of, 1, now, alarm_at=at, due_at=at), Changes(effects=list(waiting))]
    await pair.commit(together(*parts))
    pair.one.pass_over(HELD)


def _names(*streams: StreamId) -> list[tuple[str, str]]:
    return [(one.tenant, one.kind) for one in streams]


FREE = [("a", "other"), ("c", KIND), ("c", "other")]


async def streams_that_are_held_are_not_taken(pair: Pair) -> None:
    await _write(pair)
    for index in INDEXES:
        for asked, wanted in (({}, FREE), ({"tenant": "a"}, FREE[:1]), ({"tenant": "b"}, [])):
            async with pair.one.begin_due(index, KINDS, 10, **asked) as tx:  # type: ignore[arg-type]
                expect_equal(_names(*tx.rows), wanted, f"streams taken by {index} with {asked}")
        async with pair.one.begin_due(index, KINDS, 10, shares={"a": 2, "b": 2, "c": 1}) as tx:
            expect_equal(_names(*tx.rows), FREE[:2], f"streams taken in shares by {index}")
        async with pair.one.begin_due(index, KINDS, 10, shares={}) as tx:
            expect_equal(tx.rows, {}, f"streams of nobody taken by {index}")
        async with pair.one.begin_due(index, KINDS, 1) as tx:
            expect_equal(_names(*tx.rows), FREE[:1], f"the first taken by {index}")
        async with pair.two.begin_due(index, KINDS, 10) as tx:
            expect_equal(len(tx.rows), 6, f"streams another process takes by {index}")


async def calls_and_sends_of_held_streams_are_not_taken(pair: Pair) -> None:
    await _write(pair)
    for tenant, wanted in ((None, FREE), ("a", FREE[:1]), ("b", [])):
        found = await pair.one.waiting_sends(9, created_before=pair.clock() + 1, tenant=tenant)
        expect_equal(_names(*(one.id.source for one in found)), wanted, f"sends of {tenant} that wait")
    expect_equal(await pair.one.lease_calls([BRIEF], 10, shares={"b": 5}), [], "calls of a tenant that is held")
    leases = await pair.one.lease_calls([BRIEF], 10, shares={"a": 5, "b": 5})
    expect_equal(_names(*(one.call.id.source for one in leases)), FREE[:1], "calls taken in shares")
    leases = await pair.one.lease_calls([BRIEF], 10)
    expect_equal(_names(*(one.call.id.source for one in leases)), FREE[1:], "calls taken, the oldest first")
    expect_equal(len(await pair.two.lease_calls([BRIEF], 10)), 3, "calls that another process takes")


async def nobody_waits_for_what_is_held(pair: Pair) -> None:
    await _write(pair)
    start = pair.clock() - HOUR
    for index, names in OWED:
        found = await pair.one.due_tenants(index, names, limit=9)
        expect_equal(found.tenants, ("a", "c"), f"tenants with something due by {index}")
        found = await pair.one.due_tenants(index, names[:1], limit=9)
        wanted = ("a", "c") if index == "call" else ("c",)
        expect_equal(found.tenants, wanted, f"tenants with something due of the first name by {index}")
    for index in INDEXES:
        for tenant, place in ((None, 1), ("a", 1), ("b", None), ("c", 4)):
            next_at = await pair.one.next_due(index, KINDS, [BRIEF], tenant=tenant)
            wanted_at = None if place is None else start + place * MINUTE
            expect_equal(next_at, wanted_at, f"when something of {tenant} is due by {index}")
        expect_equal(await pair.two.next_due(index, KINDS), start, f"the next in another process by {index}")
    backlog = await pair.one.backlog(KINDS)
    told = (backlog.alarms_due, backlog.oldest_alarm_at, backlog.orphaned)
    expect_equal(told, (3, start + MINUTE, {BRIEF: 3}), "what is owed and late")


async def what_is_held_no_more_is_due_again(pair: Pair) -> None:
    await _write(pair)
    pair.one.pass_over({})
    for index in INDEXES:
        async with pair.one.begin_due(index, KINDS, 10) as tx:
            expect_equal(_names(*tx.rows)[:2], [("a", KIND), ("a", "other")], f"the oldest by {index}")
    expect_equal(len(await pair.one.lease_calls([BRIEF], 10)), 6, "calls")
    pair.one.pass_over({"c": [KIND]})
    found = await pair.one.waiting_sends(9, created_before=pair.clock() + 1)
    expect_equal(len(found), 5, "sends while something else is held")
    expect_equal(len(await pair.one.streams(StreamQuery(tenant="c", kind=KIND))), 1, "lists show what is held")
