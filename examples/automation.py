"""A schedule that nobody was awake for, a message that came twice, and what is known of both afterwards."""

import asyncio
from typing import Any

from betimes import Betimes, VirtualClock

clock = VirtualClock("2026-03-27T00:00:00Z")
bt = Betimes("memory://", clock=clock)


@bt.schedule("30 2 * * *", tz="Europe/Berlin", max_catchup_ticks=2, catchup_window_minutes=3 * 1440)
async def brief(payload: Any) -> None:
    print("  good morning")


@bt.on_message("orders")
async def order(message: Any) -> None:
    print("  an order")


async def main() -> None:
    async with bt:
        print("Four days asleep, and the clocks go forward in Berlin:")
        clock.advance(4 * 86_400)
        await bt.tick()
        for tick in (await bt.schedules.ticks("brief")).items:
            print(f"  {tick.scheduled_for}: {tick.status}")
        print("One message, sent twice:")
        for _ in range(2):
            await bt.sensors.receive("orders", {}, b'{"message_id": "o-1", "data": {"total": 7}}')
            await bt.tick()


asyncio.run(main())
