"""All domains on one engine: what one causes in another, and how it comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from betimes.catalogue import DECIDERS, SECTIONS
from betimes.core.deciders import EffectCall
from betimes.core.errors import Refused
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.domain.targets import NotificationTarget, TriggerTarget
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.notifications.service import Notifications
from betimes.runs.service import Runs
from betimes.runs.views import TriggerRequest
from betimes.runs.worker import RunStarter
from betimes.schedules.service import Schedules
from betimes.schedules.views import ScheduleRequest
from betimes.scores.service import Interaction, NewScore, Scores, StatusChange
from tests.engine.worlds import World, world
from tests.stores.backends import Backend

HANDLED = {"registry": {"TIME_RITUAL_DAILY_BRIEF": {"handler": {"kind": "python", "name": "brief"}}}}


@asynccontextmanager
async def everything(backend: Backend, folder: Path, **sections: Any) -> AsyncIterator[World]:
    starter = RunStarter("w")

    async def brief(call: EffectCall) -> str:
        return f"brief of {call.payload['account_id']}"

    executors = starter.wrap({"handler:brief": brief})
    async with world(backend, folder, deciders=DECIDERS, sections=SECTIONS, body=sections, executors=executors) as w:
        starter.engine = w.engine
        yield w


async def settle(w: World) -> None:
    """Ring, send and carry out until nothing is due."""
    for _ in range(10):
        if (await w.engine.tick()).complete:
            return
    raise AssertionError("something stays due")


async def test_a_schedule_triggers_a_run_and_its_tick_shows_what_became_of_it(backend: Backend, tmp_path: Path) -> None:
    async with everything(backend, tmp_path, runs=HANDLED) as w:
        caller = Caller("acme")
        schedules, runs = Schedules(w.engine, caller), Runs(w.engine, caller)
        target = TriggerTarget("TIME_RITUAL_DAILY_BRIEF", "acct")
        await schedules.create(ScheduleRequest(schedule_id="brief", cron="0 10 * * *", target=target, payload={"n": 1}))
        w.clock.advance_to("2026-01-05T10:00:00Z")
        await settle(w)
        (tick,) = (await schedules.ticks("brief")).items
        assert tick.run
        assert (tick.status, tick.run.status) == ("fired", "succeeded")
        run = await runs.run(tick.run_id or "")
        assert (run.run_key, run.result, run.payloads) == (tick.run_key, "brief of acct", [{"n": 1}])
        assert (await runs.trigger_status(tick.run_key or "")).status == "allowed"


async def test_a_schedule_that_may_not_overlap_waits_for_a_deferred_run(backend: Backend, tmp_path: Path) -> None:
    async with everything(backend, tmp_path, runs=HANDLED) as w:
        caller = Caller("acme")
        schedules, runs = Schedules(w.engine, caller), Runs(w.engine, caller)
        target = TriggerTarget("TIME_RITUAL_DAILY_BRIEF", "acct")
        await schedules.create(ScheduleRequest(schedule_id="brief", cron="*/2 * * * *", target=target, overlap="skip"))
        w.clock.advance_to("2026-01-05T09:01:30Z")
        await runs.trigger(TriggerRequest(account_id="acct", trigger_type="SIGNAL_ARRIVED", idempotency_key="s"))
        w.clock.advance_to("2026-01-05T09:02:00Z")
        await settle(w)
        w.clock.advance_to("2026-01-05T09:04:00Z")
        await settle(w)
        skipped, fired = (await schedules.ticks("brief")).items
        assert (fired.status, skipped.status, skipped.reason) == ("fired", "skipped", "OVERLAP")
        w.clock.advance_to("2026-01-05T09:06:30Z")
        await settle(w)
        assert (await runs.run(fired.run_id or "")).status == "succeeded", "deferred to 09:06:30, then run"
        w.clock.advance_to("2026-01-05T09:08:00Z")
        await settle(w)
        last = (await schedules.ticks("brief")).items[0]
        assert last.run
        assert (last.status, last.run.status) == ("fired", "skipped"), "the debounce of the brief"


async def test_a_schedule_notifies_and_its_run_ends_with_the_delivery(backend: Backend, tmp_path: Path) -> None:
    async with everything(backend, tmp_path) as w:
        caller = Caller("acme")
        schedules, notifications = Schedules(w.engine, caller), Notifications(w.engine, caller)
        target = NotificationTarget("REMINDER", "Stand up", "It is ten", "calendar", ("in_app",), "ann", "HIGH")
        await schedules.create(ScheduleRequest(schedule_id="standup", cron="0 10 * * *", target=target))
        w.clock.advance_to("2026-01-05T10:00:00Z")
        await settle(w)
        (tick,) = (await schedules.ticks("standup")).items
        told = await notifications.notification(tick.run_key or "")
        assert told.outcome == "NOW"


async def test_a_scheduled_trigger_over_the_tenants_cap_runs_at_the_promised_instant_with_its_correlation(
    backend: Backend, tmp_path: Path
) -> None:
    registry = {"SIGNAL_ARRIVED": {"cooldown_seconds": 0, "max_per_tenant_per_hour": 1}}
    async with everything(backend, tmp_path, runs={"registry": registry}) as w:
        caller = Caller("acme")
        schedules, runs = Schedules(w.engine, caller), Runs(w.engine, caller)
        target = TriggerTarget("SIGNAL_ARRIVED", "acct")
        await schedules.create(ScheduleRequest(schedule_id="s", cron="0 10 * * *", target=target))
        w.clock.advance_to("2026-01-05T10:00:00Z")
        await runs.trigger(TriggerRequest(account_id="b", trigger_type="SIGNAL_ARRIVED", idempotency_key="first"))
        await settle(w)
        (tick,) = (await schedules.ticks("s")).items
        waiting = await runs.trigger_status(tick.run_key or "")
        assert (waiting.status, waiting.verdict.reason) == ("deferred", "TENANT_HOURLY_CAP")
        assert waiting.verdict.defer_until == datetime(2026, 1, 5, 11, tzinfo=UTC)
        w.clock.advance_to("2026-01-05T11:00:00.7Z")
        await settle(w)
        done = await runs.trigger_status(tick.run_key or "")
        assert (done.status, done.correlation_id) == ("allowed", tick.run_key)
        run = await runs.run(done.run_id or "")
        assert run.correlation_id == tick.run_key
        found = await w.engine.store.ledger(LedgerQuery(tenant="acme", correlation=tick.run_key, limit=9))
        assert [segment.stream.kind for segment in found] == ["account", "quota"]


async def test_a_game_over_tells_the_person(backend: Backend, tmp_path: Path) -> None:
    target = {
        "kind": "notification",
        "event_type": "ALERT",
        "title": "It is over",
        "message": "Your score is 0",
        "source": "scores",
        "channels": ["in_app"],
        "priority_hint": "HIGH",
    }
    async with everything(backend, tmp_path, hooks=[{"on": ["GAME_OVER"], "target": target}]) as w:
        scores, notifications = Scores(w.engine, Caller("acme")), Notifications(w.engine, Caller("acme"))
        await scores.create(NewScore(user_id="ann", score=Decimal(1)))
        w.clock.advance(86_400 * 3)
        with pytest.raises(Refused):
            await scores.set_status("ann", StatusChange(game_status="boss_fight"))
        await settle(w)
        told = await notifications.notification("score:ann:2:hook:0")
        assert (told.user_id, told.outcome) == ("ann", "NOW")


async def test_a_score_falls_again_only_after_the_pause_that_was_set_twice(backend: Backend, tmp_path: Path) -> None:
    async with everything(backend, tmp_path) as w:
        scores = Scores(w.engine, Caller("acme"))
        await scores.create(NewScore(user_id="ann"))
        await scores.set_status("ann", StatusChange(game_status="boss_fight", timeout_seconds=3_600))
        w.clock.advance(1_800)
        again = await scores.set_status("ann", StatusChange(game_status="boss_fight", reason="round two"))
        assert again.paused_until == datetime(2026, 1, 5, 10, tzinfo=UTC)
        w.clock.advance(1_800 + 25 * 3_600)
        await settle(w)
        assert (await scores.sweep()).decayed == 1
        assert (await scores.get("ann")).score == Decimal("49.2")


async def test_a_game_over_starts_a_run_by_a_hook(backend: Backend, tmp_path: Path) -> None:
    hooks = [{"on": ["GAME_OVER"], "target": {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED"}}]
    async with everything(backend, tmp_path, hooks=hooks) as w:
        scores, runs = Scores(w.engine, Caller("acme")), Runs(w.engine, Caller("acme"))
        await scores.create(NewScore(user_id="ann", score=Decimal(1)))
        w.clock.advance(86_400 * 3)
        result = await scores.sweep()
        assert result.game_overs == 1
        await settle(w)
        (run,) = (await runs.runs()).items
        assert run.account_id == "ann"
        assert run.idempotency_key.startswith("score:ann:")
        assert run.correlation_id == run.idempotency_key


async def test_everything_replays_to_the_same_bytes(backend: Backend, tmp_path: Path) -> None:
    hooks = [{"on": ["RUN_DECISION_DEFERRED"], "target": {"kind": "trigger", "trigger_type": "POSTURE_CHANGE"}}]
    async with everything(backend, tmp_path, hooks=hooks, runs=HANDLED) as w:
        caller = Caller("acme")
        runs, scores = Runs(w.engine, caller), Scores(w.engine, caller)
        await Schedules(w.engine, caller).create(
            ScheduleRequest(
                schedule_id="s", cron="*/5 * * * *", target=TriggerTarget("SIGNAL_ARRIVED", "ann"), max_catchup_ticks=3
            )
        )
        await scores.interact("ann", Interaction(type="text"))
        for place in range(20):
            w.clock.advance(211)
            asked = TriggerRequest(account_id="ann", trigger_type="LIFECYCLE_STATE_CHANGE", idempotency_key=f"k{place}")
            await runs.trigger(asked)
            await settle(w)
        await scores.sweep()
        report = await verify(w.engine.store, w.engine.kinds)
        assert report.is_sound, report.findings
        assert StreamId("acme", "schedule", "s") in await w.engine.store.load([StreamId("acme", "schedule", "s")])
