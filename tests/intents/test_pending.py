"""What is pending: as many as there are, in order, and also where nobody rings alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.intents.service import Intents
from tests.intents.stories import body
from tests.intents.test_service import every
from tests.intents.worlds import intent_world
from tests.stores.backends import Backend

COOLING = 60


async def cooling(intents: Intents, count: int) -> None:
    for number in range(count):
        name = f"c{number:04}"
        await intents.create(body(intent_id=name, user_id=f"u{number}"))
        await intents.fire(name, {"status": "success"})


async def test_a_page_looks_at_no_more_rows_than_it_shows_however_many_are_cooling(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="first"))
        await cooling(world.intents, COOLING)
        world.clock.advance(600)
        await world.intents.create(body(intent_id="last"))
        seen = Counted(world.inner.engine.store)
        world.inner.engine.store = seen
        page = await world.intents.pending(limit=10)
        assert [item.in_cooldown for item in page.items] == [False] + [True] * 9
        assert seen.rows == 11
        world.inner.engine.store = seen.inner
        shown = await every(world.intents.pending)
        assert len(shown) == COOLING + 2
        checks = [(item.next_check, item.intent_id) for item in shown]
        assert checks == sorted(checks)
        free = [item.intent_id for item in await every(world.intents.pending, in_cooldown=False)]
        assert free == ["first", "last"]
        assert len(await every(world.intents.pending, in_cooldown=True)) == COOLING


class Counted:
    """A store that counts the rows of its lists."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def streams(self, query: Any) -> Any:
        found = await self.inner.streams(query)
        self.rows += len(found)
        return found


async def test_where_nobody_rings_alarms_a_crashed_workers_intent_is_pending_when_its_claim_ends(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        await world.intents.create(body(intent_id="ends", expires_at="2026-01-05T09:04:00Z"))
        await world.intents.claim("nvda", {"worker": "crashes"})
        world.clock.advance(300)
        [pending] = (await world.intents.pending()).items
        [listed, ended] = sorted((await world.intents.list()).items, key=lambda item: item.intent_id, reverse=True)
        assert pending == listed == await world.intents.get("nvda")
        assert (pending.claim, pending.last_error) == (None, "CLAIM_EXPIRED")
        assert (ended.enabled, ended.was_disabled_reason) == (False, "EXPIRED")
        [again] = (await world.others.claim_many({"worker": "crashes too"})).items
        world.clock.advance(300)
        failed = await world.intents.get("nvda")
        assert (failed.last_status, failed.last_error) == ("failed", "CLAIM_EXPIRED")
        assert failed.next_check
        assert (failed.next_check - again.expires_at).total_seconds() == 15 * 60
        assert (await world.intents.pending()).items == []
        assert (await world.intents.claim_many()).items == []
        world.clock.advance(15 * 60)
        assert [item.intent_id for item in (await world.intents.pending()).items] == ["nvda"]
        assert len((await world.intents.claim_many()).items) == 1
