"""Extreme values in every field of every route: nothing fails, and afterwards every list can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from betimes.api.catalogue import ROUTES
from betimes.api.server import serve
from betimes.app import Betimes
from betimes.stores.postgres import PostgresStore
from betimes.testing.clock import VirtualClock
from tests.api.extremes import INTENT, find_failures
from tests.api.served import Client
from tests.postgres import empty_schema, server_dsn

REQUESTS = 1_500
PASSED_MIN = REQUESTS // 3
"""What never gets past the door finds nothing behind it."""
SEED = 20260105


async def test_no_extreme_value_makes_it_fail_on_sqlite(tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with Betimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        found = await find_failures(bt, clock, REQUESTS, SEED)
    assert found.failed == []
    assert found.passed_count > PASSED_MIN


@asynccontextmanager
async def on_postgres(clock: VirtualClock) -> AsyncIterator[Betimes]:
    async with empty_schema() as schema:
        application = Betimes(server_dsn(), clock=clock, workers=False)
        application._store = PostgresStore(server_dsn(), schema=schema, clock=clock)
        async with application as bt:
            yield bt


@pytest.mark.postgres
async def test_no_extreme_value_makes_it_fail_on_postgres() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with on_postgres(clock) as bt:
        found = await find_failures(bt, clock, REQUESTS, SEED)
    assert found.failed == []
    assert found.passed_count > PASSED_MIN


@pytest.mark.postgres
async def test_nul_in_an_intent_that_is_checked_is_named_on_postgres() -> None:
    async with on_postgres(VirtualClock("2026-01-05T09:00:00Z")) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for field in ("user_id", "intent_id", "action_context"):
            reply = await client("POST", "/v1/intents/check", {**INTENT, field: "u\0"}, x_tenant="default")
            told = reply.json["errors"]
            assert (reply.status in (200, 422), [error["path"] for error in told]) == (True, [field])
