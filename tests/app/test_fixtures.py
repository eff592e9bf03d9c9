"""The fixtures users import, as they would use them."""

from __future__ import annotations

from typing import Any

from betimes.app import Betimes, BlockingBetimes
from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.fixtures import Make, betimes_app, blocking_betimes, make_betimes, virtual_clock

__all__ = ["betimes_app", "blocking_betimes", "make_betimes", "virtual_clock"]

NIGHT = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
NOTE = {
    "event_id": "e",
    "user_id": "ana",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Tom replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["push"],
}


def test_a_night_passes_at_once(blocking_betimes: BlockingBetimes, virtual_clock: VirtualClock) -> None:
    bt = blocking_betimes
    bt.notifications.set_preferences("ana", NIGHT)
    bt.advance(to="2026-01-05T23:00:00Z")
    assert bt.notifications.send(NOTE).outcome == "LATER"
    bt.advance(to="2026-01-06T06:30:00Z")
    assert bt.notifications.notification("e").status == "delivered"


async def test_an_application_is_opened_by_the_test(betimes_app: Betimes) -> None:
    called: list[Any] = []
    betimes_app.handler("brief")(called.append)
    betimes_app.schedule("0 * * * *")(_hourly(called))
    async with betimes_app as bt:
        await bt.advance(by_s=5 * 86_400)
    assert len(called) == 5 * 24


def test_several_are_made_with_what_they_declare(make_betimes: Make) -> None:
    called: list[Any] = []
    first = make_betimes(lambda bt: bt.schedule("0 12 * * *")(_hourly(called)))
    second = make_betimes(policy={"notifications": {"jitter_s": 0}})
    first.advance(by_s=86_400)
    assert len(called) == 1
    assert second.schedules.list().items == []


def _hourly(called: list[Any]) -> Any:
    def hourly(payload: Any) -> None:
        called.append(payload)

    return hourly
