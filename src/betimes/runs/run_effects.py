"""What an account's decision causes outside: handlers to call, hooks to tell, and whoever asked for the run."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Call, Effect, Send
from betimes.core.instants import Instant, epoch_up, render
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.domain.completions import RunFinished
from betimes.domain.hooks import Hooks, envelope, hook_effects
from betimes.runs.model import Due, HandlerKind, RunState, run_id_of
from betimes.runs.policy import Handler, PythonHandler, RunsPolicy, WebhookHandler


def handler_kind(handler: Handler | None) -> HandlerKind:
    match handler:
        case PythonHandler():
            return "python"
        case WebhookHandler():
            return "webhook"
        case None:
            return "claim"


def handler_name(handler: Handler | None) -> str:
    match handler:
        case PythonHandler(name):
            return name
        case WebhookHandler(url):
            return url
        case None:
            return ""


def handler_call(account: StreamId, due: Due, run: StreamId, handler: Handler | None, policy: Policy) -> list[Effect]:
    """The one call of the handler. Payloads are added when it is made; they are in the account's segments."""
    if handler is None:
        return []
    run_id = run_id_of(account.tenant, due.key)
    detail = {**_asked_for(account, due, due.key), "correlation_id": due.correlation or None, "run_id": run_id}
    if isinstance(handler, PythonHandler):
        executor, payload = f"handler:{handler.name}", detail
    else:
        body = envelope(policy[Hooks].source, "RUN_DECISION", detail)
        executor, payload = "webhook", {"url": handler.url, "body": body}
    lease_s = policy[RunsPolicy].handler_lease_seconds
    return [Call(executor, payload, at_most_once=True, lease_s=lease_s, report_to=run)]


def _asked_for(account: StreamId, due: Due, key: str) -> dict[str, Any]:
    """The detail of a RUN_DECISION."""
    return {
        "tenant_id": account.tenant,
        "account_id": account.id,
        "trigger_type": due.trigger_type,
        "scheduled_at": render(due.newest_at),
        "idempotency_key": key,
        **_correlated(due),
    }


def _correlated(due: Due) -> dict[str, Any]:
    """Optional in the events that others consume: left out when there is none."""
    return {"correlation_id": due.correlation} if due.correlation else {}


def decision_hooks(account: StreamId, due: Due, key: str, policy: Policy, now: Instant) -> tuple[Effect, ...]:
    """A schedule or a retry asks for a run."""
    if due.by_hook:
        return ()
    return hook_effects(
        policy,
        account.tenant,
        "RUN_DECISION",
        key=key,
        at=now,
        subject=account.id,
        detail=_asked_for(account, due, key),
        correlation=due.correlation,
    )


def deferred_hooks(account: StreamId, due: Due, policy: Policy, now: Instant) -> tuple[Effect, ...]:
    """A trigger was postponed."""
    if due.by_hook:
        return ()
    detail = {
        "tenant_id": account.tenant,
        "account_id": account.id,
        "trigger_type": due.trigger_type,
        "defer_until_epoch": epoch_up(due.until_at),
        "retry_after_seconds": epoch_up(due.until_at - now),
        "original_idempotency_key": due.key,
        **_correlated(due),
    }
    key = f"{due.key}:deferred:{epoch_up(due.until_at)}"
    return hook_effects(
        policy,
        account.tenant,
        "RUN_DECISION_DEFERRED",
        key=key,
        at=now,
        subject=account.id,
        detail=detail,
        correlation=due.correlation,
    )


def refusal_news(run: StreamId, state: RunState | None, reason: str) -> list[Effect]:
    """Whoever asked for a run that will not be is told."""
    if state is None or not state.tell or state.asked_by is None:
        return []
    return [Send(state.asked_by, RunFinished(run.id, state.run_key or "", "skipped", reason))]
