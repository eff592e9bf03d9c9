"""Notifications: a quiet night in Berlin, one message that waits for the morning, one that does not."""

import asyncio

from betimes import Betimes, VirtualClock

ANA = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
NOTES = (
    {"event_id": "evt-1", "event_type": "MESSAGE", "title": "Tom replied", "message": "See you at nine?"},
    {"event_id": "evt-2", "event_type": "MESSAGE", "title": "Tom replied", "message": "see you  at NINE?"},
    {"event_id": "evt-3", "event_type": "SECURITY", "title": "New login", "message": "Somebody signed in from Peru"},
)


async def main() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-01-05T01:10:00Z")) as bt:
        await bt.notifications.set_preferences("ana", ANA)
        for note in NOTES:
            to = {"user_id": "ana", "source": "chat", "channels": ["in_app"], "priority_hint": "HIGH"}
            verdict = await bt.notifications.send({**to, **note})
            print(f"01:10 {verdict.event_id} {verdict.outcome:5} {', '.join(verdict.reasons)}: {verdict.explanation}")
        await bt.advance(to="2026-01-05T06:05:00Z")
        for note in NOTES:
            found = await bt.notifications.notification(note["event_id"])
            print(f"07:05 {found.event_id} {found.status}: {', '.join(found.reasons)}")


asyncio.run(main())
