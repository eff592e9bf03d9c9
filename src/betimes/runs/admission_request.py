"""The admission request: one trigger at the gate, with everything it is judged by."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal
from typing import Literal, TypeAlias

import msgspec

from betimes.core.deciders import View
from betimes.core.instants import HOUR, Instant, epoch_up
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.windows import Window
from betimes.runs.counters import QuotaState, quota_stream
from betimes.runs.model import AccountState, RunState, WaitingTrigger, retry_key_of, run_id_of, run_stream
from betimes.runs.policy import Entry, RunLimits, RunsPolicy, limits_of
from betimes.runs.rules import DecisionCostGateInput
from betimes.runs.slots import without_one

Stage: TypeAlias = Literal["new", "held", "deferred"]
"""Just arrived; at the end of its burst; at its one retry."""
_ONE, _MILLIONTH = Decimal(1), Decimal("0.000001")


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One trigger at the gate, and everything it is judged by."""

    stream: StreamId
    trigger: WaitingTrigger
    stage: Stage
    account: AccountState
    quota: QuotaState
    run_before: RunState | None
    """The run, if it was requested, or was admitted before under the same key."""
    entry: Entry
    limits: RunLimits
    policy: Policy
    now: Instant

    @property
    def run(self) -> StreamId:
        """The run it leads to, now or later."""
        return run_stream(self.stream.tenant, run_id_of(self.stream.tenant, self.trigger.key))

    @property
    def shadow(self) -> bool:
        return (
            self.trigger.shadow if self.stage != "new" else "shadow" in (self.entry.mode, self.policy[RunsPolicy].mode)
        )

    @property
    def retry_key(self) -> str | None:
        """The name under which a retry is known; `None` for any other judgement."""
        return retry_key_of(self.trigger.key, epoch_up(self.trigger.until_at)) if self.stage == "deferred" else None

    @property
    def kept_slot_at(self) -> Instant | None:
        """The slot it was promised and still has; a trigger that is an hour late or more has lost it."""
        slot_at = self.trigger.slot_at
        return slot_at if slot_at is not None and self.now < slot_at + HOUR else None


def request_of(
    view: View[AccountState], trigger: WaitingTrigger, stage: Stage, entry: Entry, policy: Policy, now: Instant
) -> AdmissionRequest:
    """Collect everything the trigger is judged by."""
    tenant = view.stream.tenant
    quota: QuotaState = view.others.get(quota_stream(tenant)) or QuotaState()
    limits = limits_of(policy[RunsPolicy], entry, trigger.tenant_tier)
    before = view.others.get(run_stream(tenant, run_id_of(tenant, trigger.key))) if view.others else None
    account = view.state or AccountState()
    return AdmissionRequest(view.stream, trigger, stage, account, quota, before, entry, limits, policy, now)


def gate_input(request: AdmissionRequest) -> DecisionCostGateInput:
    """Return what the rules look at."""
    account, quota, limits, trigger = request.account, request.quota, request.limits, request.trigger
    type_ = trigger.trigger_type
    remaining, resets = _budget(request)
    trailing = request.entry.debounce_mode == "trailing"
    saturation = trigger.action_saturation_score
    return DecisionCostGateInput(
        tenant_id=request.stream.tenant,
        account_id=request.stream.id,
        trigger_type=type_,
        now=request.now,
        recency_last_run_at=account.last_allowed_at,
        cooldown_s=request.entry.cooldown_seconds,
        recency_last_of_type_at=account.last_allowed_at_by_type.get(type_),
        debounce_s=0 if trailing else request.entry.debounce_seconds,
        budget_remaining=remaining,
        budget_resets=resets,
        account_runs=account.allowed_by_type.get(type_, ()),
        account_cap=limits.account_cap,
        tenant_runs=quota.taken_by_type.get(type_, ()),
        tenant_promised=_promised_to_others(request),
        tenant_cap=limits.tenant_cap,
        action_saturation_score=_saturation(request) if saturation is None else saturation,
        saturation_resets=saturation is None,
        tenant_tier=trigger.tenant_tier,
    )


def _promised_to_others(request: AdmissionRequest) -> Window:
    """Return the promises that stand before this trigger: none while it still has a slot of its own."""
    if request.kept_slot_at is not None:
        return ()
    promised = request.quota.promised_by_type.get(request.trigger.trigger_type, ())
    slot_at = request.trigger.slot_at
    return promised if slot_at is None else without_one(promised, epoch_up(slot_at))


def _budget(request: AdmissionRequest) -> tuple[int | None, bool]:
    """Return the smallest of the budgets that are left, and whether a new day brings more."""
    limits, now, given = request.limits, request.now, request.trigger.budget_remaining
    if given is None and limits.account_budget is None and limits.tenant_budget is None:
        return None, True
    left = [] if given is None else [given]
    if limits.account_budget is not None:
        left.append(limits.account_budget - request.account.allowed_today.on(now))
    if limits.tenant_budget is not None:
        left.append(limits.tenant_budget - request.quota.allowed_today.on(now))
    never_any = (given is not None and given <= 0) or 0 in (limits.account_budget, limits.tenant_budget)
    return min(left, default=None), not never_any


def _saturation(request: AdmissionRequest) -> Decimal | None:
    cap = request.limits.action_cap
    return None if cap is None else saturation_of(request.account.actions_today.on(request.now), cap)


def saturation_of(actions: int, cap: int) -> Decimal:
    """Return actions over cap to six places, rounded down: it reaches 1 with the cap and not before."""
    score = (Decimal(actions) / cap).quantize(_MILLIONTH, ROUND_DOWN)
    return score.quantize(_ONE) if score == score.to_integral_value() else score.normalize()
