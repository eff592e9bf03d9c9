"""Notifications: a quiet night in Berlin, one message that waits for the morning, one that does not.

Run it with `python examples/notifications.py`. Time is virtual, so the night takes no time at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from betimes.domains.hooks import Hooks
from betimes.domains.notifications.decide import DECIDERS
from betimes.domains.notifications.policy import NotificationsPolicy
from betimes.effects.channels import Channels, ChannelSettings, LogChannel
from betimes.effects.delivery import delivery_executors
from betimes.engine.engine import Engine
from betimes.services.caller import Caller
from betimes.services.notifications import Notifications
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock

CHANNELS = ChannelSettings(channels={"push": LogChannel(), "email": LogChannel()})


def show(_: str, **sent: Any) -> None:
    print(f"      -> {sent['channel']} {sent['address']}: {sent['title']}")


async def main() -> None:
    clock = VirtualClock("2026-01-05T01:10:00Z")
    store = MemoryStore(clock)
    engine = Engine(
        store, DECIDERS, name="example", sections={"notifications": NotificationsPolicy, "hooks": Hooks},
        executors=delivery_executors(store, Channels(CHANNELS, log=show)),
    )  # fmt: skip
    async with engine:
        notifications = Notifications(engine, Caller("acme"))
        await notifications.set_preferences(
            "ana",
            {
                "timezone": "Europe/Berlin",
                "quiet_hours": [{"start": "22:00", "end": "07:00"}],
                "addresses": {"push": "device-1"},
            },
        )
        note = {"user_id": "ana", "source": "chat", "channels": ["push", "email"]}
        for event_id, kind, priority, title, message in (
            ("evt-1", "MESSAGE", "HIGH", "Tom replied", "See you at nine?"),
            ("evt-2", "MESSAGE", "HIGH", "Tom replied", "see you  at NINE?"),
            ("evt-3", "SECURITY", None, "New login", "Somebody signed in from Peru"),
        ):
            body = {"event_id": event_id, "event_type": kind, "title": title, "message": message}
            verdict = await notifications.send(note | body | ({"priority_hint": priority} if priority else {}))
            print(f"01:10 {event_id} {verdict.outcome:5} {', '.join(verdict.reasons)}: {verdict.explanation}")
            await engine.tick()
        clock.advance_to("2026-01-05T06:05:00Z")
        print("07:05 the alarm rings")
        await engine.tick()
        for event_id in ("evt-1", "evt-2", "evt-3"):
            found = await notifications.notification(event_id)
            print(f"      {event_id} {found.status}: {', '.join(found.reasons)}")


if __name__ == "__main__":
    asyncio.run(main())
