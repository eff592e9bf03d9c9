"""Building a checked plan from a request: the policy to sweep when none is named, and all refusals first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from betimes.backtest.plan import Plan, Sweep, make_plan
from betimes.catalogue import AREAS
from betimes.core.errors import Invalid
from betimes.core.policies import Body
from betimes.engine.engine import Engine
from betimes.engine.tenants.model import DEPLOYMENT, tenant_stream


async def build_plan(
    engine: Engine, policies: Mapping[str, Body], *, sweep: Sweep = (), overrides_of: str | None = None, **options: Any
) -> Plan:
    """Return a checked plan; the options are those of `make_plan`.

    Policies are the deployment's or, with `overrides_of`, a tenant's overrides of that.
    """
    if not policies and not sweep:
        raise Invalid("a backtest needs a policy to try, or a setting to sweep", (("policy", "or sweep"),))
    deployment = await in_force(engine, None)
    current = deployment if overrides_of is None else await in_force(engine, overrides_of)
    plan = make_plan(policies, sweep=sweep, current=current, overrides_of=overrides_of, **options)
    plan.check(engine.book, AREAS, deployment)
    return plan


async def in_force(engine: Engine, tenant: str | None) -> dict[str, Any]:
    """Return the deployment's policy as it was put in force, or a tenant's overrides."""
    stream = DEPLOYMENT if tenant is None else tenant_stream(tenant)
    [state] = await engine.load_states(stream)
    return dict(state.policy) if state else {}
