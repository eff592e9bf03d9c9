"""The ledger, effects and verdicts read the same on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.catalogue import DECIDERS, SECTIONS, readable_areas
from betimes.core.errors import Invalid, NotFound
from betimes.domain.service import Caller
from betimes.domain.targets import HandlerTarget
from betimes.engine.effects import GiveUp
from betimes.engine.engine import Engine
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.effects import EffectFilters, Effects
from betimes.ledger.service import Ledger, LedgerFilters
from betimes.ledger.verdict_feed import (
    BEHIND_MAX,
    TAIL_MAX,
    FeedFilters,
    Pulse,
    VerdictEvent,
    VerdictFeed,
    VerdictTail,
    position_of,
)
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from betimes.schedules.service import Schedules
from betimes.schedules.views import ScheduleRequest
from tests.http.test_cursors import spell
from tests.stores.backends import BACKENDS, Backend

ME = Caller("acme", "test")
EVERYTHING = readable_areas(("admin",), "read")


async def _gives_up(call: Any) -> None:
    raise GiveUp("no")


@pytest.fixture(params=[pytest.param(backend, id=backend.id, marks=backend.marks) for backend in BACKENDS])
def backend(request: pytest.FixtureRequest) -> Backend:
    backend: Backend = request.param
    return backend


@asynccontextmanager
async def world(backend: Backend, folder: Path) -> AsyncIterator[tuple[Engine, VirtualClock]]:
    clock = VirtualClock()
    async with backend.pair(clock, folder) as pair:
        executors = {"handler:x": _gives_up}
        async with Engine(pair.one, DECIDERS, name="test", sections=SECTIONS, executors=executors) as engine:
            yield engine, clock


async def _allowed(engine: Engine, *accounts: str, tenant: str = "acme") -> None:
    for account in accounts:
        await Runs(engine, Caller(tenant)).trigger(
            TriggerRequest(account_id=account, trigger_type="SIGNAL_ARRIVED", idempotency_key=f"k-{account}")
        )


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_and_resuming(backend: Backend, tmp_path: Path, order: Any) -> None:
    async with world(backend, tmp_path) as (engine, _):
        ledger = Ledger(engine, ME, EVERYTHING)
        for number in range(5):
            await _allowed(engine, f"a{number}")
            await _allowed(engine, f"b{number}", tenant="other")
        seen: list[str] = []
        cursor = None
        filters = LedgerFilters(kind="account")
        while True:
            page = await ledger.segments(filters, order=order, limit=2, cursor=cursor)
            seen += [segment.id for segment in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == sorted((f"a{number}" for number in range(5)), reverse=order == "desc")
        await _allowed(engine, "late")
        resumed = await ledger.segments(filters, cursor=page.resume_cursor)
        assert [segment.id for segment in resumed.items] == ["late"]
        [one] = (await ledger.segments(LedgerFilters(kind="account", id="a3", event_type="RunAllowed"))).items
        told = await ledger.explain(one.segment_id)
        assert (told.verdict and told.verdict.outcome, told.later) == ("ALLOW", [])


async def test_dead_letters_are_found_and_revived(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as (engine, _):
        schedules = Schedules(engine, ME)
        for name in ("one", "two", "three"):
            await schedules.create(ScheduleRequest(schedule_id=name, cron="0 0 1 1 *", target=HandlerTarget("x")))
            await schedules.trigger(name)
        await engine.tick()
        effects = EffectActions(engine, ME, EVERYTHING)
        dead = EffectFilters(status="dead", domain="automation")
        first = await effects.effects(dead, limit=2)
        rest = await effects.effects(dead, limit=2, cursor=first.next_cursor)
        assert [row.stream.id for row in (*first.items, *rest.items)] == ["two", "three", "one"]
        assert rest.next_cursor is None
        assert (await effects.retry(rest.items[0].effect_id)).status == "pending"
        assert len((await effects.effects(EffectFilters(status="pending"))).items) == 1


async def verdicts_in(feed: VerdictFeed) -> list[tuple[str, VerdictEvent]]:
    found = await feed.read()
    assert not [told for _, told in found if isinstance(told, Pulse)]
    return found  # type: ignore[return-value]


async def test_a_feed_goes_on_where_it_was(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as (engine, _):
        await _allowed(engine, "before")
        tail = VerdictTail(engine, fresh_s=0)
        feed = await VerdictFeed.from_now(tail, "acme", EVERYTHING, FeedFilters())
        assert await feed.read() == []
        await _allowed(engine, "a", "b")
        await _allowed(engine, "c", tenant="other")
        (position, first), (_, second) = await verdicts_in(feed)
        assert (first.id, second.id, await feed.read()) == ("a", "b", [])
        for other in (tail, VerdictTail(engine, fresh_s=0)):
            again = VerdictFeed(other, "acme", EVERYTHING, FeedFilters(), position_of(position))
            assert [event.id for _, event in await verdicts_in(again)] == ["b"]
            assert await again.read() == []


async def test_readers_of_a_process_share_what_is_read(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as (engine, _):
        tail = VerdictTail(engine, fresh_s=0)
        feeds = [await VerdictFeed.from_now(tail, "acme", EVERYTHING, FeedFilters()) for _ in range(20)]
        await _allowed(engine, "a", "b")
        before = tail.reads
        assert [[event.id for _, event in await verdicts_in(feed)] for feed in feeds] == [["a", "b"]] * 20
        assert tail.reads == before + 1


async def test_readers_that_come_at_once_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Or whoever opens as many streams as they may keeps everybody else's from reading on meanwhile."""
    async with world(next(one for one in BACKENDS if one.id == "sqlite"), tmp_path) as (engine, _):
        tail = VerdictTail(engine, fresh_s=0)
        feed = await VerdictFeed.from_now(tail, "acme", EVERYTHING, FeedFilters())
        await _allowed(engine, "a")
        before = tail.reads
        opened = (VerdictFeed.from_now(tail, "other", EVERYTHING, FeedFilters()) for _ in range(20))
        _, found = await asyncio.gather(asyncio.gather(*opened), verdicts_in(feed))
        assert [event.id for _, event in found] == ["a"]
        assert tail.reads <= before + 4


async def test_a_reader_that_is_alone_and_slow_gets_sums_and_a_tail_left_alone_begins_anew(tmp_path: Path) -> None:
    async with world(BACKENDS[0], tmp_path) as (engine, _):
        tail, idle = VerdictTail(engine, fresh_s=0), VerdictTail(engine, fresh_s=0)
        feed = await VerdictFeed.from_now(tail, "acme", EVERYTHING, FeedFilters())
        early = await VerdictFeed.from_now(idle, "acme", EVERYTHING, FeedFilters())
        runs = 0
        while runs * 2 <= TAIL_MAX:
            await asyncio.gather(*(_allowed(engine, f"a{number}") for number in range(runs, runs + 500)))
            runs += 500
        told: list[int] = []
        while not told or feed.is_behind:
            for _, event in await feed.read():
                told.append(event.count if isinstance(event, Pulse) else 1)
        assert sum(told) == runs
        assert told[0] > BEHIND_MAX
        reads = idle.reads
        await VerdictFeed.from_now(idle, "acme", EVERYTHING, FeedFilters())
        assert idle.reads == reads + 1
        missed: list[int] = []
        while not missed or early.is_behind:
            missed += [event.count for _, event in await early.read() if isinstance(event, Pulse)]
        assert sum(missed) == runs


@pytest.mark.parametrize("text", ["é" * 300, "'; --", "%_", "\n", "\ufffd"])
async def test_no_text_in_a_filter_is_more_than_text(backend: Backend, tmp_path: Path, text: str) -> None:
    async with world(backend, tmp_path) as (engine, _):
        await _allowed(engine, "a")
        for field in ("id", "key", "correlation_id"):
            page = await Ledger(engine, ME, EVERYTHING).segments(replace(LedgerFilters(), **{field: text}))
            assert page.items == []
        for field in ("user_id", "channel"):
            effects = await Effects(engine, ME, EVERYTHING).effects(replace(EffectFilters(), **{field: text}))
            assert effects.items == []
        for field in ("kind", "event_type", "command_type"):
            with pytest.raises(Invalid, match=rf"query\.{field}: no such {field.replace('_', ' ')}"):
                await Ledger(engine, ME, EVERYTHING).segments(replace(LedgerFilters(), **{field: text}))
        with pytest.raises(Invalid, match=r"domain: must be .* or scores, not "):
            await Effects(engine, ME, EVERYTHING).effects(EffectFilters(domain=text))


async def test_ids_and_cursors_that_nobody_was_given_are_not_found_or_refused(backend: Backend, tmp_path: Path) -> None:
    most = 10**18 - 1
    async with world(backend, tmp_path) as (engine, _):
        await _allowed(engine, "a")
        ledger, effects = Ledger(engine, ME, EVERYTHING), Effects(engine, ME, EVERYTHING)
        for version in (0, 2, most):
            with pytest.raises(NotFound):
                await ledger.explain(f"account:a:{version}")
            with pytest.raises(NotFound):
                await effects.effect(f"account:a:{version}:{most}")
        named = ["effects", "acme", EffectFilters()]
        assert (await effects.effects(EffectFilters(), cursor=spell([named, [9, "z:z:9:9"]]))).items == []
        for place in (
            [1, "z:\0:1:1"],
            [1, f"z:z:{10**30}:1"],
            [10**30, "z:z:1:1"],
            [-1, "z:z:1:1"],
            ["z"],
            "z",
            [1, 2],
        ):
            with pytest.raises(Invalid):
                await effects.effects(EffectFilters(), cursor=spell([named, place]))
        named = ["ledger", "acme", LedgerFilters(), "asc"]
        for places in ([10**30, 0], [-1, 0], ["a", 0], [1], 1):
            with pytest.raises(Invalid):
                await ledger.segments(LedgerFilters(), cursor=spell([named, places]))
