"""May this run start: the account's decisions.

A trigger and the retry of one that waited go the same way: judged by one table against the state before it, then
allowed, postponed or skipped. What waits is judged one at a time, each in a segment of its own: the rarest type first
(longest debounce), then the oldest, and always ahead of a command that arrives at the same instant.

A trigger of a type with trailing debounce is held until its burst is over. That is not its retry: the judgement at the
end is its first, and may postpone it once like any other. Whatever else of its type comes until then joins it.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Event, Reconsider, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.core.verdicts import Step, Verdict
from betimes.runs.account import alarm, fold, index
from betimes.runs.admission_request import Asking, Stage, asking_of, case_of
from betimes.runs.counters import quota_stream
from betimes.runs.gate import ADMISSION, GATE, would_pass_at
from betimes.runs.model import (
    AccountCommands,
    AccountEvents,
    AccountState,
    ActionsReported,
    BurstShortened,
    CancelTrigger,
    Due,
    First,
    Outcome,
    RepeatRequest,
    ReportActions,
    RequestRepeated,
    RequestRun,
    RunDeferred,
    TriggerJoined,
    run_id_of,
    run_stream,
)
from betimes.runs.outcomes import WAITING_MAX, allowed, asked_hooks, exhausted, judged, refused
from betimes.runs.policy import Entry, RunsPolicy, shares_quota
from betimes.runs.reasons import REASONS
from betimes.runs.run_effects import deferred_hooks

KEPT_MAX = 100
"""Payloads that the run after a burst sees at most; the newest are kept."""
_UNREGISTERED = Entry(debounce_seconds=0, cooldown_seconds=0)


def decide(
    view: View[AccountState], command: AccountCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case RequestRun():
            return _request(view, command, policy, now)
        case Wake():
            return _wake(view, policy, now)
        case Reconsider():
            return _reconsider(view.state, policy[RunsPolicy].registry, now)
        case RepeatRequest(trigger_type, first):
            return _repeat(trigger_type, first)
        case CancelTrigger(key):
            return _cancel(view, key, policy, now)
        case ReportActions(count, at):
            return Decision((ActionsReported(count, at),))
        case Settled():
            return Decision()


def needs(
    stream: StreamId, command: AccountCommands | Wake | Settled | Reconsider, policy: Policy
) -> tuple[StreamId, ...]:
    shared = (quota_stream(stream.tenant),) if shares_quota(policy[RunsPolicy]) else ()
    if isinstance(command, RequestRun) and command.run_id:
        return (*shared, run_stream(stream.tenant, command.run_id))
    return shared


def repeated(command: RequestRun | ReportActions, first: Recorded) -> RepeatRequest | None:
    """A trigger's key that comes again is recorded, with what it led to when it was new."""
    if not isinstance(command, RequestRun):
        return None
    outcome = first.reply or Outcome("skipped")
    run_id = outcome.run_id if outcome.status == "allowed" else None
    bare, shadow = _bare(first.verdict), _bare(outcome.shadow)
    return RepeatRequest(command.trigger_type, First(first.segment_id, first.at, first.policy, bare, run_id, shadow))


def _bare(verdict: Verdict | None) -> Verdict | None:
    """The verdict with what explains it: the rule that matched, if one did."""
    if verdict is None:
        return None
    return replace(verdict, trace=() if verdict.answer == "NOW" else verdict.trace[-1:])


# -- what arrives


def _request(view: View[AccountState], command: RequestRun, policy: Policy, now: Instant) -> Decision | Refusal:
    if view.key is None:
        return Refusal("KEY_REQUIRED", f"a trigger of {view.stream} needs an idempotency key")
    if no_tier := tier_problem(command.tenant_tier, policy[RunsPolicy]):
        return Refusal("UNKNOWN_TIER", no_tier)
    due = _arrived(view, view.key, command, now)
    entry = policy[RunsPolicy].registry.get(command.trigger_type)
    if entry is None:
        if command.strict:
            return Refusal("UNKNOWN_TRIGGER_TYPE", policy[RunsPolicy].type_problem(command.trigger_type))
        return _unknown(view, due, "new", policy, now)
    asking = asking_of(view, due, "new", entry, policy, now)
    if entry.debounce_mode == "trailing":
        waiting = next((other for other in asking.account.waiting if _is_shared(other, asking)), None)
        return _join(asking, waiting) if waiting else _hold(asking)
    return judged(asking)


def tier_problem(tier: str | None, runs: RunsPolicy) -> str:
    """Return what is wrong with the tier a trigger names, or nothing."""
    if tier is None or tier in runs.tiers:
        return ""
    return f"no such tier: {tier}; known are {', '.join(sorted(runs.tiers)) or 'none'}"


def _is_shared(waiting: Due, asking: Asking) -> bool:
    """Whether a trigger may join this one: what waits in shadow mode has run already and starts nothing."""
    return waiting.trigger_type == asking.due.trigger_type and waiting.shadow == asking.shadow


def _arrived(view: View[AccountState], key: str, command: RequestRun, now: Instant) -> Due:
    return Due(
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


def _unknown(view: View[AccountState], due: Due, stage: Stage, policy: Policy, now: Instant) -> Decision:
    asking = asking_of(view, due, stage, _UNREGISTERED, policy, now)
    return refused(asking, Verdict("NEVER", ("UNKNOWN_TRIGGER_TYPE",), ADMISSION.name))


def _repeat(trigger_type: str, first: First) -> Decision:
    return Decision(
        (RequestRepeated(trigger_type, first.segment),),
        verdict=Verdict("NEVER", ("DUPLICATE_IDEMPOTENCY_KEY",), ADMISSION.name),
        reply=Outcome("skipped", first=first),
    )


def _cancel(view: View[AccountState], key: str, policy: Policy, now: Instant) -> Decision | Refusal:
    """Drop a trigger that waits, with all that joined it. In shadow mode its run has started: nothing waits."""
    waiting = view.state.waiting if view.state else ()
    due = next((due for due in waiting if due.key == key and not due.shadow), None)
    if due is None:
        return Refusal("NOT_WAITING", f"the trigger {key!r} does not wait; only one that waits can be cancelled")
    entry = policy[RunsPolicy].registry.get(due.trigger_type, _UNREGISTERED)
    return refused(asking_of(view, due, "held", entry, policy, now), Verdict("NEVER", ("CANCELLED",), ADMISSION.name))


# -- bursts


def _hold(asking: Asking) -> Decision:
    """The first of a burst: wait until no more come."""
    now, until_at = asking.now, asking.now + asking.entry.debounce_seconds * SECOND
    due = replace(asking.due, until_at=until_at, reason="DEBOUNCED", held=True, shadow=asking.shadow)
    verdict = _debounced(asking, due)
    if len(asking.account.waiting) >= WAITING_MAX:
        full = exhausted(verdict)
        return allowed(asking, full, charged=False) if asking.shadow else refused(asking, full)
    return _waiting(asking, RunDeferred(due, now), due, verdict, "deferred")


def _join(asking: Asking, waiting: Due) -> Decision:
    """One more of a burst: it shares the run of the first, which may have to wait a little longer."""
    due, entry = asking.due, asking.entry
    older = due.newest_at < waiting.newest_at
    if entry.debounce_keep == "all":
        segments = (*waiting.segments, *due.segments)[-KEPT_MAX:]
    else:
        segments = waiting.segments if older else due.segments
    joined = replace(
        waiting,
        segments=segments,
        newest_at=max(waiting.newest_at, due.newest_at),
        until_at=_pushed_out(waiting, entry, asking.now) if waiting.held else waiting.until_at,
    )
    event = TriggerJoined(due.key, waiting.key, joined, asking.now)
    return _waiting(asking, event, joined, _debounced(asking, joined), "joined")


def _pushed_out(waiting: Due, entry: Entry, now: Instant) -> Instant:
    until_at = now + entry.debounce_seconds * SECOND
    if entry.debounce_max_wait_seconds is None:
        return until_at
    return min(until_at, waiting.first_at + entry.debounce_max_wait_seconds * SECOND)


def _reconsider(account: AccountState | None, registry: dict[str, Entry], now: Instant) -> Decision:
    """A burst ends as if the last of it came now, if that is sooner. A retry was promised for its instant and is the
    only one: sooner, it might be refused where it would have passed, so it stays where it is."""
    shortened = []
    for due in account.waiting if account else ():
        entry = registry.get(due.trigger_type)
        if due.held and entry and (until_at := max(now, _pushed_out(due, entry, now))) < due.until_at:
            shortened.append(BurstShortened(due.key, until_at))
    return Decision(tuple(shortened))


def _debounced(asking: Asking, due: Due) -> Verdict:
    """What a trigger is told that waits, or shares what waits: it passes as soon as the gate lets that pass."""
    step = Step("debounce", "DEBOUNCED", (0, asking.entry.debounce_seconds))
    then = case_of(replace(asking, due=due, now=due.until_at))
    judgement = ADMISSION.judge(then)
    passes_at = due.until_at if judgement.answer == "NOW" else would_pass_at(then, judgement)
    return Verdict("LATER", (due.reason,), ADMISSION.name, due.until_at, passes_at, (step,))


def _waiting(
    asking: Asking, event: Event, due: Due, verdict: Verdict, status: Literal["deferred", "joined"]
) -> Decision:
    """A trigger that is part of a burst; in shadow mode its own run starts all the same."""
    if asking.shadow:
        return allowed(asking, verdict, charged=False, and_then=(event,), promised_at=due.until_at)
    run_id = run_id_of(asking.stream.tenant, due.key)
    told = replace(asking.due, until_at=due.until_at)
    hooks = deferred_hooks(asking.stream, told, asking.policy, asking.now)
    return Decision(
        (event,),
        effects=(*asked_hooks(asking), *hooks),
        verdict=verdict,
        reply=Outcome(status, run_id),
        promised_at=due.until_at,
    )


# -- what has waited


def _wake(view: View[AccountState], policy: Policy, now: Instant) -> Decision:
    registry = policy[RunsPolicy].registry
    due = _first_due(view.state, registry, now)
    if due is None:
        return Decision()
    entry = registry.get(due.trigger_type)
    stage: Stage = "held" if due.held else "deferred"
    if entry is None:
        return _unknown(view, due, stage, policy, now)
    return judged(asking_of(view, due, stage, entry, policy, now))


def _first_due(account: AccountState | None, registry: dict[str, Entry], now: Instant) -> Due | None:
    """Of those due, the rarest type, then the oldest."""

    def place(due: Due) -> tuple[int, Instant, str]:
        entry = registry.get(due.trigger_type)
        return (-entry.debounce_seconds if entry else 0, due.first_at, due.key)

    return min((due for due in (account.waiting if account else ()) if due.until_at <= now), key=place, default=None)


ACCOUNT: Decider[AccountState] = Decider(
    kind="account",
    scope="runs:write",
    targets=(ReportActions,),
    state=AccountState,
    commands=AccountCommands,
    events=AccountEvents,
    replies=Outcome,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    needs=needs,
    repeated=repeated,
    tables=(ADMISSION, GATE),
    reasons=REASONS,
    heeds=(RunsPolicy,),
    heeding=("waiting",),
)
