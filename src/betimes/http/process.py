"""The state of a serving process between requests: its routes, counters, rate limits and open streams.

**Rate limits.** What a tenant asks for beyond its limits is refused with 429 before anything is done for it. Each
process counts for itself and in memory: with three processes a tenant may do three times as much. A bucket of tokens
per tenant fills at the rate of its limit and holds what comes in `BURST_S` seconds. A request that costs more than a
bucket can hold is let in when it is full, and leaves it in debt. The limits come from the policy, which is read again
every `REFRESH_S` seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from itertools import count
from math import ceil, inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast
from uuid import uuid4

import msgspec

from betimes.core.errors import BetimesError
from betimes.domain.saved_responses.service import Turns
from betimes.engine.tenants.identities import Identities
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.http.counters import RequestCounters
from betimes.http.openapi import openapi
from betimes.http.policy import RequestLimits, limits_of
from betimes.http.problems import HttpProblem
from betimes.http.proxy_sign_in import NOBODY, ProxySignIn

if TYPE_CHECKING:
    from betimes.engine.engine import Engine
    from betimes.http.routes import Route, ServedApplication


STREAMS_PER_TENANT_MAX = 20
COMMENT_S = 15.0
READINESS_S = 1.0
BODY_THREADS = 2
BURST_S = 10.0
REFRESH_S = 5.0
TENANTS_MAX = 10_000
"""Tenants whose buckets are kept; past it those who asked longest ago begin with full ones."""
NO_LIMITS = RequestLimits()

What: TypeAlias = Literal["requests", "items"]


class Tail(Protocol):
    """The end of an engine's ledger, as it is read for open streams."""

    @property
    def engine(self) -> Engine: ...


SomeTail = TypeVar("SomeTail", bound=Tail)


class Streams:
    """Open streams of verdicts, counted by tenant. Once closed, every stream ends and none begins."""

    def __init__(self, *, comment_s: float = COMMENT_S) -> None:
        self.comment_s = comment_s
        self.is_closed = False
        self._open: Counter[str] = Counter()
        self._tails: dict[object, Tail] = {}

    def share_tail(self, engine: Engine, make: Callable[[Engine], SomeTail]) -> SomeTail:
        """Return the tail of this sort that all open streams share; it is let go with the last of them."""
        tail = self._tails.get(make)
        if tail is None or tail.engine is not engine:
            tail = self._tails[make] = make(engine)
        return cast(SomeTail, tail)

    def __len__(self) -> int:
        return self._open.total()

    def close(self) -> None:
        """Let every stream end within a poll, so that a server that stops need not wait for its readers."""
        self.is_closed = True

    def is_full(self, tenant: str) -> bool:
        return self._open[tenant] >= STREAMS_PER_TENANT_MAX

    @contextmanager
    def one(self, tenant: str) -> Iterator[None]:
        """A stream, for as long as it is open."""
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]
            if not self._open:
                self._tails = {}


class Readiness:
    """The result of the last look at the store, shared by everybody who asks within a second."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._looked_s = -inf
        self._found: tuple[str | None, list[str]] = (None, [])

    async def check(self, look: Callable[[], Awaitable[tuple[str | None, list[str]]]]) -> tuple[str | None, list[str]]:
        """Return why the store cannot be used, if it cannot, and warnings; concurrent callers wait for one check."""
        async with self._turn:
            if monotonic() - self._looked_s > READINESS_S:
                self._found = await look()
                self._looked_s = monotonic()
            return self._found


class Process:
    """One for everything that is served together."""

    def __init__(
        self, routes: tuple[Route, ...], *, report: Any = Any, sessions_act: bool = True, proxy: ProxySignIn = NOBODY
    ) -> None:
        self.routes = routes
        self._report = report
        self.sessions_act = sessions_act
        self.proxy = proxy
        self.version = version("betimes")
        self.requests = RequestCounters()
        self.rate_limits = RateLimits(self.requests.count_refusal)
        self.streams = Streams()
        self.turns = Turns()
        self.identities = Identities()
        self.readiness = Readiness()
        self.body_threads = ThreadPoolExecutor(BODY_THREADS, thread_name_prefix="betimes-body")
        """A pool in which long bodies are decoded and checked, so that they do not block other requests."""
        self._name = uuid4().int
        self._requests = count()

    def next_correlation(self) -> str:
        """An id like no other's, for a request that brought none: the process's own, counted on."""
        return f"{(self._name + next(self._requests)) % (1 << 128):032x}"

    @cached_property
    def description(self) -> bytes:
        """The routes as OpenAPI."""
        return msgspec.json.encode(openapi(self.routes, self.version, self._report))


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
            detail = f"The tenant is limited to {rate:,} {what} a minute; nothing was done. Try again later."
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
