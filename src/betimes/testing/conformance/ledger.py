"""The ledger: every segment in commit order, read in pages, filtered, forwards and backwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise, product
from operator import attrgetter

from msgspec.structs import replace

from betimes.core.instants import HOUR, MINUTE
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.store import PAGE_MAX, Changes, LedgerQuery, Store
from betimes.testing.conformance.expectations import expect, expect_equal
from betimes.testing.conformance.pairs import Pair, commit
from betimes.testing.conformance.samples import KEY, A, B, C, keyed, moved, segment, stream, together, write


async def _read(store: Store, query: LedgerQuery = LedgerQuery()) -> list[tuple[str, int]]:  # noqa: B008
    return [(found.stream.id, found.version) for found in await store.ledger(query)]


async def _follow(store: Store, limit: int, backwards: bool = False) -> list[Segment]:
    found: list[Segment] = []
    while True:
        after = found[-1].seq if found else 0
        page = await store.ledger(LedgerQuery(after=after, backwards=backwards, limit=limit))
        expect(len(page) <= limit, "a page is no longer than asked")
        if not page:
            return found
        found += page


async def an_empty_ledger_has_no_pages(pair: Pair) -> None:
    for query in (LedgerQuery(), LedgerQuery(backwards=True), LedgerQuery(after=10), LedgerQuery(key="k")):
        expect_equal(await pair.one.ledger(query), [], f"the ledger by {query}")


async def segments_are_in_the_order_of_their_commits(pair: Pair) -> None:
    for number, of in enumerate([C, A, B, A, C], start=1):
        version = [C, A, B, A, C][:number].count(of)
        await commit(pair.one if number % 2 else pair.two, moved(of, version, pair.clock()))
    wanted = [("c", 1), ("a", 1), ("b", 1), ("a", 2), ("c", 2)]
    for store in (pair.one, pair.two):
        expect_equal(await _read(store), wanted, "the ledger in commit order")
    positions = [found.seq for found in await pair.one.ledger(LedgerQuery())]
    expect(positions[0] > 0 and all(a < b for a, b in pairwise(positions)), "positions grow")


async def segments_of_one_batch_keep_its_order(pair: Pair) -> None:
    now = pair.clock()
    order = [segment(C, 1, now), segment(A, 1, now), segment(C, 2, now), segment(B, 1, now), segment(C, 3, now)]
    rows = [write(A, 1, now), write(C, 3, now, expected=0), write(B, 1, now)]
    await pair.commit(Changes(streams=rows, segments=order))
    expect_equal(await _read(pair.two), [(s.stream.id, s.version) for s in order], "the ledger")


async def a_batch_of_hundreds_is_stored_as_it_was_given(pair: Pair) -> None:
    """Whatever a store does about segments and rows that are alike, as those of a sweep: order and columns stay."""
    now, columns = pair.clock(), attrgetter("version", "state", "at", "alarm_at", "status", "owner", "due_at", "digest")
    streams = [stream(f"s{n:03}", tenant="acme" if n % 300 < 250 else f"t{n % 2}") for n in range(400)]
    await pair.commit(together(*(moved(of, 1, now, due_at=now) for of in streams)))
    rows = [
        write(of, 2, now + 1, due_at=now + MINUTE + n % 3, status="odd" if n % 50 == 7 else "open")
        for n, of in enumerate(streams)
    ]
    segments = [segment(of, 2, now + 1, reply='"taken"', actor="sweep") for of in streams]
    segments[100] = replace(segments[100], correlation="c-1", reply=None)
    segments[300] = replace(segments[300], verdict='{"outcome":"NOW"}')
    twice = streams[200]
    rows[200] = write(twice, 3, now + 1, expected=1, alarm_at=now + HOUR, owner="ann", due_at=None)
    segments.append(segment(twice, 3, now + 1, reply='"taken"', actor="sweep"))
    await pair.commit(Changes(streams=rows, segments=segments))
    stored = (await pair.two.ledger(LedgerQuery(limit=PAGE_MAX)))[len(streams) :]
    expect_equal([replace(found, seq=0) for found in stored], segments, "the segments of the batch")
    for row in rows:
        found, _ = await pair.two.history(row.stream, 2, 1)
        expect_equal(found and columns(found), columns(row), f"the row of {row.stream}")


async def _many(pair: Pair, count: int) -> list[Segment]:
    now, streams = pair.clock(), [stream(f"s{n}") for n in range(3)]
    segments = [segment(streams[n % 3], n // 3 + 1, now) for n in range(count)]
    last = {found.stream: found.version for found in segments}
    rows = [write(of, version, now, expected=0) for of, version in last.items()]
    await pair.commit(Changes(streams=rows, segments=segments))
    return await pair.one.ledger(LedgerQuery(limit=PAGE_MAX))


async def pages_follow_each_other_in_both_directions(pair: Pair) -> None:
    everything = await _many(pair, 23)
    for limit in (1, 7, 23, 24):
        expect_equal(await _follow(pair.two, limit), everything, f"forwards in pages of {limit}")
        expect_equal(await _follow(pair.two, limit, backwards=True), everything[::-1], f"backwards by {limit}")


async def a_page_starts_at_any_position(pair: Pair) -> None:
    everything = await _many(pair, 9)
    for place, found in enumerate(everything):
        later = await pair.two.ledger(LedgerQuery(after=found.seq))
        expect_equal(later, everything[place + 1 :], "the segments after a position")
        earlier = await pair.two.ledger(LedgerQuery(after=found.seq, backwards=True))
        expect_equal(earlier, everything[:place][::-1], "the segments before a position")


async def a_page_has_a_bound_whatever_is_asked(pair: Pair) -> None:
    await _many(pair, PAGE_MAX + 5)
    for backwards in (False, True):
        page = await pair.two.ledger(LedgerQuery(limit=10 * PAGE_MAX, backwards=backwards))
        expect_equal(len(page), PAGE_MAX, "the longest page")
    expect_equal(len(await _follow(pair.two, PAGE_MAX)), PAGE_MAX + 5, "all pages")


async def segments_are_found_by_what_is_asked(pair: Pair) -> None:
    now = pair.clock()
    await pair.commit(keyed(KEY, A, 1, now))
    await pair.commit(
        Changes(
            streams=[write(B, 1, now + MINUTE)],
            segments=[segment(B, 1, now + MINUTE, correlation="c-1", turn="one turn")],
        )
    )
    elsewhere = [stream("a", tenant="other"), stream("a", kind="other")]
    for of in elsewhere:
        marked = segment(of, 1, now + HOUR, correlation="c-1", turn="one turn")
        await pair.commit(Changes(streams=[write(of, 1, now + HOUR)], segments=[marked]))
    everything = await pair.two.ledger(LedgerQuery())
    expect_equal(len(everything), 4, "all segments")
    asked: list[tuple[LedgerQuery, Callable[[Segment], bool]]] = [
        (LedgerQuery(tenant="other"), lambda s: s.stream.tenant == "other"),
        (LedgerQuery(kind="other"), lambda s: s.stream.kind == "other"),
        (LedgerQuery(id="a"), lambda s: s.stream.id == "a"),
        (LedgerQuery(tenant="acme", kind="thing", id="a"), lambda s: s.stream == A),
        (LedgerQuery(key=KEY.key), lambda s: s.key == KEY),
        (LedgerQuery(key="no such key"), lambda s: False),
        (LedgerQuery(correlation="c-1"), lambda s: s.correlation == "c-1"),
        (LedgerQuery(turn="one turn"), lambda s: s.turn == "one turn"),
        (LedgerQuery(since_at=now + MINUTE), lambda s: s.at >= now + MINUTE),
        (LedgerQuery(until_at=now + MINUTE), lambda s: s.at < now + MINUTE),
        (LedgerQuery(since_at=now + 1, until_at=now + HOUR), lambda s: s.stream == B),
        (LedgerQuery(correlation="c-1", after=everything[1].seq), lambda s: s.seq > everything[1].seq),
    ]
    for query, fits in asked:
        wanted = [found for found in everything if fits(found)]
        expect_equal(await pair.two.ledger(query), wanted, f"segments by {query}")
        first = replace(query, limit=1)
        expect_equal(await pair.two.ledger(first), wanted[:1], f"the first of them by {first}")
        if not query.after:
            last = replace(query, limit=2, backwards=True)
            expect_equal(await pair.two.ledger(last), wanted[::-1][:2], f"the last of them by {last}")


async def segments_are_found_by_instant_whatever_their_order(pair: Pair) -> None:
    """Streams run ahead of the clock and clocks are set back; who asks by instant gets all of them all the same."""
    now, count = pair.clock(), 1_100
    for batch in range(3):
        streams = [stream(f"s{batch}-{n}") for n in range(count)]
        ats = [now + (batch * count + n) * MINUTE for n in range(count)]
        ats[7], ats[-7] = now + (5_000 + batch) * HOUR, now - (5_000 + batch) * HOUR
        changes = [
            Changes(streams=[write(of, 1, at)], segments=[segment(of, 1, at)])
            for of, at in zip(streams, ats, strict=True)
        ]
        await commit(pair.two if batch % 2 else pair.one, together(*changes))
    everything: list[Segment] = await _follow(pair.one, PAGE_MAX)
    expect_equal(len(everything), 3 * count, "all segments")
    early, middle, late = now + 5 * MINUTE, now + 1_500 * MINUTE, now + 3_250 * MINUTE
    for since_at, until_at in (
        (late, None),
        (None, early),
        (middle, middle + 9 * MINUTE),
        (early, late),
        (now + 5_000 * HOUR, None),
        (None, now),
        (late, early),
    ):
        wanted = [
            s for s in everything if (since_at is None or s.at >= since_at) and (until_at is None or s.at < until_at)
        ]
        for backwards, tenant in product((False, True), (None, A.tenant)):
            query = LedgerQuery(tenant=tenant, since_at=since_at, until_at=until_at, backwards=backwards, limit=400)
            found: list[Segment] = []
            while page := await pair.two.ledger(replace(query, after=found[-1].seq if found else 0)):
                found += page
            expect_equal(found, wanted[::-1] if backwards else wanted, f"segments by {query}")


async def a_key_is_found_in_the_ledger_long_after_it_was_forgotten(pair: Pair) -> None:
    now = pair.clock()
    other = KEY._replace(tenant="other")
    await pair.commit(keyed(KEY, A, 1, now, expires_at=now + HOUR))
    await pair.commit(keyed(other, stream("a", tenant="other"), 1, now))
    await pair.commit(moved(B, 1, now))
    pair.clock.advance(7_200)
    await pair.one.forget(before_at=now, limit=100)
    await pair.commit(keyed(KEY, C, 1, pair.clock()))
    expect_equal(await _read(pair.two, LedgerQuery(tenant="acme", key=KEY.key)), [("a", 1), ("c", 1)], "both uses")
    last = LedgerQuery(tenant="acme", key=KEY.key, backwards=True, limit=1)
    expect_equal(await _read(pair.two, last), [("c", 1)], "the last use")
    later = LedgerQuery(key=KEY.key, since_at=now + HOUR)
    expect_equal(await _read(pair.two, later), [("c", 1)], "a use since an instant")


async def a_stream_keeps_its_history_in_order(pair: Pair) -> None:
    for version in range(1, 6):
        await pair.commit(together(moved(A, version, pair.clock()), moved(B, version, pair.clock())))
    everything = await pair.one.ledger(LedgerQuery(tenant=A.tenant, kind=A.kind, id=A.id))
    for after in range(6):
        row, found = await pair.two.history(A, after, 100)
        expect_equal(found, everything[after:], f"the history after version {after}")
        expect_equal(row and row.version, 5, "the row beside its history")
    expect_equal((await pair.two.history(A, 1, 2))[1], everything[1:3], "a page of history")


async def a_history_page_has_a_bound_whatever_is_asked(pair: Pair) -> None:
    now = pair.clock()
    segments = [segment(A, version, now) for version in range(1, PAGE_MAX + 6)]
    await pair.commit(Changes(streams=[write(A, PAGE_MAX + 5, now, expected=0)], segments=segments))
    _, page = await pair.two.history(A, 0, 10 * PAGE_MAX)
    expect_equal([page[0].version, page[-1].version], [1, PAGE_MAX], "the longest page")
    _, rest = await pair.two.history(A, PAGE_MAX, 10 * PAGE_MAX)
    expect_equal([s.version for s in rest], list(range(PAGE_MAX + 1, PAGE_MAX + 6)), "the page after it")


async def one_who_follows_the_ledger_misses_nothing(pair: Pair) -> None:
    async def write_to(store: Store, of: StreamId, times: int) -> None:
        for version in range(1, times + 1):
            await commit(store, moved(of, version, pair.clock()))

    async def follow(store: Store, wanted: int) -> list[Segment]:
        found: list[Segment] = []
        while len(found) < wanted:
            found += await store.ledger(LedgerQuery(after=found[-1].seq if found else 0, limit=3))
            await asyncio.sleep(0)
        return found

    streams = [stream(f"s{n}") for n in range(6)]
    writers = [write_to(pair.two if n % 2 else pair.one, of, 8) for n, of in enumerate(streams)]
    followed, *_ = await asyncio.gather(follow(pair.two, 48), *writers)
    expect_equal(followed, await pair.one.ledger(LedgerQuery(limit=PAGE_MAX)), "what was followed and what is there")


async def a_row_and_its_history_are_from_one_snapshot(pair: Pair) -> None:
    async def move_on() -> None:
        for version in range(1, 31):
            await commit(pair.one, moved(A, version, pair.clock()))

    writing = asyncio.create_task(move_on())
    try:
        while not writing.done():
            row, history = await pair.two.history(A, 0, 100)
            last = history[-1].version if history else 0
            expect_equal(row.version if row else 0, last, "the row's version and its last segment's")
            await asyncio.sleep(0)
    finally:
        await writing
