"""One run: asked for, allowed, started, over. It starts once, and whoever holds it can lose it only to time.

A run with a handler is started by the process that is about to call it; its lease is that of the call, and when the
call has ended the run hears of it. A run without one is claimed by a worker, whose lease is in the run itself. A run
that a schedule or a sensor asked for, and that never meets the gate because its target is something else, only learns
how that ended.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Effect, Index, Reconsider, Refusal, Send, Settled, View, Wake
from betimes.core.instants import SECOND, Instant, render
from betimes.core.policies import Policy
from betimes.domain.completions import RunFinished, TargetSettled
from betimes.runs.model import (
    LEASE_RAN_OUT,
    ClaimRun,
    CompleteRun,
    LeaseRenewed,
    RenewRun,
    RunAdmitted,
    RunAsked,
    RunCommands,
    RunConflicted,
    RunEnded,
    RunEvents,
    RunRefused,
    RunStarted,
    RunState,
    StartPutOff,
    StartRun,
    TargetEnded,
)
from betimes.runs.policy import RunsPolicy


def decide(
    view: View[RunState], command: RunCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    run = view.state
    if run is None:
        return Refusal("NOT_FOUND", f"there is no run {view.stream.id}")
    match command:
        case StartRun(effect, worker):
            return _start(view, run, effect, worker, now)
        case ClaimRun(worker, lease_s):
            return _claim(view, run, worker, lease_s, now)
        case RenewRun(claim_token, lease_s):
            return _lost(view, run, claim_token) or _renew(run, now + lease_s * SECOND)
        case CompleteRun(claim_token, status, result, error):
            return _lost(view, run, claim_token) or _ended(view, run, status, now, result, error)
        case Wake():
            return _ended(view, run, "abandoned", now, error=_why_abandoned(run))
        case Reconsider():
            return _reconsider(run, policy[RunsPolicy])
        case Settled():
            return _settled(view, run, command, now)
        case TargetSettled(status, reason):
            return _target_ended(view, run, status, reason, now)


def _start(view: View[RunState], run: RunState, effect: str, worker: str, now: Instant) -> Decision | Refusal:
    if run.status != "allowed" or run.handler == "claim":
        return Refusal("NOT_STARTABLE", f"the run {view.stream.id} is {run.status}; a run starts once")
    return Decision((RunStarted(now, worker, effect),), reply=run)


def _claim(view: View[RunState], run: RunState, worker: str, lease_s: int, now: Instant) -> Decision | Refusal:
    if run.handler == "claim" and run.status == "started":
        until = render(run.lease_expires_at or now)
        return Refusal("ALREADY_CLAIMED", f"the run {view.stream.id} is claimed by {run.worker!r} until {until}")
    if run.handler != "claim" or run.status != "allowed":
        return Refusal("NOT_CLAIMABLE", f"the run {view.stream.id} is {run.status}, for {run.handler}")
    started = RunStarted(now, worker, claim_token=run.claim_token + 1, lease_expires_at=now + lease_s * SECOND)
    return Decision((started,), reply=fold(run, started))


def _renew(run: RunState, lease_expires_at: Instant) -> Decision:
    renewed = LeaseRenewed(lease_expires_at)
    return Decision((renewed,), reply=fold(run, renewed))


def _lost(view: View[RunState], run: RunState, claim_token: int) -> Refusal | None:
    if run.handler == "claim" and run.status == "started" and run.claim_token == claim_token:
        return None
    return Refusal(
        "CLAIM_LOST", f"the claim {claim_token} on the run {view.stream.id} is not alive; it is {run.status}"
    )


def _why_abandoned(run: RunState) -> str:
    return LEASE_RAN_OUT if run.status == "started" else "nobody started it in time"


def _reconsider(run: RunState, policy: RunsPolicy) -> Decision:
    """Whoever may start it has at least the time that was given; more, if the policy gives more now."""
    if run.status != "allowed" or run.allowed_at is None or run.start_by_at is None:
        return Decision()
    start_by_at = run.allowed_at + policy.start_deadline_seconds * SECOND
    return Decision((StartPutOff(start_by_at),)) if start_by_at > run.start_by_at else Decision()


def _settled(view: View[RunState], run: RunState, settled: Settled, now: Instant) -> Decision:
    if run.status == "asked":
        return _target_ended(view, run, settled.status, settled.error, now)
    if run.status not in ("allowed", "started"):
        return Decision()
    statuses: dict[str, Literal["succeeded", "failed", "abandoned"]] = {"done": "succeeded", "abandoned": "abandoned"}
    return _ended(view, run, statuses.get(settled.status, "failed"), now, settled.result, settled.error)


def _ended(
    view: View[RunState],
    run: RunState,
    status: Literal["succeeded", "failed", "abandoned"],
    now: Instant,
    result: object = None,
    error: str = "",
) -> Decision:
    ended = RunEnded(status, now, view.version + 1, result, error)
    return Decision((ended,), effects=_news(view, run, status, error), reply=fold(run, ended))


def _target_ended(view: View[RunState], run: RunState, status: str, reason: str, now: Instant) -> Decision:
    if run.status != "asked":
        return Decision()
    return Decision((TargetEnded(status, now, reason),), effects=_news(view, run, status, reason))  # type: ignore[arg-type]


def _news(view: View[RunState], run: RunState, status: str, reason: str) -> tuple[Effect, ...]:
    if not run.tell or run.asked_by is None:
        return ()
    return (Send(run.asked_by, RunFinished(view.stream.id, run.run_key or "", status, reason)),)  # type: ignore[arg-type]


def fold(state: RunState | None, event: RunEvents) -> RunState:
    run = state or RunState("asked")
    match event:
        case RunAsked(run_key, fingerprint, target, asked_by, _, tell):
            return replace(run, run_key=run_key, fingerprint=fingerprint, target=target, asked_by=asked_by, tell=tell)
        case RunConflicted():
            return replace(run, conflict_count=run.conflict_count + 1)
        case RunAdmitted():
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
        case RunRefused(reason, at):
            return replace(run, status="skipped", reason=reason, finished_at=at)
        case RunStarted(at, worker, effect, claim_token, lease_expires_at):
            return replace(
                run,
                status="started",
                started_at=at,
                worker=worker,
                effect=effect,
                claim_token=claim_token,
                lease_expires_at=lease_expires_at,
            )
        case StartPutOff(start_by_at):
            return replace(run, start_by_at=start_by_at)
        case LeaseRenewed(lease_expires_at):
            return replace(run, lease_expires_at=lease_expires_at)
        case RunEnded(status, at, version, _, error):
            return replace(
                run, status=status, finished_at=at, ended_version=version, error=error, lease_expires_at=None
            )
        case TargetEnded(status, at, reason):
            return replace(run, status="settled", ending=status, reason=reason, finished_at=at)


def alarm(run: RunState) -> Instant | None:
    """A run that nobody starts, or whose worker is silent, does not stay for ever."""
    match run.status:
        case "allowed":
            return run.start_by_at
        case "started":
            return run.lease_expires_at
        case _:
            return None


def index(run: RunState) -> Index:
    """Runs the gate admitted are listed by status and account; those a worker may claim are due since then."""
    claimable = run.handler == "claim" and run.status == "allowed"
    due_at = run.allowed_at if claimable else None
    return Index(run.status, run.account_id, due_at, due_at)


RUN: Decider[RunState] = Decider(
    kind="run",
    scope="runs:write",
    state=RunState,
    commands=RunCommands,
    events=RunEvents,
    replies=RunState | None,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    heeds=(RunsPolicy,),
    heeding=("allowed",),
)
