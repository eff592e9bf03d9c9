"""Sources over HTTP, against a server of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from betimes.core.errors import Invalid
from betimes.intents.http_source import HttpSource, SourceAnswer
from tests.patience import HANGS_S


@asynccontextmanager
async def quotes() -> AsyncIterator[str]:
    async def quote(request: web.Request) -> web.StreamResponse:
        ticker = request.match_info["ticker"]
        if ticker == "AWAY":
            return web.Response(status=302, headers={"Location": "/NVDA"})
        if ticker == "LONG":
            return web.Response(body=b"[" + b"1," * 200_000 + b"1]")
        if ticker == "TEXT":
            return web.Response(text="soon")
        return web.json_response({"data": {"last": 128.4, "ticker": ticker}})

    app = web.Application()
    app.router.add_get("/{ticker}", quote)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_a_source_over_http_gives_a_field_of_the_answer(tmp_path: Path) -> None:
    async with quotes() as port:
        async with HttpSource(f"http://127.0.0.1:{port}/{{subject}}", field="data.last", timeout_s=HANGS_S) as price:
            assert await price("NVDA") == 128.4
            for ticker, wanted in (("AWAY", "answered 302"), ("LONG", "more than"), ("TEXT", "not JSON")):
                with pytest.raises(SourceAnswer, match=wanted):
                    await price(ticker)
        async with HttpSource(f"http://127.0.0.1:{port}/{{subject}}", field="data.ticker", timeout_s=HANGS_S) as name:
            assert await name("../x?y=1") == "../x?y=1"
        async with HttpSource(
            f"http://127.0.0.1:{port}/{{subject}}", field="data.nothing", timeout_s=HANGS_S
        ) as nothing:
            with pytest.raises(SourceAnswer, match="no field"):
                await nothing("NVDA")
    for wrong in ("http://host/", "ftp://host/{subject}"):
        with pytest.raises(Invalid):
            HttpSource(wrong)
