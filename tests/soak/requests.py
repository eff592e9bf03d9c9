"""Requests at a server, without a socket, on a real store: of two tenants by turns, and with extreme values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from betimes.app import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.http.extremes import find_failures
from tests.http.isolation import compare_sites
from tests.http.populated import declare
from tests.http.trials import compare_dry_runs
from tests.postgres import fresh_database
from tests.soak.rounds import Order, Round


def compare_tenants(order: Order) -> Round:
    """Send requests of two tenants in turn; those of one are also sent where it is alone, to be answered the same."""

    async def compare() -> Round:
        async with _database(order, "alone") as alone, _database(order, "shared") as shared:
            compared = await compare_sites(order.seed, order.count, (alone, shared))
        return Round(order.count, compared.differences, {"of them answered 2xx": compared.answered})

    return asyncio.run(compare())


def send_extremes(order: Order) -> Round:
    """Send extreme values to every route, then read every list; nothing may be answered 5xx."""

    async def send() -> Round:
        clock = VirtualClock("2026-01-05T09:00:00Z")
        async with _database(order, "betimes") as url:
            bt = Betimes(url, clock=clock, workers=False)
            declare(bt)
            async with bt:
                found = await find_failures(bt, clock, order.count, order.seed)
        return Round(order.count, found.failed, {"of them answered 2xx": found.passed_count})

    return asyncio.run(send())


def try_writes(order: Order) -> Round:
    """Send random writes of every domain as dry runs and then for real; both must say and write the same."""

    async def compare() -> Round:
        async with _database(order, "betimes") as url:
            tried = await compare_dry_runs(order.seed, order.count, url, marked_every=25)
        return Round(
            order.count, tried.differences, {"of them answered 2xx": tried.answered, "segments": tried.written}
        )

    return asyncio.run(compare())


@asynccontextmanager
async def _database(order: Order, name: str) -> AsyncIterator[str]:
    """Yield the URL of a new database."""
    if order.store == "sqlite":
        yield f"sqlite:///{order.folder}/{name}.db"
        return
    async with fresh_database() as dsn:
        yield dsn
