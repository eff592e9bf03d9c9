"""What a change of policy does to what waits already, domain by domain: it may come sooner, and keeps promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from betimes.admin.service import PolicyRequest
from betimes.catalogue import DECIDERS, SECTIONS
from betimes.domain.service import Caller
from betimes.engine.effects import GiveUp
from betimes.engine.replay import verify
from betimes.intents.views import FireRequest
from betimes.runs.views import TriggerRequest
from betimes.scores.service import Interaction, NewScore
from betimes.scores.sweep import SweepRequest
from betimes.sensors.views import SensorRequest
from betimes.tenancy import Tenancy
from tests.definition_requests import sensor_request
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

BURSTS = {"debounce_seconds": 3600, "cooldown_seconds": 0, "debounce_mode": "trailing"}


def at(text: str) -> datetime:
    """An instant of the Monday at which the clock starts at nine."""
    return datetime.fromisoformat(f"2026-01-05T{text}").replace(tzinfo=UTC)


async def _fails(call: Any) -> None:
    raise GiveUp("no orders today")


class Scene:
    """One tenant's services, and its policy to change."""

    def __init__(self, w: World) -> None:
        self.world = w
        self.clock = w.clock
        self.services = Tenancy(w.engine, Caller("acme", "ann"))

    async def change(self, **sections: Any) -> None:
        """Replace the tenant's overrides, and let the pass that follows run to its end."""
        await self.services.tenants.set_policy(PolicyRequest(sections))
        await self.settle()

    async def settle(self) -> None:
        while not (await self.world.engine.tick()).complete:
            pass

    async def at(self, text: str) -> None:
        self.clock.advance_to(f"2026-01-05T{text}Z")
        await self.settle()

    async def trigger(self, key: str, trigger_type: str = "SIGNAL_ARRIVED") -> Any:
        return await self.services.runs.trigger(
            TriggerRequest(account_id="acct", trigger_type=trigger_type, idempotency_key=key)
        )

    async def deferred(self) -> list[datetime]:
        return [one.defer_until for one in (await self.services.runs.run_state("acct")).deferred]

    async def tell(self, event_id: str, event_type: str = "MESSAGE", priority: str = "HIGH") -> Any:
        return await self.services.notifications.send(
            {
                "event_id": event_id,
                "user_id": "ann",
                "event_type": event_type,
                "priority_hint": priority,
                "title": f"title {event_id}",
                "message": f"{event_id} {event_id * 3}",
                "source": "chat",
                "channels": ["in_app"],
            }
        )

    async def until(self, event_id: str) -> datetime | None:
        return (await self.services.notifications.notification(event_id)).defer_until


@asynccontextmanager
async def scene(backend: Backend, folder: Path) -> AsyncIterator[Scene]:
    """When it is over, every state follows from its history."""
    executors = {"evaluator:orders": _fails}
    async with world(backend, folder, deciders=DECIDERS, sections=SECTIONS, body={}, executors=executors) as w:
        yield Scene(w)
        assert (await verify(w.store, w.engine.kinds)).findings == []
        assert w.other.kinds.names == w.engine.kinds.names


# -- scores


async def test_a_shorter_grace_makes_scores_due_sooner(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        scores = s.services.scores
        await scores.create(NewScore(user_id="ann"))
        await s.change(scores={"stages": [{"name": 1, "grace_hours": 2, "rate": "0.8", "daily_cap": 15}]})
        await s.at("13:00:00")
        swept = await scores.sweep(SweepRequest())
        assert (swept.decayed, (await scores.get("ann")).score) == (1, Decimal("48.4"))


async def test_a_longer_grace_makes_scores_due_later(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        scores = s.services.scores
        await scores.interact("ann", Interaction(type="text"))
        await s.change(scores={"stages": [{"name": 1, "grace_hours": 48, "rate": "0.8", "daily_cap": 15}]})
        s.clock.advance(30 * 3600)
        assert (await scores.sweep(SweepRequest())).processed == 0, "not even looked at"


async def test_a_status_that_pauses_now_makes_scores_due_no_more(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        scores = s.services.scores
        await s.change(scores={"active_statuses": ["active", "resting"]})
        await scores.create(NewScore(user_id="ann", game_status="resting"))
        await s.change(scores={"paused_statuses": ["boss_fight", "game_over", "won", "resting"]})
        s.clock.advance(30 * 3600)
        assert (await scores.sweep(SweepRequest())).processed == 0
        await s.change(scores={"active_statuses": ["active", "resting"]})
        assert (await scores.sweep(SweepRequest())).decayed == 1


async def test_a_score_whose_stage_is_gone_stays_as_it_is(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.services.scores.create(NewScore(user_id="ann", chapter=2))
        await s.change(scores={"stages": [{"name": 1, "grace_hours": 2, "rate": "0.8", "daily_cap": 15}]})
        assert s.world.reported() == []


# -- notifications


async def test_new_digest_windows_bring_what_is_gathered_forward(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.change(notifications={"jitter_s": 0})
        await s.tell("d1", "DIGEST", "MEDIUM")
        assert await s.until("d1") == at("18:00:00")
        await s.change(notifications={"jitter_s": 0, "digest_windows": ["0 12 * * *"]})
        assert await s.until("d1") == at("12:00:00")
        await s.at("12:00:00")
        assert (await s.services.notifications.notification("d1")).status == "digested"


async def test_what_was_promised_for_a_digest_is_not_put_off(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.change(notifications={"jitter_s": 0})
        await s.tell("d1", "DIGEST", "MEDIUM")
        await s.change(notifications={"jitter_s": 0, "digest_windows": ["0 20 * * *"]})
        assert await s.until("d1") == at("18:00:00")


async def test_a_shorter_cooldown_of_a_type_lets_what_waits_go(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.change(notifications={"event_types": {"ALERT": {"weight": "0.7", "cooldown_s": 7200}}})
        await s.tell("a1", "ALERT")
        await s.tell("a2", "ALERT")
        assert await s.until("a2") == at("11:00:00")
        await s.change(notifications={"event_types": {"ALERT": {"weight": "0.7", "cooldown_s": 600}}})
        assert await s.until("a2") == at("09:10:00")
        await s.change(notifications={})
        assert (await s.services.notifications.notification("a2")).status == "delivered"


async def test_a_shorter_pause_after_a_low_score_counts_from_the_arrival(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.tell("u1", "UPDATE", "MEDIUM")
        assert await s.until("u1") == at("09:30:00")
        await s.at("09:02:00")
        await s.change(notifications={"score_defer_s": 300})
        assert await s.until("u1") == at("09:05:00")
        await s.change(notifications={"score_defer_s": 3600})
        assert await s.until("u1") == at("09:05:00"), "LATER is a promise"


async def test_what_a_cap_put_off_waits_for_the_instant_it_was_told(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        for number in range(3):
            await s.tell(f"m{number}")
        await s.tell("m3")
        told = await s.until("m3")
        await s.change(notifications={"fatigue": {"burst": {"cap": 100, "span_s": 300}}})
        assert await s.until("m3") == told == at("09:15:00")


# -- runs


async def test_a_burst_is_held_for_as_long_as_the_policy_says_now(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.change(runs={"registry": {"SIGNAL_ARRIVED": BURSTS}})
        await s.trigger("k1")
        assert await s.deferred() == [at("10:00:00")]
        await s.at("09:05:00")
        await s.change(runs={"registry": {"SIGNAL_ARRIVED": {**BURSTS, "debounce_seconds": 60}}})
        assert await s.deferred() == [at("09:06:00")]
        await s.change(runs={"registry": {"SIGNAL_ARRIVED": BURSTS}})
        assert await s.deferred() == [at("09:06:00")]
        await s.at("09:06:00")
        retried = (await s.services.runs.trigger_status("k1")).retry
        assert retried
        assert (retried.result, retried.evaluated_at) == ("ALLOW", at("09:06:00"))


async def test_a_deferred_run_keeps_the_instant_of_its_one_retry(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        await s.trigger("k1")
        s.clock.advance(90)
        assert (await s.trigger("k2")).result == "DEFER"
        assert await s.deferred() == [at("09:05:00")]
        entry = {"debounce_seconds": 60, "cooldown_seconds": 100}
        await s.change(runs={"registry": {"SIGNAL_ARRIVED": entry}})
        assert await s.deferred() == [at("09:05:00")]
        await s.at("09:05:00")
        retried = (await s.services.runs.trigger_status("k2")).retry
        assert retried
        assert (retried.result, retried.evaluated_at) == ("ALLOW", at("09:05:00"))


async def test_runs_that_nobody_has_started_get_the_longer_time_and_never_a_shorter(
    backend: Backend, tmp_path: Path
) -> None:
    async with scene(backend, tmp_path) as s:
        run_id = (await s.trigger("k1")).run_id
        await s.change(runs={"start_deadline_seconds": 172_800})
        await s.change(runs={"start_deadline_seconds": 60})
        s.clock.advance(172_799)
        await s.settle()
        assert (await s.services.runs.run(run_id)).status == "allowed"
        s.clock.advance(1)
        await s.settle()
        assert (await s.services.runs.run(run_id)).status == "abandoned"


# -- intents and sensors


async def test_an_intent_that_failed_is_tried_again_sooner(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        intents = s.services.intents
        made = await intents.create(
            {
                "intent_id": "tea",
                "user_id": "ann",
                "trigger_type": "price",
                "action_type": "notify",
                "action_context": "Tell me.",
                "condition": {"ticker": "NVDA", "operator": "<", "value": 130},
            }
        )
        await intents.fire(made.intent_id, FireRequest(status="failed"))
        assert (await intents.get("tea")).next_check == at("09:15:00")
        await s.change(intents={"retry_minutes": 2})
        assert (await intents.get("tea")).next_check == at("09:02:00")
        await s.change(intents={"retry_minutes": 60})
        assert (await intents.get("tea")).next_check == at("09:02:00")


async def test_a_sensor_that_failed_polls_again_sooner(backend: Backend, tmp_path: Path) -> None:
    async with scene(backend, tmp_path) as s:
        sensors = s.services.sensors
        await s.change(automation={"backoff_min_s": 600})
        request: SensorRequest = sensor_request(
            {
                "sensor_id": "orders",
                "sensor_type": "poll",
                "target": {"kind": "handler", "name": "brief"},
                "evaluator": {"kind": "handler", "name": "orders"},
            }
        )
        await sensors.create(request)
        await s.settle()
        assert (await sensors.get("orders")).next_evaluation_at == at("09:10:30")
        await s.change(automation={"backoff_min_s": 10})
        assert (await sensors.get("orders")).next_evaluation_at == at("09:00:40")
        await s.change(automation={"backoff_min_s": 600})
        assert (await sensors.get("orders")).next_evaluation_at == at("09:00:40")
