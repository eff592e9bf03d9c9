"""Holds, as the decider of tenants keeps them: nothing of some domains fires until an instant, or until it is ended.

A hold says what must not happen and changes nothing that waits: alarms, effects and claims stay where they are and are
passed over. So there is nothing to undo when it ends. It ends by itself at its instant, which is the tenant's alarm.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from betimes.core.deciders import Decision, Index, Refusal
from betimes.core.instants import DAY, Instant, render
from betimes.core.streams import StreamId
from betimes.engine.tenants.model import (
    DEPLOYMENT,
    HELD,
    HOLD_MAX,
    EndHold,
    Hold,
    HoldEnded,
    HoldSet,
    SetHold,
    TenantState,
)


def decide_hold(
    stream: StreamId, tenant: TenantState, command: SetHold | EndHold, known: Collection[str], now: Instant
) -> Decision | Refusal:
    """Begin, replace or end a hold; asked for what is so already, write nothing."""
    if isinstance(command, EndHold):
        return Decision((HoldEnded(now, command.note),)) if tenant.hold else Decision()
    if stream == DEPLOYMENT:
        return Refusal("TENANT_REQUIRED", "a hold belongs to a tenant; set one for each")
    if refusal := _refuse_hold(command, known, now):
        return refusal
    domains = tuple(sorted(set(command.domains)))
    hold = tenant.hold
    if hold and (hold.domains, hold.until_at, hold.reason) == (domains, command.until_at, command.reason):
        return Decision()
    # One whose time is over, and nobody has rung that yet, does not last until the next begins.
    return Decision((*expire_hold(tenant, now).events, HoldSet(domains, command.until_at, command.reason, now)))


def _refuse_hold(command: SetHold, known: Collection[str], now: Instant) -> Refusal | None:
    if unknown := sorted(set(command.domains) - set(known)):
        return Refusal("INVALID", f"no such domains: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    if not command.domains:
        return Refusal("INVALID", f"a hold names its domains; known are {', '.join(sorted(known))}")
    if not now < command.until_at <= now + HOLD_MAX:
        ends = f"after {render(now)} and by {render(now + HOLD_MAX)}"
        return Refusal("UNTIL_OUT_OF_BOUNDS", f"a hold ends {ends}: within {HOLD_MAX // DAY} days")
    return None


def expire_hold(tenant: TenantState, now: Instant) -> Decision:
    """End a hold whose time is over."""
    return Decision((HoldEnded(now),)) if tenant.hold and tenant.hold.until_at <= now else Decision()


def fold_hold(tenant: TenantState, event: HoldSet | HoldEnded) -> TenantState:
    hold = None
    if isinstance(event, HoldSet):
        # One that replaces another goes on from where that began: whoever asks since when hears of both.
        since_at = tenant.hold.since_at if tenant.hold else event.at
        hold = Hold(event.domains, event.until_at, event.reason, since_at)
    freed = set(tenant.hold.domains if tenant.hold else ()).difference(hold.domains if hold else ())
    # Rung late, it ended when it should have all the same.
    ended_at = event.at if tenant.hold is None else min(event.at, tenant.hold.until_at)
    return replace(tenant, hold=hold, released={**tenant.released, **dict.fromkeys(sorted(freed), ended_at)})


def alarm(tenant: TenantState) -> Instant | None:
    """Return when the hold ends by itself."""
    return tenant.hold.until_at if tenant.hold else None


def index(tenant: TenantState) -> Index:
    """List tenants whose hold has not ended, so that every process learns of it."""
    return Index(HELD, HELD, tenant.hold.until_at) if tenant.hold else Index()
