"""Fires: a report of a check becomes an execution or waits for the cooldown, plans the next check or ends the intent.

A claim that runs out frees its intent at that instant, however late that is noticed. From the second in a row on it is
a failed execution besides, so that an intent that kills its workers is not offered for ever.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from betimes.core.deciders import Decision, Effect, Refusal, Send, View
from betimes.core.instants import HOUR, Instant, render
from betimes.core.policies import Policy
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable, Verdict
from betimes.domain.hooks import hook_effects
from betimes.intents.check_times import check_after_failure, check_after_success, check_interval
from betimes.intents.claims import held_claim
from betimes.intents.definitions import Definition
from betimes.intents.fold import fold
from betimes.intents.model import (
    CLAIM_EXPIRED,
    ClaimExpired,
    DisabledReason,
    FireCooled,
    Fired,
    FireIntent,
    FireStatus,
    ForgetIntent,
    IntentDisabled,
    IntentEvents,
    IntentFired,
    IntentState,
    owner_stream,
)
from betimes.intents.policy import IntentsPolicy
from betimes.notifications.model import NOTIFICATIONS, Notify, inbox_stream


class FireCase(msgspec.Struct, frozen=True, gc=False):
    """Everything a rule about fires may look at."""

    intent: IntentState
    now: Instant


def _cooldown(case: FireCase) -> Finding:
    definition, last_at = case.intent.definition, case.intent.last_condition_fire_at
    if last_at is None or not definition.cooldown:
        return Finding((None, definition.cooldown // HOUR))
    elapsed, limit = case.now - last_at, definition.cooldown
    seen = (round(elapsed / HOUR, 6), limit // HOUR)
    return Finding(seen, Hit("LATER", "COOLDOWN_ACTIVE", last_at + limit) if elapsed < limit else None)


FIRE_RULES: RuleTable[FireCase] = RuleTable(
    "intents.fire",
    (
        Rule(
            "cooldown",
            _cooldown,
            ("hours_since_last", "cooldown_hours"),
            "it last fired {hours_since_last:hour|hours} ago; its cooldown is {cooldown_hours:hour|hours}",
            absent="it is not in a cooldown",
        ),
    ),
    otherwise=Hit("NOW", "RECORDED"),
    places=("cooldown",),
)


def fire(
    view: View[IntentState], intent: IntentState, command: FireIntent, policy: Policy, now: Instant
) -> Decision | Refusal:
    refusal = _refusal_of(view, intent, command, now)
    if refusal:
        return refusal
    verdict = FIRE_RULES.judge(FireCase(intent, now))
    if verdict.answer == "LATER":
        next_check_at = verdict.until if intent.enabled else None
        return _decision(view, intent, (FireCooled(now, next_check_at),), policy, now, "cooldown_active", verdict)
    worker = intent.claim.worker if intent.claim else None
    events = execution_events(intent, command.status, policy[IntentsPolicy], now, worker, command.error_message)
    return _decision(view, intent, events, policy, now, command.status, verdict)


def _refusal_of(view: View[IntentState], intent: IntentState, command: FireIntent, now: Instant) -> Refusal | None:
    """Return why a report is refused, if it is.

    A token must be the live claim's; without one, no claim may be alive and the intent must be enabled.
    """
    live = intent.live_claim(now)
    if command.claim_token is not None:
        held = held_claim(view, intent, command.claim_token, now)
        return held if isinstance(held, Refusal) else None
    if live is not None:
        return Refusal(
            "CLAIM_LOST",
            f"{view.stream.id} is claimed by {live.worker} until {render(live.expires_at)}; nothing was "
            "changed. Fire it with the token of that claim",
        )
    return None if intent.enabled else Refusal("DISABLED", f"{view.stream.id} is disabled and nobody has claimed it")


def expire_claim(view: View[IntentState], intent: IntentState, policy: Policy) -> Decision:
    """Free an intent whose worker did not come back."""
    events = expiry_events(intent, policy[IntentsPolicy])
    return Decision(events, effects=consequences(view, intent, events, policy))


def expiry_events(intent: IntentState, policy: IntentsPolicy) -> tuple[IntentEvents, ...]:
    """Return the decision on a claim that expired without a report."""
    assert intent.claim is not None
    ended_at, worker = intent.claim.expires_at, intent.claim.worker
    # A plan made during the claim holds; else the intent is due again from the claim's end.
    free_at = intent.next_check_at if intent.was_planned_anew else ended_at
    ended = ClaimExpired(ended_at, worker, free_at if intent.enabled else None)
    # One claim that ran out is forgiven; the next counts as a failure.
    if not intent.expiry_count:
        return (ended,)
    return (ended, *execution_events(intent, "failed", policy, ended_at, worker, CLAIM_EXPIRED))


def expire_intent(view: View[IntentState], intent: IntentState) -> Decision:
    assert intent.definition.expires_at is not None
    events = (IntentDisabled(intent.version + 1, intent.definition.expires_at, "EXPIRED"),)
    return Decision(events, effects=uncount_effects(view, events, intent.definition.user_id))


def execution_events(
    intent: IntentState, status: FireStatus, policy: IntentsPolicy, at: Instant, worker: str | None, error: str | None
) -> tuple[IntentEvents, ...]:
    """Return the execution, and the disabling it leads to, if it does."""
    next_check_at = next_check(intent, status, policy, at) if intent.enabled else None
    # The report is about the plan before; the new one stands.
    if intent.was_planned_anew:
        next_check_at = intent.next_check_at
    reason = _disabling_reason(intent, status, policy) if intent.enabled else None
    fired = IntentFired(status, at, None if reason else next_check_at, worker, error)
    return (fired, IntentDisabled(intent.version + 1, at, reason)) if reason else (fired,)


def next_check(intent: IntentState, status: FireStatus, policy: IntentsPolicy, at: Instant) -> Instant | None:
    match status:
        case "failed":
            # The count of the state is that before this failure.
            return check_after_failure(intent.failure_count + 1, policy, at)
        case "gate_blocked" | "condition_not_met":
            return at + check_interval(intent.definition)
        case "success":
            return check_after_success(intent.definition, at)


def _disabling_reason(intent: IntentState, status: FireStatus, policy: IntentsPolicy) -> DisabledReason | None:
    definition = intent.definition
    if status == "failed":
        return "FAILURES" if intent.failure_count + 1 >= policy.failures_max else None
    if status != "success":
        return None
    # One that was given another time while it was being checked still has that one to keep.
    if definition.trigger_type == "once" and not intent.was_planned_anew:
        return "ONCE_DONE"
    if definition.is_condition_based and definition.condition and definition.condition.fire_mode == "once":
        return "FIRE_MODE_ONCE"
    most = definition.max_executions
    return "MAX_EXECUTIONS" if most is not None and intent.execution_count + 1 >= most else None


def consequences(
    view: View[IntentState], intent: IntentState, events: tuple[IntentEvents, ...], policy: Policy
) -> tuple[Effect, ...]:
    """Return what an execution causes elsewhere: room for another intent, and news of one that failed for good."""
    effects = list(uncount_effects(view, events, intent.definition.user_id))
    for event in events:
        if isinstance(event, IntentDisabled) and event.reason == "FAILURES":
            error = next((fired.error for fired in events if isinstance(fired, IntentFired)), None)
            effects += failure_news(view, intent.definition, policy, event.at, error)
    return tuple(effects)


def uncount_effects(view: View[IntentState], events: tuple[IntentEvents, ...], user_id: str) -> tuple[Effect, ...]:
    """Tell the owner of every disabling among the events."""
    return tuple(
        Send(owner_stream(view.stream.tenant, user_id), ForgetIntent(view.stream.id, event.version))
        for event in events
        if isinstance(event, IntentDisabled)
    )


def _decision(
    view: View[IntentState],
    intent: IntentState,
    events: tuple[IntentEvents, ...],
    policy: Policy,
    now: Instant,
    status: str,
    verdict: Verdict,
) -> Decision:
    after: IntentState | None = intent
    for event in events:
        after = fold(after, event)
    assert after is not None
    reply = Fired(
        status=status,  # type: ignore[arg-type]
        at=now,
        enabled=after.enabled,
        execution_count=after.execution_count,
        next_check_at=after.next_check_at,
        last_condition_fire_at=after.last_condition_fire_at,
        cooldown_ends_at=verdict.until,
        cooldown_hours=intent.definition.cooldown // HOUR,
        was_disabled_reason=after.was_disabled_reason,
    )
    effects = consequences(view, intent, events, policy)
    return Decision(events, effects=effects, verdict=verdict, reply=reply)


CONTEXT_CHARS_MAX, ERROR_CHARS_MAX, NAME_CHARS_MAX = 300, 300, 160


def failure_news(
    view: View[IntentState], definition: Definition, policy: Policy, at: Instant, error: str | None
) -> tuple[Effect, ...]:
    """Return the effects that tell owner and hooks of an intent disabled by its failures."""
    tenant, intent_id, user_id = view.stream.tenant, view.stream.id, definition.user_id
    # The version makes it a name of its own: an intent may fail for good, be enabled, and fail again.
    name = f"{intent_id}:{view.version + 1}"
    key = f"intent-disabled:{name if len(name) <= NAME_CHARS_MAX else sha256(name.encode()).hexdigest()}"
    inbox = inbox_stream(tenant, user_id)
    told = Send(inbox, _notice(intent_id, definition, policy[IntentsPolicy], key, error), key, NOTIFICATIONS, inbox.id)
    detail = {
        "tenant_id": tenant,
        "intent_id": intent_id,
        "user_id": user_id,
        "was_disabled_reason": "FAILURES",
        "error": error,
    }
    return (told, *hook_effects(policy, tenant, "INTENT_DISABLED", key=key, at=at, subject=user_id, detail=detail))


def _notice(intent_id: str, definition: Definition, policy: IntentsPolicy, key: str, error: str | None) -> Notify:
    asked = definition.action_context[:CONTEXT_CHARS_MAX]
    because = f" The last error: {error[:ERROR_CHARS_MAX]}" if error else ""
    return Notify(
        event_type="ALERT",
        title="An intent was switched off",
        message=f"It failed {policy.failures_max} times in a row: {asked} Enable it to try again.{because}",
        source="intents",
        channels=tuple(definition.action_channels or policy.channels),
        priority_hint="MEDIUM",
        dedupe_key=key,
        metadata={"intent_id": intent_id, "was_disabled_reason": "FAILURES"},
        requested=True,
    )
