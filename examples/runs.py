"""Runs: a signal every minute, a cooldown of five; what is put off is judged once more; no run is started twice."""

import asyncio
from typing import Any

from betimes import Betimes, VirtualClock

bt = Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"))


@bt.run("SIGNAL_ARRIVED")
async def think(run: dict[str, Any]) -> dict[str, Any]:
    return {"thought about": run["payloads"]}  # the expensive part


async def main() -> None:
    async with bt:
        signal = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED"}
        for n in range(4):
            verdict = await bt.runs.trigger({**signal, "idempotency_key": f"sig-{n}", "payload": {"minute": n}})
            print(f"{verdict.evaluated_at:%H:%M} {verdict.result:5} {verdict.explanation}")
            await bt.advance(by_s=60)
        await bt.advance(by_s=60)
        for run in (await bt.runs.runs()).items:
            print(f"{run.idempotency_key}: {run.status}, {run.result}")


asyncio.run(main())
