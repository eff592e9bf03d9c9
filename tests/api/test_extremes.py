"""Extreme values in every field of every route: nothing fails, and afterwards every list can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.api.catalogue import ROUTES
from betimes.api.server import serve
from betimes.app import Betimes
from betimes.testing.clock import VirtualClock
from tests.api.extremes import Extremes, read_lists, send
from tests.api.served import Client
from tests.postgres import empty_schema, server_dsn

REQUESTS = 1_500
SEED = 20260105


async def failures(url: str, count: int, seed: int) -> list[str]:
    """Send that many extreme requests to a server on this store, then read everything; return what failed."""
    clock = VirtualClock("2026-01-05T09:00:00Z")
    failed: list[str] = []
    async with Betimes(url, clock=clock, workers=False) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for number, request in enumerate(Extremes(ROUTES, seed).requests(count)):
            reply = await send(client, request)
            if reply.status >= 500 and reply.status not in (501, 503):
                route, path, query, headers, raw = request
                failed.append(f"{reply.status} {route.method} {path}?{query} {headers} {raw[:500]!r}")
            if number % 200 == 0:
                clock.advance(3_600)
                await bt.tick()
        failed += [f"{status} GET {path} {raw!r}" for path, status, raw in await read_lists(client, ROUTES)]
    return failed


async def test_no_extreme_value_makes_it_fail_on_sqlite(tmp_path: Path) -> None:
    assert await failures(f"sqlite:///{tmp_path}/betimes.db", REQUESTS, SEED) == []


@pytest.mark.postgres
async def test_no_extreme_value_makes_it_fail_on_postgres() -> None:
    async with empty_schema() as schema:
        assert await failures(f"{server_dsn()}?schema={schema}", REQUESTS, SEED) == []
