"""A clock that is moved: everything on the way happens, in order, at its instant, and nothing by itself."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.app import Betimes
from betimes.core.errors import Invalid
from betimes.core.instants import render
from betimes.engine.virtual_clock import VirtualClock
from betimes.runs.views import TriggerRequest

BRIEF = {"action_type": "briefing", "action_context": "what moved since yesterday"}


async def test_alarms_ring_at_their_own_instants_and_in_order() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    rung: list[str] = []

    @bt.schedule("0 * * * *")
    def hourly(payload: Any) -> None:
        rung.append(render(clock()))

    @bt.schedule("30 10 * * *")
    def daily(payload: Any) -> None:
        rung.append("daily " + render(clock()))

    async with bt:
        done = await bt.advance(to="2026-01-05T12:00:00Z")
    assert rung == [
        "2026-01-05T10:00:00Z",
        "daily 2026-01-05T10:30:00Z",
        "2026-01-05T11:00:00Z",
        "2026-01-05T12:00:00Z",
    ]
    assert (done.complete, done.fired) == (True, {"schedule": 4})


async def test_due_intents_are_on_the_way_too() -> None:
    clock = VirtualClock("2026-01-05T05:00:00Z")
    bt = Betimes("memory://", clock=clock)
    told: list[str] = []

    @bt.handler("briefing")
    def briefing(action: Any) -> str:
        told.append(render(clock()))
        return "good morning"

    async with bt:
        await bt.intents.create(
            {"intent_id": "brief", "user_id": "ana", "trigger_type": "cron", "schedule": {"cron": "0 8 * * *"}, **BRIEF}
        )
        done = await bt.advance(by_s=3 * 86_400)
    assert told == ["2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-07T08:00:00Z"]
    assert done.fired["intent"] >= 3
    assert done.next_due_at is not None
    assert render(done.next_due_at) == "2026-01-08T08:00:00Z"


async def test_nothing_happens_by_itself() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    called: list[Any] = []
    bt.run("SIGNAL_ARRIVED")(called.append)
    async with bt:
        request = TriggerRequest(account_id="a", trigger_type="SIGNAL_ARRIVED", idempotency_key="k")
        assert (await bt.runs.trigger(request)).result == "ALLOW"
        assert called == []
        done = await bt.advance(by_s=0)
        assert len(called) == 1
        assert done.effects == {"done": 2}, "the run, and the look at what waits after the type was registered"


async def test_time_does_not_go_back_and_is_asked_for_in_one_way() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z")) as bt:
        with pytest.raises(Invalid, match="cannot go back"):
            await bt.advance(to="2026-01-05T08:00:00Z")
        with pytest.raises(Invalid, match="either"):
            await bt.advance()
        with pytest.raises(Invalid, match="either"):
            await bt.advance(to="2026-01-05T10:00:00Z", by_s=1)
    async with Betimes("memory://", workers=False) as bt:
        with pytest.raises(Invalid, match="virtual clock"):
            await bt.advance(by_s=1)


async def test_a_policy_put_in_force_is_named_by_its_fingerprint() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        before = (await bt.engine.policy_of("acme")).fingerprint
        after = await bt.apply_policy({"scores": {"start": 40}})
        assert after != before
        assert (await bt.engine.policy_of("acme")).fingerprint == after
        with pytest.raises(Invalid) as refused:
            await bt.apply_policy({"scores": {"start": -1}, "weather": {}})
        assert {path.partition(".")[0] for path, _ in refused.value.problems} == {"scores", "weather"}
        assert (await bt.engine.policy_of("acme")).fingerprint == after


async def test_it_can_be_opened_again() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes("memory://", clock=clock)
    called: list[Any] = []
    bt.schedule("0 * * * *", schedule_id="hourly")(_hourly(called))
    for _ in range(2):
        async with bt:
            await bt.advance(by_s=3_600)
    assert len(called) == 2


def _hourly(called: list[Any]) -> Any:
    def hourly(payload: Any) -> None:
        called.append(payload)

    return hourly
