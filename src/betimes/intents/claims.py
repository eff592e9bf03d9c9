"""Claims: the right of one worker to work on an intent, with its fence and its end.

The token of a claim is the version of the segment that granted it, so it grows with every claim of an intent, also over
deletion. A claim that is alive keeps everybody else out; one that has run out is over for its holder, whether or not
anybody came after.
"""

from __future__ import annotations

import msgspec

from betimes.core.deciders import Decision, Refusal, View
from betimes.core.instants import SECOND, Instant, render
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.intents.check_times import check_after_source
from betimes.intents.model import (
    AwaitSource,
    Claim,
    Claimed,
    ClaimIntent,
    ClaimReleased,
    ClaimRenewed,
    IntentClaimed,
    IntentState,
    ReleaseClaim,
    RenewClaim,
    SourceAwaited,
)
from betimes.intents.policy import IntentsPolicy


class ClaimCase(msgspec.Struct, frozen=True, gc=False):
    """Everything a rule about claims may look at."""

    intent: IntentState
    now: Instant
    among_many: bool
    builtin: bool = False


def _check_enabled(case: ClaimCase) -> Finding:
    enabled = case.intent.enabled
    return Finding((enabled,), None if enabled else Hit("NEVER", "DISABLED"))


def _check_unclaimed(case: ClaimCase) -> Finding:
    claim = case.intent.live_claim(case.now)
    if claim is None:
        return Finding((None, None))
    return Finding((claim.worker, render(claim.expires_at)), Hit("LATER", "ALREADY_CLAIMED", claim.expires_at))


def _check_due(case: ClaimCase) -> Finding:
    due_at = case.intent.next_check_at
    if due_at is None:
        return Finding((None,), Hit("NEVER", "NOT_DUE"))
    return Finding((render(due_at),), Hit("LATER", "NOT_DUE", due_at) if case.now < due_at else None)


def _check_cooldown(case: ClaimCase) -> Finding:
    ends_at = case.intent.cooldown_ends_at
    seen = (case.among_many, None if ends_at is None else render(ends_at))
    # Whoever asks for this very intent may have it; the cooldown is judged once more when it fires.
    if not case.among_many or not case.intent.is_cooling(case.now):
        return Finding(seen)
    return Finding(seen, Hit("LATER", "COOLDOWN", ends_at))


def _check_reservation(case: ClaimCase) -> Finding:
    choice = case.intent.definition.worker
    fits = choice == "any" or (choice == "builtin") == case.builtin
    return Finding((choice,), None if fits else Hit("NEVER", "NOT_CLAIMABLE"))


CLAIM_RULES: RuleTable[ClaimCase] = RuleTable(
    "intents.claim",
    (
        Rule("disabled", _check_enabled, ("enabled",), "it is disabled", "it is enabled"),
        Rule(
            "claimed",
            _check_unclaimed,
            ("worker", "expires_at"),
            "{worker} has claimed it until {expires_at}",
            "nobody has claimed it",
        ),
        Rule(
            "not_due",
            _check_due,
            ("next_check",),
            "the next check is at {next_check}",
            "it has been due since {next_check}",
        ),
        Rule(
            "cooling",
            _check_cooldown,
            ("among_many", "ends_at"),
            "it fired too recently; its cooldown ends at {ends_at}",
            "it is not in a cooldown (the last one ended: {ends_at})",
        ),
        Rule(
            "reserved",
            _check_reservation,
            ("worker",),
            "it is for other workers: {worker}",
            "this worker may claim it ({worker})",
        ),
    ),
    otherwise=Hit("NOW", "DUE"),
    places=("disabled", "claimed", "not_due", "cooling", "reserved"),
)
_REFUSALS = {
    "DISABLED": "{id} is disabled; enable it first",
    "ALREADY_CLAIMED": "{id} is claimed by {worker} until {until}; claim another one, or try again then",
    "NOT_DUE": "{id} is not due{until}",
    "NOT_CLAIMABLE": "{id} is reserved for other workers (its `worker` is {choice}); "
    "change that to any, or leave it to them",
}


def claim(
    view: View[IntentState], intent: IntentState, command: ClaimIntent, policy: IntentsPolicy, now: Instant
) -> Decision | Refusal:
    verdict = CLAIM_RULES.judge(ClaimCase(intent, now, command.among_many, command.builtin))
    if verdict.answer == "NOW":
        # The version at which the claim is written is its token: none is ever given twice, whoever claims.
        token, expires_at = view.version + 1, now + lease(command.lease_s, policy)
        reply = Claimed(token, now, expires_at)
        return Decision((IntentClaimed(token, command.worker, now, expires_at),), verdict=verdict, reply=reply)
    # One of many that somebody else was faster with is no error; the worker goes on to the next.
    if command.among_many:
        return Decision(verdict=verdict)
    reason, until = verdict.reasons[0], "" if verdict.until is None else render(verdict.until)
    if reason == "NOT_DUE" and until:
        until = f"; its next check is at {until}"
    worker = intent.claim.worker if intent.claim else ""
    choice = intent.definition.worker
    return Refusal(reason, _REFUSALS[reason].format(id=view.stream.id, worker=worker, until=until, choice=choice))


def renew(
    view: View[IntentState], intent: IntentState, command: RenewClaim, policy: IntentsPolicy, now: Instant
) -> Decision | Refusal:
    held = held_claim(view, intent, command.claim_token, now)
    if isinstance(held, Refusal):
        return held
    expires_at = now + lease(command.lease_s, policy)
    return Decision((ClaimRenewed(expires_at),), reply=Claimed(held.token, held.claimed_at, expires_at))


def release(view: View[IntentState], intent: IntentState, command: ReleaseClaim, now: Instant) -> Decision | Refusal:
    held = held_claim(view, intent, command.claim_token, now)
    return held if isinstance(held, Refusal) else Decision((ClaimReleased(now),))


def await_source(
    view: View[IntentState], intent: IntentState, command: AwaitSource, policy: IntentsPolicy, now: Instant
) -> Decision | Refusal:
    """Give the claim back and ask the source again later; the intent's own failures do not count this."""
    held = held_claim(view, intent, command.claim_token, now)
    if isinstance(held, Refusal):
        return held
    before = intent.waiting_for_source
    count = 1 + (before.count if before and before.source == command.source else 0)
    next_check_at = check_after_source(count, policy, now) if intent.enabled else None
    # Whoever changed it since the claim has planned its check; this report is about the one before.
    if intent.was_planned_anew:
        next_check_at = intent.next_check_at
    return Decision((SourceAwaited(now, command.source, command.error, next_check_at),))


def held_claim(view: View[IntentState], intent: IntentState, token: int, now: Instant) -> Claim | Refusal:
    """Return the live claim if the token is its own, or else the refusal."""
    live = intent.live_claim(now)
    if live is not None and live.token == token:
        return live
    now_held = f"the active one belongs to {live.worker}" if live else "no claim is active"
    return Refusal(
        "CLAIM_LOST",
        f"the claim {token} on {view.stream.id} is over ({now_held}); nothing was changed. "
        "Drop the work, or claim it again",
    )


def lease(lease_s: int | None, policy: IntentsPolicy) -> int:
    return (policy.claim_lease_s if lease_s is None else lease_s) * SECOND
