"""Commits of what was decided without asking: they lock and compare first, and write all or nothing.

A store that does not presume is always asked, and passes as it is. One that does must do so when it was asked for
something else just before.
"""

from __future__ import annotations

from betimes.core.errors import Conflict, Duplicate, StoreError
from betimes.core.instants import HOUR
from betimes.engine.store import NOT_CACHED, Changes, LockRequest, Presumes, Store, Tx
from betimes.testing.conformance.expectations import expect, expect_equal, expect_refusal
from betimes.testing.conformance.model import Model, without_positions
from betimes.testing.conformance.pairs import Pair, commit
from betimes.testing.conformance.samples import KEY, A, B, C, call, causing, keyed, locking, moved, stream, together
from betimes.testing.conformance.visible import Visible, everything

STREAMS = (A, B, C)
NOBODY = stream("nobody")


async def _begun(pair: Pair) -> Changes:
    """All streams at their first version."""
    first = together(*(moved(of, 1, pair.clock()) for of in STREAMS))
    await pair.commit(first)
    return first


async def _presumed(store: Store, ask: LockRequest, changes: Changes) -> None:
    """Commit by presumption; asked for beforehand where that is not done."""
    if not isinstance(store, Presumes):
        await commit(store, changes)
        return
    begin = store.presume(ask)
    expect(begin is not None, "a store that presumes does so when everything is cached")
    assert begin is not None
    async with begin as tx:
        _expect_presumed(tx, ask)
        await tx.commit(changes)


def _expect_presumed(tx: Tx, ask: LockRequest) -> None:
    expect_equal(tx.unchanged, {*ask.locks, *ask.reads}, "what is presumed to be as it is cached")
    expect_equal((tx.rows, tx.seen, tx.sends), ({}, {}, set()), "what nobody was asked for")


async def _seen(pair: Pair) -> Visible:
    return without_positions(await everything(pair.two, STREAMS))


async def _expect_refused(pair: Pair, kind: type[StoreError], ask: LockRequest, changes: Changes, what: str) -> None:
    """The commit is refused and leaves nothing, nor anything locked."""
    if not isinstance(pair.one, Presumes):
        return
    before = await _seen(pair)
    with expect_refusal(kind, what):
        await _presumed(pair.one, ask, changes)
    expect_equal(await _seen(pair), before, f"what is there after {what} was refused")
    async with pair.two.begin(locking(*ask.locks)) as tx:
        expect_equal(set(tx.rows), set(ask.locks), f"what is free after {what} was refused")


async def what_was_presumed_is_committed(pair: Pair) -> None:
    first = await _begun(pair)
    at = pair.clock.advance(1)
    changes = together(keyed(KEY, A, 2, at), causing(B, 2, at, call(B, 2, at)))
    await _presumed(pair.one, LockRequest(locks={A: 1, B: 1}, reads={C: 1, NOBODY: 0}, keys=[KEY]), changes)
    model = Model()
    for batch in (first, changes):
        model.commit(batch)
    found, wanted = await _seen(pair), model.visible(STREAMS, (), at)
    for part, value in wanted._asdict().items():
        expect_equal(getattr(found, part), value, f"{part} after the commit")
    expect((await pair.two.seen(KEY)) is not None, "the key is on record")


async def one_presumption_follows_another(pair: Pair) -> None:
    await _begun(pair)
    for version in range(2, 6):
        key = KEY._replace(key=f"k-{version}")
        at = pair.clock.advance(1)
        await _presumed(pair.one, LockRequest(locks={A: version - 1}, keys=[key]), keyed(key, A, version, at))
    expect_equal((await pair.two.load([A]))[A].version, 5, "the version after four presumptions")


async def a_presumption_has_the_stores_time(pair: Pair) -> None:
    await _begun(pair)
    pair.clock.advance(90)
    begin = pair.one.presume(LockRequest(locks={A: 1})) if isinstance(pair.one, Presumes) else None
    if begin:
        async with begin as tx:
            expect_equal(tx.now, pair.clock(), "the time by which it is decided")


async def a_presumption_left_without_a_commit_leaves_nothing(pair: Pair) -> None:
    await _begun(pair)
    before = await _seen(pair)
    begin = pair.one.presume(LockRequest(locks={A: 1}, keys=[KEY])) if isinstance(pair.one, Presumes) else None
    if begin:
        async with begin, pair.two.begin(locking(A)) as tx:
            expect_equal(set(tx.rows), {A}, "what others can lock meanwhile")
    expect_equal(await _seen(pair), before, "what is there after it was left")


async def a_version_that_moved_is_refused(pair: Pair) -> None:
    await _begun(pair)
    await commit(pair.two, moved(B, 2, pair.clock()))
    both = together(moved(A, 2, pair.clock()), moved(B, 2, pair.clock()))
    await _expect_refused(pair, Conflict, LockRequest(locks={A: 1, B: 1}), both, "a version that moved")
    only_a = moved(A, 2, pair.clock())
    await _expect_refused(pair, Conflict, LockRequest(locks={A: 1, B: 1}), only_a, "one that moved and is not written")


async def a_read_that_moved_is_refused(pair: Pair) -> None:
    await _begun(pair)
    await commit(pair.two, together(moved(B, 2, pair.clock()), moved(NOBODY, 1, pair.clock())))
    changes = moved(A, 2, pair.clock())
    await _expect_refused(pair, Conflict, LockRequest(locks={A: 1}, reads={B: 1}), changes, "a read that moved")
    await _expect_refused(
        pair, Conflict, LockRequest(locks={A: 1}, reads={NOBODY: 0}), changes, "a read that is there now"
    )


async def a_key_that_was_used_is_refused(pair: Pair) -> None:
    await _begun(pair)
    now = pair.clock()
    await commit(pair.two, keyed(KEY, B, 2, now, expires_at=now + HOUR))
    ask = LockRequest(locks={A: 1}, keys=[KEY])
    await _expect_refused(pair, Duplicate, ask, keyed(KEY, A, 2, now), "a key that was used")
    pair.clock.advance_to(now + HOUR)
    await _presumed(pair.one, ask, keyed(KEY, A, 2, pair.clock()))
    seen = await pair.two.seen(KEY)
    expect_equal(seen and seen.segment.stream, A, "the stream of a key that had expired")


async def a_stream_that_is_gone_is_refused(pair: Pair) -> None:
    await _begun(pair)
    changes = moved(NOBODY, 2, pair.clock())
    if isinstance(pair.one, Presumes):
        with expect_refusal(Conflict, "a stream that was never there"):
            await _presumed(pair.one, LockRequest(locks={NOBODY: 1}), changes)
        expect_equal(await pair.two.load([NOBODY]), {}, "what was never there")


async def only_what_is_cached_is_presumed(pair: Pair) -> None:
    await _begun(pair)
    if not isinstance(pair.one, Presumes):
        return
    effect = call(A, 1, pair.clock()).id
    for ask in (
        LockRequest(),
        LockRequest(keys=[KEY]),
        LockRequest(locks={A: NOT_CACHED}),
        LockRequest(locks={A: 1, B: NOT_CACHED}),
        LockRequest(locks={NOBODY: 0}),
        LockRequest(locks={A: 1}, reads={B: NOT_CACHED}),
        LockRequest(locks={A: 1}, waits={A}),
        LockRequest(locks={A: 1}, sends=[effect]),
    ):
        expect(pair.one.presume(ask) is None, f"{ask} is not presumed")


async def more_than_was_presumed_is_refused(pair: Pair) -> None:
    await _begun(pair)
    begin = pair.one.presume(LockRequest(locks={A: 1})) if isinstance(pair.one, Presumes) else None
    if begin:
        with expect_refusal(Conflict, "asking for more"):
            async with begin as tx:
                await tx.extend(locking(B))
