"""One part of a backtest, or all of it, from beginning to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from betimes.backtest.links import Lookout
from betimes.backtest.lockstep import Lockstep, PartResult
from betimes.backtest.plan import Plan
from betimes.backtest.reading import last_seq, pages
from betimes.core.policies import PolicyBook
from betimes.engine.kinds import Kinds
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store

Progress = Callable[[float], None]
"""Told what share of the ledger has been gone through."""


async def rehearsed(
    store: Store, kinds: Kinds, book: PolicyBook, settings: EngineSettings, plan: Plan, *,
    lookout: Lookout | None = None, progress: Progress = lambda share: None,
) -> PartResult:  # fmt: skip
    """Read the ledger once and rehearse one part of it, or all."""
    end = await last_seq(store)
    lockstep = (
        Lockstep(kinds, book, settings, plan, is_mine=lookout.is_mine, first_look=lookout.first_look)
        if lookout
        else Lockstep(kinds, book, settings, plan)
    )
    async for page in pages(store, plan.tenant, plan.until_at):
        for segment in page:
            if segment.seq <= end:
                lockstep.read(segment)
        if page:
            progress(min(page[-1].seq / end, 1.0))
        await asyncio.sleep(0)
    result = lockstep.finish()
    if lookout:
        result.looked_at = [(stream, lockstep.has_written(stream)) for stream in sorted(lookout.unknown)]
    return result
