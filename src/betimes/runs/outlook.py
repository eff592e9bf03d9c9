"""The outlook of an account: the triggers that wait, its cooldowns and debounces, its windows and budgets."""

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
TYPES_NAMED_MAX = 3
"""Types of triggers that the label of a cooldown names."""


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
    """Yield the deadline by which a run must be started, or its worker must report."""
    if run.status == "allowed" and run.start_by_at is not None:
        yield WaitingItem(at=run.start_by_at, what="start deadline", key=run.key)
    if run.status == "started" and run.lease_expires_at is not None:
        yield WaitingItem(at=run.lease_expires_at, what="lease ends", key=run.key)


def _instants(window: Window) -> tuple[Instant, ...]:
    return tuple(second * SECOND for second, count in window for _ in range(count))


def _cooldown_bands(account: AccountState, rules: RunsPolicy) -> Iterator[Band]:
    """Yield the cooldown after the last run of any type, once for each length, with the types that have to wait it."""
    last_at, types_by_length = account.last_allowed_at, dict[int, list[str]]()
    for name, entry in rules.registry.items():
        types_by_length.setdefault(entry.cooldown_seconds, []).append(name)
    for length_s, names in types_by_length.items():
        if last_at is not None and length_s:
            more = f" and {len(names) - TYPES_NAMED_MAX} more" if len(names) > TYPES_NAMED_MAX else ""
            label = "" if len(types_by_length) == 1 else ", ".join(names[:TYPES_NAMED_MAX]) + more
            yield Band(name="cooldown", since_at=last_at, until_at=last_at + length_s * SECOND, label=label)


def account_outlook(
    account: AccountState, policy: Policy, now: Instant, since_at: Instant, until_at: Instant
) -> Outlook:
    """Return the cooldown after the last run, the debounces and windows by type, and the day's budget."""
    rules = policy[RunsPolicy]
    bands = [*_cooldown_bands(account, rules)]
    fills: list[WindowFill] = []
    for name, entry in rules.registry.items():
        last_at = account.last_allowed_at_by_type.get(name)
        # Trailing debounce holds what comes, however long ago the last run was.
        if last_at is not None and entry.debounce_seconds and entry.debounce_mode == "leading":
            ends_at = last_at + entry.debounce_seconds * SECOND
            bands.append(Band(name="debounce", since_at=last_at, until_at=ends_at, label=name))
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
