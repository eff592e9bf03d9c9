"""The state of accounts, quotas and runs: how it follows from events, and when each wants to be woken.

Folds read events and nothing else. They never look at a policy or a clock: whatever depends on those was computed by
the decision and is carried by its event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from betimes.core import windows
from betimes.core.deciders import Index
from betimes.core.instants import Instant, epoch_down, epoch_up
from betimes.core.windows import Window
from betimes.runs.counters import QuotaEvents, QuotaState, SlotPromised, SlotReturned, SlotTaken
from betimes.runs.model import (
    HOUR_S,
    AccountEvents,
    AccountState,
    ActionsReported,
    BurstShortened,
    LeaseRenewed,
    RequestRepeated,
    RunAdmitted,
    RunAllowed,
    RunAsked,
    RunConflicted,
    RunDeferred,
    RunEnded,
    RunEvents,
    RunRefused,
    RunSkipped,
    RunStarted,
    RunState,
    StartPutOff,
    TargetEnded,
    TriggerJoined,
    WaitingTrigger,
    WouldRun,
)
from betimes.runs.slots import PROMISE_KEPT_S, with_one, without_one

# -- accounts


def fold_account(state: AccountState | None, event: AccountEvents) -> AccountState:
    """Return the account after an event."""
    account = state or AccountState()
    match event:
        case RunAllowed(key, trigger_type, _, at) | WouldRun(key, trigger_type, _, _, at):
            waited = replace(account, waiting=_without(account, key), updated_at=at)
            return _charge(waited, trigger_type, at) if event.charged else waited
        case RunDeferred(due, at):
            # One that waited in a burst may be deferred by the gate: under its key it waits once.
            waiting = (*_without(account, due.key), due)
            return replace(account, waiting=waiting, last_deferred_at=at, updated_at=at)
        case TriggerJoined(_, into, due, at):
            return replace(account, waiting=(*_without(account, into), due), updated_at=at)
        case BurstShortened(key, until_at):
            moved = (replace(due, until_at=until_at) if due.key == key else due for due in account.waiting)
            return replace(account, waiting=tuple(moved))
        case RunSkipped(key, _, _, at):
            return replace(account, waiting=_without(account, key), updated_at=at)
        case ActionsReported(count, at):
            return replace(account, actions_today=account.actions_today.plus(count, at))
        case RequestRepeated():
            return account


def _charge(account: AccountState, trigger_type: str, at: Instant) -> AccountState:
    """Count an allowed run in the windows and the day of its account."""
    window = windows.add(account.allowed_by_type.get(trigger_type, ()), at, HOUR_S)
    return replace(
        account,
        last_allowed_at=at,
        last_allowed_at_by_type={**account.last_allowed_at_by_type, trigger_type: at},
        allowed_by_type={**_recent(account.allowed_by_type, at), trigger_type: window},
        allowed_today=account.allowed_today.plus(1, at),
    )


def _recent(by_type: Mapping[str, Window], at: Instant) -> dict[str, Window]:
    """Return the windows in which something is left; the others would only take room."""
    oldest_s = epoch_down(at) - HOUR_S
    return {name: window for name, window in by_type.items() if window[-1][0] > oldest_s}


def _without(account: AccountState, key: str) -> tuple[WaitingTrigger, ...]:
    return tuple([due for due in account.waiting if due.key != key]) if account.waiting else ()


def account_alarm(account: AccountState) -> Instant | None:
    """Return when the first of the waiting triggers is due."""
    return min([due.until_at for due in account.waiting]) if account.waiting else None


def account_index(account: AccountState) -> Index:
    """List accounts by whether anything waits."""
    return Index(status="waiting" if account.waiting else "idle")


# -- the counters that accounts share


def fold_quota(state: QuotaState | None, event: QuotaEvents) -> QuotaState:
    """Return the tenant's counters after an event."""
    quota = state or QuotaState()
    match event:
        case SlotTaken(trigger_type, at, capped, slot_at):
            taken = _recent(quota.taken_by_type, at)
            if capped:
                taken[trigger_type] = _with_slot(taken.get(trigger_type, ()), at, slot_at)
            return replace(quota, taken_by_type=taken, allowed_today=quota.allowed_today.plus(1, at))
        case SlotPromised(trigger_type, slot_at, at) | SlotReturned(trigger_type, slot_at, at):
            # Both round up alike, so that what is given back is the very second that was promised.
            change = with_one if isinstance(event, SlotPromised) else without_one
            promised = change(_binding_promises(quota, trigger_type, at), epoch_up(slot_at))
            return replace(quota, promised_by_type={**quota.promised_by_type, trigger_type: promised})


def _with_slot(window: Window, at: Instant, slot_at: Instant | None) -> Window:
    if slot_at is None:
        return windows.add(window, at, HOUR_S)
    oldest_s = epoch_down(at) - HOUR_S
    # Charged at the promised slot, not at the decision, or a late wake would push the next slots back.
    return with_one(tuple(pair for pair in window if pair[0] > oldest_s), epoch_up(slot_at))


def _binding_promises(quota: QuotaState, trigger_type: str, at: Instant) -> Window:
    """Return the promises that still bind: one more than an hour old holds nobody up."""
    oldest_s = epoch_down(at) - HOUR_S - PROMISE_KEPT_S
    return tuple(pair for pair in quota.promised_by_type.get(trigger_type, ()) if pair[0] > oldest_s)


# -- runs


def fold_run(state: RunState | None, event: RunEvents) -> RunState:
    """Return the run after an event."""
    run = state or RunState("asked")
    match event:
        case RunConflicted():
            # The first request stands, so nothing of the second is copied.
            return replace(run, conflict_count=run.conflict_count + 1)
        case RunAsked(run_key, print_, target, asked_by, _, tell):
            # Written out, like the others that every run comes through: `_copy_fields` takes some microseconds.
            return replace(run, run_key=run_key, fingerprint=print_, target=target, asked_by=asked_by, tell=tell)
        case StartPutOff() | LeaseRenewed():
            return _copy_fields(run, event)
        case RunAdmitted():
            return _admit(run, event)
        case RunRefused(at=at):
            return _copy_fields(run, event, status="skipped", finished_at=at)
        case RunStarted(at=at):
            return _copy_fields(run, event, status="started", started_at=at)
        case RunEnded(at=at, version=version):
            return _copy_fields(run, event, finished_at=at, ended_version=version, lease_expires_at=None)
        case TargetEnded(status, at, reason):
            return replace(run, status="settled", ending=status, finished_at=at, reason=reason)


def _admit(run: RunState, event: RunAdmitted) -> RunState:
    return replace(
        run,
        status="allowed",
        account_id=event.account_id,
        trigger_type=event.trigger_type,
        key=event.key,
        handler=event.handler,
        handler_name=event.handler_name,
        segments=event.segments,
        correlation=event.correlation,
        allowed_at=event.at,
        start_by_at=event.start_by_at,
    )


def _copy_fields(run: RunState, event: RunEvents, **changes: Any) -> RunState:
    """Return the run with every field it has in common with the event, except where a change is given."""
    names = _SHARED_FIELDS[type(event)]
    return replace(run, **{name: getattr(event, name) for name in names} | changes)


_SHARED_FIELDS = {
    kind: tuple(name for name in kind.__struct_fields__ if name in RunState.__struct_fields__)
    for kind in get_args(RunEvents)
}


def run_alarm(run: RunState) -> Instant | None:
    """Return when a run that is not started, or whose worker is silent, is abandoned."""
    match run.status:
        case "allowed":
            return run.start_by_at
        case "started":
            return run.lease_expires_at
        case _:
            return None


def run_index(run: RunState) -> Index:
    """List admitted runs by status and account; those a worker may claim are due since they were allowed."""
    claimable = run.handler == "claim" and run.status == "allowed"
    due_at = run.allowed_at if claimable else None
    return Index(run.status, run.account_id, due_at, due_at)
