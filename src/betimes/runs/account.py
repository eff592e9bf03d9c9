"""What an account remembers: how its state follows from what was decided, and when it wants to be woken."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from betimes.core import windows
from betimes.core.deciders import Decider, Index, Refusal
from betimes.core.instants import Instant, epoch_down, epoch_up
from betimes.core.windows import Window
from betimes.runs.counters import QuotaEvents, QuotaState, SlotPromised, SlotReturned, SlotTaken
from betimes.runs.model import (
    HOUR_S,
    AccountEvents,
    AccountState,
    ActionsReported,
    BurstShortened,
    Due,
    RequestRepeated,
    RunAllowed,
    RunDeferred,
    RunSkipped,
    TriggerJoined,
    WouldRun,
)
from betimes.runs.slots import PROMISE_KEPT_S, with_one, without_one


def fold(state: AccountState | None, event: AccountEvents) -> AccountState:
    account = state or AccountState()
    match event:
        case RunAllowed(key, trigger_type, _, at) | WouldRun(key, trigger_type, _, _, at):
            waited = replace(account, waiting=_without(account, key), updated_at=at)
            return _charged(waited, trigger_type, at) if event.charged else waited
        case RunDeferred(due, at):
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


def _charged(account: AccountState, trigger_type: str, at: Instant) -> AccountState:
    return replace(
        account,
        last_allowed_at=at,
        last_allowed_at_by_type={**account.last_allowed_at_by_type, trigger_type: at},
        allowed_by_type={
            **_recent(account.allowed_by_type, at),
            trigger_type: windows.add(account.allowed_by_type.get(trigger_type, ()), at, HOUR_S),
        },
        allowed_today=account.allowed_today.plus(1, at),
    )


def _recent(by_type: Mapping[str, Window], at: Instant) -> dict[str, Window]:
    """The windows in which something is left; the others would only take room."""
    oldest_s = epoch_down(at) - HOUR_S
    return {name: window for name, window in by_type.items() if window[-1][0] > oldest_s}


def _without(account: AccountState, key: str) -> tuple[Due, ...]:
    return tuple(due for due in account.waiting if due.key != key)


def alarm(account: AccountState) -> Instant | None:
    return min((due.until_at for due in account.waiting), default=None)


def index(account: AccountState) -> Index:
    return Index(status="waiting" if account.waiting else "idle")


# -- the counters that accounts share


def fold_quota(state: QuotaState | None, event: QuotaEvents) -> QuotaState:
    quota = state or QuotaState()
    match event:
        case SlotTaken(trigger_type, at, capped, slot_at):
            taken = _recent(quota.taken_by_type, at)
            if capped:
                taken[trigger_type] = _with_slot(taken.get(trigger_type, ()), at, slot_at)
            return replace(quota, taken_by_type=taken, allowed_today=quota.allowed_today.plus(1, at))
        case SlotPromised(trigger_type, slot_at, at):
            promised = with_one(_promised(quota, trigger_type, at), epoch_up(slot_at))
            return replace(quota, promised_by_type={**quota.promised_by_type, trigger_type: promised})
        case SlotReturned(trigger_type, slot_at, at):
            promised = without_one(_promised(quota, trigger_type, at), epoch_up(slot_at))
            return replace(quota, promised_by_type={**quota.promised_by_type, trigger_type: promised})


def _with_slot(window: Window, at: Instant, slot_at: Instant | None) -> Window:
    if slot_at is None:
        return windows.add(window, at, HOUR_S)
    oldest_s = epoch_down(at) - HOUR_S
    return with_one(tuple(pair for pair in window if pair[0] > oldest_s), epoch_up(slot_at))


def _promised(quota: QuotaState, trigger_type: str, at: Instant) -> Window:
    """The promises that still bind: one more than an hour old holds nobody up."""
    oldest_s = epoch_down(at) - HOUR_S - PROMISE_KEPT_S
    return tuple(pair for pair in quota.promised_by_type.get(trigger_type, ()) if pair[0] > oldest_s)


QUOTA: Decider[QuotaState] = Decider(
    kind="quota",
    scope="runs:write",
    state=QuotaState,
    commands=SlotTaken,
    events=QuotaEvents,
    decide=lambda view, command, policy, now: Refusal("NOT_A_COMMAND", "a quota is written by accounts alone"),
    fold=fold_quota,
)
