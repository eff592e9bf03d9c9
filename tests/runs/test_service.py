"""Runs over a real store: triggers, retries by alarm, handlers, claims, queries, the registry."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, KeyConflict, NotFound, Refused, VersionMismatch
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.runs.policy import WebhookHandler
from betimes.runs.service import Runs
from betimes.runs.views import (
    ActionsRequest,
    ClaimManyRequest,
    ClaimRequest,
    CompleteRequest,
    EvaluateRequest,
    RegistryEntry,
    RenewRequest,
    TriggerRequest,
)
from tests.runs.scenes import MINUTE, SECOND, entry
from tests.runs.worlds import runs_world
from tests.stores.backends import Backend

CALLED = {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "brief"}}}


class Calls:
    """A handler that keeps what it was given."""

    def __init__(self, failing: bool = False) -> None:
        self.given: list[Any] = []
        self._failing = failing

    async def __call__(self, call: EffectCall) -> Any:
        self.given.append(call.payload)
        if self._failing:
            raise ValueError("the model is down")
        return {"answer": 42}


async def test_a_verdict_has_the_fields_of_the_contract(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("sig-1")
        start = w.clock()
        w.clock.advance_to(start + 2 * MINUTE)
        verdict = await w.trigger("sig-2", payload={"signal": "usage_drop"})
        assert verdict.result == "DEFER"
        assert verdict.reason == "COOLDOWN"
        assert verdict.defer_until == verdict.would_pass_at == moment(start + 5 * MINUTE)
        assert verdict.defer_until_epoch == (start + 5 * MINUTE) // SECOND
        assert (verdict.retry_after_seconds, verdict.run_id, verdict.is_replay) == (180, None, False)
        assert verdict.segment_id == "account:acct:2"
        assert "its cooldown of 5 minutes ends at" in verdict.explanation
        assert verdict.trace
        steps = [(step.rule, step.matched, step.values) for step in verdict.trace]
        assert steps == [
            ("debounce", False, {"elapsed_s": 120, "limit_s": 60}),
            ("budget", False, {"budget_remaining": None}),
            ("cooldown", True, {"elapsed_s": 120, "limit_s": 300}),
        ]


async def test_a_repeated_key_is_skipped_with_the_first_verdict_and_is_on_the_ledger(
    backend: Backend, tmp_path: Path
) -> None:
    async with runs_world(backend, tmp_path) as w:
        first = await w.trigger("k1")
        again = await w.trigger("k1", payload={"other": True})
        assert (again.result, again.reason, again.is_replay) == ("SKIP", "DUPLICATE_IDEMPOTENCY_KEY", True)
        assert again.first
        assert (again.first.result, again.first.run_id, again.first.segment_id) == (
            "ALLOW",
            first.run_id,
            "account:acct:1",
        )
        assert again.segment_id == "account:acct:2", "recorded itself"
        elsewhere = await w.elsewhere.trigger(
            TriggerRequest(account_id="acct", trigger_type="SIGNAL_ARRIVED", idempotency_key="k1")
        )
        assert elsewhere.reason == "DUPLICATE_IDEMPOTENCY_KEY"


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
async def test_the_first_verdict_is_told_again_word_for_word(backend: Backend, tmp_path: Path, mode: str) -> None:
    registry = {"SIGNAL_ARRIVED": {}, "EDIT": entry(debounce_seconds=60, debounce_mode="trailing")}
    async with runs_world(backend, tmp_path, runs={"registry": registry, "mode": mode}) as w:
        for key, type in (("k1", "SIGNAL_ARRIVED"), ("k2", "SIGNAL_ARRIVED"), ("k3", "POSTURE_CHANGE"), ("k4", "EDIT")):
            first = await w.trigger(key, type)
            assert (await w.trigger(key, type)).first == replace(first, trace=None)


async def test_the_same_key_for_another_account_or_type_is_a_conflict(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("k1")
        with pytest.raises(KeyConflict):
            await w.trigger("k1", account="other")
        with pytest.raises(KeyConflict):
            await w.trigger("k1", type="POSTURE_CHANGE")


async def test_an_unknown_type_is_refused_and_leaves_its_key_free(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        with pytest.raises(Refused, match="NO_SUCH"):
            await w.trigger("k1", type="NO_SUCH")
        assert (await w.trigger("k1")).result == "ALLOW"


async def test_a_deferred_trigger_is_retried_by_alarm_and_its_status_tells(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("k1")
        w.clock.advance(120)
        await w.trigger("k2", payload={"n": 2})
        waiting = await w.runs.trigger_status("k2")
        assert (waiting.status, waiting.retry, waiting.run_id, waiting.payload) == ("deferred", None, None, {"n": 2})
        w.clock.advance(180)
        await w.engine.tick()
        done = await w.runs.trigger_status("k2")
        assert done.retry
        assert (done.status, done.verdict.result, done.retry.result) == ("allowed", "DEFER", "ALLOW")
        assert done.run_id == done.retry.run_id
        assert (await w.runs.run(done.run_id or "")).payloads == [{"n": 2}]
        assert (await w.runs.trigger_status("k1")).status == "allowed"
        with pytest.raises(NotFound):
            await w.runs.trigger_status("never")


async def test_a_handler_is_called_once_and_its_result_is_kept(backend: Backend, tmp_path: Path) -> None:
    calls = Calls()
    async with runs_world(backend, tmp_path, runs={"registry": CALLED}, executors={"handler:brief": calls}) as w:
        verdict = await w.trigger("k1", payload={"signal": "x"})
        assert (await w.runs.run(verdict.run_id or "")).status == "allowed"
        await w.engine.tick()
        await w.engine.tick()
        (given,) = calls.given
        assert given["payloads"] == [{"signal": "x"}]
        assert (given["run_id"], given["correlation_id"], given["account_id"]) == (verdict.run_id, "corr-1", "acct")
        run = await w.runs.run(verdict.run_id or "")
        assert (run.status, run.result, run.worker, run.handler) == ("succeeded", {"answer": 42}, "worker-1", "python")


async def test_a_handler_that_raises_has_failed_and_is_not_called_again(backend: Backend, tmp_path: Path) -> None:
    calls = Calls(failing=True)
    async with runs_world(backend, tmp_path, runs={"registry": CALLED}, executors={"handler:brief": calls}) as w:
        verdict = await w.trigger("k1")
        for _ in range(3):
            await w.engine.tick()
            w.clock.advance(3_600)
        run = await w.runs.run(verdict.run_id or "")
        assert (run.status, len(calls.given)) == ("failed", 1)
        assert "the model is down" in (run.error or "")


async def test_a_run_that_is_over_its_start_deadline_is_never_called(backend: Backend, tmp_path: Path) -> None:
    calls = Calls()
    async with runs_world(backend, tmp_path, runs={"registry": CALLED}, executors={"handler:brief": calls}) as w:
        verdict = await w.trigger("k1")
        w.clock.advance(86_400)
        await w.engine.tick()
        run = await w.runs.run(verdict.run_id or "")
        assert (run.status, calls.given) == ("abandoned", [])


async def test_a_burst_reaches_the_handler_as_one_run_with_all_payloads(backend: Backend, tmp_path: Path) -> None:
    calls = Calls()
    registry = {
        "EDIT": entry(
            debounce_seconds=60,
            debounce_mode="trailing",
            debounce_keep="all",
            handler={"kind": "python", "name": "brief"},
        )
    }
    async with runs_world(backend, tmp_path, runs={"registry": registry}, executors={"handler:brief": calls}) as w:
        for place in range(3):
            verdict = await w.trigger(f"k{place}", type="EDIT", payload={"n": place})
            assert (verdict.result, verdict.reason) == ("DEFER", "DEBOUNCED")
        w.clock.advance(60)
        await w.engine.tick()
        await w.engine.tick()
        assert [given["payloads"] for given in calls.given] == [[{"n": 0}, {"n": 1}, {"n": 2}]]
        joined = await w.runs.trigger_status("k2")
        assert (joined.status, joined.run_id) == ("joined", calls.given[0]["run_id"])


async def test_workers_claim_renew_and_complete(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        run_id = (await w.trigger("k1")).run_id or ""
        claim = await w.runs.claim(run_id, ClaimRequest("w1", 60))
        assert (claim.claim_token, claim.run.status, claim.run.worker) == (1, "started", "w1")
        with pytest.raises(Refused) as refusal:
            await w.elsewhere.claim(run_id, ClaimRequest("w2", 60))
        assert refusal.value.reason == "ALREADY_CLAIMED"
        renewed = await w.runs.renew(run_id, RenewRequest(1, 120))
        assert (renewed.expires_at - claim.expires_at).total_seconds() == 60
        done = await w.runs.complete(run_id, CompleteRequest(1, "failed", {"tried": 1}, "no luck"))
        assert (done.status, done.result, done.error) == ("failed", {"tried": 1}, "no luck")
        with pytest.raises(Refused) as late:
            await w.runs.complete(run_id, CompleteRequest(1, "succeeded"))
        assert late.value.reason == "CLAIM_LOST"
        with pytest.raises(NotFound):
            await w.runs.claim("run_none", ClaimRequest())


async def test_a_worker_that_is_silent_past_its_lease_has_lost_the_run(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        run_id = (await w.trigger("k1")).run_id or ""
        await w.runs.claim(run_id, ClaimRequest("w1", 60))
        w.clock.advance(61)
        with pytest.raises(Refused) as late:
            await w.runs.complete(run_id, CompleteRequest(1, "succeeded"))
        assert late.value.reason == "CLAIM_LOST"
        assert (await w.runs.run(run_id)).status == "abandoned"


async def test_many_workers_share_the_runs_that_wait(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"registry": {"OTHER": entry()}}) as w:
        for place in range(6):
            await w.trigger(f"k{place}", type="OTHER" if place % 2 else "SIGNAL_ARRIVED", account=f"a{place}")
        only = await w.runs.claim_many(ClaimManyRequest(trigger_type="OTHER"), limit=2)
        assert [claim.run.trigger_type for claim in only] == ["OTHER", "OTHER"]
        one = await w.runs.claim_many(ClaimManyRequest(account_id="a0"))
        assert [claim.run.account_id for claim in one] == ["a0"]
        rest = await asyncio.gather(*(runs.claim_many(ClaimManyRequest(), limit=10) for runs in (w.runs, w.elsewhere)))
        claimed = [claim.run.run_id for claims in rest for claim in claims]
        assert len(claimed) == len(set(claimed)) <= 3
        left = await w.runs.claim_many(ClaimManyRequest(), limit=10)
        assert len(claimed) + len(left) == 3


async def test_a_dry_run_changes_and_records_nothing(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        await w.trigger("k1")
        asked = EvaluateRequest(account_id="acct", trigger_type="POSTURE_CHANGE")
        dry = await w.runs.evaluate(asked)
        assert (dry.result, dry.reason, dry.segment_id, dry.idempotency_key) == ("DEFER", "COOLDOWN", None, None)
        assert dry.would_pass_at == dry.defer_until
        later = EvaluateRequest(account_id="acct", trigger_type="POSTURE_CHANGE", at=dry.defer_until)
        assert (await w.runs.evaluate(later)).result == "ALLOW"
        never_ran = EvaluateRequest(account_id="acct", trigger_type="POSTURE_CHANGE", recency_last_run_epoch=0)
        assert (await w.runs.evaluate(never_ran)).result == "ALLOW"
        assert (await w.runs.run_state("acct")).run_count_this_hour == 1
        with pytest.raises(Refused):
            await w.runs.evaluate(EvaluateRequest(account_id="acct", trigger_type="NO_SUCH"))


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
async def test_a_dry_run_says_what_the_trigger_is_then_told(backend: Backend, tmp_path: Path, mode: str) -> None:
    registry = {
        "EDIT": entry(debounce_seconds=60, debounce_mode="trailing", cooldown_seconds=300),
        "CAPPED": entry(max_per_tenant_per_hour=2),
        "SIGNAL_ARRIVED": {},
    }
    told: list[str] = []
    async with runs_world(backend, tmp_path, runs={"registry": registry, "mode": mode}) as w:
        for place in range(15):
            type = list(registry)[place % 3]
            dry = await w.runs.evaluate(EvaluateRequest(account_id="acct", trigger_type=type))
            real = await w.trigger(f"k{place}", type)
            told.append(real.reason)
            assert dry.result == real.result
            assert dry.shadow == real.shadow
            shown = ("reason", "explanation", "evaluated_at", "defer_until", "would_pass_at", "trace")
            assert [getattr(dry, name) for name in shown] == [getattr(real, name) for name in shown]
            assert (dry.run_id, dry.segment_id) == (None, None)
            w.clock.advance_to(w.clock() + 17_500_000)
            await w.engine.tick()
    assert mode == "shadow" or set(told) == {"DEBOUNCED", "WITHIN_LIMITS", "COOLDOWN", "TENANT_HOURLY_CAP"}


async def test_the_state_of_an_account(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"daily_run_budget": 3, "action_cap": 4}) as w:
        empty = await w.runs.run_state("nobody")
        assert (empty.run_count_this_hour, empty.updated_at, empty.budget.remaining) == (0, None, 3)
        await w.trigger("k1")
        start = w.clock()
        w.clock.advance(90)
        await w.trigger("k2")
        actions = await w.runs.report_actions("acct", ActionsRequest(3))
        assert (actions.actions_this_period, actions.action_saturation_score) == (3, Decimal("0.75"))
        state = await w.runs.run_state("acct")
        assert state.last_allowed_at_epoch == start // SECOND
        assert state.last_deferred_at_epoch == start // SECOND + 90
        assert state.last_trigger_at_by_type == {"SIGNAL_ARRIVED": start // SECOND}
        assert state.cooldown_until == moment(start + 5 * MINUTE)
        assert (state.budget.used, state.budget.remaining) == (1, 2)
        assert [(due.idempotency_key, due.reason) for due in state.deferred] == [("k2", "COOLDOWN")]
        with pytest.raises(Invalid):
            await w.runs.report_actions("acct", ActionsRequest(1, moment(w.clock() + 1)))


async def test_the_runs_of_the_hour_are_those_of_all_types_that_were_allowed(backend: Backend, tmp_path: Path) -> None:
    registry = {"OTHER": entry(), "SLOW": entry(cooldown_seconds=9_000)}
    async with runs_world(backend, tmp_path, runs={"registry": registry}) as w:
        for key, type in (("k1", "SIGNAL_ARRIVED"), ("k2", "OTHER"), ("k3", "SIGNAL_ARRIVED"), ("k4", "SLOW")):
            await w.trigger(key, type)
        assert (await w.runs.run_state("acct")).run_count_this_hour == 2
        w.clock.advance(3_600)
        assert (await w.runs.run_state("acct")).run_count_this_hour == 0


async def test_runs_are_listed_newest_first_and_in_pages(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"registry": {"OTHER": entry()}}) as w:
        for place in range(5):
            await w.trigger(f"k{place}", type="OTHER", account=f"a{place % 2}")
            w.clock.advance(1)
        page = await w.runs.runs(limit=2)
        assert [run.idempotency_key for run in page.items] == ["k4", "k3"]
        rest = await w.runs.runs(limit=10, cursor=page.next_cursor)
        assert ([run.idempotency_key for run in rest.items], rest.next_cursor) == (["k2", "k1", "k0"], None)
        assert [run.idempotency_key for run in (await w.runs.runs(account_id="a1")).items] == ["k3", "k1"]
        assert (await w.runs.runs(status="started")).items == []
        assert len((await w.runs.runs(handler="claim", trigger_type="OTHER")).items) == 5
        assert (await w.runs.runs(limit=5)).next_cursor is None, "the last page, though it is full"
        with pytest.raises(Invalid, match="other filters"):
            await w.runs.runs(status="allowed", cursor=page.next_cursor)


async def test_tenants_do_not_see_each_other(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        run_id = (await w.trigger("k1")).run_id or ""
        foreign = Runs(w.engine, Caller("other"))
        with pytest.raises(NotFound):
            await foreign.run(run_id)
        with pytest.raises(NotFound):
            await foreign.trigger_status("k1")
        assert (await foreign.runs()).items == []


async def test_the_registry_is_replaced_and_shares_the_policys_version(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        before = await w.runs.registry()
        assert (before.version, len(before.entries)) == (0, 6)
        custom = RegistryEntry(trigger_type="CUSTOM", debounce_seconds=1, cooldown_seconds=0)
        after = await w.runs.put_registry([custom])
        assert (after.version, len(after.entries)) == (1, 7)
        assert (await w.trigger("k1", type="CUSTOM")).result == "ALLOW"
        with pytest.raises(VersionMismatch):
            await w.runs.put_registry([], version=0)
        gone = await w.elsewhere.put_registry([], version=1)
        assert len(gone.entries) == 6


async def test_a_tenant_may_have_another_kind_of_handler_than_the_deployment(backend: Backend, tmp_path: Path) -> None:
    webhook = WebhookHandler("https://example.org/runs")
    own = RegistryEntry(trigger_type="SIGNAL_ARRIVED", debounce_seconds=1, cooldown_seconds=1, handler=webhook)
    async with runs_world(backend, tmp_path, runs={"registry": CALLED}) as w:
        registry = await w.runs.put_registry([own])
        assert own in registry.entries


async def test_a_registry_that_cannot_work_is_refused_by_its_entry(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        bad = RegistryEntry(trigger_type="X", debounce_seconds=-1, cooldown_seconds=0)
        with pytest.raises(Invalid) as refusal:
            await w.runs.put_registry([RegistryEntry(trigger_type="Y", debounce_seconds=0, cooldown_seconds=0), bad])
        assert [path for path, _ in refusal.value.problems] == ["entries[1].debounce_seconds"]
        assert (await w.runs.registry()).version == 0


async def test_a_key_for_callers_who_have_none(backend: Backend, tmp_path: Path) -> None:
    registry = {"EDIT": entry(debounce_seconds=60, debounce_mode="trailing")}
    async with runs_world(backend, tmp_path, runs={"registry": registry}) as w:
        at = 1_767_603_900 * SECOND
        key = await w.runs.idempotency_key("acct", "SIGNAL_ARRIVED", at)
        assert key == sha256(f"acme|acct|SIGNAL_ARRIVED|{1_767_603_900 // 60}".encode()).hexdigest()
        with pytest.raises(Invalid, match="needs an idempotency key"):
            await w.runs.idempotency_key("acct", "EDIT", at)


async def test_everything_that_happened_replays_to_the_same_bytes(backend: Backend, tmp_path: Path) -> None:
    calls = Calls()
    runs = {"registry": {**CALLED, "OTHER": entry(max_per_tenant_per_hour=2)}, "tenant_daily_run_budget": 9}
    async with runs_world(backend, tmp_path, runs=runs, executors={"handler:brief": calls}) as w:
        for place in range(12):
            await w.trigger(f"k{place}", type="OTHER" if place % 3 else "SIGNAL_ARRIVED", account=f"a{place % 2}")
            w.clock.advance(97)
            await w.engine.tick()
        report = await verify(w.engine.store, w.engine.kinds)
        assert report.is_sound, report.findings
