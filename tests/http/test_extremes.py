"""Extreme values in every field of every route: nothing fails, and afterwards every list can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.app.routes import ROUTES
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from tests.http.extremes import INTENT, find_failures
from tests.http.populated import declare
from tests.http.served import Client
from tests.http.stores import STORES, StoreName, application_on

REQUESTS = 1_000
PASSED_MIN = REQUESTS // 3
"""What never gets past the door finds nothing behind it."""
SEED = 20260105


@pytest.mark.parametrize("store", STORES)
async def test_no_extreme_value_makes_it_fail(store: StoreName, tmp_path: Path) -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with application_on(store, tmp_path, clock, declare) as bt:
        found = await find_failures(bt, clock, REQUESTS, SEED)
    assert found.failed == []
    assert found.passed_count > PASSED_MIN


@pytest.mark.postgres
async def test_nul_in_an_intent_that_is_checked_is_named_on_postgres(tmp_path: Path) -> None:
    async with application_on("postgres", tmp_path, VirtualClock("2026-01-05T09:00:00Z")) as bt:
        client = Client(serve(bt, ROUTES, dev=True))
        for field in ("user_id", "intent_id", "action_context"):
            reply = await client("POST", "/v1/intents/check", {**INTENT, field: "u\0"}, x_tenant="default")
            told = reply.json["errors"]
            assert (reply.status in (200, 422), [error["path"] for error in told]) == (True, [field])
