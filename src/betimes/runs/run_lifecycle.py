"""The lifecycle of one run: asked for, allowed, started, over. It starts once; its holder loses it only to time.

A run with a handler is started by the process that is about to call it; its lease is that of the call, and when the
call has ended the run is told. A run without one is claimed by a worker, whose lease is in the run itself. A run that
a schedule or a sensor asked for, and that never meets the gate because its target is something else, is only told how
that ended.
"""

from __future__ import annotations

from typing import Literal

from betimes.core.deciders import Decision, Reconsider, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant, render
from betimes.core.policies import Policy
from betimes.domain.completions import TargetSettled
from betimes.runs.fold import fold_run
from betimes.runs.model import (
    LEASE_RAN_OUT,
    ClaimRun,
    CompleteRun,
    LeaseRenewed,
    RenewRun,
    RunCommands,
    RunEnded,
    RunStarted,
    RunState,
    StartPutOff,
    StartRun,
    TargetEnded,
)
from betimes.runs.policy import RunsPolicy
from betimes.runs.run_effects import end_notice


def decide_run(
    view: View[RunState], command: RunCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    """Decide a command on a run."""
    run = view.state
    if run is None:
        return Refusal("NOT_FOUND", f"there is no run {view.stream.id}")
    match command:
        case StartRun(effect, worker):
            return _start_run(view, run, effect, worker, now)
        case ClaimRun(worker, lease_s):
            return _claim_run(view, run, worker, lease_s, now)
        case RenewRun(claim_token, lease_s):
            return _refuse_lost_claim(view, run, claim_token) or _renew_lease(run, now + lease_s * SECOND)
        case CompleteRun(claim_token, status, result, error):
            return _refuse_lost_claim(view, run, claim_token) or _end_run(view, run, status, now, result, error)
        case Wake(held_until_at) if held_until_at and run.status == "allowed":
            return _start_anew(run, held_until_at)
        case Wake():
            return _end_run(view, run, "abandoned", now, error=_why_abandoned(run))
        case Reconsider():
            return _put_off_start(run, policy[RunsPolicy])
        case Settled():
            return _settle_call(view, run, command, now)
        case TargetSettled(status, reason):
            return _end_target(view, run, status, reason, now)


def _start_run(view: View[RunState], run: RunState, effect: str, worker: str, now: Instant) -> Decision | Refusal:
    if run.status != "allowed" or run.handler == "claim":
        return Refusal("NOT_STARTABLE", f"the run {view.stream.id} is {run.status}; a run starts once")
    return Decision((RunStarted(now, worker, effect),), reply=run)


def _claim_run(view: View[RunState], run: RunState, worker: str, lease_s: int, now: Instant) -> Decision | Refusal:
    # Asked before the wider refusal, so that a worker learns who was faster and until when.
    if run.handler == "claim" and run.status == "started":
        until = render(run.lease_expires_at or now)
        return Refusal("ALREADY_CLAIMED", f"the run {view.stream.id} is claimed by {run.worker!r} until {until}")
    if run.handler != "claim" or run.status != "allowed":
        return Refusal("NOT_CLAIMABLE", f"the run {view.stream.id} is {run.status}, for {run.handler}")
    started = RunStarted(now, worker, claim_token=run.claim_token + 1, lease_expires_at=now + lease_s * SECOND)
    return Decision((started,), reply=fold_run(run, started))


def _renew_lease(run: RunState, lease_expires_at: Instant) -> Decision:
    renewed = LeaseRenewed(lease_expires_at)
    return Decision((renewed,), reply=fold_run(run, renewed))


def _refuse_lost_claim(view: View[RunState], run: RunState, claim_token: int) -> Refusal | None:
    if run.handler == "claim" and run.status == "started" and run.claim_token == claim_token:
        return None
    return Refusal(
        "CLAIM_LOST", f"the claim {claim_token} on the run {view.stream.id} is not active; the run is {run.status}"
    )


def _why_abandoned(run: RunState) -> str:
    return LEASE_RAN_OUT if run.status == "started" else "nobody started it in time"


def _start_anew(run: RunState, held_until_at: Instant) -> Decision:
    """Give a run that could not start during a hold the time to start that it had, from the end of the hold."""
    assert run.allowed_at is not None
    assert run.start_by_at is not None
    return Decision((StartPutOff(held_until_at + run.start_by_at - run.allowed_at),))


def _put_off_start(run: RunState, policy: RunsPolicy) -> Decision:
    """After a policy change, give the run more time to start if the policy does; never less than it was given."""
    if run.status != "allowed" or run.allowed_at is None or run.start_by_at is None:
        return Decision()
    start_by_at = run.allowed_at + policy.start_deadline_seconds * SECOND
    return Decision((StartPutOff(start_by_at),)) if start_by_at > run.start_by_at else Decision()


def _settle_call(view: View[RunState], run: RunState, settled: Settled, now: Instant) -> Decision:
    """End the run as the call of its handler ended."""
    if run.status == "asked":
        return _end_target(view, run, settled.status, settled.error, now)
    if run.status not in ("allowed", "started"):
        return Decision()
    statuses: dict[str, Literal["succeeded", "failed", "abandoned"]] = {"done": "succeeded", "abandoned": "abandoned"}
    return _end_run(view, run, statuses.get(settled.status, "failed"), now, settled.result, settled.error)


def _end_run(
    view: View[RunState],
    run: RunState,
    status: Literal["succeeded", "failed", "abandoned"],
    now: Instant,
    result: object = None,
    error: str = "",
) -> Decision:
    ended = RunEnded(status, now, view.version + 1, result, error)
    return Decision((ended,), effects=end_notice(view.stream, run, status, error), reply=fold_run(run, ended))


def _end_target(view: View[RunState], run: RunState, status: str, reason: str, now: Instant) -> Decision:
    if run.status != "asked":
        return Decision()
    return Decision((TargetEnded(status, now, reason),), effects=end_notice(view.stream, run, status, reason))  # type: ignore[arg-type]
