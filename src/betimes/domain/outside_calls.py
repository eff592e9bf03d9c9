"""Checks of calls to the outside that definitions and policies name: URLs, and Python handlers.

The process that saves a name reports at once what it knows about it: a URL that can never be called is
refused with the field that has it; one that this process's configuration forbids is saved with a warning, because
another process may call it under another configuration. A URL that stays as it was is not refused again. A handler is
refused where the configuration does not list it for the tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from betimes.core.checks import Problem
from betimes.core.policies import Policy
from betimes.domain.deployment import Deployment
from betimes.domain.hooks import Hooks
from betimes.domain.targets import HandlerTarget, WebhookTarget
from betimes.domain.warnings import Remark
from betimes.engine.engine import Engine
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.runs.policy import PythonHandler, RunsPolicy, WebhookHandler
from betimes.sensors.model import HandlerEvaluator, WebhookEvaluator

Webhook: TypeAlias = WebhookTarget | WebhookEvaluator | WebhookHandler
Handler: TypeAlias = HandlerTarget | HandlerEvaluator | PythonHandler
Calls: TypeAlias = Mapping[str, Any]
"""Targets, evaluators and handlers by the path of the field that has them."""


def calls_of_definition(definition: Any) -> Calls:
    """Return what a schedule or sensor may call."""
    chosen = getattr(definition, "allowed_targets", None) or ()
    return {
        "target": definition.target,
        "evaluator": getattr(definition, "evaluator", None),
        **{f"allowed_targets[{place}]": target for place, target in enumerate(chosen)},
    }


def calls_of_policy(policy: Policy) -> Calls:
    """Return what trigger types and hooks may call; sections that the policy lacks have none."""
    registry = policy[RunsPolicy].registry if RunsPolicy in policy.sections else {}
    hooks = policy[Hooks].entries if Hooks in policy.sections else ()
    return {
        **{f"runs.registry.{name}.handler": entry.handler for name, entry in registry.items()},
        **{f"hooks[{place}].target": hook.target for place, hook in enumerate(hooks)},
    }


def url_problems(deployment: Deployment, calls: Calls, before: Calls) -> Iterator[Problem]:
    """Yield the URLs that can never be called, of the calls that were not saved before."""
    known = list(before.values())
    for path, call in calls.items():
        if isinstance(call, Webhook) and call not in known and (problem := deployment.check_url(call.url).problem):
            yield f"{path}.url", problem


async def handler_problems(engine: Engine, deployment: Deployment, tenant: str, calls: Calls) -> list[Problem]:
    """Return the handlers and evaluators that are not for this tenant."""
    return [
        (f"{path}.name", not_permitted(call.name))
        for path, call in calls.items()
        if isinstance(call, Handler) and not await permits_handler(engine, deployment, tenant, call.name)
    ]


async def permits_handler(engine: Engine, deployment: Deployment, tenant: str, name: str) -> bool:
    """Return whether a tenant may use a handler: it is listed for it, or the deployment's own policy names it."""
    if deployment.permits_handler(tenant, name):
        return True
    shared = calls_of_policy(await engine.policy_of(DEPLOYMENT.tenant)).values()
    return any(isinstance(call, Handler) and call.name == name for call in shared)


def not_permitted(name: str) -> str:
    return f"the tenant may not use the handler {name!r}; allow it with handlers.tenants in the configuration"


def call_warnings(deployment: Deployment, calls: Calls) -> list[Remark]:
    """Return what this process would not do of the calls."""
    urls = [(f"{path}.url", call.url) for path, call in calls.items() if isinstance(call, Webhook)]
    found = [(path, deployment.check_url(url)) for path, url in urls]
    return [Remark(path, told) for path, finding in found if (told := finding.problem or finding.warning)]
