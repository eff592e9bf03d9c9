"""The outlook of an account: the triggers that wait, its cooldowns, and how full its windows and budgets are."""

from __future__ import annotations

from collections.abc import Iterator

from betimes.core.instants import DAY, SECOND, Instant
from betimes.core.outlooks import Band, Outlook, WaitingItem, WindowFill
from betimes.core.policies import Policy
from betimes.core.windows import Window
from betimes.runs.model import AccountState, RunState
from betimes.runs.policy import RunsPolicy, limits_of

HOUR_S = 3_600
DAY_S = 86_400


def waiting_triggers(account: AccountState) -> Iterator[WaitingItem]:
    """Yield the triggers that wait for their retry, or for the end of a burst."""
    for due in account.waiting:
        yield WaitingItem(
            at=due.until_at,
            what=due.trigger_type,
            key=due.key,
            segment=due.segments[0] if due.segments else 0,
            reasons=(due.reason,) if due.reason else (),
        )


def waiting_run(run: RunState) -> Iterator[WaitingItem]:
    """Yield until when a run must be started, or its worker must have told of itself."""
    if run.status == "allowed" and run.start_by_at is not None:
        yield WaitingItem(at=run.start_by_at, what="start deadline", key=run.key)
    if run.status == "started" and run.lease_expires_at is not None:
        yield WaitingItem(at=run.lease_expires_at, what="lease ends", key=run.key)


def _instants(window: Window) -> tuple[Instant, ...]:
    return tuple(second * SECOND for second, count in window for _ in range(count))


def account_outlook(
    account: AccountState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant
) -> Outlook:
    """Return the cooldowns after the last run, the windows by type and the day's budget."""
    rules = policy[RunsPolicy]
    bands: list[Band] = []
    fills: list[WindowFill] = []
    for name, entry in rules.registry.items():
        last_at = account.last_allowed_at_by_type.get(name)
        if last_at is not None and entry.debounce_seconds:
            ends_at = last_at + entry.debounce_seconds * SECOND
            bands.append(Band(name="cooldown", since_at=last_at, until_at=ends_at, label=name))
        cap = limits_of(rules, entry, None).account_cap
        window = account.allowed_by_type.get(name)
        if cap is not None and window is not None:
            fills.append(WindowFill(name=name, span_s=HOUR_S, cap=cap, counted=_instants(window)))
    budget = rules.daily_run_budget
    if budget is not None:
        counted = (now // DAY * DAY,) * account.allowed_today.on(now)
        fills.append(WindowFill(name="daily_run_budget", span_s=DAY_S, cap=budget, counted=counted))
    shown = [band for band in bands if band.since_at < until_at and (band.until_at or until_at) > since_at]
    return Outlook(bands=tuple(shown), fills=tuple(fills))
