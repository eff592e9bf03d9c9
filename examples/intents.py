"""Intents: tell me when NVDA falls under 130, at most once a day; brief me at eight."""

import asyncio
from typing import Any

from betimes import Betimes, VirtualClock

POLICY = {"intents": {"channels": ["in_app"]}}
bt = Betimes("memory://", clock=VirtualClock("2026-01-05T07:00:00Z"), policy=POLICY)
prices = {"NVDA": 131.0}
bt.source("price")(prices.__getitem__)


@bt.handler("briefing")
def brief(action: Any) -> str:
    return f"Good morning, {action.user_id}: {action.action_context}"


async def main() -> None:
    async with bt:
        wish = {"intent_id": "nvda-130", "user_id": "ann", "trigger_type": "price", "action_type": "notify"}
        condition = {"ticker": "NVDA", "operator": "<", "value": 130}
        await bt.intents.create({**wish, "condition": condition, "action_context": "NVDA is under 130."})
        wish = {"intent_id": "brief", "user_id": "ann", "trigger_type": "cron", "action_type": "briefing"}
        eight = {"cron": "0 8 * * *", "timezone": "Europe/Berlin"}
        await bt.intents.create({**wish, "schedule": eight, "action_context": "what moved since yesterday"})
        for price, minutes in ((131.0, 0), (128.4, 5), (127.0, 60), (126.0, 24 * 60)):
            prices["NVDA"] = price
            await bt.advance(by_s=minutes * 60)
        for name in ("nvda-130", "brief"):
            for done in reversed((await bt.intents.history(name)).items):
                if done.status == "success":
                    print(f"{done.executed_at:%a %H:%M} {name}: {done.message_preview or done.status}")


asyncio.run(main())
