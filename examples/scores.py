"""Scores: two users, one who forgets; sweeps by the hour; a handler that hears of thresholds.

Run it with `python examples/scores.py`. Time is virtual, so five days take no time at all.
"""

from __future__ import annotations

import asyncio

from betimes.core.deciders import EffectCall
from betimes.domains.hooks import Hooks
from betimes.domains.scores.decide import DECIDERS
from betimes.domains.scores.policy import ScoresPolicy
from betimes.engine.engine import Engine
from betimes.services.caller import Caller
from betimes.services.scores import Interaction, NewScore, Scores
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock

POLICY = {"hooks": [{"on": ["SCORE_THRESHOLD", "GAME_OVER"], "target": {"kind": "handler", "name": "tell"}}]}


async def tell(call: EffectCall) -> None:
    """Whatever should happen when a score falls too far."""
    detail = call.payload["detail"]
    print(f"      {call.payload['detail-type']}: {detail['user_id']} is at {detail['score']}")


async def main() -> None:
    clock = VirtualClock("2026-01-05T00:00:00Z")
    engine = Engine(
        MemoryStore(clock), DECIDERS, name="example", sections={"scores": ScoresPolicy, "hooks": Hooks}, policy=POLICY,
        executors={"handler:tell": tell},
    )  # fmt: skip
    async with engine:
        scores = Scores(engine, Caller("acme"))
        for user in ("ann", "bob"):
            await scores.create(NewScore(user_id=user))
        forecast = (await scores.get("bob")).forecast
        assert forecast
        print(f"If nothing happens, bob reaches 0 at {forecast.zero_at:%a %H:%M}.")
        for hour in range(1, 121):
            clock.advance(3600)
            if hour % 20 == 0:
                await scores.interact("ann", Interaction(type="text"))
            await scores.sweep()
            await engine.tick()
        for user in ("ann", "bob"):
            score = await scores.get(user)
            print(f"{user}: {score.score} points, {score.game_status}")
        newest = (await scores.history("bob")).items[0]
        lost = newest.event_details["decay_amount"]
        print(f"bob's end: {newest.event_type}, {lost} points at {newest.timestamp:%a %H:%M}")


if __name__ == "__main__":
    asyncio.run(main())
