"""The engine goes on: unexpected errors, malformed rows, newer data, bad input, a store that comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.errors import Fault, Invalid, MalformedRow, NewerVersion, PolicyInvalid, Unavailable
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report
from betimes.engine.store import LockRequest
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.sample import SAMPLE, SECTIONS, Knock

FRONT, BACK = StreamId("acme", "gate", "front"), StreamId("acme", "gate", "back")


class Moody(MemoryStore):
    """Raises what it is told to when it begins a transaction for a stream, so often."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.moods: list[tuple[StreamId, Exception]] = []

    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[MemoryTx]:
        for mood in self.moods:
            if mood[0] in ask.locks:
                self.moods.remove(mood)
                raise mood[1]
        async with super().begin(ask) as tx:
            yield tx


def engine_on(store: MemoryStore, reports: list[Report], **options: Any) -> Engine:
    return Engine(store, SAMPLE, name="one", sections=SECTIONS, report=reports.append, **options)


def knock(stream: StreamId, visitor: str = "ann", **options: Any) -> Submission:
    return Submission(stream=stream, command=Knock(visitor), **options)


async def test_an_unexpected_error_fails_only_whoever_brought_it_about() -> None:
    store, reports = Moody(), list[Report]()
    async with engine_on(store, reports) as engine:
        store.moods = [(FRONT, RuntimeError("?!")), (FRONT, RuntimeError("?!"))]
        front, back = await asyncio.gather(
            engine.submit(knock(FRONT)), engine.submit(knock(BACK)), return_exceptions=True
        )
        assert isinstance(front, Fault)
        assert "acme/gate/front" in str(front)
        assert not isinstance(back, BaseException)
        assert [report.what for report in reports] == ["batch_failed"]
        assert (await engine.submit(knock(FRONT))).version == 1


async def test_an_unavailable_store_is_told_at_once_and_the_engine_goes_on_by_itself() -> None:
    store, reports = Moody(), list[Report]()
    async with engine_on(store, reports) as engine:
        store.moods = [(FRONT, Unavailable("gone fishing"))]
        with pytest.raises(Unavailable, match="fishing"):
            await engine.submit(knock(FRONT))
        assert (await engine.submit(knock(FRONT))).version == 1


async def test_a_malformed_row_is_named_and_leaves_its_neighbours_alone() -> None:
    store, reports = MemoryStore(VirtualClock()), list[Report]()
    async with engine_on(store, reports) as engine:
        await engine.submit(knock(FRONT))
    store.database.rows[FRONT] = replace(store.database.rows[FRONT], state='{"shut": "perhaps"}')
    async with engine_on(store, reports) as engine:
        front, back = await asyncio.gather(
            engine.submit(knock(FRONT)), engine.submit(knock(BACK)), return_exceptions=True
        )
        assert isinstance(front, MalformedRow)
        assert "acme/gate/front" in str(front)
        assert "betimes doctor" in str(front)
        assert not isinstance(back, BaseException)


async def test_data_from_a_newer_version_is_refused_not_folded() -> None:
    store, reports = MemoryStore(VirtualClock()), list[Report]()
    async with engine_on(store, reports) as engine:
        await engine.submit(knock(FRONT))
    store.database.rows[FRONT] = replace(store.database.rows[FRONT], schema=2)
    before = store.database.rows[FRONT]
    async with engine_on(store, reports) as engine:
        with pytest.raises(NewerVersion, match="schema 2"):
            await engine.submit(knock(FRONT))
    assert store.database.rows[FRONT] == before


@pytest.mark.parametrize("field", ["key", "collection", "actor", "correlation"])
@pytest.mark.parametrize("text", ["x" * 513, "nul\0byte"], ids=["long", "nul"])
async def test_text_that_no_store_could_keep_is_refused_by_name(field: str, text: str) -> None:
    async with engine_on(MemoryStore(VirtualClock()), []) as engine:
        with pytest.raises(Invalid, match=field) as refusal:
            await engine.submit(knock(FRONT, **{field: text}))
        assert refusal.value.problems[0][0] == field


async def test_an_engine_with_a_policy_that_cannot_work_does_not_open() -> None:
    engine = engine_on(MemoryStore(VirtualClock()), [], policy={"gates": {"cooldown_s": "soon"}})
    with pytest.raises(PolicyInvalid, match=r"gates\.cooldown_s"):
        await engine.open()
    await engine.close()


async def test_a_cancelled_caller_leaves_the_lane_working() -> None:
    async with engine_on(MemoryStore(VirtualClock()), []) as engine:
        waiting = asyncio.ensure_future(engine.submit(knock(FRONT)))
        await asyncio.sleep(0)
        waiting.cancel()
        assert (await engine.submit(knock(BACK))).version == 1
