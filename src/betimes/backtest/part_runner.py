"""One part of a backtest, or all of it, from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from betimes.backtest.lockstep import Lockstep, PartResult
from betimes.backtest.traffic import Reach, pages, reach_of
from betimes.engine.store import Store

Progress = Callable[[float], None]
"""Told what share of the ledger has been gone through."""


async def rehearse_part(
    store: Store, lockstep: Lockstep, reach: Reach | None = None, progress: Progress = lambda share: None
) -> PartResult:
    """Read the ledger once and rehearse one part of it, or all; parts of one backtest share one reach."""
    plan = lockstep.plan
    reach = reach or await reach_of(store, plan.tenant, plan.since_at, plan.until_at)
    async for page in pages(store, plan.tenant, plan.until_at):
        for segment in page:
            if segment.seq <= reach.last_seq:
                lockstep.read(segment)
        if page:
            progress(min(page[-1].seq / reach.last_seq, 1.0))
            if page[-1].seq >= reach.last_seq:
                break
        await asyncio.sleep(0)
    result = lockstep.finish(reach.ends_at)
    result.starts_at, result.ends_at = reach.starts_at, reach.ends_at
    return result
