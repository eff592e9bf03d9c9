"""Stories of clocks that change, people who move and holds between them; see `test_stories` for what each must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.outbound.handlers import HandlerContext
from tests.domains.test_stories import BRIEF, CALM, NIGHT, heard, story, verdicts

CLOCK: dict[str, Any] = {
    "user_id": "ann",
    "trigger_type": "cron",
    "action_type": "notify",
    "action_context": "It is nine.",
    "action_priority": "high",
}


# -- the night without a half past two


async def test_in_the_night_without_a_half_past_two_everything_of_that_time_comes_at_three(tmp_path: Path) -> None:
    """A schedule, a wish and the end of quiet hours at 02:30 in Berlin: 01:30 UTC, then 01:00: the clock jumps."""
    half_past_two = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "02:30"}]}
    once = {"trigger_type": "once", "schedule": {"trigger_at": "2026-03-29T02:30:00", "timezone": "Europe/Berlin"}}
    async with story(tmp_path, "2026-03-27T12:00:00Z", {"notifications": CALM}) as bt:
        for user in ("ann", "bob", "cid"):
            await bt.notifications.set_preferences(user, half_past_two if user == "cid" else {})
        await bt.schedules.create(
            {"schedule_id": "ann", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": BRIEF}
        )
        await bt.intents.create({**CLOCK, "intent_id": "bob", "user_id": "bob", **once})
        await bt.schedules.create(
            {
                "schedule_id": "cid",
                "cron": "0 23 * * *",
                "timezone": "Europe/Berlin",
                "target": {**BRIEF, "user_id": "cid"},
            }
        )
        await bt.advance(to="2026-03-30T12:00:00Z")
        assert await heard(bt, "ann") == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]
        assert await heard(bt, "cid") == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]
        assert await heard(bt, "bob") == ["03-29 01:00"]


# -- a wish under a hold, whose person moves


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        # Held from eight until noon in Berlin: nine o'clock comes at noon, and the next days at nine.
        ({}, ["01-05 11:00", "01-06 08:00", "01-07 08:00"]),
        # Only the person moves, to where it is six in the morning at the end of the hold and two at nine in Berlin.
        ({"person": "America/New_York"}, ["01-05 12:00", "01-06 12:00", "01-07 12:00"]),
        # The wish moves too: nine in New York is after the end of the hold, so the nine of Berlin is not made up for.
        (
            {"person": "America/New_York", "intent": "America/New_York"},
            ["01-05 14:00", "01-06 14:00", "01-07 14:00"],
        ),
    ],
)
async def test_a_wish_that_is_held_while_its_person_moves_is_told_in_their_new_morning(
    tmp_path: Path, moves: dict[str, str], expected: list[str]
) -> None:
    async with story(tmp_path, "2026-01-05T06:30:00Z", {"notifications": CALM}) as bt:
        await bt.notifications.set_preferences("ann", NIGHT)
        schedule = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
        await bt.intents.create({**CLOCK, "intent_id": "nine", "schedule": schedule})
        await bt.advance(to="2026-01-05T07:00:00Z")
        await bt.mine.tenants.set_hold({"until": "2026-01-05T11:00:00Z", "reason": "moving"})
        await bt.advance(to="2026-01-05T09:00:00Z")
        assert await heard(bt, "ann") == []
        if "person" in moves:
            await bt.notifications.patch_preferences("ann", {"timezone": moves["person"]})
        if "intent" in moves:
            await bt.intents.patch("nine", {"schedule": {"timezone": moves["intent"]}})
        await bt.advance(to="2026-01-07T23:00:00Z")
        assert await heard(bt, "ann") == expected
        assert [done.status for done in (await bt.intents.history("nine")).items] == ["success"] * 3


# -- a hold over the change of the clock


@pytest.mark.parametrize(
    ("night", "until", "expected"),
    [
        # Forward: the half past two that is skipped is owed at the end of the hold, which is when her night ends.
        ("2026-03-28", "2026-03-29T05:00:00Z", ["03-28 06:00", "03-29 05:00", "03-30 05:00"]),
        # The hold ends in her night, an hour before it does by the new clock.
        ("2026-03-28", "2026-03-29T04:00:00Z", ["03-28 06:00", "03-29 05:00", "03-30 05:00"]),
        # Back: the half past two that comes twice is owed once.
        ("2026-10-24", "2026-10-25T10:00:00Z", ["10-24 05:00", "10-25 10:00", "10-26 06:00"]),
    ],
)
async def test_a_hold_over_the_change_of_the_clock_owes_one_brief_for_the_night(
    tmp_path: Path, night: str, until: str, expected: list[str]
) -> None:
    async with story(tmp_path, f"{night}T00:00:00Z", {"notifications": CALM}) as bt:
        await bt.notifications.set_preferences("ann", NIGHT)
        await bt.schedules.create(
            {"schedule_id": "brief", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": BRIEF}
        )
        await bt.advance(to=f"{night}T20:00:00Z")
        hold = {"domains": ["automation", "notifications"], "until": until, "reason": "the night of the clocks"}
        await bt.mine.tenants.set_hold(hold)
        await bt.advance(by_s=40 * 3_600)
        assert await heard(bt, "ann") == expected


# -- an agent that is woken, asks and tells


async def test_a_sensor_wakes_an_agent_that_asks_the_gate_and_tells_a_sleeping_person(tmp_path: Path) -> None:
    """Every hour of a night something changes. The agent runs, and asks before it thinks: four thoughts a day."""
    registry = {
        "CHANGED": {"debounce_seconds": 0, "cooldown_seconds": 0},
        "THINK": {"debounce_seconds": 0, "cooldown_seconds": 7_200},
    }
    asked: list[str] = []

    def declare(bt: Betimes) -> None:
        @bt.run("CHANGED")
        async def agent(run: dict[str, Any], context: HandlerContext) -> str:
            number = run["payloads"][0]["message"]["data"]["n"]
            key = f"think-{number}"
            thought = await bt.runs.evaluate({"account_id": "agent", "trigger_type": "THINK"})
            if thought.result == "ALLOW":
                await bt.runs.trigger({"account_id": "agent", "trigger_type": "THINK", "idempotency_key": key})
            asked.append(f"{number} {thought.result}")
            await bt.notifications.send(
                {
                    **{name: BRIEF[name] for name in ("event_type", "source", "channels", "priority_hint")},
                    "event_id": f"told-{number}",
                    "user_id": "ann",
                    "title": f"Change {number}",
                    "message": f"The {number}. change: {thought.result}",
                }
            )
            return key

        @bt.run("THINK")
        async def think(run: dict[str, Any]) -> None: ...

    policy = {"notifications": {**CALM, "fatigue": {"hour": {"cap": 3}}}, "runs": {"registry": registry}}
    async with story(tmp_path, "2026-01-05T22:00:00Z", policy, declare) as bt:
        await bt.notifications.set_preferences("ann", NIGHT)
        target = {"kind": "trigger", "trigger_type": "CHANGED", "account_id": "watch"}
        await bt.sensors.create({"sensor_id": "changes", "sensor_type": "push", "target": target})
        for number in range(5):
            for _ in range(2):  # a sender that repeats itself
                await bt.sensors.message("changes", {"message_id": f"m{number}", "data": {"n": number}})
            await bt.advance(by_s=3_600)
        assert asked == ["0 ALLOW", "1 DEFER", "2 ALLOW", "3 DEFER", "4 ALLOW"]
        assert await heard(bt, "ann") == []
        await bt.advance(to="2026-01-06T12:00:00Z")
        told = await heard(bt, "ann")
        assert told[:3] == ["01-06 06:00"] * 3, "at seven in Berlin, as many as an hour may have"
        assert len(told) == 5
        assert await verdicts(bt, "sensor") == {("NOW", "TRIGGERED"): 5}
        assert (await bt.runs.run_state("agent")).deferred == []
        runs = (await bt.runs.runs(limit=50)).items
        assert {run.status for run in runs} == {"succeeded"}
        assert sorted(run.trigger_type for run in runs) == ["CHANGED"] * 5 + ["THINK"] * 3
