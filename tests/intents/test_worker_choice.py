"""Who works on what: the built-in worker takes what it can carry out, workers outside take the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.app.settings import Settings
from betimes.core.errors import Invalid, Refused
from betimes.core.instants import SECOND
from betimes.engine.store import StreamQuery, StreamRow
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.worker import IntentSettings
from tests.intents.stories import body
from tests.intents.working import MEMORY, worker, working
from tests.stores.backends import Backend


async def test_what_a_worker_cannot_carry_out_stays_pending_for_whoever_can(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        mixed = {"expression": "NVDA < 130 and total_value < 1"}
        await world.intents.create(body(intent_id="price"))
        await world.intents.create(body(intent_id="mixed", condition=mixed))
        await world.intents.create(body("portfolio", intent_id="portfolio"))
        await world.intents.create(body("interval", intent_id="theirs", worker="outside"))
        await world.intents.create(body("interval", intent_id="telegram", action_channels=["email"]))
        await world.intents.create(body("silence", intent_id="silence"))
        await world.intents.create(body("interval", intent_id="clock", worker="builtin"))
        world.hours_pass(0.5)
        ours = worker(world, has_channel=lambda tenant, channel: channel != "email")
        assert await ours.once() == {"condition_not_met": 1, "success": 1}
        left = [item.intent_id for item in (await world.intents.pending()).items]
        assert left == ["mixed", "portfolio", "price", "telegram", "theirs"]
        priced = {"price": lambda ticker: 131}
        assert await worker(world, sources=priced, has_channel=lambda *_: False).once() == {}, "it could tell nobody"
        pushing = worker(world, sources=priced, has_channel=lambda tenant, channel: channel == "push")
        assert await pushing.once() == {"condition_not_met": 1}


async def test_workers_outside_leave_alone_what_is_the_built_in_workers_own(backend: Backend, tmp_path: Path) -> None:
    async with working(backend, tmp_path) as world:
        for number in range(12):
            await world.intents.create(body(intent_id=f"b{number:02}", user_id=f"u{number}", worker="builtin"))
        world.clock.advance(1)
        for number in range(3):
            await world.intents.create(body(intent_id=f"a{number}"))
        with pytest.raises(Refused) as refused:
            await world.intents.claim("b00")
        assert refused.value.reason == "NOT_CLAIMABLE"
        taken = (await world.intents.claim_many(limit=10)).items
        assert [claim.intent.intent_id for claim in taken] == ["a0", "a1", "a2"]
        assert (await world.intents.claim_many({"trigger_type": "price"}, limit=10)).items == []
        assert len((await world.intents.pending()).items) == 12


async def test_what_is_left_to_others_neither_keeps_a_worker_busy_nor_stands_in_its_way(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        for number in range(150):
            await world.intents.create(body(intent_id=f"p{number:03}", user_id=f"u{number}"))
        await world.intents.create(body("interval", intent_id="clock"))
        ours = worker(world)
        due_at = await ours.next_due_at()
        assert due_at == world.clock() + 30 * 60 * SECOND
        world.hours_pass(0.5)
        assert await ours.once() == {"success": 1}
        assert await ours.once() == {}
        assert await ours.next_due_at() == world.clock() + 30 * 60 * SECOND
        await world.intents.patch("p000", {"condition": {"expression": "inactive_hours > 1"}})
        assert await ours.once() == {"condition_not_met": 1}


async def test_a_pass_that_runs_out_of_time_gives_back_what_it_holds(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="slow", action_type="briefing"))
        world.hours_pass(0.5)

        async def brief(action: Any) -> None:
            await asyncio.Event().wait()

        assert await worker(world, handlers={"briefing": brief}).once(max_s=0.01) == {}
        assert [item.intent_id for item in (await world.intents.pending()).items] == ["slow"]


async def test_due_intents_that_nobody_here_can_take_are_not_read(tmp_path: Path) -> None:
    async with working(MEMORY, tmp_path) as world:
        for number in range(30):
            await world.intents.create(body(intent_id=f"p{number}", user_id=f"u{number}"))
            await world.intents.create(body("interval", intent_id=f"o{number}", user_id=f"u{number}", worker="outside"))
        await world.intents.create(body("interval", intent_id="mine", worker="builtin"))
        world.hours_pass(0.5)
        seen: list[str] = []
        read = world.inner.engine.store.streams

        async def streams(query: StreamQuery) -> list[StreamRow]:
            rows = await read(query)
            seen.extend(row.stream.id for row in rows)
            return rows

        world.inner.engine.store.streams = streams  # type: ignore[method-assign]
        await worker(world).next_due_at()
        assert seen == ["mine"]
        seen.clear()
        assert len((await world.intents.claim_many({"trigger_type": "price"}, limit=200)).items) == 30
        assert not [id for id in seen if not id.startswith("p")]


async def test_a_clock_is_advanced_past_intents_that_nobody_here_carries_out() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z")) as bt:
        await bt.intents.create(body(intent_id="nvda"))
        done = await bt.advance(by_s=3_600)
        assert done.complete
        assert [item.intent_id for item in (await bt.intents.pending()).items] == ["nvda"]
        assert (await bt.intents.get("nvda")).last_status is None


async def test_with_the_built_in_worker_off_everything_is_left_to_workers_outside() -> None:
    settings = Settings(intents=IntentSettings(worker="off"))
    async with Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"), settings=settings) as bt:
        await bt.intents.create(body("interval", intent_id="tick"))
        assert (await bt.advance(by_s=3_600)).complete
        [claim] = (await bt.intents.claim_many({"worker": "ours"})).items
        fired = await bt.intents.fire("tick", {"status": "success", "claim_token": claim.claim_token})
        assert (fired.status, fired.execution_count) == ("success", 1)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"worker": "mine"}, "worker"),
        ({"action_channels": []}, "action_channels"),
        ({"action_channels": ["push", "pigeon"]}, "action_channels[1]"),
        ({"action_channels": ["push", "push"]}, "action_channels"),
    ],
)
async def test_a_worker_or_channel_that_there_is_not_is_refused(
    fields: dict[str, Any], path: str, tmp_path: Path
) -> None:
    async with working(MEMORY, tmp_path) as world:
        with pytest.raises(Invalid) as refused:
            await world.intents.create(body("interval", **fields))
        assert [wrong for wrong, _ in refused.value.problems] == [path]
