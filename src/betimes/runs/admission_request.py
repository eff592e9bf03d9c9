"""One trigger at the gate, and everything it is judged by."""

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
from betimes.runs.gate import DecisionCostGateInput
from betimes.runs.model import AccountState, Due, RunState, retry_key_of, run_id_of, run_stream
from betimes.runs.policy import Entry, Limits, RunsPolicy, limits_of
from betimes.runs.slots import without_one

Stage: TypeAlias = Literal["new", "held", "deferred"]
"""Just arrived; at the end of its burst; at its one retry."""
_ONE, _MILLIONTH = Decimal(1), Decimal("0.000001")


class Asking(msgspec.Struct, frozen=True):
    """One trigger at the gate, and everything it is judged by."""

    stream: StreamId
    due: Due
    stage: Stage
    account: AccountState
    quota: QuotaState
    run: StreamId
    run_before: RunState | None
    """The run, if it was asked for, or was once admitted under the same key."""
    entry: Entry
    limits: Limits
    policy: Policy
    now: Instant

    @property
    def shadow(self) -> bool:
        return self.due.shadow if self.stage != "new" else "shadow" in (self.entry.mode, self.policy[RunsPolicy].mode)

    @property
    def retry_key(self) -> str | None:
        """Under which name a retry is known."""
        return retry_key_of(self.due.key, epoch_up(self.due.until_at)) if self.stage == "deferred" else None

    @property
    def kept_slot_at(self) -> Instant | None:
        """The slot it was promised and still has: whoever comes an hour late or more stands behind the others."""
        slot_at = self.due.slot_at
        return slot_at if slot_at is not None and self.now < slot_at + HOUR else None


def asking_of(view: View[AccountState], due: Due, stage: Stage, entry: Entry, policy: Policy, now: Instant) -> Asking:
    tenant = view.stream.tenant
    quota: QuotaState = view.others.get(quota_stream(tenant)) or QuotaState()
    limits = limits_of(policy[RunsPolicy], entry, due.tenant_tier)
    run = run_stream(tenant, run_id_of(tenant, due.key))
    before = view.others.get(run)
    account = view.state or AccountState()
    return Asking(view.stream, due, stage, account, quota, run, before, entry, limits, policy, now)


def case_of(asking: Asking) -> DecisionCostGateInput:
    account, quota, limits, due, now = asking.account, asking.quota, asking.limits, asking.due, asking.now
    remaining, resets = _budget(asking)
    trailing = asking.entry.debounce_mode == "trailing"
    saturation = due.action_saturation_score
    return DecisionCostGateInput(
        tenant_id=asking.stream.tenant,
        account_id=asking.stream.id,
        trigger_type=due.trigger_type,
        now=now,
        recency_last_run_at=account.last_allowed_at,
        cooldown_s=asking.entry.cooldown_seconds,
        recency_last_of_type_at=account.last_allowed_at_by_type.get(due.trigger_type),
        debounce_s=0 if trailing else asking.entry.debounce_seconds,
        budget_remaining=remaining,
        budget_resets=resets,
        account_runs=account.allowed_by_type.get(due.trigger_type, ()),
        account_cap=limits.account_cap,
        tenant_runs=quota.taken_by_type.get(due.trigger_type, ()),
        tenant_promised=_promised_to_others(asking),
        tenant_cap=limits.tenant_cap,
        action_saturation_score=_saturation(asking) if saturation is None else saturation,
        saturation_resets=saturation is None,
        tenant_tier=due.tenant_tier,
    )


def _promised_to_others(asking: Asking) -> Window:
    """The promises that stand before this trigger: none while it has its own slot, whatever was promised behind it."""
    if asking.kept_slot_at is not None:
        return ()
    promised = asking.quota.promised_by_type.get(asking.due.trigger_type, ())
    slot_at = asking.due.slot_at
    return promised if slot_at is None else without_one(promised, epoch_up(slot_at))


def _budget(asking: Asking) -> tuple[int | None, bool]:
    """The smallest of what is left, and whether a new day brings more."""
    limits, now, given = asking.limits, asking.now, asking.due.budget_remaining
    left = [] if given is None else [given]
    if limits.account_budget is not None:
        left.append(limits.account_budget - asking.account.allowed_today.on(now))
    if limits.tenant_budget is not None:
        left.append(limits.tenant_budget - asking.quota.allowed_today.on(now))
    never_any = (given is not None and given <= 0) or 0 in (limits.account_budget, limits.tenant_budget)
    return min(left, default=None), not never_any


def _saturation(asking: Asking) -> Decimal | None:
    cap = asking.limits.action_cap
    return None if cap is None else saturation_of(asking.account.actions_today.on(asking.now), cap)


def saturation_of(actions: int, cap: int) -> Decimal:
    """To six places and rounded down, so that it reaches 1 when the cap is reached and not before."""
    score = (Decimal(actions) / cap).quantize(_MILLIONTH, ROUND_DOWN)
    return score.quantize(_ONE) if score == score.to_integral_value() else score.normalize()
