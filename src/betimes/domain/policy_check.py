"""A tenant's policy before it is put in force: whether it can work, and what it may call."""

from __future__ import annotations

from collections.abc import Sequence

from betimes.core.checks import Problem, list_problems
from betimes.core.errors import PolicyInvalid
from betimes.core.policies import Body, Policy
from betimes.domain.deployment import Deployment
from betimes.domain.outside_calls import calls_of_policy, handler_problems, url_problems
from betimes.domain.service import Service
from betimes.domain.target_names import unknown_hook_names
from betimes.engine.tenants.model import DEPLOYMENT, TenantState


async def checked_policy(service: Service, overrides: Body) -> Policy:
    """Return what the caller's overrides would put in force; raise `PolicyInvalid` with every path that cannot work.

    The caller `*` overrides nothing: it is the deployment's policy then.
    """
    if service.caller.tenant == DEPLOYMENT.tenant:
        policy = service.engine.book.effective_from_outside(overrides)
        demand_callable(service.deployment, policy, await service.engine.policy_of(DEPLOYMENT.tenant))
        return policy
    deployment: TenantState | None = await service.state(DEPLOYMENT)
    policy = service.engine.book.effective_from_outside(deployment.policy if deployment else {}, overrides)
    tenant = service.caller.tenant
    # What is in force was accepted once, and stays acceptable after rules for URLs or names have become stricter.
    before = await service.engine.policy_of(tenant)
    refused = await handler_problems(service.engine, service.deployment, tenant, calls_of_policy(policy))
    demand_callable(service.deployment, policy, before, (*refused, *unknown_hook_names(policy, before)))
    return policy


def demand_callable(
    deployment: Deployment, policy: Policy, before: Policy | None = None, refused: Sequence[Problem] = ()
) -> None:
    """Raise `PolicyInvalid` if a policy names URLs that can never be called and were not in force before."""
    known = calls_of_policy(before) if before else {}
    if found := (*url_problems(deployment, calls_of_policy(policy), known), *refused):
        raise PolicyInvalid(f"the policy is refused: {list_problems(found)}", found)
