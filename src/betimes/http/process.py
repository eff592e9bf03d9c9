"""The state of a serving process between requests: its routes and their description, its numbers, open streams."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

import msgspec

from betimes.domain.saved_responses.service import Turns
from betimes.engine.tenants.identities import Identities
from betimes.http.openapi import openapi
from betimes.http.proxy_sign_in import NOBODY, ProxySignIn
from betimes.http.rate_limits import RateLimits
from betimes.http.request_counters import RequestCounters

if TYPE_CHECKING:
    from betimes.engine.engine import Engine
    from betimes.http.routes import Route

STREAMS_PER_TENANT_MAX = 20
COMMENT_S = 15.0
READINESS_S = 1.0
BODY_THREADS = 2


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
        """Return why the store cannot be used, if it cannot, and warnings; whoever comes meanwhile waits."""
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
        """Where long bodies are decoded and checked, so that nobody else's request waits; whoever sends many waits."""
        self._name = uuid4().int
        self._requests = count()

    def next_correlation(self) -> str:
        """An id like no other's, for a request that brought none: the process's own, counted on."""
        return f"{(self._name + next(self._requests)) % (1 << 128):032x}"

    @cached_property
    def description(self) -> bytes:
        """The routes as OpenAPI."""
        return msgspec.json.encode(openapi(self.routes, self.version, self._report))
