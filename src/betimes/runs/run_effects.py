"""The effects of an account's decision: the handler's call, hooks, and the notice to the requester of the run."""

from __future__ import annotations

from typing import Any, Literal

from betimes.core.deciders import Call, Effect, Send
from betimes.core.instants import Instant, epoch_up, render
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.domain.hooks import Hooks, envelope, hook_effects
from betimes.runs.model import HandlerKind, RunState, WaitingTrigger, run_id_of
from betimes.runs.policy import Handler, PythonHandler, RunsPolicy, WebhookHandler


def handler_kind(handler: Handler | None) -> HandlerKind:
    """Return how a run is started: by a function, by a webhook, or by a worker that claims it."""
    match handler:
        case PythonHandler():
            return "python"
        case WebhookHandler():
            return "webhook"
        case None:
            return "claim"


def handler_name(handler: Handler | None) -> str:
    """Return the name of the function or the address of the webhook; empty for runs that are claimed."""
    match handler:
        case PythonHandler(name):
            return name
        case WebhookHandler(url):
            return url
        case None:
            return ""


def handler_call(
    account: StreamId, trigger: WaitingTrigger, run: StreamId, handler: Handler | None, policy: Policy
) -> list[Effect]:
    """Return the one call of the handler, if it has one; its payloads are read from the ledger when it is made."""
    if handler is None:
        return []
    run_id = run_id_of(account.tenant, trigger.key)
    detail = _decision_detail(account, trigger, trigger.key)
    detail |= {"correlation_id": trigger.correlation or None, "run_id": run_id}
    if isinstance(handler, PythonHandler):
        executor, payload = f"handler:{handler.name}", detail
    else:
        body = envelope(policy[Hooks].source, "RUN_DECISION", detail)
        executor, payload = "webhook", {"url": handler.url, "body": body}
    lease_s = policy[RunsPolicy].handler_lease_seconds
    return [Call(executor, payload, at_most_once=True, lease_s=lease_s, report_to=run)]


def _decision_detail(account: StreamId, trigger: WaitingTrigger, key: str) -> dict[str, Any]:
    """Return the detail of a RUN_DECISION."""
    return {
        "tenant_id": account.tenant,
        "account_id": account.id,
        "trigger_type": trigger.trigger_type,
        "scheduled_at": render(trigger.newest_at),
        "idempotency_key": key,
        **_correlation(trigger),
    }


def _correlation(trigger: WaitingTrigger) -> dict[str, Any]:
    """Return the correlation id as a field, left out of events that others consume when there is none."""
    return {"correlation_id": trigger.correlation} if trigger.correlation else {}


def decision_hooks(
    account: StreamId, trigger: WaitingTrigger, key: str, policy: Policy, now: Instant
) -> tuple[Effect, ...]:
    """Return the hooks to call when a schedule or a retry asks for a run."""
    if not policy[Hooks].entries:
        return ()
    return _hooks(account, trigger, "RUN_DECISION", key, _decision_detail(account, trigger, key), policy, now)


def deferred_hooks(account: StreamId, trigger: WaitingTrigger, policy: Policy, now: Instant) -> tuple[Effect, ...]:
    """Return the hooks to call when a trigger is postponed."""
    if not policy[Hooks].entries:
        return ()
    detail = {
        "tenant_id": account.tenant,
        "account_id": account.id,
        "trigger_type": trigger.trigger_type,
        "defer_until_epoch": epoch_up(trigger.until_at),
        "retry_after_seconds": epoch_up(trigger.until_at - now),
        "original_idempotency_key": trigger.key,
        **_correlation(trigger),
    }
    key = f"{trigger.key}:deferred:{epoch_up(trigger.until_at)}"
    return _hooks(account, trigger, "RUN_DECISION_DEFERRED", key, detail, policy, now)


def _hooks(
    account: StreamId,
    trigger: WaitingTrigger,
    occasion: Literal["RUN_DECISION", "RUN_DECISION_DEFERRED"],
    key: str,
    detail: dict[str, Any],
    policy: Policy,
    now: Instant,
) -> tuple[Effect, ...]:
    # A hook that asks for a run would otherwise call itself for ever.
    if trigger.by_hook:
        return ()
    tenant, subject, correlation = account.tenant, account.id, trigger.correlation
    return hook_effects(
        policy, tenant, occasion, key=key, at=now, subject=subject, detail=detail, correlation=correlation
    )


def end_notice(run: StreamId, state: RunState | None, status: str, reason: str) -> tuple[Effect, ...]:
    """Return the message that tells a schedule or sensor how its run ended."""
    if state is None or not state.tell or state.asked_by is None:
        return ()
    return (Send(state.asked_by, RunFinished(run.id, state.run_key or "", status, reason)),)  # type: ignore[arg-type]
