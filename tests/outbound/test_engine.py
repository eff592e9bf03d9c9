"""The executors in an engine: what an effect comes to when its receiver accepts, wavers or refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from betimes.core.deciders import Call
from betimes.engine.effects import Executor
from betimes.outbound.handlers import HandlerContext, Handlers
from betimes.outbound.webhooks import WebhookExecutor
from tests.engine.test_effects import ringing, statuses
from tests.engine.worlds import world
from tests.outbound.receivers import receiver, webhooks
from tests.stores.backends import BACKENDS

MEMORY = next(backend for backend in BACKENDS if backend.id == "memory")


async def ends(folder: Path, call: Call, executors: Mapping[str, Executor]) -> tuple[str, int, str]:
    """Where one call ends: the effect's status, attempts and last error."""
    async with world(MEMORY, folder, deciders=ringing(call), executors=executors) as w:
        await w.knock("ada")
        for _ in range(call.attempts_max + 1):
            await w.engine.tick()
            w.clock.advance(3_600)
        [effect] = await statuses(w)
        return effect


@pytest.mark.parametrize(
    ("answered", "status", "attempts"),
    [([200], "done", 1), ([503, 429, 204], "done", 3), ([503, 503, 503], "dead", 3), ([503, 404, 200], "dead", 2)],
)
async def test_a_webhook_is_tried_until_it_is_accepted_refused_or_worn_out(
    tmp_path: Path, answered: list[int], status: str, attempts: int
) -> None:
    left = list(answered)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=left.pop(0))

    async with receiver(answer) as here, webhooks() as client:
        call = Call("webhook", {"url": here.url, "body": {"n": 1}}, attempts_max=3)
        ended = await ends(tmp_path, call, {"webhook": WebhookExecutor(client)})
    assert ended[:2] == (status, attempts)
    assert len({headers["webhook-id"] for headers, _ in here.requests}) == 1
    assert len(here.requests) == attempts


async def test_a_forbidden_address_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async with webhooks() as client:
        call = Call("webhook", {"url": "http://10.0.0.1/", "body": {}}, attempts_max=3)
        status, attempts, error = await ends(tmp_path, call, {"webhook": WebhookExecutor(client)})
    assert (status, attempts) == ("dead", 1)
    assert error.startswith("10.0.0.1 is at an address that may not be called (private)")


async def test_a_handler_is_run_by_its_name_and_tried_again_under_the_same_id(tmp_path: Path) -> None:
    handlers = Handlers()
    seen: list[HandlerContext] = []

    @handlers.handler("brief")
    def brief(payload: Any, context: HandlerContext) -> Any:
        seen.append(context)
        if context.attempt == 1:
            raise ValueError("not yet")
        return payload

    ended = await ends(tmp_path, Call("handler:brief", {"n": 1}, attempts_max=3), handlers.executors())
    handlers.close()
    assert ended[:2] == ("done", 2)
    assert [context.attempt for context in seen] == [1, 2]
    assert len({context.effect_id for context in seen}) == 1
