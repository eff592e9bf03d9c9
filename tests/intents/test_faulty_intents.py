"""One intent that cannot be read, or whose claim fails, costs nobody else theirs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from betimes.catalogue import SECTIONS
from betimes.core.errors import Overloaded
from betimes.engine.settings import EngineSettings
from betimes.intents.decide import DECIDERS
from tests.intents.stories import body
from tests.intents.working import INBOX, MEMORY, worker, working
from tests.intents.worlds import IntentWorld, intent_world
from tests.stores.backends import BACKENDS

SQLITE = BACKENDS[1]
ROOM_FOR_ONE = EngineSettings(queue_tenant_max=1)


async def make_newer(world: IntentWorld, folder: Path) -> None:
    """Make intents a and b; a is then written by a process that knows more than this one."""
    for name in ("a", "b"):
        await world.intents.create(body(intent_id=name))
    raw = sqlite3.connect(folder / "betimes.db")
    with raw:
        raw.execute("UPDATE stream SET schema = 99, version = version + 1 WHERE kind = 'intent' AND id = 'a'")
    raw.close()


async def test_an_intent_that_a_newer_process_wrote_keeps_the_worker_from_no_other(tmp_path: Path) -> None:
    async with working(SQLITE, tmp_path) as world:
        await make_newer(world, tmp_path)
        ours = worker(world, sources={"price": lambda ticker: 128})
        assert await ours.once() == {"success": 1}
        assert (await world.intents.get("b")).last_status == "success"


async def test_an_intent_that_a_newer_process_wrote_is_left_out_of_a_bulk_claim(tmp_path: Path) -> None:
    async with working(SQLITE, tmp_path) as world:
        await make_newer(world, tmp_path)
        claims = (await world.intents.claim_many({"trigger_type": "price"})).items
        assert [claim.intent.intent_id for claim in claims] == ["b"]


async def test_a_worker_works_on_what_was_granted_although_another_claim_failed(tmp_path: Path) -> None:
    deciders = (*DECIDERS, INBOX)
    async with intent_world(MEMORY, tmp_path, deciders=deciders, sections=SECTIONS, settings=ROOM_FOR_ONE) as world:
        for name in ("a", "b"):
            await world.intents.create(body(intent_id=name))
        assert await worker(world, sources={"price": lambda ticker: 128}).once() == {"success": 2}


async def test_a_bulk_claim_returns_what_was_granted_although_another_claim_failed(tmp_path: Path) -> None:
    async with intent_world(MEMORY, tmp_path, settings=ROOM_FOR_ONE) as world:
        for name in ("a", "b"):
            await world.intents.create(body(intent_id=name))
        claims = (await world.intents.claim_many({"trigger_type": "price"})).items
        assert [claim.intent.intent_id for claim in claims] == ["a"]


async def test_a_bulk_claim_of_which_nothing_was_granted_says_why(tmp_path: Path) -> None:
    async with intent_world(MEMORY, tmp_path) as world:
        await world.intents.create(body(intent_id="a"))
        await world.inner.engine.close()
        with pytest.raises(Overloaded, match="not open"):
            await world.intents.claim_many({"trigger_type": "price"})
