"""The decisions of accounts, and the deciders of runs.

A trigger and the retry of one that waited go the same way: judged by one table against the state before it, then
allowed, postponed or skipped. Triggers that wait are judged one at a time, each in a segment of its own: the rarest
type first (longest debounce), then the oldest, and always ahead of a command that arrives at the same instant.

Carrying out a verdict is `admission`, bursts are `debounce`, the decisions of one run are `run_lifecycle`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Reconsider, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.runs.admission import judge_trigger, skip_run
from betimes.runs.admission_request import Stage, request_of
from betimes.runs.counters import QuotaEvents, QuotaState, SlotTaken, quota_stream
from betimes.runs.debounce import debounce_trigger, shorten_bursts
from betimes.runs.fold import account_alarm, account_index, fold_account, fold_quota, fold_run, run_alarm, run_index
from betimes.runs.model import (
    AccountCommands,
    AccountState,
    ActionsReported,
    CancelTrigger,
    ClaimRun,
    First,
    RepeatRequest,
    ReportActions,
    RequestRepeated,
    RequestRun,
    RunState,
    TriggerOutcome,
    WaitingTrigger,
    run_stream,
)
from betimes.runs.policy import Entry, RunsPolicy
from betimes.runs.reasons import REASONS
from betimes.runs.rules import ADMISSION, GATE
from betimes.runs.run_lifecycle import decide_run

_UNREGISTERED = Entry(debounce_seconds=0, cooldown_seconds=0)


def decide_account(
    view: View[AccountState], command: AccountCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    """Decide a command on an account."""
    match command:
        case RequestRun():
            return _request_run(view, command, policy, now)
        case Wake():
            return _judge_waiting(view, policy, now)
        case Reconsider():
            return shorten_bursts(view.state, policy[RunsPolicy].registry, now)
        case RepeatRequest(trigger_type, first):
            return _repeat_request(trigger_type, first)
        case CancelTrigger(key):
            return _cancel_trigger(view, key, policy, now)
        case ReportActions(count, at):
            return Decision((ActionsReported(count, at),))
        case Settled():
            return Decision()


def needs(
    stream: StreamId, command: AccountCommands | Wake | Settled | Reconsider, policy: Policy
) -> tuple[StreamId, ...]:
    """Return the other streams a command reads: the shared counters, and the run that was requested."""
    shared = (quota_stream(stream.tenant),) if policy[RunsPolicy].shares_quota else ()
    if isinstance(command, RequestRun) and command.run_id:
        return (*shared, run_stream(stream.tenant, command.run_id))
    return shared


# -- a trigger arrives


def _request_run(view: View[AccountState], command: RequestRun, policy: Policy, now: Instant) -> Decision | Refusal:
    if view.key is None:
        return Refusal("KEY_REQUIRED", f"a trigger of {view.stream} needs an idempotency key")
    if no_tier := tier_problem(command.tenant_tier, policy[RunsPolicy]):
        return Refusal("UNKNOWN_TIER", no_tier)
    trigger = _new_trigger(view, view.key, command, now)
    entry = policy[RunsPolicy].registry.get(command.trigger_type)
    if entry is None:
        if command.strict:
            return Refusal("UNKNOWN_TRIGGER_TYPE", policy[RunsPolicy].type_problem(command.trigger_type))
        return _skip_unknown_type(view, trigger, "new", policy, now)
    request = request_of(view, trigger, "new", entry, policy, now)
    return debounce_trigger(request) if entry.debounce_mode == "trailing" else judge_trigger(request)


def tier_problem(tier: str | None, runs: RunsPolicy) -> str:
    """Return what is wrong with the tier a trigger names, or nothing."""
    if tier is None or tier in runs.tiers:
        return ""
    return f"no such tier: {tier}; known: {', '.join(sorted(runs.tiers)) or 'none'}"


def _new_trigger(view: View[AccountState], key: str, command: RequestRun, now: Instant) -> WaitingTrigger:
    return WaitingTrigger(
        key,
        command.trigger_type,
        now,
        now,
        "",
        (view.version + 1,),
        command.scheduled_at or now,
        asked=command.run_id is not None,
        by_hook=command.by_hook,
        budget_remaining=command.budget_remaining,
        action_saturation_score=command.action_saturation_score,
        tenant_tier=command.tenant_tier,
        correlation=command.correlation or view.correlation,
    )


def _skip_unknown_type(
    view: View[AccountState], trigger: WaitingTrigger, stage: Stage, policy: Policy, now: Instant
) -> Decision:
    request = request_of(view, trigger, stage, _UNREGISTERED, policy, now)
    return skip_run(request, Verdict("NEVER", ("UNKNOWN_TRIGGER_TYPE",), ADMISSION.name))


def _cancel_trigger(view: View[AccountState], key: str, policy: Policy, now: Instant) -> Decision | Refusal:
    """Drop a trigger that waits, with all that joined it."""
    waiting = view.state.waiting if view.state else ()
    # In shadow mode its run has started already: nothing is left to cancel.
    trigger = next((one for one in waiting if one.key == key and not one.shadow), None)
    if trigger is None:
        return Refusal("NOT_WAITING", f"the trigger {key!r} does not wait; only one that waits can be cancelled")
    entry = policy[RunsPolicy].registry.get(trigger.trigger_type, _UNREGISTERED)
    request = request_of(view, trigger, "held", entry, policy, now)
    return skip_run(request, Verdict("NEVER", ("CANCELLED",), ADMISSION.name))


# -- an idempotency key comes again


def repeat_command(command: RequestRun | ReportActions, first: Recorded) -> RepeatRequest | None:
    """Return the command that records the repeat of a trigger's key, with what the key led to when it was new."""
    if not isinstance(command, RequestRun):
        return None
    outcome = first.reply or TriggerOutcome("skipped")
    run_id = outcome.run_id if outcome.status == "allowed" else None
    verdict, shadow = _shorten_trace(first.verdict), _shorten_trace(outcome.shadow)
    return RepeatRequest(command.trigger_type, First(first.segment_id, first.at, first.policy, verdict, run_id, shadow))


def _shorten_trace(verdict: Verdict | None) -> Verdict | None:
    """Return the verdict with only the rule that matched, if one did; the whole trace is in the first segment."""
    if verdict is None:
        return None
    return replace(verdict, trace=() if verdict.answer == "NOW" else verdict.trace[-1:])


def _repeat_request(trigger_type: str, first: First) -> Decision:
    return Decision(
        (RequestRepeated(trigger_type, first.segment),),
        verdict=Verdict("NEVER", ("DUPLICATE_IDEMPOTENCY_KEY",), ADMISSION.name),
        reply=TriggerOutcome("skipped", first=first),
    )


# -- a trigger has waited


def _judge_waiting(view: View[AccountState], policy: Policy, now: Instant) -> Decision:
    registry = policy[RunsPolicy].registry
    trigger = _first_due(view.state, registry, now)
    if trigger is None:
        return Decision()
    entry = registry.get(trigger.trigger_type)
    stage: Stage = "held" if trigger.held else "deferred"
    if entry is None:
        return _skip_unknown_type(view, trigger, stage, policy, now)
    return judge_trigger(request_of(view, trigger, stage, entry, policy, now))


def _first_due(account: AccountState | None, registry: dict[str, Entry], now: Instant) -> WaitingTrigger | None:
    """Return the rarest type of those due, then the oldest, so that frequent signals never starve a daily brief."""

    def place(trigger: WaitingTrigger) -> tuple[int, Instant, str]:
        entry = registry.get(trigger.trigger_type)
        # A type no longer registered comes last: all it can get is a skip.
        return (-entry.debounce_seconds if entry else 0, trigger.first_at, trigger.key)

    waiting = account.waiting if account else ()
    return min((trigger for trigger in waiting if trigger.until_at <= now), key=place, default=None)


# -- the deciders

ACCOUNT = Decider(
    kind="account",
    scope="runs:write",
    decide=decide_account,
    needs=needs,
    tables=(ADMISSION, GATE),
    reasons=REASONS,
    replies=TriggerOutcome,
    repeated=repeat_command,
    targets=(ReportActions,),
    heeds=(RunsPolicy,),
    heeding=("waiting",),
    fold=fold_account,
    alarm=account_alarm,
    index=account_index,
)

RUN = Decider(
    kind="run",
    scope="runs:write",
    decide=decide_run,
    replies=RunState | None,
    claims=(ClaimRun,),
    heeds=(RunsPolicy,),
    heeding=("allowed",),
    fold=fold_run,
    alarm=run_alarm,
    index=run_index,
)

QUOTA: Decider[QuotaState] = Decider(
    kind="quota",
    scope="runs:write",
    state=QuotaState,
    commands=SlotTaken,
    events=QuotaEvents,
    decide=lambda view, command, policy, now: Refusal("NOT_A_COMMAND", "only accounts write to a quota"),
    fold=fold_quota,
)

DECIDERS: tuple[Decider[Any], ...] = (ACCOUNT, RUN, QUOTA)
