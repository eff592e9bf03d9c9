"""Extreme values in every field of every route: nothing fails, and afterwards every list can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.app import Betimes
from betimes.stores.postgres import PostgresStore
from betimes.testing.clock import VirtualClock
from tests.api.extremes import find_failures
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


@pytest.mark.postgres
async def test_no_extreme_value_makes_it_fail_on_postgres() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with empty_schema() as schema:
        application = Betimes(server_dsn(), clock=clock, workers=False)
        application._store = PostgresStore(server_dsn(), schema=schema, clock=clock)
        async with application as bt:
            found = await find_failures(bt, clock, REQUESTS, SEED)
    assert found.failed == []
    assert found.passed_count > PASSED_MIN
