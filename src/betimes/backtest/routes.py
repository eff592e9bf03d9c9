"""Routes of backtests: what other overrides would have done with the tenant's recorded traffic."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from betimes.backtest.jobs import BacktestDetail, BacktestRequest, Backtests, BacktestView
from betimes.backtest.page import POLICY_HEADER, page
from betimes.domain.paging import Page
from betimes.http.routes import Answer, Listed, RequestContext, Route

TAG = "Backtests"
_PAGE_HEADERS = {
    "Content-Security-Policy": f"{POLICY_HEADER}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


def _backtests(request: RequestContext) -> Backtests:
    return Backtests(request.engine, request.caller)


async def ask_for(request: RequestContext) -> Answer:
    service = _backtests(request)
    view = await service.ask(request.body, key=request.idempotency_key)
    headers = {"Location": f"/v1/backtests/{view.backtest_id}"}
    return Answer(view, 202, headers | ({"Idempotency-Replayed": "true"} if service.is_replay else {}))


async def backtests(request: RequestContext) -> Page[BacktestView]:
    return await _backtests(request).backtests(limit=request.query.limit, cursor=request.query.cursor)


async def backtest(request: RequestContext) -> BacktestDetail:
    return await _backtests(request).get(request.path["backtest_id"])


async def report(request: RequestContext) -> Response:
    made = page(await _backtests(request).report(request.path["backtest_id"]))
    return Response(made, media_type="text/html", headers=_PAGE_HEADERS)


async def delete(request: RequestContext) -> None:
    await _backtests(request).delete(request.path["backtest_id"])


_get = partial(Route, method="GET", scope="admin", tag=TAG)
_post = partial(Route, method="POST", scope="admin", tag=TAG)

ROUTES = (
    _post(
        "/v1/backtests",
        ask_for,
        "Have other overrides tried on the recorded traffic",
        description="What the tenant's commands would have led to under each policy, held against the recorded one. "
        "A worker makes it, at most once; ask for it by its id. One is under way at a time, the last 20 are kept. A "
        "policy that cannot work is refused here, with every path.",
        body=BacktestRequest,
        judges_body=True,
        reply=BacktestView,
        status=202,
        codes=((409, "BACKTEST_UNDER_WAY"),),
        example={
            "policies": {"calmer": {"notifications": {"fatigue": {"hour": {"cap": 6, "span_s": 3600}}}}},
            "since": "2026-03-01T00:00:00Z",
            "until": "2026-04-01T00:00:00Z",
            "domain": "notifications",
        },
    ),
    _get("/v1/backtests", backtests, "Backtests, newest first", query=Listed, reply=Page[BacktestView]),
    _get(
        "/v1/backtests/{backtest_id}",
        backtest,
        "How far a backtest is, and what came of it",
        description="`result` is there when it is `done`; of one that `failed`, `error` says why. One whose process "
        "died has failed as `ABANDONED` a minute later: ask again.",
        reply=BacktestDetail,
    ),
    _get(
        "/v1/backtests/{backtest_id}/report",
        report,
        "Its result as a page with charts",
        description="One page of HTML that fetches and runs nothing.",
        reply=str,
        media_type="text/html",
        codes=((409, "BACKTEST_NOT_DONE"),),
    ),
    Route(
        method="DELETE",
        path="/v1/backtests/{backtest_id}",
        scope="admin",
        answer=delete,
        tag=TAG,
        summary="Forget a backtest",
        description="One that is under way is stopped within a second or two.",
    ),
)
