"""What was asked for first, over the shape of the API: cooldown, claim, and what is pending."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from betimes.core.errors import Invalid, Refused
from tests.intents.stories import body
from tests.intents.worlds import intent_world
from tests.stores.backends import Backend


async def test_ac3_1_intents_have_a_cooldown_of_1_to_168_hours_and_a_last_condition_fire(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        plain = await world.intents.create(body(intent_id="plain"))
        assert plain.condition
        assert (plain.condition.cooldown_hours, plain.last_condition_fire) == (24, None)
        for hours in (1, 168):
            made = await world.intents.create(body(condition={"expression": "NVDA < 130", "cooldown_hours": hours}))
            assert made.condition
            assert made.condition.cooldown_hours == hours
        for hours in (0, 169):
            with pytest.raises(Invalid) as refused:
                await world.intents.create(body(condition={"expression": "NVDA < 130", "cooldown_hours": hours}))
            assert [path for path, _ in refused.value.problems] == ["condition.cooldown_hours"]


async def test_ac3_2_and_3_fire_within_the_cooldown_is_answered_with_the_hours_that_remain(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "betimes.intents")
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        first = await world.intents.fire("nvda", {"status": "success"})
        assert (first.status, first.cooldown_active, first.cooldown_remaining_hours) == ("success", False, None)
        assert first.execution_id == "nvda:2"
        world.hours_pass(6.5)
        second = await world.intents.fire("nvda", {"status": "success", "trigger_data": {"price": 128.4}})
        assert (second.status, second.cooldown_active, second.cooldown_remaining_hours) == (
            "cooldown_active",
            True,
            17.5,
        )
        assert (second.execution_id, second.execution_count) == (None, 1)
        assert second.last_condition_fire == first.last_condition_fire
        assert second.next_check
        assert second.next_check.isoformat() == "2026-01-06T09:00:00+00:00"
        assert second.explanation == "Fired 6.5 h ago; the cooldown of 24 h ends at 2026-01-06T09:00:00Z."
        assert second.segment_id == "intent:nvda:3"
        assert len((await world.intents.history("nvda")).items) == 1
        assert "cooldown_active=true remaining_hours=17.5" in caplog.text


async def test_ac3_4_success_moves_the_last_condition_fire_of_conditions_only(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        await world.intents.create(body("interval", intent_id="tick"))
        assert (await world.intents.fire("nvda", {"status": "condition_not_met"})).last_condition_fire is None
        first = await world.intents.fire("nvda", {"status": "success"})
        assert first.last_condition_fire
        world.hours_pass(24)
        second = await world.intents.fire("nvda", {"status": "success"})
        assert second.last_condition_fire
        assert (second.last_condition_fire - first.last_condition_fire).total_seconds() == 86_400
        assert (await world.intents.fire("tick", {"status": "success"})).last_condition_fire is None


async def test_ac3_5_pending_flags_what_is_cooling_and_can_leave_it_out(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        for name in ("early", "cooling", "late"):
            await world.intents.create(body(intent_id=name))
            world.clock.advance(60)
        await world.intents.fire("cooling", {"status": "success"})
        world.hours_pass(1)
        shown = (await world.intents.pending()).items
        assert [(item.intent_id, item.in_cooldown) for item in shown] == [
            ("early", False),
            ("late", False),
            ("cooling", True),
        ]
        assert [item.cooldown_remaining_hours for item in shown] == [None, None, 23.0]
        assert [item.intent_id for item in (await world.intents.pending(in_cooldown=False)).items] == ["early", "late"]
        assert [item.intent_id for item in (await world.intents.pending(in_cooldown=True)).items] == ["cooling"]


async def test_ac3_6_a_claim_keeps_others_out_until_it_is_fired_or_five_minutes_old(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        claim = await world.intents.claim("nvda", {"worker": "w1"})
        assert (claim.expires_at - claim.claimed_at).total_seconds() == 300
        assert claim.intent.claimed_at == claim.claimed_at
        with pytest.raises(Refused) as refused:
            await world.others.claim("nvda")
        assert refused.value.reason == "ALREADY_CLAIMED"
        assert (await world.intents.pending()).items == []
        fired = await world.intents.fire("nvda", {"status": "condition_not_met", "claim_token": claim.claim_token})
        assert fired.status == "condition_not_met"
        assert (await world.intents.get("nvda")).claimed_at is None
        world.clock.advance(300)
        crashed = await world.intents.claim("nvda")
        assert crashed.claim_token > claim.claim_token
        world.clock.advance(299.999999)
        assert (await world.intents.pending()).items == []
        world.clock.advance(0.000001)
        assert [item.intent_id for item in (await world.intents.pending()).items] == ["nvda"]
        with pytest.raises(Refused, match="over"):
            await world.intents.fire("nvda", {"status": "success", "claim_token": crashed.claim_token})
        again = await world.others.claim("nvda")
        assert again.claim_token > crashed.claim_token
        assert again.intent.last_error == "CLAIM_EXPIRED"
