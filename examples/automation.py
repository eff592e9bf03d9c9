"""A schedule that was asleep, a message that came twice, and what is known of both afterwards.

python examples/automation.py
"""

from __future__ import annotations

import asyncio

import msgspec

from betimes import Engine
from betimes.core.deciders import EffectCall
from betimes.domains.automation import decide as automation
from betimes.domains.automation.policy import AutomationPolicy
from betimes.domains.hooks import Hooks
from betimes.domains.runs import decide as runs
from betimes.domains.runs.policy import RunsPolicy
from betimes.services.caller import Caller
from betimes.services.schedules import Schedules, schedule_request
from betimes.services.sensors import Sensors, sensor_request
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock

SECTIONS: dict[str, type[msgspec.Struct]] = {"automation": AutomationPolicy, "runs": RunsPolicy, "hooks": Hooks}
TARGET = {"kind": "handler", "name": "brief"}


async def brief(call: EffectCall) -> None:
    print(f"    → {call.payload['run_key']}")


async def main() -> None:
    clock = VirtualClock("2026-03-27T00:00:00Z")
    engine = Engine(
        MemoryStore(clock),
        (*automation.DECIDERS, *runs.DECIDERS),
        name="example",
        sections=SECTIONS,
        executors={"handler:brief": brief},
    )
    async with engine:
        caller = Caller("acme", "ann")
        schedules, sensors = Schedules(engine, caller), Sensors(engine, caller)
        await schedules.create(
            schedule_request(
                {
                    "schedule_id": "brief",
                    "cron": "30 2 * * *",
                    "timezone": "Europe/Berlin",
                    "target": TARGET,
                    "max_catchup_ticks": 2,
                    "catchup_window_minutes": 3 * 1440,
                }
            )
        )
        print("Nobody is awake for four days, and the clocks go forward in Berlin. Then the alarm rings:")
        clock.advance(4 * 86_400)
        await engine.tick()
        for tick in (await schedules.ticks("brief")).items:
            what = tick.tick_id or f"{tick.count} × {tick.reason}"
            print(f"    {tick.status:8} {tick.cause:8} {tick.scheduled_for:%d %b %H:%M} UTC  {what}")

        print("A shop tells of an order, twice:")
        await sensors.create(sensor_request({"sensor_id": "shop", "sensor_type": "push", "target": TARGET}))
        for _ in range(2):
            heard = await sensors.receive("shop", {}, b'{"message_id": "order-7", "data": {"total": 12}}')
            print(f"    {heard.status}, run {heard.run_requests[0].outcome}, is_replay: {heard.is_replay}")
        await engine.tick()


if __name__ == "__main__":
    asyncio.run(main())
