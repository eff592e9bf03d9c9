"""News of an intent that failed for good: a notification to its owner, and the tenant's hooks."""

from __future__ import annotations

from hashlib import sha256

from betimes.core.deciders import Effect, Send, View
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.domain.hooks import hook_effects
from betimes.intents.definitions import Definition
from betimes.intents.model import IntentState
from betimes.intents.policy import IntentsPolicy
from betimes.notifications.model import NOTIFICATIONS, Notify, inbox_stream

CONTEXT_CHARS_MAX, ERROR_CHARS_MAX, NAME_CHARS_MAX = 300, 300, 160


def failure_news(
    view: View[IntentState], definition: Definition, policy: Policy, at: Instant, error: str | None
) -> tuple[Effect, ...]:
    """Return the effects that tell owner and hooks of an intent disabled by its failures."""
    tenant, intent_id, user_id = view.stream.tenant, view.stream.id, definition.user_id
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
