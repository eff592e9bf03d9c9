"""Intents: tell me when NVDA falls under 130, at most once a day; brief me at eight.

Run it with `python examples/intents.py`. Time is virtual, so a day takes no time at all. An expression needs the
extra `conditions`.
"""

from __future__ import annotations

import asyncio

from betimes.core.errors import Invalid
from betimes.domains.catalogue import DECIDERS, SECTIONS
from betimes.engine.engine import Engine
from betimes.services.caller import Caller
from betimes.services.intent_acting import Action
from betimes.services.intent_worker import IntentWorker
from betimes.services.intents import Intents
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock

prices = {"NVDA": 131.0}


def brief(action: Action) -> str:
    return f"Good morning, {action.user_id}: {action.action_context}"


async def main() -> None:
    clock = VirtualClock("2026-01-05T07:00:00Z")
    async with Engine(MemoryStore(clock), DECIDERS, name="example", sections=SECTIONS) as engine:
        intents = Intents(engine, Caller("acme"))
        await intents.create(
            {
                "intent_id": "nvda-130", "user_id": "ann", "trigger_type": "price",
                "condition": {"expression": "NVDA < 130"},
                "action_type": "notify", "action_context": "NVDA is under 130.", "action_priority": "high",
            }
        )  # fmt: skip
        await intents.create(
            {
                "intent_id": "brief", "user_id": "ann", "trigger_type": "cron",
                "schedule": {"cron": "0 8 * * *", "timezone": "Europe/Berlin"},
                "action_type": "briefing", "action_context": "what moved since yesterday",
            }
        )  # fmt: skip
        try:
            await intents.create({"user_id": "ann", "trigger_type": "price", "condition": {"expression": "NVDA <"},
                                  "schedule": {"timezone": "Mars/Base"}, "action_type": "notify"})  # fmt: skip
        except Invalid as refused:
            print(*(f"{path}: {message}" for path, message in refused.problems), sep="\n")

        worker = IntentWorker(
            engine, name="example", sources={"price": prices.__getitem__}, handlers={"briefing": brief}
        )
        for price, minutes in ((131.0, 0), (128.4, 5), (127.0, 60), (126.0, 24 * 60)):
            prices["NVDA"] = price
            clock.advance(minutes * 60)
            ended = await worker.once()
            print(f"NVDA {price}: {dict(ended) or 'nothing to do'}")
        for name in ("nvda-130", "brief"):
            for execution in (await intents.history(name)).items:
                print(f"{execution.executed_at:%d %H:%M} {name} {execution.status}: {execution.message_preview}")


if __name__ == "__main__":
    asyncio.run(main())
