"""Claims ahead of a worker's places: as many as quick work uses up, none for slow work, all given back in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from betimes.core.errors import Unavailable
from betimes.core.instants import HOUR
from betimes.engine.jobs import Submission
from betimes.engine.reports import Written
from betimes.engine.tenants.model import SetHold, tenant_stream
from betimes.intents.action import Action
from betimes.intents.worker import IntentWorker
from tests.intents.test_claimer import make_due
from tests.intents.working import worker, working
from tests.intents.worlds import IntentWorld
from tests.patience import HANGS_S
from tests.stores.backends import Backend


async def work_off(world: IntentWorld, total: int) -> list[int]:
    """Let a worker with one place and nothing to do work; return how many each commit claimed."""
    claimed: list[int] = []
    fired, done = 0, asyncio.Event()

    def note(written: Sequence[Written]) -> None:
        nonlocal fired
        events = "".join(segment.events for segment, _, _ in written if segment.stream.kind == "intent")
        claimed.append(events.count("IntentClaimed"))
        fired += events.count("IntentFired")
        if fired == total:
            done.set()

    async def brief(action: Action) -> None:
        """Nothing to do."""

    world.inner.engine._queue.observe = note
    running = asyncio.create_task(worker(world, at_once=1, handlers={"briefing": brief}).run())
    await asyncio.wait_for(done.wait(), HANGS_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [count for count in claimed if count]


async def claims_of(world: IntentWorld) -> list[str]:
    return [view.intent_id for view in (await world.intents.list()).items if view.claim]


async def test_whoever_works_quickly_claims_more_than_it_has_places(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.intents.claim_stock.AHEAD_S", HANGS_S)
    monkeypatch.setattr("betimes.intents.claim_stock.KEPT_S", HANGS_S)
    async with working(backend, tmp_path) as world:
        await make_due(world, *(f"i{n:02}" for n in range(12)))
        assert await work_off(world, 12) == [1, 2, 3, 5, 1]


async def test_whoever_is_slow_claims_only_what_it_has_places_for(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.intents.claim_stock.AHEAD_S", 0.0)
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c")
        assert await work_off(world, 3) == [1, 1, 1]


def stocked(world: IntentWorld) -> IntentWorker:
    """Return a worker whose stock thinks that work is quick."""
    ours = worker(world)
    ours._stock._ahead, ours._stock._claimed_s = 1, float("inf")
    return ours


async def test_what_is_in_stock_is_given_back_when_the_worker_stops(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c", "d")
        ours = stocked(world)
        [held] = await ours._stock.take(1)
        assert (held.stream.id, sorted(await claims_of(world))) == ("a", ["a", "b", "c"])
        await ours._stock.give_back()
        assert await claims_of(world) == ["a"]
        assert [claim.stream.id for claim in await worker(world)._claim(5)] == ["b", "c", "d"], "due at once"


async def test_what_nobody_has_begun_in_time_is_given_back(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c")
        ours = stocked(world)
        await ours._stock.take(1)
        await ours._stock.give_back_lapsed()
        assert sorted(await claims_of(world)) == ["a", "b", "c"], "it is not old yet"
        monkeypatch.setattr("betimes.intents.claim_stock.KEPT_S", 0.0)
        await ours._stock.give_back_lapsed()
        assert await claims_of(world) == ["a"]


async def test_a_worker_that_is_stopped_while_it_claims_gives_back_what_it_was_granted(
    backend: Backend, tmp_path: Path
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b")
        queue = world.inner.engine._queue
        running = asyncio.create_task(worker(world, handlers={}).run())
        async with asyncio.timeout(HANGS_S):
            while queue.idle.is_set():  # noqa: ASYNC110 — the very moment at which it has asked and not been answered
                await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await claims_of(world) == []
        history = [(await world.intents.history(name)).items for name in ("a", "b")]
        assert history == [[], []], "it was claimed, not worked on"


async def test_a_worker_that_is_stopped_while_the_store_is_away_stops(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a")
        engine = world.inner.engine

        def is_away(*_: object) -> None:
            raise Unavailable("the store is away")

        monkeypatch.setattr(engine._queue._transactions, "attempt", is_away)
        running = asyncio.create_task(worker(world).run())
        async with asyncio.timeout(HANGS_S):
            while engine._queue.idle.is_set():  # noqa: ASYNC110 — the very moment at which it waits for its claims
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=HANGS_S)
        assert running.cancelled()


async def test_what_is_in_stock_is_not_begun_under_a_hold(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c")
        ours = stocked(world)
        await ours._stock.take(1)
        hold = SetHold(("intents",), world.clock() + HOUR, "a wrong template")
        await world.inner.engine.submit(Submission(stream=tenant_stream("acme"), command=hold))
        assert await ours._stock.take(2) == []
        await ours._stock.give_back_lapsed()
        assert await claims_of(world) == ["a"], "given back, so that nobody waits for its lease after the hold"


async def test_what_is_in_stock_is_not_begun_once_it_was_changed(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c", "d", "e")
        ours = worker(world)
        ours._stock._ahead, ours._stock._claimed_s = 2, float("inf")
        await ours._stock.take(1)
        await world.intents.disable("b")
        await world.intents.delete("c")
        await world.intents.patch("d", {"action_context": "another"})
        assert [claim.stream.id for claim in await ours._stock.take(4)] == ["e"]
        await ours._stock.give_back_lapsed()
        assert sorted(await claims_of(world)) == ["a", "e"]


async def test_a_pass_that_is_stopped_while_it_claims_gives_back_what_it_was_granted(
    backend: Backend, tmp_path: Path
) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b")
        queue = world.inner.engine._queue
        running = asyncio.create_task(worker(world).once())
        async with asyncio.timeout(HANGS_S):
            while queue.idle.is_set():  # noqa: ASYNC110 — the very moment at which it has asked and not been answered
                await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await claims_of(world) == []


async def test_a_worker_that_is_stopped_reports_what_it_has_done(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        await make_due(world, "a", "b", "c")
        done: list[str] = []

        async def brief(action: Action) -> None:
            done.append(action.intent_id)
            if len(done) == 3:
                running.cancel()

        running = asyncio.create_task(worker(world, handlers={"briefing": brief}).run())
        await asyncio.wait([running], timeout=HANGS_S)
        assert running.cancelled()
        history = {name: (await world.intents.history(name)).items for name in "abc"}
        assert all([one.status for one in items] == ["success"] for items in history.values())
        assert await claims_of(world) == []
