"""Runs: a signal every minute, a cooldown of five; one retry; a handler that is called at most once.

Run it with `python examples/runs.py`. Time is virtual, so five minutes take no time at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from betimes.core.deciders import EffectCall
from betimes.domains.hooks import Hooks
from betimes.domains.runs.decide import DECIDERS
from betimes.domains.runs.policy import RunsPolicy
from betimes.effects.runs import RunStarter
from betimes.engine.engine import Engine
from betimes.services.caller import Caller
from betimes.services.runs import Runs
from betimes.services.runs_views import TriggerRequest
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock

POLICY = {"runs": {"registry": {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "think"}}}}}


async def think(call: EffectCall) -> dict[str, Any]:
    """The expensive part."""
    return {"thought about": call.payload["payloads"]}


async def main() -> None:
    clock, starter = VirtualClock("2026-01-05T09:00:00Z"), RunStarter("example")
    engine = Engine(
        MemoryStore(clock), DECIDERS, name="example", sections={"runs": RunsPolicy, "hooks": Hooks}, policy=POLICY,
        executors=starter.wrap({"handler:think": think}),
    )  # fmt: skip
    starter.engine = engine
    async with engine:
        runs = Runs(engine, Caller("acme"))
        for minute in range(4):
            verdict = await runs.trigger(
                TriggerRequest(
                    account_id="acct-7", trigger_type="SIGNAL_ARRIVED", idempotency_key=f"sig-{minute}",
                    payload={"minute": minute},
                )
            )  # fmt: skip
            print(f"{verdict.evaluated_at:%H:%M} {verdict.result:5} {verdict.explanation}")
            clock.advance(60)
        clock.advance(60)
        await engine.tick()
        await engine.tick()
        for run in (await runs.runs()).items:
            print(f"{run.idempotency_key}: {run.status}, {run.result}")


if __name__ == "__main__":
    asyncio.run(main())
