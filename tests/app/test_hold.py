"""A hold over several domains, as a person meets it: nothing fires, nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.core.errors import Invalid, Refused
from betimes.core.instants import render
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.engine.store import EffectQuery, LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.sensors.model import Evaluation
from tests.http.stores import STORES, StoreName, application_on

START = "2026-01-05T09:00:00Z"
TEN = "2026-01-05T10:00:00Z"
NOON = "2026-01-05T12:00:00Z"
SIGNAL = {"account_id": "acct", "trigger_type": "SIGNAL_ARRIVED"}


class Shop:
    """An application that notes everything it does outside."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.done: list[str] = []
        self.bt: Betimes

    def declare(self, bt: Betimes) -> None:
        self.bt = bt
        bt.run("SIGNAL_ARRIVED", debounce_seconds=0, cooldown_seconds=0)(self._noting("run"))
        bt.schedule("0 * * * *", schedule_id="hourly", max_catchup_ticks=2)(self._noting("tick"))
        bt.handler("briefing")(self._noting("intent"))

        @bt.sensor("30m", sensor_id="sensor", target={"kind": "sweep"})
        async def sensor(cursor: Any, *_: Any) -> Evaluation:
            self.note("sensor")
            return Evaluation(status="nothing new")

    def _noting(self, what: str) -> Callable[[Any], str]:
        async def note(payload: Any) -> str:
            self.note(what)
            return what

        return note  # type: ignore[return-value]

    def note(self, what: str) -> None:
        self.done.append(f"{what} {render(self.clock())[8:16]}")

    def taken(self) -> list[str]:
        done, self.done = self.done, []
        return sorted(done)

    async def advance(self, to: str) -> list[str]:
        result = await self.bt.advance(to=to)
        assert result.complete
        return self.taken()

    async def heard(self) -> list[str]:
        items = (await self.bt.notifications.inbox("ann", limit=100)).items
        return [f"{item.title} {item.delivered_at:%dT%H:%M}" for item in reversed(items)]

    async def hold(self, *domains: str, until: str = NOON, reason: str = "a wrong template") -> None:
        named = {"domains": list(domains)} if domains else {}
        assert (await self.bt.mine.tenants.set_hold({**named, "until": until, "reason": reason})).held

    async def let_everything_wait(self) -> None:
        """Leave an hourly schedule, a sensor, a deferred notification, an intent and a run that wait at 09:00."""
        await self.bt.notifications.set_preferences("ann", {"quiet_hours": [{"start": "08:00", "end": "10:00"}]})
        await self.bt.notifications.send(note("early"))
        await self.bt.intents.create(
            {
                "intent_id": "brief",
                "user_id": "ann",
                "trigger_type": "cron",
                "schedule": {"cron": "30 * * * *"},
                "action_type": "briefing",
                "action_context": "the day",
            }
        )
        await self.bt.runs.trigger({**SIGNAL, "idempotency_key": "one"})


def note(title: str, **more: Any) -> dict[str, Any]:
    return {
        "event_id": title,
        "user_id": "ann",
        "event_type": "ALERT",
        "priority_hint": "HIGH",
        "source": "desk",
        "title": title,
        "message": f"about {title}",
        "channels": ["in_app"],
        **more,
    }


@asynccontextmanager
async def open_shop(store: StoreName, folder: Path) -> AsyncIterator[Shop]:
    shop = Shop(VirtualClock(START))
    async with application_on(store, folder, shop.clock, shop.declare) as bt:
        await bt.tick()  # the sensor's first look
        shop.taken()
        yield shop
        report = await verify(bt.engine.store, bt.engine.kinds)
        assert report.is_sound, report.findings


stores = pytest.mark.parametrize("store", STORES)


@stores
async def test_nothing_fires_during_a_hold_and_all_of_it_afterwards(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.let_everything_wait()
        await shop.hold()
        assert await shop.advance("2026-01-05T11:59:59Z") == []
        assert await shop.heard() == []
        assert await shop.advance(NOON) == [
            "intent 05T12:00",
            "run 05T12:00",
            "sensor 05T12:00",
            "tick 05T12:00",
            "tick 05T12:00",
        ], "of three ticks the schedule catches up two, as after any down time"
        assert [one.partition(" ")[0] for one in await shop.heard()] == ["early"]
        assert not (await shop.bt.mine.tenants.hold()).held
        assert await shop.advance("2026-01-05T12:00:30Z") == [], "nothing comes twice"
        assert (await shop.bt.runs.trigger_status("one")).status == "allowed"
        done = await shop.advance("2026-01-05T13:00:00Z")
        assert done == ["intent 05T12:30", "sensor 05T12:30", "sensor 05T13:00", "tick 05T13:00"]


@stores
async def test_a_hold_that_is_ended_lets_everything_go_at_once(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.let_everything_wait()
        await shop.hold()
        assert await shop.advance("2026-01-05T10:15:00Z") == []
        await shop.bt.mine.tenants.end_hold(note="the template is right")
        assert not (await shop.bt.mine.tenants.hold()).held
        assert await shop.advance("2026-01-05T10:15:00Z") == [
            "intent 05T10:15",
            "run 05T10:15",
            "sensor 05T10:15",
            "tick 05T10:15",
        ]
        assert await shop.advance("2026-01-05T10:16:00Z") == []
        await shop.bt.mine.tenants.end_hold()
        events = [
            event
            for segment in await shop.bt.engine.store.ledger(LedgerQuery(tenant="default", kind="tenant"))
            for event in (segment.events, segment.actor)
            if "Hold" in segment.events
        ]
        assert len(events) == 4, "set and ended; to end what has ended writes nothing"
        assert "the template is right" in events[2]


@stores
async def test_what_is_asked_during_a_hold_is_answered_and_happens_later(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.hold()
        shop.clock.advance_to(TEN)
        sent = await shop.bt.notifications.send(note("during"))
        assert sent.outcome == "NOW", "the verdict is taken as usual"
        run = await shop.bt.runs.trigger({**SIGNAL, "idempotency_key": "during"})
        assert run.result == "ALLOW"
        assert (await shop.bt.runs.trigger({**SIGNAL, "idempotency_key": "during"})).result == "SKIP"
        await shop.bt.schedules.trigger("hourly")
        assert await shop.advance("2026-01-05T11:00:00Z") == []
        assert await shop.heard() == []
        pending = await shop.bt.engine.store.effects(EffectQuery(tenant="default", status="pending"))
        assert sorted(one.executor for one in pending) == [
            "handler:run.SIGNAL_ARRIVED",
            "handler:schedule.hourly",
            "send",
        ]
        done = await shop.advance(NOON)
        assert done.count("run 05T12:00") == 1
        assert done.count("tick 05T12:00") == 3, "one by hand, two of the clock"
        assert await shop.heard() == ["during 05T10:00"], "as old as its verdict"


@stores
async def test_a_run_that_waits_longer_than_it_may_take_to_start_still_starts(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.let_everything_wait()
        run_id = (await shop.bt.runs.trigger_status("one")).run_id or ""
        month = "2026-02-04T09:00:00Z"
        await shop.hold(until=month)
        assert await shop.advance("2026-02-04T08:59:59Z") == []
        done = await shop.advance(month)
        assert done == ["intent 04T09:00", "run 04T09:00", "sensor 04T09:00", "tick 04T09:00", "tick 04T09:00"]
        assert (await shop.bt.runs.run(run_id)).status == "succeeded"
        skipped = [tick.reason for tick in (await shop.bt.schedules.ticks("hourly", limit=10)).items if tick.reason]
        assert skipped, "those outside of the schedule's window are recorded as skipped"
        await shop.advance("2026-02-04T10:05:00Z")
        assert await shop.heard() == ["early 04T10:01"], "judged again: it is quiet until ten"


@stores
async def test_one_domain_is_held_and_the_others_go_on(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.let_everything_wait()
        await shop.hold("notifications", "runs")
        done = await shop.advance("2026-01-05T10:59:00Z")
        assert done == [
            "intent 05T09:30",
            "intent 05T10:30",
            "sensor 05T09:30",
            "sensor 05T10:00",
            "sensor 05T10:30",
            "tick 05T10:00",
        ]
        assert await shop.heard() == []
        await shop.hold("automation", reason="not this one")
        done = await shop.advance("2026-01-05T11:45:00Z")
        assert done == ["intent 05T11:30", "run 05T10:59"], "a second hold takes the place of the first"
        assert await shop.heard() == ["early 05T10:59"]
        assert await shop.advance(NOON) == ["sensor 05T12:00", "tick 05T12:00", "tick 05T12:00"]


@stores
async def test_other_tenants_are_not_held(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.hold()
        other = shop.bt.for_caller(Caller("other"))
        await other.notifications.set_preferences("ann", {"quiet_hours": [{"start": "08:00", "end": "10:00"}]})
        await other.notifications.send(note("theirs"))
        await shop.bt.notifications.send(note("ours"))
        target = {**note("at ten"), "kind": "notification", "user_id": "bob"}
        del target["event_id"]
        await other.schedules.create({"schedule_id": "ten", "cron": "0 10 * * *", "target": target})
        await shop.bt.runs.trigger({**SIGNAL, "idempotency_key": "ours"})
        assert await shop.advance("2026-01-05T11:00:00Z") == []
        assert [item.title for item in (await other.notifications.inbox("bob")).items] == ["at ten"]
        assert [item.title for item in (await other.notifications.inbox("ann")).items] == ["theirs"]
        assert not (await other.tenants.hold()).held
        assert await shop.heard() == []
        assert "run 05T12:00" in await shop.advance(NOON)
        assert [item.partition(" ")[0] for item in await shop.heard()] == ["ours"]


@stores
async def test_nothing_is_handed_out_during_a_hold(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        bt = shop.bt
        await bt.intents.create(
            {
                "intent_id": "theirs",
                "user_id": "ann",
                "trigger_type": "cron",
                "schedule": {"cron": "30 * * * *"},
                "action_type": "analysis",
                "action_context": "the day",
                "worker": "outside",
            }
        )
        await bt.apply_policy({"runs": {"registry": {"ORDER": {"debounce_seconds": 0, "cooldown_seconds": 0}}}})
        asked = await bt.runs.trigger({"account_id": "shop", "trigger_type": "ORDER", "idempotency_key": "k"})
        run_id = asked.run_id or ""
        await shop.advance(TEN)
        await shop.hold()
        assert (await bt.intents.claim_many({"worker": "w"})).items == []
        assert (await bt.intents.claim_many({"worker": "w", "user_id": "ann"})).items == []
        assert await bt.runs.claim_many({"worker": "w"}) == []
        assert await bt.runs.claim_many({"worker": "w", "account_id": "shop"}) == []
        for claim in (bt.intents.claim("theirs", {"worker": "w"}), bt.runs.claim(run_id, {"worker": "w"})):
            with pytest.raises(Refused, match="held until 2026-01-05T12:00:00Z: a wrong template") as refused:
                await claim
            assert refused.value.reason == "HELD"
        swept = await bt.scores.sweep()
        assert (swept.processed, swept.complete) == (0, True)
        await bt.mine.tenants.end_hold()
        assert [claim.run.run_id for claim in await bt.runs.claim_many({"worker": "w"})] == [run_id]
        assert [claim.intent.intent_id for claim in (await bt.intents.claim_many({"worker": "w"})).items] == ["theirs"]


@stores
async def test_what_was_begun_before_a_hold_can_be_finished_in_it(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        bt = shop.bt
        await bt.apply_policy({"runs": {"registry": {"ORDER": {"debounce_seconds": 0, "cooldown_seconds": 0}}}})
        await bt.runs.trigger({"account_id": "shop", "trigger_type": "ORDER", "idempotency_key": "k"})
        await shop.advance(START)
        [claim] = await bt.runs.claim_many({"worker": "w", "lease_s": 600})
        await shop.hold()
        await bt.runs.renew(claim.run.run_id, {"claim_token": claim.claim_token, "lease_s": 600})
        done = await bt.runs.complete(claim.run.run_id, {"claim_token": claim.claim_token, "status": "succeeded"})
        assert done.status == "succeeded"


@stores
async def test_scores_fade_after_a_hold_by_the_time_that_has_passed(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.bt.scores.create({"user_id": "ann"})
        await shop.hold("scores", until="2026-01-20T09:00:00Z")
        await shop.bt.advance(to="2026-01-20T08:59:00Z")
        held = await shop.bt.scores.get("ann")
        assert held.score == 50
        assert held.effective_score < 50
        await shop.bt.advance(to="2026-01-20T11:00:00Z")
        assert (await shop.bt.scores.get("ann")).score < 50


@stores
async def test_a_schedule_that_is_changed_during_a_hold_keeps_what_it_owed(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.hold("automation", until="2026-01-05T11:40:00Z")
        await shop.advance("2026-01-05T11:30:00Z")
        changed = {"cron": "45 * * * *", "target": {"kind": "handler", "name": "schedule.hourly"}}
        await shop.bt.schedules.put("hourly", {**changed, "schedule_id": "hourly"})
        assert shop.taken() == []
        done = await shop.advance("2026-01-05T11:45:00Z")
        assert done == ["sensor 05T11:40", "tick 05T11:40", "tick 05T11:40", "tick 05T11:45"]


@stores
async def test_a_tick_is_complete_although_much_is_held(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.let_everything_wait()
        await shop.hold()
        shop.clock.advance_to("2026-01-05T11:00:00Z")
        for tenant in (None, "default"):
            done = await shop.bt.tick(tenant=tenant)
            assert (done.complete, done.fired, done.effects) == (True, {}, {})
            assert done.next_due_at is not None
            assert render(done.next_due_at) == NOON, "when the hold ends"
        backlog = await shop.bt.ledger.backlog()
        assert backlog.hold
        assert (backlog.alarms_due, backlog.hold.reason) == (3, "a wrong template")
        assert backlog.effects_pending == 1, "the run that was asked for"
        assert backlog.orphaned == {}, "no executor is missing for what is held"
        assert (await shop.bt.engine.backlog()).alarms_due == 0, "nothing is late"


@stores
async def test_a_dry_run_of_a_hold_holds_nothing(store: StoreName, tmp_path: Path) -> None:
    async with open_shop(store, tmp_path) as shop:
        await shop.bt.runs.trigger({**SIGNAL, "idempotency_key": "k"})
        assert (await shop.bt.dry_run().tenants.set_hold({"until": NOON, "reason": "to see"})).held
        assert not (await shop.bt.mine.tenants.hold()).held
        assert await shop.advance(START) == ["run 05T09:00"]


async def test_a_hold_is_bounded_and_names_what_it_knows(tmp_path: Path) -> None:
    async with open_shop("sqlite", tmp_path) as shop:
        tenants = shop.bt.mine.tenants
        for until in ("2026-02-04T09:00:01Z", START, "2026-01-01T00:00:00Z"):
            with pytest.raises(Invalid, match="within 30 days"):
                await tenants.set_hold({"until": until, "reason": "why"})
        with pytest.raises(Invalid) as refused:
            await tenants.set_hold({"domains": ["weather"], "until": NOON, "reason": ""})
        assert {path for path, _ in refused.value.problems} == {"domains[0]", "reason"}
        assert "automation" in str(refused.value.problems)
        with pytest.raises(Invalid):
            await tenants.set_hold({"domains": [], "until": NOON, "reason": "x" * 201})
        await tenants.set_hold({"domains": ["runs", "scores"], "until": NOON, "reason": "why"})
        version = (await shop.bt.engine.store.load([StreamId("default", "tenant", "default")])).popitem()[1].version
        again = await tenants.set_hold({"domains": ["scores", "runs", "runs"], "until": NOON, "reason": "why"})
        assert again.hold
        assert again.hold.domains == ["runs", "scores"]
        after = (await shop.bt.engine.store.load([StreamId("default", "tenant", "default")])).popitem()[1].version
        assert after == version, "the same again writes nothing"
