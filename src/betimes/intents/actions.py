"""The actions of the built-in worker about an intent that is due: ask the gate, and notify or call a handler.

The action's id is `intent:{id}:{check}`, with the check that is owed. It stays while failures are tried again and when
another worker takes over, so a notification that was asked for twice is a replay of the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from betimes.core.deciders import Decision, View
from betimes.core.instants import Instant, render
from betimes.core.streams import ID_CHARS_MAX, KeyId, StreamId, segment_cause
from betimes.core.verdicts import Verdict
from betimes.domain.derivation import derive
from betimes.engine.engine import Engine
from betimes.engine.jobs import CORRELATION_CHARS_MAX, Submission
from betimes.intents.action import Action
from betimes.intents.model import ActionPriority, Definition, IntentState
from betimes.intents.policy import IntentsPolicy
from betimes.intents.sources import call_function
from betimes.notifications.model import NOTIFICATIONS, Notify, Priority, inbox_stream
from betimes.runs.model import TRIGGERS, RequestRun, account_stream, agreed_request

CONDITION_CHARS_MAX, MESSAGE_CHARS_MAX, PREVIEW_CHARS_MAX = 60, 1_000, 500
HANDLED = ("check_in", "briefing", "analysis")
_PRIORITIES: dict[ActionPriority, Priority] = {"low": "LOW", "normal": "MEDIUM", "high": "HIGH", "critical": "CRITICAL"}
_TITLES = {
    "notify": "Alert",
    "reminder": "Reminder",
    "check_in": "Check-in",
    "briefing": "Briefing",
    "analysis": "Analysis",
}
TITLE_OTHERWISE = "Your intent"
_GATE_ANSWERS = {"NOW": "ALLOW", "LATER": "DEFER", "NEVER": "SKIP"}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action, as a fire reports it."""

    message_id: str | None = None
    message_preview: str | None = None
    generation_ms: int | None = None
    delivery_ms: int | None = None
    outcome: dict[str, Any] | None = None


Handler: TypeAlias = Callable[[Action], Any]
HasChannel: TypeAlias = Callable[[str, str], bool]
"""Whether a tenant has a channel of this name."""


def any_channel(tenant: str, channel: str) -> bool:
    return True


def action_id_of(intent_id: str, check_at: Instant) -> str:
    name = f"intent:{intent_id}:{render(check_at)}"
    # The key of the gate is this id with a suffix, and must fit too.
    return name if len(name) <= ID_CHARS_MAX - len(":gate") else "intent:" + sha256(name.encode()).hexdigest()


def story_of(stream: StreamId, intent: IntentState, claimed: str) -> dict[str, str]:
    """Return the correlation and the cause of all that follows from a claim, so that it can be followed both ways."""
    action_id = action_id_of(stream.id, intent.occasion_at or 0)
    return {"correlation": action_id[:CORRELATION_CHARS_MAX], "cause": segment_cause(claimed)}


def action_of(stream: StreamId, intent: IntentState, trigger_data: dict[str, Any]) -> Action:
    return derive(
        Action,
        intent.definition,
        action_id=action_id_of(stream.id, intent.occasion_at or 0),
        attempt=intent.failure_count + 1,
        tenant=stream.tenant,
        intent_id=stream.id,
        trigger_data=trigger_data,
        condition=condition_text(intent.definition),
    )


def condition_text(definition: Definition) -> str:
    """Return the condition as a person reads it: `NVDA < 130`."""
    condition = definition.condition
    if not definition.is_condition_based or condition is None:
        return ""
    if condition.expression is not None:
        return condition.expression
    if condition.threshold_hours is not None:
        return f"silent for {condition.threshold_hours:g} h"
    return f"{condition.ticker or condition.metric} {condition.operator} {condition.value:f}"


class Acting:
    """The ways a worker can act, on one engine."""

    def __init__(
        self, engine: Engine, handlers: Mapping[str, Handler], actor: str, has_channel: HasChannel = any_channel
    ) -> None:
        self._engine = engine
        self._has_channel = has_channel
        self._handlers = {name.removeprefix("handler:"): handler for name, handler in handlers.items()}
        self._actor = actor
        self._channels: dict[str, tuple[str, ...]] = {}
        """By tenant, as policies say."""

    async def can_act(self, tenant: str, definition: Definition) -> bool:
        """Return whether there is a handler, or one of the channels, for what the intent asks."""
        if self._handler(definition.action_type):
            return True
        channels = definition.action_channels or await self._default_channels(tenant)
        return any(self._has_channel(tenant, name) for name in channels)

    async def _default_channels(self, tenant: str) -> tuple[str, ...]:
        if tenant not in self._channels:
            self._channels[tenant] = tuple((await self._engine.policy_of(tenant))[IntentsPolicy].channels)
        return self._channels[tenant]

    def forget_policies(self) -> None:
        """Read each tenant's policy again when it is next needed."""
        self._channels.clear()

    def _handler(self, action_type: str) -> Handler | None:
        return self._handlers.get(action_type) if action_type in HANDLED else None

    async def gate(self, definition: Definition, action: Action, story: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the answer of the run gate, if the intent asks it.

        A request that the gate postpones waits there and is admitted in its turn, which would take from the intent what
        it waits for, again and again. So it is asked for good only when it does not answer LATER. An answer it gave for
        this check before still holds: a retry after a failure was let through already.
        """
        gate = definition.gate
        if gate is None:
            return None
        account = account_stream(action.tenant, gate.account_id or definition.user_id)
        command = RequestRun(gate.trigger_type, payload={"intent_id": action.intent_id})
        key = KeyId(action.tenant, TRIGGERS, f"{action.action_id}:gate")
        if before := await self._earlier_answer(gate.trigger_type, key):
            return before
        # Between this and the submit the answer may turn; it is then recorded as given and holds for this check.
        foreseen = await self._foresee_verdict(account, command, key.key)
        if foreseen is not None and foreseen.answer == "LATER":
            return _gate_result(gate.trigger_type, foreseen, None)
        recorded = await self._engine.submit(
            Submission(
                stream=account,
                command=command,
                key=key.key,
                collection=TRIGGERS,
                request=agreed_request(account.id, gate.trigger_type),
                actor=self._actor,
                **story,
            )
        )
        return _gate_result(gate.trigger_type, recorded.verdict, recorded.segment_id)

    async def _earlier_answer(self, trigger_type: str, key: KeyId) -> dict[str, Any] | None:
        seen = await self._engine.store.seen(key)
        if seen is None:
            return None
        first = self._engine.kinds.of(seen.segment.stream).recorded(seen.segment)
        return _gate_result(trigger_type, first.verdict, first.segment_id)

    async def _foresee_verdict(self, account: StreamId, command: RequestRun, key: str) -> Verdict | None:
        """Return the verdict the gate would give; nothing is recorded."""
        decider = self._engine.kinds.of(account).decider
        policy = await self._engine.policy_of(account.tenant)
        others = (*decider.needs(account, command, policy), *decider.reads(account))
        rows = await self._engine.store.load([account, *others])
        states = {stream: self._engine.kinds.state_in(stream, row) for stream, row in rows.items()}
        view: View[Any] = View(account, states.get(account), 0, {stream: states.get(stream) for stream in others}, key)
        decision = decider.decide(view, command, policy, await self._engine.store.now())
        return decision.verdict if isinstance(decision, Decision) else None

    async def act(self, action: Action, story: Mapping[str, str]) -> Done:
        """Call the handler of that name, if the action has one; else notify."""
        handler = self._handler(action.action_type)
        return await self._notify(action, story) if handler is None else await _handle(handler, action)

    async def _notify(self, action: Action, story: Mapping[str, str]) -> Done:
        begun_s = time.perf_counter()
        policy = (await self._engine.policy_of(action.tenant))[IntentsPolicy]
        inbox = inbox_stream(action.tenant, action.user_id)
        recorded = await self._engine.submit(
            Submission(
                stream=inbox,
                command=notification(action, policy),
                key=action.action_id,
                collection=NOTIFICATIONS,
                request=inbox.id,
                actor=self._actor,
                **story,
            )
        )
        verdict = recorded.verdict
        outcome = {"outcome": verdict.answer, "reasons": list(verdict.reasons)} if verdict else None
        return Done(
            message_id=action.action_id,
            message_preview=action.action_context[:PREVIEW_CHARS_MAX],
            delivery_ms=elapsed_ms(begun_s),
            outcome=outcome,
        )


def notification(action: Action, policy: IntentsPolicy) -> Notify:
    return Notify(
        event_type="REMINDER" if action.action_type == "reminder" else "ALERT",
        title=title_of(action),
        message=_cut(action.action_context, MESSAGE_CHARS_MAX),
        source="intents",
        channels=action.action_channels or policy.channels,
        priority_hint=_PRIORITIES[action.action_priority],  # type: ignore[index]
        dedupe_key=action.action_id,
        metadata={"intent_id": action.intent_id, "action_type": action.action_type},
        requested=True,
    )


def title_of(action: Action) -> str:
    """Return a short title that does not say what the message says."""
    label, said = _TITLES[action.action_type], action.action_context.casefold()
    if 0 < len(action.condition) <= CONDITION_CHARS_MAX and action.condition.casefold() not in said:
        return f"{label}: {action.condition}"
    return label if label.casefold() != said.strip(" .!?") else TITLE_OTHERWISE


def _gate_result(trigger_type: str, verdict: Verdict | None, segment_id: str | None) -> dict[str, Any]:
    return {
        "trigger_type": trigger_type,
        "result": _GATE_ANSWERS[verdict.answer] if verdict else "SKIP",
        "reasons": list(verdict.reasons) if verdict else ["NO_VERDICT"],
        "defer_until": render(verdict.until) if verdict and verdict.until is not None else None,
        "segment_id": segment_id,
    }


async def _handle(handler: Handler, action: Action) -> Done:
    begun_s = time.perf_counter()
    result = await call_function(handler, action)
    said = result[:PREVIEW_CHARS_MAX] if isinstance(result, str) else ""
    return Done(message_id=action.action_id, message_preview=said or None, generation_ms=elapsed_ms(begun_s))


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def elapsed_ms(begun_s: float) -> int:
    return round((time.perf_counter() - begun_s) * 1_000)
