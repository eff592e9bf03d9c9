"""Evaluators over HTTP are asked like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from betimes.sensors.evaluators import Evaluators
from tests.automation.test_sensor_service import Posting, keys, listed
from tests.automation.worlds import automation_world
from tests.stores.backends import Backend


@asynccontextmanager
async def http_evaluators(answer: Any) -> AsyncIterator[tuple[Evaluators, str]]:
    """Evaluators, and the address of a server that is one."""
    app = web.Application()
    app.router.add_post("/evaluate", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with ClientSession() as session:
            yield Evaluators(Posting(session)), f"http://127.0.0.1:{port}/evaluate"
    finally:
        await runner.cleanup()


async def test_an_http_evaluator_is_asked_like_any_other(backend: Backend, tmp_path: Path) -> None:
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        if len(asked) == 2:
            return web.Response(status=500)
        return web.json_response({"cursor": len(asked), "run_requests": [{"run_key": f"r{len(asked)}"}]})

    async with (
        http_evaluators(answer) as (evaluators, url),
        automation_world(backend, tmp_path, evaluators=evaluators) as world,
    ):
        await world.sensor(sensor_type="poll", evaluator={"kind": "webhook", "url": url})
        await world.settle()
        await world.go(30)
        await world.go(31)
        assert [view.status for view in await listed(world)] == ["triggered", "error", "triggered"]
        assert [(body["sensor_id"], body["cursor"], body["state_version"]) for body in asked] == [
            ("orders", None, 1),
            ("orders", 1, 2),
            ("orders", 1, 2),
        ]
        assert sorted(keys(world)) == ["r1", "r3"]
