"""A notification that a tick or a message causes is a duplicate of no other: its run key says what it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from betimes import Betimes
from betimes.core.checks import check_value
from betimes.engine.virtual_clock import VirtualClock
from betimes.schedules.views import ScheduleRequest
from betimes.sensors.model import Message
from betimes.sensors.views import SensorRequest

BRIEF: dict[str, Any] = {
    "kind": "notification",
    "event_type": "ALERT",
    "priority_hint": "HIGH",
    "title": "Your morning brief is ready",
    "message": "Open it to see what the day brings",
    "source": "brief",
    "channels": ["in_app"],
    "user_id": "ann",
}


async def outcomes_of(bt: Betimes, schedule: dict[str, Any], until: str) -> Counter[tuple[str, ...]]:
    """What became of everything the schedule caused by then."""
    await bt.schedules.put("brief", check_value(schedule, ScheduleRequest))
    while not (await bt.advance(to=until)).complete:
        pass
    ticks = (await bt.schedules.ticks("brief", limit=200)).items
    found = [await bt.notifications.notification(tick.run_key or "") for tick in ticks]
    return Counter((one.outcome, *one.reasons) for one in found)


@pytest.mark.parametrize(
    ("start", "schedule", "until", "count"),
    [
        ("2026-03-01T00:00:00Z", {"cron": "0 8 * * *", "timezone": "Europe/Berlin"}, "2026-03-31T22:00:00Z", 31),
        ("2026-04-01T00:00:00Z", {"cron": "0 8 * * *", "jitter_seconds": 1_800}, "2026-05-01T00:00:00Z", 30),
        ("2026-04-01T00:30:00Z", {"cron": "0 */2 * * *"}, "2026-04-03T00:30:00Z", 24),
    ],
    ids=["over the day of 23 hours", "with jitter", "every two hours"],
)
async def test_every_brief_of_a_schedule_is_heard(start: str, schedule: dict[str, Any], until: str, count: int) -> None:
    async with Betimes("memory://", clock=VirtualClock(start)) as bt:
        assert await outcomes_of(bt, {**schedule, "target": BRIEF}, until) == {("NOW", "DEFAULT_PASS"): count}


async def test_a_push_sensors_message_is_heard_every_time() -> None:
    target = BRIEF | {"title": "New order", "message": "There is a new order in the shop"}
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        await bt.sensors.put("orders", check_value({"sensor_type": "push", "target": target}, SensorRequest))
        for order in range(6):
            await bt.sensors.message("orders", Message(f"order-{order}"))
            await bt.advance(by_s=400)
        repeated = await bt.sensors.message("orders", Message("order-5"))
        assert repeated.is_replay
        assert len((await bt.notifications.inbox("ann")).items) == 6


async def test_a_target_that_names_its_dedupe_key_is_held_to_it() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-04-01T00:30:00Z")) as bt:
        hourly = {"cron": "0 * * * *", "target": BRIEF | {"dedupe_key": "brief"}}
        assert await outcomes_of(bt, hourly, "2026-04-01T06:30:00Z") == {
            ("NOW", "DEFAULT_PASS"): 1,
            ("NEVER", "DEDUP_EXACT"): 5,
        }


async def test_the_run_key_can_be_a_part_of_the_dedupe_key() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-04-01T00:30:00Z")) as bt:
        hourly = {"cron": "0 * * * *", "target": BRIEF | {"dedupe_key": "brief of {run_key}"}}
        assert await outcomes_of(bt, hourly, "2026-04-01T02:30:00Z") == {("NOW", "DEFAULT_PASS"): 2}
        [newest, *_] = (await bt.schedules.ticks("brief")).items
        found = await bt.notifications.notification(newest.run_key or "")
        assert found.notification.dedupe_key == f"brief of {newest.run_key}"
