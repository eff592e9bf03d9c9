"""The decider of `backtests`: one at a time, carried out at most once, and never lost without a word.

A backtest is a call. Its end is recorded in the commit that ends the call, with the report or with what was wrong; of a
process that died the lease tells. The end of a backtest that was dropped is ignored.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.backtest.model import (
    EXECUTOR,
    KEPT_MAX,
    KIND,
    LEASE_S,
    AskBacktest,
    BacktestAsked,
    BacktestDropped,
    BacktestFailed,
    BacktestFinished,
    BacktestOutcome,
    BacktestProgressed,
    BacktestsState,
    Commands,
    DropBacktest,
    Events,
    ReportProgress,
    RequestedBacktest,
)
from betimes.core.deciders import Call, Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.streams import parse_effect_handle
from betimes.domain.derivation import derive

AnyCommand: TypeAlias = Commands | Wake | Settled
MESSAGE_CHARS_MAX = 2_000


def decide(view: View[BacktestsState], command: AnyCommand, policy: Policy, now: Instant) -> Decision | Refusal:
    state = view.state or BacktestsState()
    match command:
        case AskBacktest():
            return _ask(view, state, command, now)
        case ReportProgress(backtest_id, percent):
            return _progress(state, backtest_id, percent, now)
        case DropBacktest(backtest_id):
            if state.get(backtest_id) is None:
                return _unknown(backtest_id)
            return Decision((BacktestDropped(backtest_id, now),))
        case Settled():
            return _settle(view, state, command, now)
        case Wake():
            return Decision()


def _unknown(backtest_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no backtest {backtest_id!r}; the last {KEPT_MAX} are kept")


def _ask(view: View[BacktestsState], state: BacktestsState, command: AskBacktest, now: Instant) -> Decision | Refusal:
    if state.get(command.backtest_id):
        return Refusal("ALREADY_EXISTS", f"the backtest {command.backtest_id!r} exists already")
    if other := next((asked for asked in state.asked if asked.is_under_way), None):
        message = f"the backtest {other.backtest_id!r} is {other.status}; wait for it, or delete it first"
        return Refusal("BACKTEST_UNDER_WAY", message)
    asked = derive(BacktestAsked, command, version=view.version + 1, at=now)
    call = Call(
        EXECUTOR, {"backtest_id": command.backtest_id}, at_most_once=True, lease_s=LEASE_S, report_to=view.stream
    )
    return Decision((asked,), effects=(call,), reply=command.backtest_id)


def _progress(state: BacktestsState, backtest_id: str, percent: int, now: Instant) -> Decision | Refusal:
    asked = state.get(backtest_id)
    if asked is None or not asked.is_under_way:
        return _unknown(backtest_id)
    # Progress is reported often; what says nothing new is not written.
    if asked.status == "running" and percent <= asked.percent:
        return Decision()
    return Decision((BacktestProgressed(backtest_id, min(percent, 100), now),))


def _settle(view: View[BacktestsState], state: BacktestsState, settled: Settled, now: Instant) -> Decision:
    # By the version that asked: an id that was dropped and asked for again is another backtest.
    version = parse_effect_handle(view.stream.tenant, settled.effect).version
    found = next((asked.backtest_id for asked in state.asked if asked.version == version and asked.is_under_way), None)
    if found is None:
        return Decision()
    if settled.status == "abandoned":
        message = "the process that carried it out ended before it was done; ask again"
        return Decision((BacktestFailed(found, "ABANDONED", message, now),))
    if settled.status != "done":
        return Decision((BacktestFailed(found, "INTERNAL", settled.error[:MESSAGE_CHARS_MAX], now),))
    outcome = _outcome(settled)
    if outcome.report is not None:
        return Decision((BacktestFinished(found, view.version + 1, now),))
    return Decision((BacktestFailed(found, outcome.code, outcome.message[:MESSAGE_CHARS_MAX], now),))


def _outcome(settled: Settled) -> BacktestOutcome:
    try:
        return msgspec.convert(settled.result, BacktestOutcome)
    except msgspec.ValidationError:
        return BacktestOutcome(code="INTERNAL", message="whoever carried it out gave no answer that can be read")


def fold(state: BacktestsState | None, event: Events) -> BacktestsState:
    known = state.asked if state else ()
    if isinstance(event, BacktestAsked):
        return BacktestsState((*known, derive(RequestedBacktest, event))[-KEPT_MAX:])
    changed = (_apply_event(asked, event) if asked.backtest_id == event.backtest_id else asked for asked in known)
    return BacktestsState(tuple(asked for asked in changed if asked))


def _apply_event(
    asked: RequestedBacktest, event: BacktestProgressed | BacktestFinished | BacktestFailed | BacktestDropped
) -> RequestedBacktest | None:
    match event:
        case BacktestProgressed(_, percent, at):
            began_at = at if asked.started_at is None else asked.started_at
            return replace(asked, status="running", percent=percent, started_at=began_at)
        case BacktestFinished(_, version, at):
            return replace(asked, status="done", percent=100, finished_at=at, report_version=version)
        case BacktestFailed(_, code, message, at):
            return replace(asked, status="failed", finished_at=at, code=code, message=message)
        case BacktestDropped():
            return None


BACKTESTS = Decider(kind=KIND, decide=decide, replies=str, fold=fold)
