"""A tenant's hold as callers see it."""

from __future__ import annotations

from datetime import datetime

from betimes.core.datetimes import moment
from betimes.core.instants import render
from betimes.domain.json_view import JsonView
from betimes.engine.engine import Engine
from betimes.engine.tenants.model import Hold

HOLD_HEADER = "Betimes-Hold"
"""On every answer to a tenant that has a hold."""


class HoldView(JsonView, frozen=True, kw_only=True):
    """A hold of these domains: nothing fires until an instant, and nothing is lost."""

    domains: list[str]
    until: datetime
    reason: str
    since: datetime


def hold_view(hold: Hold | None) -> HoldView | None:
    if hold is None:
        return None
    domains, until, since = list(hold.domains), moment(hold.until_at), moment(hold.since_at)
    return HoldView(domains=domains, until=until, reason=hold.reason, since=since)


def hold_header(hold: Hold) -> str:
    """Return a hold as one line of a response's header."""
    return f"{','.join(hold.domains)}; until={render(hold.until_at)}"


async def read_hold(engine: Engine, tenant: str) -> HoldView | None:
    """Return the hold in force for a tenant, as it was last committed."""
    return hold_view(await engine.hold_of(tenant))
