"""One message that locks, compares, writes and commits: what time it tells, and what becomes of one that is cut off."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.errors import Conflict, Unavailable, Unknown
from betimes.core.instants import MINUTE, SECOND
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import Changes, KeyWrite, LockRequest
from betimes.stores.postgres import PostgresStore
from betimes.stores.postgres.functions import SCHEMA
from betimes.stores.postgres.optimistic_commit import HEARD_S_MAX, EstimatedClock
from betimes.stores.postgres.statements import script
from betimes.stores.postgres.transaction import SCRIPT_MAX
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import KEY, A, B, keyed, moved, stream, together, turn_of, waiting
from betimes.testing.sample import SAMPLE, SECTIONS, Knock
from tests.engine.worlds import GATE
from tests.postgres import Proxy, opened_stores, raw_connection, server_dsn, two_stores, with_settings
from tests.stores.test_postgres_faults import END_OTHERS

pytestmark = pytest.mark.postgres

PRESUMED = LockRequest(locks={A: 1}, keys=[KEY])
MANY = [A, *(stream(f"s{number}") for number in range(SCRIPT_MAX))]
"""More than a script has room for."""
FAR_AT = 2**60


async def commit_presumed(store: PostgresStore, changes: Changes, presumed: LockRequest = PRESUMED) -> None:
    begin = store.presume(presumed)
    assert begin
    async with begin as tx:
        await tx.commit(changes)


def moved_together(version: int) -> Changes:
    each = [moved(name, version, 0) for name in MANY]
    key = [KeyWrite(KEY, "request", A, version, FAR_AT)] if version == 2 else []
    return Changes(streams=[one.streams[0] for one in each], segments=[one.segments[0] for one in each], keys=key)


async def commit_batch_presumed(store: PostgresStore, version: int) -> None:
    presumed = LockRequest(locks=dict.fromkeys(MANY, version - 1), keys=[KEY] if version == 2 else [])
    await commit_presumed(store, moved_together(version), presumed)


def test_the_time_that_was_heard_is_never_ahead_and_not_told_for_long() -> None:
    passed_s = [100.0]
    heard = EstimatedClock(lambda: passed_s[0])
    assert heard.now() is None
    heard.hear(MINUTE)
    told = []
    for _ in range(5):
        told.append(heard.now())
        passed_s[0] += 2.0
    assert all(at is not None and 0 <= MINUTE + 2 * n * SECOND - at <= SECOND // 100 for n, at in enumerate(told))
    passed_s[0] += HEARD_S_MAX
    assert heard.now() is None


async def test_the_time_that_is_presumed_is_the_databases_or_a_moment_before() -> None:
    async with two_stores() as (one, _), raw_connection() as connection:
        assert one.presume(PRESUMED) is None, "nothing was heard yet"
        await commit(one, moved(A, 1, 0))
        tx = one.presume(PRESUMED)
        epoch = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())")
        assert tx
        assert 0 <= int(epoch * SECOND) - tx.now < MINUTE


@pytest.mark.parametrize("off_by", [MINUTE, -2 * SECOND])
async def test_a_time_that_is_not_the_databases_is_refused(off_by: int) -> None:
    async with two_stores() as (one, _):
        await commit(one, moved(A, 1, 0))
        now = await one.now()
        one._time.hear(now + off_by)
        with pytest.raises(Conflict, match="the time was presumed otherwise"):
            await commit_presumed(one, moved(A, 2, now))
        assert (await one.load([A]))[A].version == 1


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_a_presumption_is_one_message(behind_pooler: bool) -> None:
    proxy = Proxy()
    async with (
        proxy.listening(server_dsn()) as through,
        opened_stores(through, behind_pooler=behind_pooler) as (store,),
    ):
        await commit(store, moved(A, 1, 0))
        before = proxy.sent
        await commit_presumed(store, keyed(KEY, A, 2, 0))
        assert proxy.sent - before == 1
        assert (await store.load([A]))[A].version == 2


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_a_batch_that_is_presumed_is_one_message(behind_pooler: bool) -> None:
    proxy = Proxy()
    async with (
        proxy.listening(server_dsn()) as through,
        opened_stores(through, behind_pooler=behind_pooler) as (store,),
    ):
        await commit(store, moved_together(1))
        await commit_batch_presumed(store, 2)  # prepares the statement
        before = proxy.sent
        await commit_batch_presumed(store, 3)
        assert proxy.sent - before == 1
        assert {row.version for row in (await store.load(MANY)).values()} == {3}
        assert (await store.seen(KEY)) is not None


async def test_a_batch_is_refused_as_a_whole_if_one_of_its_streams_moved_or_is_held() -> None:
    async with two_stores() as (one, two):
        await commit(one, moved_together(1))
        async with two.begin(waiting(MANY[-1])):
            with pytest.raises(Conflict, match="is held"):
                await commit_batch_presumed(one, 2)
        await commit(two, moved(A, 2, 0))
        with pytest.raises(Conflict, match="a version moved"):
            await commit_batch_presumed(one, 2)
        assert [row.version for row in (await one.load(MANY[1:])).values()] == [1] * SCRIPT_MAX
        assert await one.seen(KEY) is None


@pytest.mark.parametrize("stale", [{"locks": dict.fromkeys(MANY, 1), "reads": {stream("policy"): 1}}, {}])
async def test_a_batch_is_refused_if_what_it_read_or_the_time_is_otherwise(stale: dict[str, Any]) -> None:
    async with two_stores() as (one, _):
        await commit(one, moved_together(1))
        if not stale:
            one._time.hear(await one.now() - 2 * SECOND)
        with pytest.raises(Conflict, match="was presumed otherwise"):
            await commit_presumed(one, moved_together(2), LockRequest(**stale or {"locks": dict.fromkeys(MANY, 1)}))
        assert {row.version for row in (await one.load(MANY)).values()} == {1}


@pytest.mark.parametrize(("cut", "written"), [("before", False), ("after", True)])
async def test_a_batch_whose_connection_is_lost_meanwhile_is_unknown(cut: str, written: bool) -> None:
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through, server_dsn()) as (one, two):
        await commit(one, moved_together(1))
        await commit_batch_presumed(one, 2)
        proxy.cut, proxy.commits = cut, (turn_of(A, 3).encode(),)  # a statement with parameters that commits by itself
        with pytest.raises(Unknown, match="ask again under the same key"):
            await commit_batch_presumed(one, 3)
        async with two.begin(waiting(A)) as tx:
            assert await tx.turn_at(A, 3) == (turn_of(A, 3) if written else None)


@pytest.mark.parametrize(("cut", "written"), [("before", False), ("after", True)])
async def test_a_connection_lost_meanwhile_leaves_the_outcome_unknown(cut: str, written: bool) -> None:
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through, server_dsn()) as (one, two):
        await commit(one, moved(A, 1, 0))
        proxy.cut = cut
        with pytest.raises(Unknown, match="ask again under the same key"):
            await commit_presumed(one, keyed(KEY, A, 2, 0))
        async with two.begin(waiting(A)) as tx:
            assert await tx.turn_at(A, 2) == (turn_of(A, 2) if written else None)


async def test_a_message_that_comes_after_its_sender_gave_it_up_does_nothing() -> None:
    proxy = Proxy()
    async with proxy.listening(server_dsn()) as through, opened_stores(through, server_dsn()) as (one, two):
        await commit(one, moved(A, 1, 0))
        proxy.cut = "late"
        with pytest.raises(Unknown):
            await commit_presumed(one, keyed(KEY, A, 2, 0))
        proxy.release.set()
        await proxy.answered.wait()
        async with two.begin(waiting(A)) as tx:
            assert await tx.turn_at(A, 2) is None
        assert await two.seen(KEY) is None


async def test_an_engine_whose_ready_connection_broke_answers_as_if_it_had_not() -> None:
    async with (
        opened_stores(server_dsn()) as (store,),
        Engine(store, SAMPLE, sections=SECTIONS, name="one", policy={"gates": {"cooldown_s": 0}}) as engine,
        raw_connection() as other,
    ):
        for number in range(1, 5):
            await other.fetchval(END_OTHERS)
            recorded = await engine.submit(Submission(stream=GATE, command=Knock(f"v{number}"), key=f"k{number}"))
            assert (recorded.version, recorded.replayed) == (number, False)


@pytest.mark.parametrize("setting", ["on", "off"])
@pytest.mark.parametrize("behind_pooler", [False, True])
@pytest.mark.parametrize("streams", [[A], [A, B]], ids=["a turn", "a batch"])
async def test_texts_are_written_as_they_are_whatever_strings_mean_to_the_server(
    setting: str, behind_pooler: bool, streams: list[StreamId]
) -> None:
    """All of a message is read before any of it takes effect, its own settings too."""
    awkward = ["it's", "back\\slash", "\\'); DROP SCHEMA public; --", "%s $$ :name", "\\n\n", '"},{(a,"b")} $q$', "\\"]
    awkward += ["$q$qq$qqqq$ $qqq", f"${'q' * 200}$"]
    dsn = with_settings(server_dsn(), standard_conforming_strings=setting)
    async with opened_stores(dsn, behind_pooler=behind_pooler) as (store,):
        for stream in streams:
            await commit(store, moved(stream, 1, 0))
        for version, text in enumerate(awkward, start=2):
            begin = store.presume(LockRequest(locks=dict.fromkeys(streams, version - 1)))
            assert begin
            async with begin as tx:
                changes = together(*[moved(stream, version, 0, owner=text) for stream in streams])
                segments = [replace(segment, actor=text) for segment in changes.segments]
                await tx.commit(Changes(streams=changes.streams, segments=segments))
        for stream in streams:
            row, history = await store.history(stream, 1, 100)
            assert row
            assert ([segment.actor for segment in history], row.owner) == (awkward, awkward[-1])


def test_a_text_full_of_quotes_costs_no_more_than_another() -> None:
    """To look once for every quote somebody put into it took seconds in which nobody else was served."""
    quotes = "$".join("q" * length for length in range(1, 2_000))
    began_s = time.process_time()
    written = script(SCHEMA, "commit_batch", defaultdict(lambda: None, streams=[(quotes,)]))
    assert time.process_time() - began_s < 1
    assert written
    assert written.count(f"${'q' * 1_999}$") == 2, "a quote that the text does not have"


async def test_what_does_not_fit_into_one_message_is_refused() -> None:
    async with two_stores() as (one, _):
        await commit(one, moved(A, 1, 0))
        policy = Changes(policies={"0123456789abcdef": "{}"})
        with pytest.raises(Unavailable, match="more than fits into one message"):
            await commit_presumed(one, policy)
