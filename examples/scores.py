"""Scores: ann writes every twenty hours, bob never; both are swept by the hour for five days."""

import asyncio
from typing import Any

from betimes import Betimes, VirtualClock

HOOKS = [{"on": ["SCORE_THRESHOLD", "GAME_OVER"], "target": {"kind": "handler", "name": "tell"}}]
bt = Betimes("memory://", clock=VirtualClock("2026-01-05T00:00:00Z"), policy={"hooks": HOOKS})


@bt.handler("tell")
def tell(event: dict[str, Any]) -> None:
    print(f"  {event['detail-type']}: {event['detail']['user_id']} is at {event['detail']['score']}")


async def main() -> None:
    async with bt:
        for user in ("ann", "bob"):
            await bt.scores.create({"user_id": user})
        for hour in range(120):
            if hour % 20 == 0:
                await bt.scores.interact("ann", {"type": "text"})
            await bt.advance(by_s=3600)
            await bt.scores.sweep()
            await bt.tick()
        for user in ("ann", "bob"):
            score = await bt.scores.get(user)
            print(f"{user}: {score.score} points, {score.game_status}")


asyncio.run(main())
