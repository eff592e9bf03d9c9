"""The read model: the tally and its lease, alarms to come, names by their beginning, what is owed, processes."""

from __future__ import annotations

from betimes.core.errors import Fenced
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant
from betimes.core.streams import KeyId, StreamId
from betimes.engine.read_model import (
    AlarmLagEntry,
    AlarmPlace,
    ExecutorBacklog,
    KindRange,
    NamedKey,
    NamedStream,
    ProcessRow,
    TallyCell,
    TallyEntry,
    TallyQuery,
    TallyRange,
    UpcomingQuery,
)
from betimes.engine.store import EffectStatus, LedgerQuery, StreamQuery
from betimes.testing.conformance.expectations import expect, expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import (
    A,
    B,
    C,
    call,
    causing,
    deleted,
    keyed,
    moved,
    send,
    settled,
    stream,
    together,
)

LEASE_S = 10.0
FIRST: Instant = 20_000 * DAY


def _entry(at: Instant, seq: int, outcome: str = "NOW", reasons: str = "", tenant: str = "acme") -> TallyEntry:
    return TallyEntry(MINUTE, tenant, at, "thing", outcome, reasons, 1, seq, seq)


def _query(tenant: str = "acme", level: int = MINUTE, until_at: Instant = FIRST + DAY) -> TallyQuery:
    return TallyQuery(tenant, level, FIRST, until_at)


async def segments_are_counted_in_commit_order(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(moved(A, 1, now), moved(B, 1, now + 1)))
    await pair.commit(moved(A, 2, now + 2))
    page = await pair.two.tally_source(0, 2)
    told = [(row.tenant, row.kind, row.at) for row in page]
    expect_equal(told, [("acme", "thing", now), ("acme", "thing", now + 1)], "the first page")
    expect_equal([row.events for row in page], [None, None], "the events of what is counted by its verdict")
    [last] = await pair.two.tally_source(page[-1].seq, 10, ("thing", "other"))
    expect_equal((last.at, last.verdict, bool(last.events)), (now + 2, None, True), "what is left")
    expect_equal(await pair.two.tally_source(last.seq, 10), [], "after the last")


async def one_holds_the_lease_on_the_tally(pair: Pair) -> None:
    taken = await pair.one.take_tally("a", LEASE_S)
    expect(taken is not None and taken.seq == 0, "a new tally is at the beginning")
    expect_equal(await pair.two.take_tally("b", LEASE_S), None, "while somebody else holds it")
    expect(await pair.one.take_tally("a", LEASE_S) is not None, "its holder renews it")
    pair.clock.advance_to(pair.clock() + 11 * SECOND)
    expect(await pair.two.take_tally("b", LEASE_S) is not None, "a lease that ran out is taken")
    expect_equal((await pair.one.tally_position()).holder, "b", "the holder")


async def counts_and_their_position_are_written_together(pair: Pair) -> None:
    await pair.one.take_tally("a", LEASE_S)
    first = [_entry(FIRST, 3), _entry(FIRST, 5, "LATER", "QUIET,CAP"), _entry(FIRST + MINUTE, 7)]
    await pair.one.add_tally("a", LEASE_S, first, after=0, upto=7, at=FIRST + MINUTE)
    await pair.one.add_tally("a", LEASE_S, [_entry(FIRST, 8)], after=7, upto=9, at=FIRST)
    position = await pair.two.tally_position()
    expect_equal((position.seq, position.at), (9, FIRST + MINUTE), "the position and the latest instant")
    cells = sorted(await pair.two.tally_counts(_query(), MINUTE, 100))
    expect_equal(
        cells,
        [
            TallyCell(0, "thing", "LATER", "QUIET,CAP", 1),
            TallyCell(0, "thing", "NOW", "", 2),
            TallyCell(1, "thing", "NOW", "", 1),
        ],
        "by minute",
    )
    expect_equal(sum(cell.total for cell in await pair.two.tally_counts(_query(), HOUR, 100)), 4, "by hour")
    summed = [TallyCell(0, "thing", "LATER", "", 1), TallyCell(0, "thing", "NOW", "", 3)]
    expect_equal(sorted(await pair.two.tally_counts(_query(), HOUR, 100, by_reasons=False)), summed, "without reasons")
    expect_equal(await pair.two.tally_counts(_query("other"), MINUTE, 100), [], "of another tenant")


async def nothing_is_counted_twice(pair: Pair) -> None:
    await pair.one.take_tally("a", LEASE_S)
    await pair.one.add_tally("a", LEASE_S, [_entry(FIRST, 1)], after=0, upto=1, at=FIRST)
    for holder, after in (("a", 0), ("a", 2), ("b", 1)):
        try:
            await pair.two.add_tally(holder, LEASE_S, [_entry(FIRST, 1)], after=after, upto=2, at=FIRST)
        except Fenced:
            continue
        expect(False, f"{holder} at {after} was let in")
    [cell] = await pair.two.tally_counts(_query(), DAY, 100)
    expect_equal((cell.total, (await pair.one.tally_position()).seq), (1, 1), "what was counted once")


async def counts_say_where_in_the_ledger_they_lie(pair: Pair) -> None:
    await pair.one.take_tally("a", LEASE_S)
    written = [_entry(FIRST, 3, "LATER", "QUIET"), _entry(FIRST, 6, "LATER", "QUIET"), _entry(FIRST + MINUTE, 9)]
    written += [_entry(FIRST + HOUR, 12, "LATER", "CAP,QUIET"), _entry(FIRST, 4, tenant="other")]
    for entry in written:
        position = await pair.one.tally_position()
        await pair.one.add_tally("a", LEASE_S, [entry], after=position.seq, upto=position.seq + 1, at=entry.at)
    query = TallyQuery("acme", MINUTE, FIRST, FIRST + DAY, reason="QUIET")
    first, last = TallyRange(FIRST, 3, 6, 2, ("thing",)), TallyRange(FIRST + HOUR, 12, 12, 1, ("thing",))
    expect_equal(await pair.two.tally_ranges(query, 100, 10), [last, first], "by reason")
    expect_equal(await pair.two.tally_ranges(query, 12, 10), [first], "before a position")
    now = TallyQuery("acme", MINUTE, FIRST, FIRST + DAY, outcomes=("NOW",), kinds=("thing", "other"))
    expect_equal(
        await pair.two.tally_ranges(now, 100, 10),
        [TallyRange(FIRST + MINUTE, 9, 9, 1, ("thing",))],
        "by outcome and kind",
    )
    either = TallyQuery("acme", MINUTE, FIRST, FIRST + DAY, outcomes=("NOW", "LATER"))
    expect_equal(
        [one.at for one in await pair.two.tally_ranges(either, 100, 2)], [FIRST + HOUR, FIRST + MINUTE], "either"
    )
    expect_equal(await pair.two.tally_ranges(TallyQuery("acme", MINUTE, 0, FIRST), 100, 10), [], "before all")


async def segments_are_read_in_ranges_of_positions(pair: Pair) -> None:
    now, other = pair.clock(), stream("d", kind="other")
    for version in (1, 2, 3):
        await pair.commit(together(*(moved(of, version, now) for of in (A, other, stream("e", tenant="beta")))))
    written = await pair.one.ledger(LedgerQuery(tenant="acme"))
    things = [found.seq for found in written if found.stream == A]
    others = [found.seq for found in written if found.stream == other]
    ranges = [
        KindRange("thing", things[1], things[2]),
        KindRange("other", 0, others[0]),
        KindRange("other", 9**9, 9**9),
    ]
    found = await pair.two.segments_within("acme", ranges, 10)
    expect_equal([one.seq for one in found], [things[2], things[1], others[0]], "the last one first")
    expect_equal(found, [one for one in reversed(written) if one in found], "as the ledger has them")
    expect_equal(
        [one.seq for one in await pair.two.segments_within("acme", ranges, 2)], things[:0:-1], "no more than asked"
    )
    expect_equal(await pair.two.segments_within("acme", [], 10), [], "in no range")


async def old_minutes_go_and_a_tally_can_begin_anew(pair: Pair) -> None:
    await pair.one.take_tally("a", LEASE_S)
    written = [_entry(FIRST, 1), _entry(FIRST + HOUR, 2), _entry(FIRST, 1)._replace(level=HOUR)]
    await pair.one.add_tally("a", LEASE_S, written, after=0, upto=2, at=FIRST)
    gone = await pair.two.trim_tally(minutes_from=FIRST + HOUR, hours_from=FIRST, limit=10)
    expect_equal(gone, 1, "the minutes of the first hour")
    position = await pair.one.tally_position()
    expect_equal((position.minutes_from, position.hours_from), (FIRST + HOUR, FIRST), "from when on they are kept")
    expect_equal([cell.total for cell in await pair.two.tally_counts(_query(level=HOUR), HOUR, 9)], [1], "hours stay")
    await pair.two.reset_tally()
    expect_equal(await pair.one.tally_counts(_query(), DAY, 9), [], "emptied")
    expect_equal((await pair.one.tally_position()).seq, 0, "at the beginning")
    expect(await pair.two.take_tally("b", LEASE_S) is not None, "whoever comes next")


async def alarms_to_come_are_counted_by_kind_and_step(pair: Pair) -> None:
    now = pair.clock()
    rings = {A: 0, B: 59, C: 60, stream("d", kind="other"): 61, stream("e", tenant="other"): 0, stream("f"): 3_600}
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now + s * SECOND) for of, s in rings.items())))
    await pair.commit(moved(stream("never"), 1, now))
    query = UpcomingQuery("acme", now, now + HOUR, MINUTE, 100)
    found = sorted((found.kind, found.number, found.total) for found in await pair.two.upcoming(query))
    expect_equal(found, [("other", 1, 1), ("thing", 0, 2), ("thing", 1, 1)], "by kind and minute")
    few = await pair.two.upcoming(UpcomingQuery("acme", now, now + HOUR, MINUTE, 3))
    expect_equal(sum(one.total for one in few), 3, "no more than the limit are looked at, the earliest first")
    await pair.one.snooze(A, 1, now + 2 * MINUTE)
    moved_on = [one.number for one in await pair.two.upcoming(query) if one.kind == "thing"]
    expect_equal(sorted(moved_on), [0, 1, 2], "a snoozed stream stands where its snooze ends")


async def what_will_be_due_is_counted_by_step(pair: Pair) -> None:
    now = pair.clock()
    due = {A: 0, B: 59, C: 60, stream("d", kind="other"): 61, stream("e", tenant="other"): 0, stream("f"): 3_600}
    await pair.commit(together(*(moved(of, 1, now, due_at=now + s * SECOND) for of, s in due.items())))
    await pair.commit(moved(stream("never"), 1, now, alarm_at=now))
    query = UpcomingQuery("acme", now, now + HOUR, MINUTE, 100, due_kind="thing")
    found = sorted((one.number, one.total, one.first_at) for one in await pair.two.upcoming(query))
    expect_equal(found, [(0, 2, now), (1, 1, now + MINUTE)], "of one kind by minute")
    few = await pair.two.upcoming(UpcomingQuery("acme", now, now + HOUR, MINUTE, 2, due_kind="thing"))
    expect_equal(sum(one.total for one in few), 2, "no more than the limit are looked at, the earliest first")


async def a_sample_stands_for_all_alarms(pair: Pair) -> None:
    now = pair.clock()
    for start in range(0, 2_000, 500):
        names = [stream(f"s{number}") for number in range(start, start + 500)]
        rows = (moved(of, 1, now, alarm_at=now + MINUTE, due_at=now + MINUTE, owner="ann") for of in names)
        await pair.commit(together(*rows))
    for due_kind in (None, "thing"):
        query = UpcomingQuery("acme", now, now + HOUR, HOUR, 10_000, sampled=True, due_kind=due_kind)
        [found] = await pair.two.upcoming(query)
        expect(60 <= found.total <= 200, f"about one in sixteen of 2,000, found {found.total}")


async def streams_are_listed_in_the_order_of_their_alarms(pair: Pair) -> None:
    now = pair.clock()
    names = [StreamId("acme", kind, f"s{number}") for kind in ("thing", "other") for number in range(6)]
    rings = {of: now + place % 3 for place, of in enumerate(names)}
    await pair.commit(together(*(moved(of, 1, now, alarm_at=at) for of, at in rings.items())))
    found: list[StreamId] = []
    after: AlarmPlace | None = None
    while page := await pair.two.upcoming_streams("acme", now, now + HOUR, 5, after=after):
        found += [row.stream for row in page]
        after = AlarmPlace(rings[found[-1]], found[-1].kind, found[-1].id)
    expect_equal(found, sorted(names, key=lambda of: (rings[of], of)), "page by page")
    expect_equal(len(await pair.two.upcoming_streams("acme", now + 2, now + HOUR, 50)), 4, "from an instant on")
    expect_equal(await pair.two.upcoming_streams("other", now, now + HOUR, 50), [], "of another tenant")


async def snoozed_streams_are_listed(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now) for of in (A, B, C))))
    for of in (C, A):
        await pair.one.snooze(of, 1, now + HOUR)
    expect_equal([row.stream for row in await pair.two.snoozed_streams("acme", 10)], [A, C], "those that rest")
    expect_equal([row.stream for row in await pair.two.snoozed_streams("acme", 10, after=A)], [C], "after one")
    await pair.commit(moved(A, 2, now))
    expect_equal([row.stream for row in await pair.two.snoozed_streams("acme", 10)], [C], "after a commit")


async def names_are_found_by_their_beginning(pair: Pair) -> None:
    now = pair.clock()
    ids = ("ann", "anna", "bob", "Ann", "an~", "zed")
    things = [moved(stream(id), 1, now, status="open") for id in ids]
    await pair.commit(together(*things, moved(stream("anna", kind="other"), 1, now), moved(stream("ant"), 1, now)))
    await pair.commit(deleted(stream("ant"), 2, now))
    await pair.commit(moved(stream("anna", tenant="other"), 1, now))
    found = await pair.two.names_like("acme", ["thing", "other"], "an", 5)
    things_found = [NamedStream("thing", id, "open") for id in ("ann", "anna", "an~")]
    expect_equal(found, [NamedStream("other", "anna", "open"), *things_found], "of both kinds")
    expect_equal([one.id for one in await pair.two.names_like("acme", ["thing"], "ann", 1)], ["ann"], "the first")
    listed = await pair.two.streams(StreamQuery(tenant="acme", kind="thing", prefix="ann"))
    expect_equal([row.stream.id for row in listed], ["ann", "anna"], "as a list")


async def keys_are_found_by_their_beginning(pair: Pair) -> None:
    now = pair.clock()
    keys = [KeyId("acme", collection, key) for collection in ("one", "two") for key in ("k-1", "k-22", "l")]
    used = [keyed(key, stream(f"s{place}"), 1, now) for place, key in enumerate(keys)]
    await pair.commit(together(*used))
    found = await pair.two.keys_like("acme", ["one", "two"], "k-", 5)
    expect_equal([(one.collection, one.key) for one in found], [key[1:] for key in keys if key.key != "l"], "both")
    [exact] = await pair.two.keys_like("acme", ["two"], "l", 5)
    expect_equal(exact, NamedKey("two", "l", "thing", "s5", 1), "with its segment")
    expect_equal(await pair.two.keys_like("other", ["one"], "k", 5), [], "of another tenant")


async def neither_other_tenants_keys_nor_expired_ones_hide_a_key(pair: Pair) -> None:
    now = pair.clock()
    others = [KeyId("other", "one", f"k-{number:04}") for number in range(1_100)]
    for start in range(0, len(others), 100):
        used = (keyed(key, stream(key.key, tenant="other"), 1, now) for key in others[start : start + 100])
        await pair.commit(together(*used))
    old = [keyed(KeyId("acme", "one", f"k-1{number}"), stream(f"o{number}"), 1, now) for number in range(9)]
    await pair.commit(together(*old))
    pair.clock.advance_to(now + 30 * DAY)
    live = KeyId("acme", "one", "k-9999")
    await pair.commit(keyed(live, A, 1, pair.clock()))
    found = await pair.two.keys_like("acme", ["one"], "k-", 5)
    expect_equal([one.key for one in found], [live.key], "the tenant's own, behind what is no more kept")


async def what_is_owed_to_a_tenant_is_counted_up_to_a_limit(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(*(moved(of, 1, now, alarm_at=now - place) for place, of in enumerate((A, B, C)))))
    await pair.commit(moved(stream("e", tenant="other"), 1, now, alarm_at=now - HOUR))
    await pair.one.snooze(B, 1, now + HOUR)
    owed = await pair.two.tenant_backlog("acme", 100)
    expect_equal(owed[:3], (2, now - 2, 1), "alarms that are due, the oldest, and those that rest")
    expect_equal(owed.orphaned, {}, "calls that nobody takes, by executor")
    expect_equal((await pair.two.tenant_backlog("acme", 1)).alarms_due, 1, "up to the limit")


async def calls_of_a_tenant_that_failed_and_are_tried_again_are_counted(pair: Pair) -> None:
    now = pair.clock()
    calls = [call(A, 1, now, place=place, executor=f"x{place}") for place in range(3)]
    await pair.commit(causing(A, 1, now, *calls))
    for lease in await pair.one.lease_calls(["x0", "x1"], 10):
        await pair.commit(settled(lease.call.id, lease.call.fence, "pending", now, next_attempt_at=now, error="busy"))
    owed = await pair.two.tenant_backlog("acme", 100)
    expect_equal((owed.effects_pending, owed.effects_failing), (3, 2), "calls that are owed, and those that failed")
    expect_equal((await pair.two.tenant_backlog("other", 100)).effects_failing, 0, "of that tenant only")


async def calls_of_a_tenant_that_nobody_takes_are_counted_by_executor_and_kind(pair: Pair) -> None:
    now = pair.clock()
    other = stream("q", kind="quota")
    await pair.commit(causing(A, 1, now, *(call(A, 1, now, place=place, executor="x") for place in range(2))))
    await pair.commit(causing(other, 1, now, call(other, 1, now, executor="x"), call(other, 1, now, place=1)))
    pair.clock.advance_to(now + HOUR)
    expected = {"x": {A.kind: 2, other.kind: 1}, call(other, 1, now).executor: {other.kind: 1}}
    expect_equal((await pair.two.tenant_backlog("acme", 100)).orphaned, expected, "by who asked for them")
    counts = (await pair.two.tenant_backlog("acme", 1)).orphaned.values()
    expect_equal(sum(sum(by_kind.values()) for by_kind in counts), 1, "up to the limit")


async def effects_that_have_not_ended_are_counted_by_executor(pair: Pair) -> None:
    now = pair.clock()
    made = [("x", 3), ("y", 1), ("z", 9), ("y", 2)]
    calls = [call(A, 1, now + s, place=place, executor=name) for place, (name, s) in enumerate(made)]
    await pair.commit(causing(A, 1, now, *calls, send(A, 1, now, B, place=len(made))))
    await pair.commit(causing(B, 1, now, call(B, 1, now, executor="done")))
    await pair.commit(causing(C, 1, now, call(C, 1, now, executor="dead")))
    await pair.commit(causing(of := stream("e", tenant="other"), 1, now, call(of, 1, now, executor="x")))
    await pair.commit(causing(of := stream("q", kind="quota"), 1, now, call(of, 1, now + 2, executor="y")))
    for lease in await pair.one.lease_calls(["done", "dead"], 10):
        status: EffectStatus = "done" if lease.call.executor == "done" else "dead"
        await pair.commit(settled(lease.call.id, lease.call.fence, status, now))
    owed = [
        ExecutorBacklog("send", A.kind, 1, None),
        ExecutorBacklog("x", A.kind, 1, now + 3),
        ExecutorBacklog("y", "quota", 1, now + 2),
        ExecutorBacklog("y", A.kind, 2, now + 1),
        ExecutorBacklog("z", A.kind, 1, now + 9),
    ]
    expect_equal(await pair.two.executor_backlog("acme", 100, 100), owed, "of one tenant, in the order of their names")
    capped = [one._replace(total=1) for one in owed if one.kind == A.kind]
    expect_equal(await pair.two.executor_backlog("acme", 1, 100), capped, "up to the limit of each, the first due")
    expect_equal(await pair.two.executor_backlog("acme", 100, 3), owed[:4], "of so many executors")
    pair.clock.advance_to(now + 10)
    [lease] = await pair.one.lease_calls(["z"], 1)
    [*_, taken] = await pair.two.executor_backlog("acme", 100, 100)
    expect(taken.total == 1 and taken.first_at is not None and taken.first_at > now + 9, "one that is leased is owed")
    expect_equal(await pair.two.executor_backlog("nobody", 100, 100), [], "of a tenant that has none")


async def how_late_alarms_rang_is_added_up(pair: Pair) -> None:
    first = [AlarmLagEntry("acme", FIRST, 10, 2, 9), AlarmLagEntry("acme", FIRST, 20, 1, 15)]
    await pair.one.add_alarm_lags(first, forget_before=FIRST)
    more = [AlarmLagEntry("acme", FIRST + HOUR, 10, 1, 3), AlarmLagEntry("acme", FIRST, 10, 3, 4)]
    await pair.two.add_alarm_lags([*more, AlarmLagEntry("other", FIRST, 10, 7, 7)], forget_before=FIRST)
    summed = [AlarmLagEntry("acme", FIRST, 10, 5, 9), first[1], more[0]]
    expect_equal(await pair.one.alarm_lags("acme", FIRST, FIRST + DAY), summed, "by hour and bound, the latest of both")
    expect_equal(await pair.one.alarm_lags("acme", FIRST + HOUR, FIRST + DAY), more[:1], "from an hour on")
    expect_equal(await pair.one.alarm_lags("acme", FIRST, FIRST + HOUR), summed[:2], "until before an hour")
    await pair.one.add_alarm_lags([], forget_before=FIRST + HOUR)
    expect_equal(await pair.two.alarm_lags("acme", FIRST, FIRST + DAY), more[:1], "old hours are forgotten")


async def processes_are_known_while_they_tell_of_themselves(pair: Pair) -> None:
    now = pair.clock()
    row = ProcessRow("p-1", "api", "1.0", ("webhook", "handler:a"), now, now)
    await pair.one.beat(row, forget_before=now - HOUR)
    await pair.two.beat(row._replace(name="p-2", seen_at=now + 1), forget_before=now - HOUR)
    expect_equal([one.name for one in await pair.one.processes(10)], ["p-2", "p-1"], "the last seen first")
    await pair.one.beat(row._replace(seen_at=now + HOUR), forget_before=now + 2)
    expect_equal(await pair.two.processes(10), [row._replace(seen_at=now + HOUR)], "one that fell silent is forgotten")
