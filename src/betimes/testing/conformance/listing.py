"""Listing streams: by tenant, kind, owner and status, in order of ids, of creation or of due times, page by page."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from betimes.core.instants import HOUR
from betimes.core.streams import StreamId
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.testing.conformance.expectations import expect, expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import A, B, C, deleted, locking, moved, stream, together


async def streams_are_listed_by_what_is_asked(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(
        together(
            moved(A, 1, now, owner="u-1", status="open"),
            moved(B, 1, now, owner="u-1", status="done"),
            moved(C, 1, now, owner="u-2", status="open"),
            moved(stream("a", kind="other"), 1, now, owner="u-1", status="open"),
            moved(stream("a", tenant="other"), 1, now, owner="u-1", status="open"),
            moved(stream("d"), 1, now, owner="", status=""),
        )
    )
    everything = await pair.two.streams(StreamQuery())
    expect_equal(len(everything), 6, "all streams")
    asked: list[tuple[StreamQuery, Callable[[StreamRow], bool]]] = [
        (StreamQuery(tenant="other"), lambda row: row.stream.tenant == "other"),
        (StreamQuery(kind="other"), lambda row: row.stream.kind == "other"),
        (StreamQuery(owner="u-1"), lambda row: row.owner == "u-1"),
        (StreamQuery(status="open"), lambda row: row.status == "open"),
        (StreamQuery(tenant="acme", kind="thing", owner="u-1", status="open"), lambda row: row.stream == A),
        (StreamQuery(owner="nobody"), lambda row: False),
        (StreamQuery(owner="", status=""), lambda row: row.owner == "" and row.status == ""),
    ]
    for query, fits in asked:
        expect_equal(await pair.two.streams(query), [row for row in everything if fits(row)], f"streams by {query}")


async def an_index_follows_the_last_commit(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now, owner="u-1", status="open", due_at=now))
    await pair.commit(moved(A, 2, now, owner="u-2", status="done"))
    expect_equal(await pair.two.streams(StreamQuery(owner="u-1")), [], "by the owner it had")
    expect_equal(await pair.two.streams(StreamQuery(status="open")), [], "by the status it had")
    expect_equal(await pair.two.streams(StreamQuery(due_before=now)), [], "by the due time it had")
    [row] = await pair.two.streams(StreamQuery(owner="u-2", status="done"))
    expect_equal((row.stream, row.version), (A, 2), "by what it has")


async def ids_are_listed_in_order_of_their_characters(pair: Pair) -> None:
    ids = ["B", "a", "Z", "_", "a-b", "aB", "a.b", "a1", "a10", "a2", "z~", "+x", "*"]
    names = [StreamId(tenant, kind, id) for tenant in ("b", "B", "a-a") for kind in ("k_b", "ka") for id in ids]
    await pair.commit(together(*(moved(of, 1, pair.clock()) for of in names)))
    found = [row.stream for row in await pair.two.streams(StreamQuery())]
    expect_equal(found, sorted(names), "all streams in order of their characters")


async def pages_of_streams_follow_each_other(pair: Pair) -> None:
    names = sorted(StreamId(tenant, kind, f"s{n}") for tenant in "tu" for kind in ("j", "k") for n in range(12))
    await pair.commit(together(*(moved(of, 1, pair.clock(), owner="u-1") for of in names)))
    found: list[StreamId] = []
    while page := await pair.two.streams(StreamQuery(owner="u-1", after=found[-1] if found else None, limit=5)):
        expect(len(page) <= 5, "a page is no longer than asked")
        found += [row.stream for row in page]
    expect_equal(found, names, "all pages")


async def streams_are_listed_in_order_of_their_due_times(pair: Pair) -> None:
    now = pair.clock()
    due = {"a": 5, "b": 1, "c": 5, "d": 9, "e": 0}
    written = [moved(stream(id), 1, now, due_at=now + by) for id, by in due.items()]
    await pair.commit(together(*written, moved(stream("never"), 1, now)))
    listed = await pair.two.streams(StreamQuery(due_before=now + 5))
    expect_equal([row.stream.id for row in listed], ["e", "b", "a", "c"], "due at or before an instant, oldest first")
    expect_equal(await pair.two.streams(StreamQuery(due_before=now - 1)), [], "due before all of them")


async def pages_of_due_streams_follow_each_other(pair: Pair) -> None:
    now = pair.clock()
    due = {stream(f"s{n}"): now + n * 7 % 4 for n in range(15)}
    await pair.commit(together(*(moved(of, 1, now, due_at=at) for of, at in due.items())))
    found: list[StreamRow] = []
    query = StreamQuery(due_before=now + HOUR, limit=4)
    while page := await pair.two.streams(query):
        found += page
        last = page[-1]
        query = StreamQuery(due_before=now + HOUR, limit=4, after=last.stream, after_due_at=last.due_at)
    expect_equal([row.stream for row in found], sorted(due, key=lambda of: (due[of], of)), "all pages by due time")


async def streams_stand_in_a_list_of_their_own_order(pair: Pair) -> None:
    now = pair.clock()
    listed = {"a": 5, "b": 1, "c": 5, "d": 9, "e": 0}
    written = [
        moved(stream(id), 1, now, listed_at=now + by, due_at=now - by, owner=f"u-{by % 2}") for id, by in listed.items()
    ]
    await pair.commit(together(*written, moved(stream("never"), 1, now, due_at=now)))
    found: list[str] = []
    query = StreamQuery(tenant="acme", kind="thing", listed_before=now + 5, limit=1)
    while page := await pair.two.streams(query):
        found += [row.stream.id for row in page]
        query = replace(query, after=page[-1].stream, after_listed_at=page[-1].listed_at)
    expect_equal(found, ["e", "b", "a", "c"], "all pages of the list")
    query = StreamQuery(tenant="acme", kind="thing", owner="u-1", listed_before=now + 5)
    expect_equal([row.stream.id for row in await pair.two.streams(query)], ["b", "a", "c"], "of one owner")
    await pair.commit(moved(stream("a"), 2, now, listed_at=now, due_at=now - 5, owner="u-1"))
    await pair.commit(moved(stream("b"), 2, now, due_at=now - 1, owner="u-1"))
    [row, _] = await pair.two.streams(query)
    expect_equal((row.stream.id, row.listed_at), ("a", now), "after it moved")


async def the_newest_streams_are_listed_first(pair: Pair) -> None:
    now = pair.clock()
    for after, id in ((0, "m"), (1, "z"), (1, "c"), (2, "a")):
        await pair.commit(moved(stream(id), 1, now + after, owner=f"u-{after % 2}", status="open"))
    await pair.commit(moved(stream("m"), 2, now + 9, owner="u-0", status="open"))
    listed = await pair.two.streams(StreamQuery(newest_first=True))
    expect_equal([row.stream.id for row in listed], ["a", "z", "c", "m"], "from the last created on, whatever moved")
    expect_equal([row.created_at - now for row in listed], [2, 1, 1, 0], "when they were created")
    for query, wanted in (
        (StreamQuery(newest_first=True, tenant="acme", kind="thing", owner="u-1"), ["z", "c"]),
        (StreamQuery(newest_first=True, tenant="acme", kind="thing", owner="u-0", status="open"), ["a", "m"]),
        (StreamQuery(newest_first=True, tenant="acme", kind="thing", status="done"), []),
        (StreamQuery(newest_first=True, tenant="other"), []),
    ):
        found = [row.stream.id for row in await pair.two.streams(query)]
        expect_equal(found, wanted, f"the newest by {query}")


async def pages_of_the_newest_streams_follow_each_other(pair: Pair) -> None:
    now = pair.clock()
    made = [(now + number // 4, stream(f"s{number * 7 % 30:02}")) for number in range(30)]
    await pair.commit(together(*(moved(of, 1, at) for at, of in made)))
    found: list[StreamRow] = []
    query = StreamQuery(tenant="acme", kind="thing", newest_first=True, limit=7)
    while page := await pair.two.streams(query):
        found += page
        await pair.commit(moved(page[0].stream, 2, now + 99))
        await pair.commit(moved(stream(f"late{len(found)}"), 1, now + 99))
        query = replace(query, after=page[-1].stream, after_created_at=page[-1].created_at)
    wanted = [of for _, of in sorted(made, reverse=True)]
    expect_equal([row.stream for row in found], wanted, "each once, while some change and others are created")


async def a_stream_made_again_keeps_the_instant_of_its_creation(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(moved(A, 1, now))
    await pair.commit(moved(B, 1, now + 1))
    await pair.commit(deleted(A, 2, now + 2))
    listed = await pair.two.streams(StreamQuery(newest_first=True, tombstones=True))
    expect_equal([row.stream for row in listed], [B, A], "with deleted ones")
    await pair.commit(moved(A, 3, now + 3))
    listed = await pair.two.streams(StreamQuery(newest_first=True))
    expect_equal([(row.stream, row.created_at) for row in listed], [(B, now + 1), (A, now)], "after it was made again")


async def a_deleted_stream_is_not_listed(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(moved(A, 1, now, owner="u-1"), moved(B, 1, now, owner="u-1")))
    await pair.commit(deleted(A, 2, now))
    expect_equal([row.stream for row in await pair.two.streams(StreamQuery())], [B], "the streams that exist")
    row, history = await pair.two.history(A, 0, 10)
    expect_equal((row and row.state, len(history)), (None, 2), "a deleted stream keeps its history")
    await pair.commit(moved(A, 3, now, owner="u-1"))
    expect_equal([row.stream for row in await pair.two.streams(StreamQuery(owner="u-1"))], [A, B], "made again")


async def deleted_streams_are_listed_when_they_are_asked_for(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(moved(A, 1, now), moved(B, 1, now)))
    await pair.commit(deleted(A, 2, now))
    async with pair.one.begin(locking(C)):
        listed = await pair.two.streams(StreamQuery(tombstones=True))
    found = [(row.stream, row.version, row.state is None) for row in listed]
    expect_equal(found, [(A, 2, True), (B, 1, False)], "all streams that were ever written")
    page = await pair.two.streams(StreamQuery(tombstones=True, limit=1))
    expect_equal([row.stream for row in page], [A], "the first of them")


async def a_stream_that_is_only_locked_is_not_listed(pair: Pair) -> None:
    async with pair.one.begin(locking(A)) as tx:
        expect_equal(await pair.two.streams(StreamQuery()), [], "while it is locked")
        await tx.commit(moved(B, 1, pair.clock()))
    expect_equal([row.stream for row in await pair.two.streams(StreamQuery())], [B], "after the commit")


async def a_page_of_streams_has_a_bound_whatever_is_asked(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(together(*(moved(stream(f"s{n:04}"), 1, now, due_at=now) for n in range(PAGE_MAX + 5))))
    for query in (StreamQuery(limit=10 * PAGE_MAX), StreamQuery(limit=10 * PAGE_MAX, due_before=now)):
        expect_equal(len(await pair.two.streams(query)), PAGE_MAX, "the longest page")
