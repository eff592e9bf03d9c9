"""A workshop under the console: schedules, sensors, intents, runs and scores of its own, some of them in trouble.

Its press has no toner, so its reports die until it is filled; nobody carries out its briefs. Tests may change it: each
opens one of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from betimes.app.betimes import Betimes
from betimes.engine.virtual_clock import VirtualClock
from betimes.sensors.model import Evaluation, RunRequest
from tests.console.town import served

START = "2026-03-27T06:00:00Z"
POLICY: dict[str, Any] = {
    "runs": {"registry": {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "think"}}}},
}
ACCOUNT = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "acct-7"}
SCHEDULES: dict[str, dict[str, Any]] = {
    "hourly-report": {
        "cron": "0 * * * *",
        "timezone": "Europe/Berlin",
        "target": {"kind": "handler", "name": "report"},
    },
    "brief": {"cron": "30 7 * * 1-5", "timezone": "Europe/Berlin", "target": {"kind": "handler", "name": "brief"}},
    "night-watch": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": ACCOUNT},
    "pulse": {"every": {"seconds": 1800}, "target": ACCOUNT},
}


class Press:
    """Prints reports, once it has toner."""

    def __init__(self) -> None:
        self.has_toner = False
        self.printed = 0

    async def report(self, payload: Any) -> dict[str, Any]:
        if not self.has_toner:
            raise RuntimeError("no toner")
        self.printed += 1
        return {"pages": 3}


class Workshop(NamedTuple):
    """A workshop that is served, and its press."""

    address: str
    bt: Betimes
    press: Press


@asynccontextmanager
async def workshop(hours: int) -> AsyncIterator[Workshop]:
    """Open a workshop in memory, let some hours pass, and serve it without keys."""
    press = Press()
    bt = Betimes("memory://", clock=VirtualClock(START), policy=POLICY, report=lambda _: None)
    bt.handler("report")(press.report)
    bt.handler("think")(_think)
    bt.source("price")(lambda ticker: Decimal(119))
    bt.sensor("30m", target=ACCOUNT, sensor_id="inventory")(_count_stock)
    async with bt:
        await _furnish(bt)
        for _ in range(hours):
            await bt.advance(by_s=3600)
        async with served(bt) as found:
            yield Workshop(found.address, bt, press)


async def _furnish(bt: Betimes) -> None:
    for name, body in SCHEDULES.items():
        await bt.schedules.create({"schedule_id": name, **body})
    await bt.sensors.create({"sensor_id": "mail", "sensor_type": "push", "target": ACCOUNT})
    await bt.sensors.message("mail", {"message_id": "m1", "data": {"subject": "hello"}})
    for person in ("ana", "tom"):
        await bt.intents.create(
            {
                "intent_id": f"nvda-{person}",
                "user_id": person,
                "trigger_type": "price",
                "condition": {"ticker": "NVDA", "operator": "<", "value": 120},
                "schedule": {"check_interval_minutes": 60},
                "action_type": "notify",
                "action_context": "NVDA is under 120.",
            }
        )
    await bt.scores.create({"user_id": "ana", "score": 50, "created_at": "2026-03-26T00:00:00Z"})
    await bt.runs.trigger({"account_id": "acct-9", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})


async def _think(payload: Any) -> dict[str, Any]:
    return {"thought": True}


async def _count_stock(cursor: Any, context: Any) -> Evaluation:
    """Answer a change at every third look, and fail at every seventh."""
    looked = (cursor or {"looked": 0})["looked"] + 1
    runs = (RunRequest(f"stock-{looked}"),) if looked % 3 == 0 else ()
    return Evaluation(runs, cursor={"looked": looked})
