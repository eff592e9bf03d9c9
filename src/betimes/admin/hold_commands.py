"""`betimes hold`: hold everything that would fire, show the hold, or end it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from betimes.admin.holds import HoldStatus
from betimes.cli.options import TENANT, Tenant, for_tenant
from betimes.cli.output import show_sentences
from betimes.core.errors import Invalid
from betimes.tenancy import Tenancy


def hold(
    *,
    domain: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    until: datetime | None = None,
    reason: str | None = None,
    end: Annotated[bool, Parameter(negative=())] = False,
    at: Tenant = TENANT,
) -> None:
    """Hold everything until an instant (a kill switch); without options, show the hold in force.

    Requests are still answered and recorded; everything deferred happens afterwards, in order.

    Parameters
    ----------
    domain
        Only this domain: runs, notifications, intents, automation or scores; several times for several.
    until
        When the hold ends by itself, within 30 days; UTC unless it has an offset.
    reason
        Why, for the ledger and for everybody affected.
    end
        End the hold now.
    """
    asked = _asked(domain, until, reason)
    if end and (domain or until):
        raise Invalid("--end takes neither --domain nor --until; leave them out")

    async def work(bt: Tenancy) -> HoldStatus:
        if end:
            await bt.tenants.end_hold(note=reason)
            return await bt.tenants.hold()
        return await bt.tenants.set_hold(asked) if asked else await bt.tenants.hold()

    status = for_tenant(at, work, exists=end or not asked)
    show_sentences(status, [_describe(status)], json=at.json)


def _asked(domain: tuple[str, ...], until: datetime | None, reason: str | None) -> dict[str, object]:
    """Return the request as given; the check of the service names what is missing."""
    moment = until.replace(tzinfo=UTC) if until and until.tzinfo is None else until
    given = {"domains": list(domain), "until": moment and moment.isoformat(), "reason": reason}
    return {name: value for name, value in given.items() if value}


def _describe(status: HoldStatus) -> str:
    if status.hold is None:
        return "Nothing is held."
    held = status.hold
    return f"Held until {held.until:%Y-%m-%dT%H:%M:%SZ}: {', '.join(held.domains)}. {held.reason}"
