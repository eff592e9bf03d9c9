"""A tenant's policy before it is put in force: whether it can work, and what it may call."""

from __future__ import annotations

from betimes.core.checking import list_problems
from betimes.core.errors import PolicyInvalid
from betimes.core.policies import Body, Policy
from betimes.domains.tenant.model import DEPLOYMENT, TenantState
from betimes.services.caller import Service
from betimes.services.outside_calls import OutsideRules, call_problems, calls_of_policy


async def checked_policy(service: Service, overrides: Body) -> Policy:
    """Return what the caller's overrides would put in force; raise `PolicyInvalid` with every path that cannot work."""
    deployment: TenantState | None = await service.state(DEPLOYMENT)
    policy = service.engine.book.sent(deployment.policy if deployment else {}, overrides)
    demand_callable(service.outside, policy, await service.engine.policy_of(service.caller.tenant))
    return policy


def demand_callable(rules: OutsideRules, policy: Policy, before: Policy | None = None) -> None:
    """Raise `PolicyInvalid` if a policy names calls that can never be made and that were not in force before."""
    known = calls_of_policy(before) if before else {}
    if found := tuple(call_problems(rules, calls_of_policy(policy), known)):
        raise PolicyInvalid(f"the policy is refused: {list_problems(found)}", found)
