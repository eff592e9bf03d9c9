"""Rate limits: what a tenant asks for beyond its limits is refused with 429 before anything is done for it.

Each process counts for itself and in memory: with three processes a tenant may do three times as much. A bucket of
tokens per tenant fills at the rate of its limit and holds what comes in `BURST_S` seconds. A request that costs more
than a bucket can hold is let in when it is full, and leaves it in debt. The limits come from the policy, which is read
again every `REFRESH_S` seconds.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from math import ceil, inf
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from betimes.core.errors import BetimesError
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.http.policy import RequestLimits, limits_of
from betimes.http.problems import HttpProblem

if TYPE_CHECKING:
    from betimes.engine.engine import Engine
    from betimes.http.routes import ServedApplication

BURST_S = 10.0
REFRESH_S = 5.0
TENANTS_MAX = 10_000
"""Tenants whose buckets are kept; past it those who asked longest ago begin with full ones."""
NO_LIMITS = RequestLimits()

What: TypeAlias = Literal["requests", "items"]


class Bucket:
    """Tokens that come in at a rate, up to what it holds."""

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._at_s = 0.0

    def take(self, count: int, per_minute: int, now_s: float) -> float:
        """Take tokens and return 0; or take none and return in how many seconds there will be enough."""
        per_s = per_minute / 60
        holds = max(per_s * BURST_S, 1.0)
        tokens = holds if self._tokens is None else min(holds, self._tokens + (now_s - self._at_s) * per_s)
        needed = min(float(count), holds)
        taken = tokens >= needed - 1e-9  # what came in bit by bit is rarely whole
        self._tokens, self._at_s = tokens - count if taken else tokens, now_s
        return 0.0 if taken else (needed - tokens) / per_s


class TenantLimits:
    """The limits of one tenant as they were read last, and its buckets."""

    def __init__(self) -> None:
        self.limits = NO_LIMITS
        self.read_s = -inf
        self.reading = asyncio.Lock()
        self.buckets: dict[What, Bucket] = {"requests": Bucket(), "items": Bucket()}


class RateLimits:
    """The recent requests of every tenant of a process."""

    def __init__(self, refused: Callable[[What], None], *, clock: Callable[[], float] = monotonic) -> None:
        self._refused = refused
        self._clock = clock
        self._tenants: OrderedDict[str, TenantLimits] = OrderedDict()

    async def admit(self, application: ServedApplication, tenant: str, what: What, count: int = 1) -> None:
        """Count what a tenant asks for; raise 429 with `Retry-After` if that is more than it may."""
        if tenant in ("", DEPLOYMENT.tenant):
            return
        kept = self._tenants.get(tenant)
        if kept is None or self._clock() - kept.read_s >= REFRESH_S:
            kept = await self._read_limits(application.engine, tenant)
        else:
            self._tenants.move_to_end(tenant)
        rate = kept.limits.requests_per_minute if what == "requests" else kept.limits.items_per_minute
        wait_s = 0.0 if rate is None else kept.buckets[what].take(count, rate, self._clock())
        if wait_s:
            self._refused(what)
            detail = f"The tenant asked for more than {rate:,} {what} a minute; nothing was done. Ask again later."
            raise HttpProblem(429, "RATE_LIMITED", detail, headers={"Retry-After": str(ceil(wait_s))})

    async def _read_limits(self, engine: Engine, tenant: str) -> TenantLimits:
        """Read the limits of a tenant again, once for all its requests; those of one that was never read wait."""
        kept = self._tenants.setdefault(tenant, TenantLimits())
        if len(self._tenants) > TENANTS_MAX:
            self._tenants.popitem(last=False)
        if not kept.reading.locked() or kept.read_s == -inf:
            async with kept.reading:
                if self._clock() - kept.read_s >= REFRESH_S:
                    kept.limits = await _limits_in_force(engine, tenant, kept.limits)
                    kept.read_s = self._clock()
        self._tenants[tenant] = kept  # it may be among those that went meanwhile
        self._tenants.move_to_end(tenant)
        return kept


async def _limits_in_force(engine: Engine, tenant: str, last: RequestLimits) -> RequestLimits:
    """Read the limits; if they cannot be read, the last ones hold and the request itself tells what is wrong."""
    try:
        return limits_of(tenant, await engine.policy_of(DEPLOYMENT.tenant), await engine.policy_of(tenant))
    except BetimesError:
        return last
