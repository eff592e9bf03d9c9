"""Backtests of an open application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from betimes.backtest.plan import Plan
from betimes.backtest.report import BacktestReport
from betimes.backtest.running import backtest

if TYPE_CHECKING:
    from betimes.app.betimes import Betimes


async def backtested(
    bt: Betimes, plan: Plan, jobs: int | None, progress: Callable[[float], None] | None
) -> BacktestReport:
    """Rehearse the recorded traffic under every candidate of the plan."""
    engine = bt.engine
    return await backtest(
        engine.store, engine.kinds, engine.book, engine.settings, plan, progress=progress or (lambda share: None)
    )
