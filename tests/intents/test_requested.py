"""What a person asked for: it is heard when it is due, by a channel that reaches them, and says each thing once."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.app import Betimes
from betimes.engine.virtual_clock import VirtualClock
from betimes.intents.actions import TITLE_OTHERWISE, action_of, title_of
from betimes.intents.definitions import Definition
from tests.intents.stories import STREAM, body, made

NINE = "2026-01-05T09:00:00Z"
HOUR_S = 3_600
LONG = "NVDA < 130 or " * 5 + "AMD < 1"


def at_nine(**settings: Any) -> Betimes:
    return Betimes("memory://", clock=VirtualClock(NINE), **settings)


async def heard(bt: Betimes, user_id: str = "ann") -> list[tuple[str, str, str]]:
    """When, under which title, and what, the oldest first."""
    items = (await bt.notifications.inbox(user_id)).items
    return [(f"{item.delivered_at:%a %H:%M}", item.title, item.message) for item in reversed(items)]


async def test_a_once_at_two_with_priority_normal_is_heard_at_two() -> None:
    async with at_nine() as bt:
        once = {"trigger_at": "2026-01-05T14:00:00Z"}
        await bt.intents.create(body("once", intent_id="tea", schedule=once, action_context="Call Ana back."))
        await bt.advance(by_s=10 * HOUR_S)
        assert await heard(bt) == [("Mon 14:00", "Alert", "Call Ana back.")]
        told = await bt.notifications.notification("intent:tea:2026-01-05T14:00:00Z")
        assert (told.outcome, told.reasons, told.requested) == ("NOW", ("DEFAULT_PASS",), True)
        assert told.score is None


async def test_the_same_words_every_half_hour_are_heard_every_half_hour() -> None:
    async with at_nine(policy={"notifications": {"fatigue": {"day": {"cap": 100}}}}) as bt:
        await bt.intents.create(body("interval", intent_id="water", action_context="Drink a glass of water now."))
        await bt.advance(by_s=6 * HOUR_S)
        assert len(await heard(bt)) == 12


async def test_an_intent_asks_the_gate_and_whoever_sleeps_is_told_in_the_morning() -> None:
    registry = {"BRIEF": {"debounce_seconds": 0, "cooldown_seconds": 2 * HOUR_S}}
    async with at_nine(policy={"runs": {"registry": registry}}) as bt:
        night = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
        await bt.notifications.set_preferences("ann", night)
        cron = {"cron": "30 22 * * *", "timezone": "Europe/Berlin"}
        gate = {"trigger_type": "BRIEF", "account_id": "desk"}
        await bt.intents.create(
            body("cron", intent_id="close", schedule=cron, gate=gate, action_context="Markets closed.")
        )
        await bt.advance(to="2026-01-05T20:00:00Z")
        await bt.runs.trigger({"account_id": "desk", "trigger_type": "BRIEF", "idempotency_key": "by-hand"})
        await bt.advance(to="2026-01-06T05:59:59Z")
        checks = [(f"{item.executed_at:%H:%M}", item.status) for item in (await bt.intents.history("close")).items]
        assert checks == [("22:00", "success")] + [(f"21:{minute}", "gate_blocked") for minute in range(55, 29, -5)]
        assert await heard(bt) == []
        await bt.advance(by_s=HOUR_S)
        [(at, _, message)] = await heard(bt)
        assert at.startswith("Tue 06:0")  # 07:00 in Berlin, spread over five minutes
        assert message == "Markets closed."


@pytest.mark.parametrize(
    ("channels", "addresses", "wanted"),
    [
        (None, {}, "in_app"),
        (None, {"push": "device-1"}, "push"),
        (["email", "sms", "in_app"], {"sms": "+4930123456"}, "sms"),
        (["email", "sms"], {}, "email"),
    ],
)
async def test_a_channel_without_an_address_is_passed_over(
    channels: list[str] | None, addresses: dict[str, str], wanted: str
) -> None:
    async with at_nine() as bt:
        await bt.notifications.set_preferences("ann", {"addresses": addresses})
        await bt.intents.create(body("interval", intent_id="i", action_channels=channels))
        await bt.advance(by_s=HOUR_S / 2)
        told = await bt.notifications.notification("intent:i:2026-01-05T09:30:00Z")
        assert (told.outcome, told.delivery_channel) == ("NOW", wanted)


async def test_a_channel_that_needs_no_address_is_taken_without_one() -> None:
    async with at_nine(policy={"notifications": {"channels": {"push": {"needs_address": False}}}}) as bt:
        await bt.intents.create(body("interval", intent_id="i"))
        await bt.advance(by_s=HOUR_S / 2)
        assert (await bt.notifications.notification("intent:i:2026-01-05T09:30:00Z")).delivery_channel == "push"


@pytest.mark.parametrize(
    ("trigger_type", "fields", "title"),
    [
        ("price", {"action_context": "Sell."}, "Alert: NVDA < 130"),
        ("price", {"action_context": "NVDA < 130"}, "Alert"),
        (
            "price",
            {"action_context": "It fell.", "condition": {"expression": "NVDA < 130 or " * 5 + "AMD < 1"}},
            "Alert",
        ),
        ("silence", {"action_context": "Hello?", "action_type": "check_in"}, "Check-in: silent for 48 h"),
        ("interval", {"action_context": "Alert!"}, TITLE_OTHERWISE),
        ("cron", {"action_context": "What moved?", "action_type": "briefing"}, "Briefing"),
    ],
)
def test_a_title_is_short_and_never_says_what_the_message_says(
    trigger_type: str, fields: dict[str, Any], title: str
) -> None:
    intent = made(trigger_type, **fields).state
    assert intent
    assert isinstance(intent.definition, Definition)
    assert title_of(action_of(STREAM, intent, {})) == title


async def test_an_intent_that_fails_for_good_tells_its_owner_and_the_tenants_hooks() -> None:
    hooked: list[Any] = []
    hooks = [{"on": ["INTENT_DISABLED"], "target": {"kind": "handler", "name": "ops"}}]
    bt = at_nine(policy={"intents": {"failures_max": 2}, "hooks": hooks})

    @bt.handler("briefing")
    def brief(action: Any) -> None:
        raise RuntimeError("the model is gone")

    bt.handler("ops")(hooked.append)
    async with bt:
        await bt.intents.create(body("interval", intent_id="b", action_type="briefing", action_context="Brief me."))
        await bt.advance(by_s=2 * HOUR_S)
        left = await bt.intents.get("b")
        assert (left.enabled, left.was_disabled_reason) == (False, "FAILURES")
        [(_, title, message)] = await heard(bt)
        assert title == "An intent was switched off"
        assert "Brief me." in message
        assert "the model is gone" in message
        assert [(told["detail-type"], told["detail"]["intent_id"]) for told in hooked] == [("INTENT_DISABLED", "b")]
