"""Routes of backtests: what other overrides would have done with the tenant's recorded traffic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response

from betimes.backtest.jobs import BacktestRequest, Backtests, BacktestView
from betimes.backtest.page import POLICY_HEADER, page
from betimes.core.checks import Examined
from betimes.core.errors import NotFound
from betimes.http.event_stream import EventStream, demand_room, may_go_on
from betimes.http.routes import Answer, RequestContext
from betimes.http.service_calls import ServiceRoutes

TAG = "Backtests"
POLL_S = 0.5
_PAGE_HEADERS = {
    "Content-Security-Policy": f"{POLICY_HEADER}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


def _backtests(request: RequestContext) -> Backtests:
    return Backtests(request.engine, request.caller)


async def ask_for(request: RequestContext[Examined[BacktestRequest]]) -> Answer[BacktestView]:
    service = _backtests(request)
    view = await service.ask(request.body, key=request.idempotency_key)
    headers = {"Location": f"/v1/backtests/{view.backtest_id}"}
    return Answer(view, 202, headers | ({"Idempotency-Replayed": "true"} if service.is_replay else {}))


async def report(request: RequestContext) -> Response:
    made = page(await _backtests(request).report(request.path["backtest_id"]))
    return Response(made, media_type="text/html", headers=_PAGE_HEADERS)


async def stream(request: RequestContext) -> EventStream:
    service, backtest_id = _backtests(request), request.path["backtest_id"]
    await service.find(backtest_id)
    streams, tenant = request.process.streams, request.caller.tenant
    demand_room(streams, tenant)
    return EventStream(_progress(request, service, backtest_id), streams, tenant)


async def _progress(request: RequestContext, service: Backtests, backtest_id: str) -> AsyncIterator[bytes]:
    """Yield the backtest whenever it has come further, until it has ended or was forgotten."""
    engine, streams, told, quiet = request.engine, request.process.streams, b"", 0
    while engine.is_open and not streams.is_closed:
        try:
            view = await service.find(backtest_id)
        except NotFound:
            return
        data = msgspec.json.encode(view)
        if data != told:
            yield b"event: progress\ndata: " + data + b"\n\n"
            told, quiet = data, 0
        if view.status in ("done", "failed"):
            return
        quiet += 1
        if quiet * POLL_S >= streams.comment_s:
            if not await may_go_on(request):
                return
            yield b": still here\n\n"
            quiet = 0
        await asyncio.sleep(POLL_S)


_calls = ServiceRoutes(_backtests, TAG, read="admin", write="admin")

ROUTES = (
    _calls.post(
        "/v1/backtests",
        ask_for,
        "Start a backtest of other overrides on the recorded traffic",
        description="Replays the tenant's commands under each policy and compares the answers with the recorded ones. "
        "A worker runs it, at most once; read it by its id. One runs at a time, the last 20 are kept. A "
        "policy that cannot work is refused here, with every path.",
        status=202,
        codes=((409, "BACKTEST_UNDER_WAY"),),
        example={
            "policies": {"calmer": {"notifications": {"fatigue": {"hour": {"cap": 6, "span_s": 3600}}}}},
            "since": "2026-03-01T00:00:00Z",
            "until": "2026-04-01T00:00:00Z",
            "domain": "notifications",
        },
    ),
    _calls.get("/v1/backtests", Backtests.backtests, "Backtests, newest first"),
    _calls.get("/v1/backtests/{backtest_id}", Backtests.get, "Progress and result of a backtest"),
    _calls.get(
        "/v1/backtests/{backtest_id}/report",
        report,
        "Report of a backtest as a page with charts",
        description="One page of HTML that fetches and runs nothing.",
        reply=str,
        media_type="text/html",
        codes=((409, "BACKTEST_NOT_DONE"),),
    ),
    _calls.post("/v1/backtests/estimate", Backtests.estimate, "Estimate the work of a backtest", dry_run=True),
    _calls.get(
        "/v1/backtests/{backtest_id}/flips",
        Backtests.flips,
        "Changed answers, with both traces",
        codes=((409, "BACKTEST_NOT_DONE"),),
    ),
    _calls.get(
        "/v1/backtests/{backtest_id}/stream",
        stream,
        "Live progress of a backtest",
        description="Server-sent events: `event: progress` whenever it has come further; it ends with the backtest.",
        reply=str,
        events={"progress": BacktestView},
        media_type="text/event-stream",
        time_limit_s=None,
        codes=((429, "TOO_MANY_STREAMS"),),
    ),
    _calls.delete("/v1/backtests/{backtest_id}", Backtests.delete, "Delete a backtest"),
)
