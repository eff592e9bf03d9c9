"""The pulse: one tail for all readers, sums that miss nothing, and nobody who is ended for being slow."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.catalogue import AREAS
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.ledger import pulse
from betimes.ledger.pulse import PulseFeed, PulseFrame, PulseTail
from betimes.ledger.verdict_feed import FeedFilters
from tests.http.served import Client

EVERYTHING = frozenset(AREAS)


@pytest.fixture(autouse=True)
def beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every read a beat, so that nothing waits for a clock."""
    monkeypatch.setattr(pulse, "BEAT_S", 0.0)


def opened() -> Betimes:
    return Betimes("memory://", clock=VirtualClock(), workers=False)


async def trigger(bt: Betimes, *keys: str) -> None:
    for key in keys:
        await bt.runs.trigger({"account_id": key, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})


async def opened_feed(tail: PulseTail, seq: int | None = None, **filters: str) -> PulseFeed:
    feed = PulseFeed(tail, "default", EVERYTHING, FeedFilters(**filters), 2)
    await feed.start(seq)
    return feed


async def read_frame(feed: PulseFeed) -> tuple[int, PulseFrame] | None:
    found = await feed.read()
    return found and (found[0], msgspec.json.decode(found[1], type=PulseFrame))


async def test_readers_who_ask_for_the_same_share_the_bytes_of_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as bt:
        tail = PulseTail(bt.engine)
        feeds = [await opened_feed(tail), await opened_feed(tail), await opened_feed(tail, outcome="SKIP")]
        monkeypatch.setattr(pulse, "BEAT_S", 3_600.0)
        for feed in feeds:
            await feed.read()  # all are equally far then
        await trigger(bt, "a")
        await tail.number_now()
        one, same, other = [(await feed.read() or (0, b""))[1] for feed in feeds]
        assert one
        assert one is same
        assert one != other


async def test_a_frame_sums_what_was_decided_since_the_one_before() -> None:
    async with opened() as bt:
        await trigger(bt, "before")
        feed = await opened_feed(PulseTail(bt.engine))
        await trigger(bt, "a", "b", "c")
        found = await read_frame(feed)
        assert found is not None
        _, frame = found
        assert [(count.domain, count.outcome, count.count) for count in frame.counts] == [("runs", "ALLOW", 3)]
        assert (frame.total, frame.missed, len(frame.sample)) == (3, False, 2)
        assert [event.id for event in frame.sample] == ["b", "c"]
        again = await read_frame(feed)
        assert again is None or again[1].total == 0


async def test_a_slow_reader_gets_one_bigger_frame_and_readers_share_the_tail() -> None:
    async with opened() as bt:
        tail = PulseTail(bt.engine)
        quick, slow = await opened_feed(tail), await opened_feed(tail)
        totals = []
        for number in range(5):
            await trigger(bt, f"k-{number}")
            found = await read_frame(quick)
            assert found is not None
            totals.append(found[1].total)
        counted = tail.segments
        late = await read_frame(slow)
        assert late is not None
        assert (sum(totals), late[1].total, late[1].missed) == (5, 5, False)
        assert late[1].beats >= 5
        assert tail.segments == counted, "what was counted for one reader is not counted again for another"


async def test_a_reader_that_comes_back_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as bt:
        tail = PulseTail(bt.engine)
        first = await opened_feed(tail)
        await trigger(bt, "a")
        found = await read_frame(first)
        assert found is not None
        await trigger(bt, "b", "c")
        back = await read_frame(await opened_feed(tail, found[0]))
        assert back is not None
        assert (back[1].total, back[1].missed) == (2, False)
        await trigger(bt, "d")
        unknown = await read_frame(await opened_feed(PulseTail(bt.engine), 0))
        assert unknown is not None
        assert unknown[1].missed


async def test_filters_and_scopes_narrow_a_pulse() -> None:
    async with opened() as bt:
        tail = PulseTail(bt.engine)
        none, skipped = await opened_feed(tail, domain="scores"), await opened_feed(tail, outcome="SKIP")
        await trigger(bt, "a")
        for feed in (none, skipped):
            found = await read_frame(feed)
            assert found is not None
            assert (found[1].total, found[1].sample) == (0, [])


async def test_parameters_of_the_other_mode_are_refused() -> None:
    async with opened() as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for query in ("mode=pulse&id=a", "sample=5", "mode=loud", "mode=pulse&sample=51"):
            assert (await asyncio.wait_for(client("GET", f"/v1/verdicts/stream?{query}"), 60)).status == 422


async def test_beats_of_many_tenants_are_let_go_of_early_and_who_misses_them_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse, "CELLS_MAX", 6)
    async with opened() as bt:
        tail = PulseTail(bt.engine)
        slow = await opened_feed(tail)
        quick = await opened_feed(tail)
        for number in range(5):
            await trigger(bt, f"k-{number}")
            assert await read_frame(quick) is not None
        found = await read_frame(slow)
        assert found is not None
        assert (found[1].missed, found[1].total) == (True, 3)
