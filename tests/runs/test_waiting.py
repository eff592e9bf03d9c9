"""What became of a trigger that had to wait, and triggers that are cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.core.deciders import Call
from betimes.core.errors import Invalid, NotFound, Refused
from betimes.engine.replay import verify
from betimes.runs.counters import SlotReturned
from betimes.runs.model import CancelTrigger, RequestRun, RunSkipped
from betimes.runs.views import EvaluateRequest
from tests.runs.scenes import HOUR, NINE, QUOTA, SECOND, account, entry, share_quota, signal
from tests.runs.worlds import runs_world
from tests.stores.backends import Backend

DEFERRED = {"on": ["RUN_DECISION_DEFERRED"], "target": {"kind": "webhook", "url": "https://example.org/deferred"}}
TRAILING = {"EDIT": entry(debounce_seconds=60, debounce_mode="trailing")}


def published(scenario: Any) -> list[dict[str, Any]]:
    return [effect.payload["body"]["detail"] for effect in scenario.decision.effects if isinstance(effect, Call)]


def test_every_deferral_is_published_also_that_of_a_trigger_that_joins() -> None:
    scenario = account(hooks=[DEFERRED], registry=TRAILING).when(RequestRun("EDIT", correlation="c1"), key="k1")
    assert [told["original_idempotency_key"] for told in published(scenario)] == ["k1"]
    scenario.at(NINE + 10 * SECOND).when(RequestRun("EDIT", correlation="c2"), key="k2")
    assert published(scenario) == [
        {
            "tenant_id": "tenant",
            "account_id": "acct",
            "trigger_type": "EDIT",
            "defer_until_epoch": NINE // SECOND + 70,
            "retry_after_seconds": 60,
            "original_idempotency_key": "k2",
            "correlation_id": "c2",
        }
    ]


def test_a_cancelled_trigger_gives_its_slot_back_and_asks_for_no_run() -> None:
    hook = {"on": ["RUN_DECISION"], "target": {"kind": "webhook", "url": "https://example.org/decision"}}
    scenario = account(hooks=[hook], registry={"SIGNAL_ARRIVED": entry(max_per_tenant_per_hour=1)})
    for key in ("k1", "k2"):
        scenario.when(signal(), key=key)
        share_quota(scenario)
    scenario.when(CancelTrigger("k2")).then_verdict("NEVER", "CANCELLED").then_effects()
    scenario.then(RunSkipped("k2", "SIGNAL_ARRIVED", "CANCELLED", NINE))
    scenario.then_also(QUOTA, SlotReturned("SIGNAL_ARRIVED", NINE + HOUR, NINE)).then_alarm(None)


def test_what_does_not_wait_cannot_be_cancelled() -> None:
    scenario = account(registry={**TRAILING, "SIGNAL_ARRIVED": entry(cooldown_seconds=300, mode="shadow")})
    scenario.when(CancelTrigger("k")).then_refused("NOT_WAITING")
    scenario.when(signal(), key="k1").when(signal(), key="k2")
    for key in ("k1", "k2"):
        scenario.when(CancelTrigger(key)).then_refused("NOT_WAITING")
    scenario.when(RequestRun("EDIT"), key="e1").when(RequestRun("EDIT"), key="e2")
    scenario.when(CancelTrigger("e2")).then_refused("NOT_WAITING")
    scenario.when(CancelTrigger("e1")).then_verdict("NEVER", "CANCELLED")


def test_a_trigger_whose_time_has_come_is_judged_and_not_cancelled() -> None:
    scenario = account().when(signal(), key="k1").at(NINE + 100 * SECOND).when(signal(), key="k2")
    scenario.at(NINE + 300 * SECOND).when(CancelTrigger("k2")).then_refused("NOT_WAITING")
    assert scenario.state
    assert scenario.state.last_allowed_at == NINE + 300 * SECOND


async def test_a_trigger_is_deferred_only_while_it_waits(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("k1")
        w.clock.advance(120)
        await w.trigger("k2", "POSTURE_CHANGE")
        await w.trigger("k3", "LIFECYCLE_STATE_CHANGE")
        assert (await w.runs.trigger_status("k2")).status == "deferred"
        w.clock.advance(180)
        await w.engine.tick()
        told = [await w.runs.trigger_status(key) for key in ("k2", "k3")]
        assert [(one.status, one.verdict.reason, one.retry and one.retry.reason) for one in told] == [
            ("allowed", "COOLDOWN", "WITHIN_LIMITS"),
            ("skipped", "COOLDOWN", "RETRY_EXHAUSTED"),
        ]
        assert told[1].run_id is None


async def test_a_joined_trigger_is_skipped_when_the_run_it_would_share_is(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"registry": TRAILING}) as w:
        await w.trigger("k1", "EDIT")
        await w.trigger("k2", "EDIT")
        assert (await w.runs.trigger_status("k2")).status == "joined"
        await w.runs.cancel_trigger("k1")
        told = await w.runs.trigger_status("k2")
        assert told.retry
        assert (told.status, told.retry.reason, told.run_id) == ("skipped", "CANCELLED", None)


async def test_a_trigger_that_waits_is_cancelled_once(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("k1")
        w.clock.advance(120)
        await w.trigger("k2")
        told = await w.runs.cancel_trigger("k2", request_key="c1")
        assert told.retry
        assert (told.status, told.retry.result, told.retry.reason) == ("skipped", "SKIP", "CANCELLED")
        assert told.retry.explanation == "It was cancelled while it waited."
        assert (await w.runs.cancel_trigger("k2", request_key="c1")).status == "skipped"
        for key in ("k1", "k2"):
            with pytest.raises(Refused) as caught:
                await w.runs.cancel_trigger(key)
            assert caught.value.reason == "NOT_WAITING"
        with pytest.raises(NotFound):
            await w.runs.cancel_trigger("never")
        assert (await w.runs.run_state("acct")).deferred == []
        w.clock.advance(600)
        await w.engine.tick()
        assert len((await w.runs.runs()).items) == 1
        assert (await verify(w.engine.store, w.engine.kinds)).is_sound


async def test_an_unknown_tier_is_refused_with_the_known_ones(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"tiers": {"pro": {}, "free": {}}, "tier": "free"}) as w:
        with pytest.raises(Invalid) as caught:
            await w.trigger("k1", tenant_tier="gold")
        assert caught.value.problems == (("tenant_tier", "no such tier: gold; known: free, pro"),)
        with pytest.raises(Invalid, match="known: free, pro"):
            await w.runs.evaluate(EvaluateRequest(account_id="acct", trigger_type="SIGNAL_ARRIVED", tenant_tier="gold"))
        assert (await w.trigger("k1", tenant_tier="pro")).result == "ALLOW"
