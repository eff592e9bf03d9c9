"""Rows and segments written before the commit of their batch: part of it like all the rest, in the order written.

A store whose transactions cannot write ahead gets everything with the commit, and passes as it is.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from betimes.core.errors import Conflict
from betimes.core.instants import HOUR, Instant
from betimes.core.streams import StreamId
from betimes.engine.store import Changes, Tx, WritesAhead
from betimes.testing.conformance.expectations import expect_equal, expect_refusal
from betimes.testing.conformance.model import Model, without_positions
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import KIND, call, causing, moved, stream, together, waiting
from betimes.testing.conformance.visible import Visible, everything

STREAMS = tuple(stream(id) for id in ("m", "c", "z", "a", "k", "b"))


async def _begun(pair: Pair) -> Changes:
    """Streams at their first version, all of them due."""
    now = pair.clock()
    first = together(*(moved(of, 1, now, due_at=now, alarm_at=now, owner="u-1") for of in STREAMS))
    await pair.commit(first)
    return first


def _next(of: StreamId, at: Instant) -> Changes:
    return moved(of, 2, at, due_at=at + HOUR, alarm_at=None, owner="u-2", status="done")


async def _ahead(tx: Tx, *parts: Changes) -> Changes:
    """Write the parts ahead, one after the other; what is left for the commit, which is all where that is not done."""
    if not isinstance(tx, WritesAhead):
        return together(*parts)
    for part in parts:
        await tx.write_ahead(part.streams, part.segments)
    return Changes()


def _due(pair: Pair) -> AbstractAsyncContextManager[Tx]:
    return pair.one.begin_due("due", [KIND], 100)


async def _seen(pair: Pair) -> Visible:
    return without_positions(await everything(pair.two, STREAMS))


async def _expect(pair: Pair, wanted: Visible, what: str) -> None:
    found = await _seen(pair)
    for part, value in wanted._asdict().items():
        expect_equal(getattr(found, part), value, f"{part} {what}")


def _model(pair: Pair, *batches: Changes) -> Visible:
    model = Model()
    for batch in batches:
        model.commit(batch)
    return model.visible(STREAMS, (), pair.clock())


async def what_is_written_ahead_is_committed_with_the_rest_and_in_order(pair: Pair) -> None:
    first = await _begun(pair)
    now = pair.clock.advance(1)
    slices = [together(*(_next(of, now) for of in STREAMS[start : start + 2])) for start in (0, 2)]
    last = together(_next(STREAMS[4], now), causing(STREAMS[5], 2, now, call(STREAMS[5], 2, now)))
    async with _due(pair) as tx:
        left = await _ahead(tx, *slices)
        await tx.commit(together(left, last))
    await _expect(pair, _model(pair, first, together(*slices, last)), "after the commit")


async def a_batch_may_be_written_ahead_whole(pair: Pair) -> None:
    first = await _begun(pair)
    now = pair.clock.advance(1)
    batch = together(*(_next(of, now) for of in STREAMS))
    async with _due(pair) as tx:
        await tx.commit(await _ahead(tx, batch))
    await _expect(pair, _model(pair, first, batch), "after a commit with nothing more")


async def new_streams_may_be_written_ahead(pair: Pair) -> None:
    now = pair.clock()
    made = [moved(of, 1, now) for of in STREAMS]
    async with pair.one.begin(waiting(*STREAMS)) as tx:
        left = await _ahead(tx, *made[:4])
        await tx.commit(together(left, *made[4:]))
    await _expect(pair, _model(pair, together(*made)), "after the commit")


async def nobody_sees_what_is_written_ahead_before_the_commit(pair: Pair) -> None:
    await _begun(pair)
    before = await _seen(pair)
    now = pair.clock()
    async with _due(pair) as tx:
        left = await _ahead(tx, *(_next(of, now) for of in STREAMS[:3]))
        await _expect(pair, before, "before the commit")
        await tx.commit(left)


async def what_is_written_ahead_is_undone_without_a_commit(pair: Pair) -> None:
    await _begun(pair)
    before = await _seen(pair)
    now = pair.clock()
    async with _due(pair) as tx:
        await _ahead(tx, *(_next(of, now) for of in STREAMS[:3]))
    await _expect(pair, before, "after it was left")
    async with _due(pair) as tx:
        expect_equal(set(tx.rows), set(STREAMS), "what is due after it was left")


async def a_refused_commit_undoes_what_was_written_ahead(pair: Pair) -> None:
    await _begun(pair)
    before = await _seen(pair)
    now = pair.clock()
    with expect_refusal(Conflict, "a version that moved, after others were written ahead"):
        async with _due(pair) as tx:
            left = await _ahead(tx, *(_next(of, now) for of in STREAMS[:3]))
            await tx.commit(together(left, moved(STREAMS[4], 5, now)))
    await _expect(pair, before, "after the refusal")


async def versions_are_compared_when_written_ahead(pair: Pair) -> None:
    await _begun(pair)
    before = await _seen(pair)
    now = pair.clock()
    with expect_refusal(Conflict, "a version that moved, written ahead"):
        async with _due(pair) as tx:
            left = await _ahead(tx, _next(STREAMS[0], now), moved(STREAMS[1], 5, now))
            await tx.commit(left)
    await _expect(pair, before, "after the refusal")
