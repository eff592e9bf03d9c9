"""The rules of admission: debounce and the cost gate. Pure: the same input gives the same output.

The rules are looked at in order and the first that matches names the reason. Its `until` is the latest of *all* time
limits that bind, because a deferred trigger has one retry only. Absent inputs never block.

Debounce comes before the gate and is a rule of the same table, so that one trace tells the whole story.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core import windows
from betimes.core.instants import DAY, HOUR, SECOND, Instant, epoch_up
from betimes.core.verdicts import Answer, Finding, Hit, Rule, RuleTable, Verdict
from betimes.core.windows import Window
from betimes.runs.model import HOUR_S
from betimes.runs.sentences import sentence
from betimes.runs.slots import PROMISED_SECONDS_MAX, first_free_at

SLOT_AWAY_MAX = 24 * HOUR
Result: TypeAlias = Literal["ALLOW", "DEFER", "SKIP"]
RESULTS: dict[Answer, Result] = {"NOW": "ALLOW", "LATER": "DEFER", "NEVER": "SKIP"}


class DecisionCostGateInput(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything the rules look at, as it was before this trigger."""

    tenant_id: str
    account_id: str
    trigger_type: str
    now: Instant
    recency_last_run_at: Instant | None = None
    """The account's last allowed run of any type."""
    cooldown_s: int = 0
    recency_last_of_type_at: Instant | None = None
    """The account's last allowed run of this type."""
    debounce_s: int = 0
    budget_remaining: int | None = None
    """The smallest of the caller's and those of account and tenant."""
    budget_resets: bool = False
    """Whether a new UTC day brings a new budget."""
    account_runs: Window = ()
    account_cap: int | None = None
    tenant_runs: Window = ()
    tenant_promised: Window = ()
    tenant_cap: int | None = None
    action_saturation_score: Decimal | None = None
    saturation_resets: bool = False
    tenant_tier: str | None = None


class DecisionCostGateOutput(msgspec.Struct, frozen=True):
    """The gate's answer, in the words of its callers."""

    result: Result
    reason: str
    explanation: str
    evaluated_at: Instant
    defer_until_epoch: int | None = None
    retry_after_seconds: int | None = None


def evaluate(case: DecisionCostGateInput) -> DecisionCostGateOutput:
    """Return the answer of the gate alone, without debounce."""
    verdict = GATE.judge(case)
    until = verdict.until
    return DecisionCostGateOutput(
        RESULTS[verdict.answer],
        verdict.reasons[0],
        sentence(case.account_id, verdict, case.now),
        case.now,
        # Rounded up: whoever comes back at that very second must not be early.
        None if until is None else epoch_up(until),
        None if until is None else epoch_up(until - case.now),
    )


# -- the rules


def _debounce(case: DecisionCostGateInput) -> Finding:
    last, limit = case.recency_last_of_type_at, case.debounce_s
    hit = Hit("NEVER", "DEBOUNCED") if last is not None and case.now < last + limit * SECOND else None
    return Finding((_elapsed_s(case, last), limit), hit)


def _budget(case: DecisionCostGateInput) -> Finding:
    left = case.budget_remaining
    return Finding((left,), Hit("NEVER", "BUDGET_EXHAUSTED") if left is not None and left <= 0 else None)


def _cooldown(case: DecisionCostGateInput) -> Finding:
    last, limit = case.recency_last_run_at, case.cooldown_s
    binds = case.now < cooldown_end(case)
    return Finding((_elapsed_s(case, last), limit), _postpone(case, "COOLDOWN") if binds else None)


def _account_cap(case: DecisionCostGateInput) -> Finding:
    cap = case.account_cap
    if cap is None:
        return _NO_ACCOUNT_CAP
    used = windows.count(case.account_runs, case.now, HOUR_S)
    return Finding((used, cap), _postpone(case, "ACCOUNT_HOURLY_CAP") if used >= cap else None)


def _tenant_cap(case: DecisionCostGateInput) -> Finding:
    cap = case.tenant_cap
    if cap is None:
        return _NO_TENANT_CAP
    used = windows.count(case.tenant_runs, case.now, HOUR_S)
    promised = sum([count for _, count in case.tenant_promised])
    # With promises a free slot may be somebody else's, which the count alone does not tell.
    binds = tenant_binds(case) if promised else used >= cap
    return Finding((used, promised, cap), _postpone(case, "TENANT_HOURLY_CAP") if binds else None)


def _saturation(case: DecisionCostGateInput) -> Finding:
    score = case.action_saturation_score
    return Finding((score,), Hit("NEVER", "MARGINAL_VALUE_LOW") if score is not None and score >= 1 else None)


_NO_ACCOUNT_CAP = Finding((None, None))
_NO_TENANT_CAP = Finding((None, None, None))


def _elapsed_s(case: DecisionCostGateInput, last: Instant | None) -> int | float | None:
    if last is None:
        return None
    whole, rest = divmod(case.now - last, SECOND)
    # Whole seconds stay integers, so that a trace says 30 and not 30.0.
    return whole + rest / SECOND if rest else whole


# -- when it would pass


def cooldown_end(case: DecisionCostGateInput) -> Instant:
    """Return when the account's cooldown has passed; now, if it has."""
    last = case.recency_last_run_at
    return case.now if last is None else max(case.now, last + case.cooldown_s * SECOND)


def account_free(case: DecisionCostGateInput) -> Instant:
    """Return when the account's hourly cap leaves room; now, if it does."""
    cap = case.account_cap
    return case.now if cap is None else windows.free_at(case.account_runs, case.now, HOUR_S, cap)


def tenant_binds(case: DecisionCostGateInput) -> bool:
    """Return whether the tenant has no slot now; for a new trigger, promised slots are taken."""
    return case.tenant_cap is not None and tenant_free(case, case.now) > case.now


def tenant_free(case: DecisionCostGateInput, from_at: Instant) -> Instant:
    """Return the first instant at or after `from_at` with a slot beyond those promised. Slots are whole seconds."""
    if case.tenant_cap is None:
        return from_at
    if not case.tenant_promised:
        return max(from_at, windows.free_at(case.tenant_runs, from_at, HOUR_S, case.tenant_cap))
    return first_free_at(case.tenant_runs, case.tenant_promised, from_at, case.tenant_cap, HOUR_S)


def slot_needed(case: DecisionCostGateInput) -> Instant | None:
    """Return the slot that a deferral must be promised; `None` if there is room now and when the account is ready.

    A promise within a second would be counted from the second's end and judged from its start, so it is a whole one.
    """
    if case.tenant_cap is None:
        return None
    ready_at = account_ready(case)
    if tenant_free(case, ready_at) <= ready_at and not tenant_binds(case):
        return None
    return tenant_free(case, epoch_up(ready_at) * SECOND)


def account_ready(case: DecisionCostGateInput) -> Instant:
    """Return when the account's own time limits have passed."""
    return max(cooldown_end(case), account_free(case))


def _postpone(case: DecisionCostGateInput, reason: str) -> Hit:
    """Wait until every time limit that binds has passed; never run if the tenant has no slot within a day of that."""
    ready_at, slot_at = account_ready(case), slot_needed(case)
    if slot_at is None:
        return Hit("LATER", reason, ready_at)
    if slot_at - ready_at > SLOT_AWAY_MAX or len(case.tenant_promised) >= PROMISED_SECONDS_MAX:
        return Hit("NEVER", "TENANT_HOURLY_CAP")
    return Hit("LATER", reason, slot_at)


def would_pass_at(case: DecisionCostGateInput, verdict: Verdict) -> Instant | None:
    """Return when, as things stand, it would pass; `None` if it does now, or if time alone will not do it."""
    if verdict.answer == "NOW":
        return None
    at = max(debounce_end(case), account_ready(case))
    spent = case.budget_remaining is not None and case.budget_remaining <= 0
    saturated = case.action_saturation_score is not None and case.action_saturation_score >= 1
    # What no midnight resets does not pass by waiting.
    if (spent and not case.budget_resets) or (saturated and not case.saturation_resets):
        return None
    if spent or saturated:
        at = max(at, next_day(case.now))
    return max(tenant_free(case, at), verdict.until or 0)  # a trigger that waits is not judged before


def debounce_end(case: DecisionCostGateInput) -> Instant:
    """Return when the debounce of this type has passed; now, if it has."""
    last = case.recency_last_of_type_at
    return case.now if last is None else max(case.now, last + case.debounce_s * SECOND)


def next_day(now: Instant) -> Instant:
    """Return the next midnight UTC, when budgets and action counts start again."""
    return (now // DAY + 1) * DAY


# -- the tables

_TIER = ("runs.tier", "runs.tier_from")
_BUDGETS = (
    *("runs.daily_run_budget", "runs.tenant_daily_run_budget"),
    *("runs.tiers.{tier}.daily_run_budget", "runs.tiers.{tier}.tenant_daily_run_budget"),
    *_TIER,
)
_ACCOUNT_CAP = (
    "runs.registry.{trigger_type}.max_per_account_per_hour",
    "runs.tiers.{tier}.max_per_account_per_hour",
    *_TIER,
)
_TENANT_CAP = ("runs.registry.{trigger_type}.max_per_tenant_per_hour", "runs.tiers.{tier}.max_per_tenant_per_hour")
_COOLDOWN = "runs.registry.{trigger_type}.cooldown_seconds"
_TIME_LIMITS = (_COOLDOWN, *_ACCOUNT_CAP, *_TENANT_CAP)
"""Whichever of them binds, the wait lasts until all have passed."""
_GATE_RULES: tuple[Rule[Any], ...] = (
    Rule(
        "budget",
        _budget,
        ("budget_remaining",),
        "the run budget is used up ({budget_remaining} left)",
        "{budget_remaining:run is|runs are} left in the budget",
        "no budget is set",
        _BUDGETS,
    ),
    Rule(
        "cooldown",
        _cooldown,
        ("elapsed_s", "limit_s"),
        "the last run was {elapsed_s} ago; the account's cooldown is {limit_s}",
        absent="the account has not run before",
        reads=_TIME_LIMITS,
    ),
    Rule(
        "account_cap",
        _account_cap,
        ("used", "cap"),
        "the account had {used:run|runs} of this type within the hour; the cap is {cap}",
        absent="there is no hourly cap on the account's runs of this type",
        reads=_TIME_LIMITS,
    ),
    Rule(
        "tenant_cap",
        _tenant_cap,
        ("used", "promised", "cap"),
        "all accounts had {used:run|runs} of this type within the hour and {promised} promised; the cap is {cap}",
        absent="there is no hourly cap on runs of this type for all accounts together",
        reads=_TIME_LIMITS,
    ),
    Rule(
        "saturation",
        _saturation,
        ("action_saturation_score",),
        "so many actions were taken already (saturation {action_saturation_score}) that another run is worth little",
        "another run is still worth it: the saturation with actions is {action_saturation_score}, below 1",
        "actions are not counted",
        ("runs.action_cap", "runs.tiers.{tier}.action_cap", *_TIER),
    ),
)
_DEBOUNCE: Rule[Any] = Rule(
    "debounce",
    _debounce,
    ("elapsed_s", "limit_s"),
    "the last run of this type was {elapsed_s} ago; there must be at least {limit_s} between two",
    absent="there was no run of this type before",
    reads=("runs.registry.{trigger_type}.debounce_seconds", "runs.registry.{trigger_type}.debounce_mode"),
)
_PASS = Hit("NOW", "WITHIN_LIMITS")
_PLACES = ("debounce", "budget", "cooldown", "account_cap", "tenant_cap", "saturation")

GATE: RuleTable[DecisionCostGateInput] = RuleTable("cost_gate", _GATE_RULES, otherwise=_PASS, places=_PLACES[1:])
ADMISSION: RuleTable[DecisionCostGateInput] = RuleTable(
    "runs", (_DEBOUNCE, *_GATE_RULES), otherwise=_PASS, places=_PLACES
)
