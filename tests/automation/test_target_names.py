"""A name that nobody knows is told when a definition is saved, not at every tick."""

from __future__ import annotations

from typing import Any

import pytest

from betimes import Betimes, Invalid, VirtualClock

NOTIFICATION: dict[str, Any] = {
    "kind": "notification",
    "user_id": "ana",
    "event_type": "REMINDER",
    "title": "t",
    "message": "m",
    "source": "s",
    "channels": ["push"],
}


def daily(target: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"cron": "0 8 * * *", "target": target, **settings}


def pushed(target: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"sensor_type": "push", "target": target, **settings}


async def test_names_that_the_policy_does_not_know_are_refused_with_those_it_knows() -> None:
    misspelt = NOTIFICATION | {"event_type": "REMINDR", "channels": ["push", "pigeon"]}
    trigger = {"kind": "trigger", "trigger_type": "NOPE", "account_id": "a"}
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as wrong:
            await bt.schedules.put("s", daily(misspelt))
        told = dict(wrong.value.problems)
        assert list(told) == ["target.event_type", "target.channels[1]"]
        assert "REMINDER" in told["target.event_type"]
        assert "push" in told["target.channels[1]"]
        with pytest.raises(Invalid) as wrong:
            await bt.sensors.put("s", pushed(trigger))
        assert "SIGNAL_ARRIVED" in dict(wrong.value.problems)["target.trigger_type"]
        with pytest.raises(Invalid) as wrong:
            await bt.sensors.put("s", pushed({"kind": "sweep"}, evaluator=evaluator("e"), allowed_targets=[trigger]))
        assert list(dict(wrong.value.problems)) == ["allowed_targets[0].trigger_type"]


async def test_a_definition_whose_target_stays_can_be_changed_after_the_policy_forgot_its_type() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        await bt.runs.put_registry([{"trigger_type": "OURS", "debounce_seconds": 1, "cooldown_seconds": 0}])
        target = {"kind": "trigger", "trigger_type": "OURS", "account_id": "a"}
        await bt.schedules.put("s", daily(target))
        await bt.runs.put_registry([])
        assert (await bt.schedules.patch("s", {"enabled": False})).enabled is False


async def test_a_handler_or_evaluator_that_this_process_does_not_have_is_a_warning() -> None:
    bt = Betimes("memory://", clock=VirtualClock())
    bt.handler("known")(lambda body: None)
    async with bt:
        known = await bt.schedules.put("k", daily({"kind": "handler", "name": "known"}))
        assert known.warnings == []
        other = await bt.schedules.put("o", daily({"kind": "handler", "name": "other"}))
        assert [warning.path for warning in other.warnings] == ["target.name"]
        sensor = await bt.sensors.put("s", pushed({"kind": "sweep"}, evaluator=evaluator("nobody")))
        assert [warning.path for warning in sensor.warnings] == ["evaluator.name"]
        assert "'nobody'" in sensor.warnings[0].message


def evaluator(name: str) -> dict[str, str]:
    return {"kind": "handler", "name": name}
