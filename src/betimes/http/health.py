"""Routes of the service itself: whether it lives and is ready, its numbers, and its description."""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from importlib.resources import files
from itertools import accumulate
from typing import TypeVar

import msgspec
from starlette.responses import Response

from betimes.core.errors import BetimesError, Invalid
from betimes.engine.engine import Engine
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.http.counters import BATCH_BOUNDS, BOUNDS_S
from betimes.http.problems import HttpProblem
from betimes.http.routes import PUBLIC, RequestContext, demand_deployment
from betimes.http.service_calls import route

TAG = "Service"
N = TypeVar("N", int, float)
_log = logging.getLogger("betimes.api")
STORE_S = 2.0
"""How long the store may take to show that it is there."""
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Alive(msgspec.Struct, frozen=True):
    status: str
    version: str


class Ready(msgspec.Struct, frozen=True):
    status: str
    warnings: list[str] = []
    """Problems that do not stop it from working, such as a clock that was stepped."""
    held_tenants: int = 0
    """Number of tenants with a hold, so that nothing in some of their domains fires."""


class RouteTimes(msgspec.Struct, frozen=True):
    method: str
    route: str
    p50_ms: float | None
    """Median time, as an upper bound; `null` is longer than 30 s."""
    p99_ms: float | None


class BatchSizes(msgspec.Struct, frozen=True):
    p50: int | None
    """Median segments per commit, as an upper bound; `null` is more than 1,024."""
    p99: int | None


class RequestTimes(msgspec.Struct, frozen=True):
    items: list[RouteTimes]
    """Slowest first, one for each requested route."""
    batches: BatchSizes | None
    """Segments per commit; `null` while this process has written none."""


async def alive(request: RequestContext) -> Alive:
    return Alive("ok", request.process.version)


async def ready(request: RequestContext) -> Ready:
    failing, warnings = await _look(request)
    if failing:
        checks = ", ".join(name for name, _ in failing)
        headers = {"Retry-After": "1"}
        raise HttpProblem(503, "NOT_READY", f"Not ready: {checks}.", errors=tuple(failing), headers=headers)
    return Ready("ready", warnings, len(request.engine.holds.by_tenant))


async def _look(request: RequestContext) -> tuple[list[tuple[str, str]], list[str]]:
    """Return every check that fails, with why, and what should be looked at."""
    try:
        engine = request.engine
    except Invalid:
        return [("engine", "it has not been opened")], []
    if not engine.is_open:
        return [("engine", "it is closed or closing")], []
    problem, warnings = await request.process.readiness.check(lambda: _look_at_store(engine))
    return ([("store", problem)] if problem else []), warnings


async def _look_at_store(engine: Engine) -> tuple[str | None, list[str]]:
    try:
        async with asyncio.timeout(STORE_S):
            await engine.store.load([DEPLOYMENT])
            # A store that can only be read would take no work: its lock may be held, or its disk full.
            await engine.store.check_writable()
            await engine.refresh_holds()
            return None, (await engine.clock_report())[1]
    except TimeoutError:
        return f"it did not answer, or did not grant its lock, within {STORE_S:g} s", []
    except BetimesError as error:
        _log.warning("not ready: %s", error)
        return f"it cannot be read or written: {error.code}; the log says why", []


async def metrics(request: RequestContext) -> Response:
    from betimes.http.metrics import CONTENT_TYPE, write_metrics

    demand_deployment(request, "metrics")
    engine = request.engine
    clock, _ = await engine.clock_report()
    text = write_metrics(
        request.process.requests,
        request.application.tally,
        await engine.backlog(),
        await engine.store.now(),
        queue_count=engine.queue_count,
        stream_count=len(request.process.streams),
        clock=clock,
        alarm_lag=engine.alarm_lag,
    )
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


async def request_times(request: RequestContext) -> RequestTimes:
    found = request.process.requests.request_times()
    rows = [
        RouteTimes(method, route, p50_ms=_bound_ms(counts, 0.5), p99_ms=_bound_ms(counts, 0.99))
        for (method, route), counts in found.items()
        if counts[-1]
    ]
    slowest_first = sorted(rows, key=lambda row: (-(row.p99_ms or math.inf), row.route, row.method))
    return RequestTimes(slowest_first, _batch_sizes([*accumulate(request.application.tally.batches)]))


def _bound_ms(counts: list[int], share: float) -> float | None:
    bound_s = _bound_of(BOUNDS_S, counts, share)
    return None if bound_s is None else 1_000 * bound_s


def _batch_sizes(counts: list[int]) -> BatchSizes | None:
    if not counts[-1]:
        return None
    return BatchSizes(_bound_of(BATCH_BOUNDS, counts, 0.5), _bound_of(BATCH_BOUNDS, counts, 0.99))


def _bound_of(bounds: tuple[N, ...], counts: list[int], share: float) -> N | None:
    """Return the bound that this share of all kept, if there is one; the counts are cumulative."""
    found = zip(bounds, counts, strict=False)
    return next((bound for bound, count in found if count >= share * counts[-1]), None)


async def description(request: RequestContext) -> Response:
    described = await asyncio.to_thread(lambda: request.process.description)  # the first takes a while to make
    return Response(described, media_type="application/json")


async def docs(request: RequestContext) -> Response:
    page = files("betimes.http").joinpath("pages", "docs.html").read_bytes()
    return Response(page, media_type="text/html", headers=_PAGE_HEADERS)


_get = partial(route, method="GET", scope=PUBLIC, tag=TAG)

ROUTES = (
    _get("/healthz", alive, "Liveness: whether the process runs"),
    _get(
        "/readyz",
        ready,
        "Readiness: whether it can take work",
        description="The engine is open, and the store can be read and written in time: its lock is free, and its "
        "disk has room. Checked at most once a second.",
        codes=((503, "NOT_READY"),),
    ),
    _get(
        "/metrics",
        metrics,
        "Metrics for Prometheus",
        scope="metrics",
        description="For a key of the tenant `*`. No label names a tenant or an id.",
        reply=str,
        media_type="text/plain",
        deployment=True,
    ),
    _get(
        "/v1/request-times",
        request_times,
        "Request times by route",
        scope="admin",
        description="By route, since this process started, in the buckets of `/metrics`, and the sizes of its commits. "
        "It covers all tenants, so it has times and no counts.",
    ),
    _get("/openapi.json", description, "The OpenAPI description", description="OpenAPI 3.1.", reply=dict),
    _get("/docs", docs, "API documentation as a page", reply=str, media_type="text/html"),
)
