"""Decisions about an intent: it is defined, changed, claimed and fired, and wakes when its claim or its time is over.

A definition that breaks rules is no refusal but an answer: `Defined` with every problem, and nothing is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import broken_rules
from betimes.core.deciders import Decider, Decision, Event, Reconsider, Refusal, Settled, View, Wake
from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.merge_patch import apply_merge_patch
from betimes.core.policies import Policy
from betimes.core.streams import StreamId, checked_stream
from betimes.domain.hooks import Hooks
from betimes.intents.check_times import check_after_failure, first_check
from betimes.intents.claims import CLAIM_RULES, await_source, claim, release, renew
from betimes.intents.drafts import body_of, definition_of, draft_from, sent_fields
from betimes.intents.fires import FIRE_RULES, expire_claim, expire_intent, fire, uncount_effects
from betimes.intents.fold import TYPES, alarm, fold, index
from betimes.intents.model import (
    AwaitSource,
    ChangeIntent,
    ClaimIntent,
    Defined,
    DefineIntent,
    Definition,
    DeleteIntent,
    DisableIntent,
    EnableIntent,
    FireIntent,
    IntentCommands,
    IntentCounted,
    IntentDefined,
    IntentDeleted,
    IntentDisabled,
    IntentEnabled,
    IntentState,
    IntentUncounted,
    OwnerState,
    ReleaseClaim,
    RenewClaim,
    Replies,
    RetryMoved,
    owner_stream,
)
from betimes.intents.owners import OWNER
from betimes.intents.policy import IntentsPolicy
from betimes.intents.reasons import REASONS
from betimes.intents.validation import DefinitionCase, problems_of, warnings_of
from betimes.notifications.policy import NotificationsPolicy


def decide(
    view: View[IntentState], command: IntentCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    if isinstance(command, DefineIntent):
        return _define(view, command, policy, now)
    if view.state is None:
        return Refusal("NOT_FOUND", f"there is no intent {view.stream.id!r}")
    return _decide_existing(view, view.state, command, policy, now)


def _decide_existing(
    view: View[IntentState], intent: IntentState, command: Any, policy: Policy, now: Instant
) -> Decision | Refusal:
    match command:
        case ClaimIntent():
            return claim(view, intent, command, policy[IntentsPolicy], now)
        case FireIntent():
            return fire(view, intent, command, policy, now)
        case AwaitSource():
            return await_source(view, intent, command, policy[IntentsPolicy], now)
        case RenewClaim():
            return renew(view, intent, command, policy[IntentsPolicy], now)
        case ReleaseClaim():
            return release(view, intent, command, now)
        case Wake():
            return _wake(view, intent, policy)
        case ChangeIntent():
            return _change(view, intent, command, policy, now)
        case EnableIntent(user_id, expected):
            return _change(view, intent, ChangeIntent({"enabled": True}, user_id, expected), policy, now)
        case DisableIntent(expected):
            return _mismatch(view, intent, expected) or _disable(view, intent, now)
        case DeleteIntent(expected):
            return _mismatch(view, intent, expected) or _delete(view, intent, now)
        case Reconsider():
            return _reconsider(intent, policy[IntentsPolicy], now)
        case _:
            return Refusal("NOT_A_COMMAND", "an intent has no effects that could end")


def _wake(view: View[IntentState], intent: IntentState, policy: Policy) -> Decision:
    """End the claim or the intent, whichever was over first."""
    ends_at = intent.definition.expires_at if intent.enabled else None
    if intent.claim and (ends_at is None or intent.claim.expires_at <= ends_at):
        return expire_claim(view, intent, policy)
    return expire_intent(view, intent)


def state_at(stream: StreamId, intent: IntentState, policy: Policy, now: Instant) -> IntentState:
    """Return the intent as its alarms leave it by now, whether or not anybody has rung them."""
    while (alarm_at := alarm(intent)) is not None and alarm_at <= now:
        for event in _wake(View(stream, intent), intent, policy).events:
            after = fold(intent, event)  # type: ignore[arg-type]
            assert after is not None
            intent = after
    return intent


def _reconsider(intent: IntentState, policy: IntentsPolicy, now: Instant) -> Decision:
    """Check again sooner if the policy has a shorter pause after failures now; nothing else depends on the policy."""
    failed_at, check_at = intent.last_checked_at, intent.next_check_at
    waits = check_at is not None and check_at > now and not intent.is_cooling(now) and intent.claim is None
    if not waits or failed_at is None or check_at is None or not intent.failure_count:
        return Decision()
    # Only ever sooner: what was promised for an instant happens then at the latest.
    retry_at = check_after_failure(intent.failure_count, policy, failed_at)
    return Decision((RetryMoved(retry_at),)) if retry_at < check_at else Decision()


# -- definitions


def _define(view: View[IntentState], command: DefineIntent, policy: Policy, now: Instant) -> Decision | Refusal:
    before = view.state
    if before and command.only_new:
        return Refusal("VERSION_MISMATCH", f"the intent {view.stream.id!r} exists already, at version {before.version}")
    if before and not command.replaces:
        return Refusal(
            "ALREADY_EXISTS", f"the intent {view.stream.id!r} exists already; replace it, or choose another id"
        )
    return _mismatch(view, before, command.expected) or _write_definition(view, sent_fields(command.body), policy, now)


def _change(
    view: View[IntentState], intent: IntentState, command: ChangeIntent, policy: Policy, now: Instant
) -> Decision | Refusal:
    # `needs` locked the limit of the owner that the command names; of another nothing is known here.
    if command.user_id != intent.definition.user_id:
        return Refusal(
            "OWNER_MOVED", f"{view.stream.id!r} does not belong to {command.user_id!r} any more; read it again"
        )
    mismatch = _mismatch(view, intent, command.expected)
    if mismatch:
        return mismatch
    body = apply_merge_patch(body_of(view.stream.id, intent), command.patch)
    return _write_definition(view, sent_fields(body), policy, now)


def _mismatch(view: View[IntentState], intent: IntentState | None, expected: int | None) -> Refusal | None:
    version = intent.version if intent else 0
    if expected is None or expected == version:
        return None
    return Refusal("VERSION_MISMATCH", f"{view.stream.id!r} is at version {version}, not {expected}; read it again")


def _write_definition(view: View[IntentState], fields: dict[str, Any], policy: Policy, now: Instant) -> Decision:
    """Put the definition in place, or answer with every problem it has."""
    draft, misshapen, misshapen_count = draft_from(fields)
    before, owner = view.state, owner_stream(view.stream.tenant, str(fields.get("user_id")))
    state: OwnerState = view.others.get(owner) or OwnerState()
    channels = frozenset(policy[NotificationsPolicy].channels)
    case = DefinitionCase(draft, view.stream, before, state, policy[IntentsPolicy], channels, now)
    found = problems_of(case, misshapen)
    warnings = tuple(broken_rules(draft, [warnings_of]))
    if found:
        total = len(found) - len(misshapen) + misshapen_count
        reply = Defined(problems=tuple(found), warnings=warnings, problem_count=total)
        # An answer, not a refusal: its key stays free, so that the same request can be sent again, put right.
        return Decision(reply=reply, is_invalid=True)
    definition = definition_of(draft)
    event = _event(view, definition, draft.enabled, now)
    if event is None:
        assert before is not None
        return Decision(reply=Defined(before.version, warnings=warnings))
    also = _owner_events(view, state, draft.enabled, event.version)
    reply = Defined(event.version, created=before is None, warnings=warnings)
    return Decision((event,), also={owner: also} if also else {}, reply=reply)


def _event(
    view: View[IntentState], definition: Definition, enabled: bool, now: Instant
) -> IntentDefined | IntentEnabled | IntentDisabled | None:
    """Return the shortest event that makes the change; `None` if nothing changes."""
    before = view.state
    if before is None:  # the stream's version has counted every change of any intent that had this id
        return IntentDefined(
            definition, view.version + 1, now, enabled, first_check(definition, now) if enabled else None
        )
    version = before.version + 1
    if encode(definition) == encode(before.definition):  # in Python, 1 and True are the same
        if enabled == before.enabled:
            return None
        return IntentEnabled(version, now, first_check(definition, now)) if enabled else IntentDisabled(version, now)
    # A change of anything but the plan keeps the check that is due, and the failures counted so far.
    restarts = enabled and (not before.enabled or _planned_otherwise(before.definition, definition))
    check_at = first_check(definition, now) if restarts else before.next_check_at if enabled else None
    return IntentDefined(definition, version, now, enabled, check_at, restarts)


def _planned_otherwise(before: Definition, after: Definition) -> bool:
    planned = ("trigger_type", "schedule", "condition")
    return any(getattr(before, name) != getattr(after, name) for name in planned)


def _owner_events(view: View[IntentState], owner: OwnerState, enabled: bool, version: int) -> tuple[Event, ...]:
    """Return the events for the limit of the owner."""
    was_enabled = view.state is not None and view.state.enabled
    if enabled and not was_enabled:
        return (IntentCounted(view.stream.id, version),)
    if not enabled and view.stream.id in owner.enabled:
        return (IntentUncounted(view.stream.id),)
    return ()


def _disable(view: View[IntentState], intent: IntentState, now: Instant) -> Decision:
    if not intent.enabled:
        return Decision(reply=Defined(intent.version))
    events = (IntentDisabled(intent.version + 1, now),)
    effects = uncount_effects(view, events, intent.definition.user_id)
    return Decision(events, effects=effects, reply=Defined(intent.version + 1))


def _delete(view: View[IntentState], intent: IntentState, now: Instant) -> Decision:
    # To the limit of its owner it is as if it were disabled first.
    gone = IntentDisabled(intent.version + 1, now)
    return Decision((IntentDeleted(now),), effects=uncount_effects(view, (gone,), intent.definition.user_id))


def needs(stream: StreamId, command: Any, policy: Policy) -> tuple[StreamId, ...]:
    """Return the limit of the owner, for commands that may enable the intent."""
    match command:
        case DefineIntent(body):
            user_id = body.get("user_id")
        case ChangeIntent(user_id=user_id) | EnableIntent(user_id):
            pass
        case _:
            return ()
    try:
        return (checked_stream(stream.tenant, "owner", user_id),)  # type: ignore[arg-type]
    except (Invalid, TypeError):
        return ()  # what is wrong with it is told by the decision


INTENT = Decider(
    kind="intent",
    scope="intents:write",
    decide=decide,
    needs=needs,
    tables=(CLAIM_RULES, FIRE_RULES),
    reasons=REASONS,
    replies=Replies,
    stops=(DisableIntent, DeleteIntent),
    claims=(ClaimIntent,),
    targets=(EnableIntent, DisableIntent),
    heeds=(IntentsPolicy,),
    heeding=tuple(f"enabled.{name}" for name in TYPES),
    fold=fold,
    alarm=alarm,
    index=index,
)

DECIDERS: tuple[Decider[Any], ...] = (INTENT, OWNER)
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "intents": IntentsPolicy,
    "notifications": NotificationsPolicy,
    "hooks": Hooks,
}
"""The policy sections that decide intents, including those of the domains they use."""
