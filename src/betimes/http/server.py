"""The ASGI application: from a request to a route's handler and back.

In this order: correlation id, key, scope, tenant, rate limit, path, query, body, handler under its time limit. Every
error becomes a problem body. Deny by default: a route without a scope cannot be made, and without `dev` nobody gets in
without a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Served
from starlette.types import Receive, Scope, Send

from betimes.core.bounds import BATCH_VALUES_MAX, VALUES_MAX, check_cost
from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Findings, refusal
from betimes.core.errors import BetimesError, Invalid
from betimes.domain.hold_view import HOLD_HEADER, hold_header
from betimes.domain.saved_responses.service import Answers
from betimes.domain.service import Caller, in_slices, read_off_loop
from betimes.http.batches import BATCH_MAX, Batch, batch_item
from betimes.http.dry_runs import HEADERS as DRY_RUN_HEADERS
from betimes.http.dry_runs import caller_who_tries, open_trial, trial_of, wrap_answer
from betimes.http.guard import Guard
from betimes.http.problems import HttpProblem, problem_of
from betimes.http.process import Process
from betimes.http.proxy_sign_in import NOBODY, ProxySignIn
from betimes.http.request_decoder import (
    CORRELATION_CHARS_MAX,
    KEY_FIELD,
    NOTE_HEADER,
    address_problems,
    body_of,
    decode_directly,
    is_toml,
    json_of,
    note_of,
    query_of,
    toml_of,
)
from betimes.http.routes import (
    PUBLIC,
    SEGMENT_HEADER,
    Answer,
    IncomingRequest,
    RequestContext,
    Route,
    ServedApplication,
)


def serve(
    application: ServedApplication,
    routes: Iterable[Route],
    *,
    dev: bool = False,
    pages: Sequence[Served] = (),
    sessions_act: bool = True,
    proxy: ProxySignIn = NOBODY,
) -> Site:
    """Return the application behind HTTP, with pages beside its routes."""
    process = Process(tuple(routes), report=application.dry_run_report, sessions_act=sessions_act, proxy=proxy)
    guard = Guard(application, process.identities, dev=dev, proxy=proxy)
    by_path: dict[str, list[Route]] = {}
    for route in process.routes:
        by_path.setdefault(route.path, []).append(route)
    endpoints = {path: Endpoint(application, guard, process, group) for path, group in by_path.items()}
    return Site(endpoints, pages, process)


class Site(Starlette):
    """Starlette's application, in which a path without parameters is found by its name instead of a search."""

    def __init__(self, endpoints: Mapping[str, Endpoint], pages: Sequence[Served], process: Process) -> None:
        # Paths with fewer parameters come first, or a name such as `groups` would be taken for an id.
        served = [
            Served(path, endpoint, methods=endpoint.methods)
            for path, endpoint in sorted(endpoints.items(), key=lambda pair: pair[0].count("{"))
        ]
        handlers: Mapping[Any, Any] = {HTTPException: _not_routed, Exception: _handle_failure}
        super().__init__(routes=[*served, *pages], exception_handlers=handlers)
        self.router.redirect_slashes = False  # a redirect would name whatever host the request claims
        self.state.process = process
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is not None and scope["method"] in endpoint.routes:
            await endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Endpoint:
    """The routes of one path, as an ASGI application that answers each method by its route."""

    def __init__(self, application: ServedApplication, guard: Guard, process: Process, routes: Iterable[Route]) -> None:
        self._application = application
        self._guard = guard
        self._process = process
        self.routes: dict[str, Route] = {route.method: route for route in routes}
        self.methods = sorted(self.routes)
        if "GET" in self.routes:
            self.routes["HEAD"] = self.routes["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_s = perf_counter()
        request, route = IncomingRequest(scope, receive), self.routes[scope["method"]]
        correlation = request.first_headers.get("x-correlation-id") or self._process.next_correlation()
        try:
            if len(correlation) > CORRELATION_CHARS_MAX:
                raise refusal("header", [("header.x-correlation-id", f"at most {CORRELATION_CHARS_MAX}")])
            response = await _response(await self._answer(request, route, correlation), correlation)
        except Exception as error:  # noqa: BLE001 — whatever went wrong is told as a problem
            response = await _response(_problem_answer(error), correlation)
        if request.tenant and (hold := self._application.engine.holds.by_tenant.get(request.tenant)):
            response.headers[HOLD_HEADER] = hold_header(hold)
        took_s = perf_counter() - arrived_s
        self._process.requests.observe_request(route.method, route.path, response.status_code, took_s)
        await response(scope, receive, send)

    async def _answer(self, request: IncomingRequest, route: Route, correlation: str) -> Answer | Response:
        headers = request.first_headers
        trial = None if headers.keys().isdisjoint(DRY_RUN_HEADERS) else trial_of(route, headers)
        caller, scopes, key_id = await self._guard.caller(request, route, correlation, trial)
        if NOTE_HEADER in headers and route.is_recorded:
            caller = msgspec.structs.replace(caller, note=note_of(headers[NOTE_HEADER]))
        if route.scope != PUBLIC:
            request.tenant = caller.tenant
            await self._process.rate_limits.admit(self._application, caller.tenant, "requests")
        if not trial:
            context = RequestContext(self._application, caller, scopes, self._process, request, key_id=key_id)
            return await _answer_in_time(route, context)
        caller, wider = caller_who_tries(caller, scopes)
        tried = await open_trial(self._application, trial, caller, scopes)
        context = RequestContext(tried, caller, wider, self._process, request, key_id=key_id)
        answer = await _answer_in_time(route, context)
        return answer if isinstance(answer, Response) else await wrap_answer(tried, answer)


async def _answer_in_time(route: Route, context: RequestContext) -> Answer | Response:
    """Answer a request that its caller may make, within the time that its route has."""
    request = context.request
    found = address_problems(route, request.path_params, request.first_headers)
    context.query = query_of(route, request.query_params if request.scope["query_string"] else {}, found)
    if (
        route.signs_in
        and "authorization" not in request.first_headers
        and (named := context.process.proxy.who(request))
    ):
        context.proxy_key_id = named[1]
    if found.total and (route.body is None or context.query is None):
        raise found.refusal("parameter")
    context.idempotency_key = request.first_headers.get("idempotency-key")
    if context.idempotency_key is not None:
        context.caller = _agreeing(context.caller, request.url.path, None)
    try:
        async with asyncio.timeout(route.time_limit_s):
            return await _read_and_call(route, context, found)
    except TimeoutError:
        told = f"It took longer than {route.time_limit_s:g} s; ask again under the same key."
        raise HttpProblem(504, "TIMEOUT", told, headers={"Retry-After": "1"}) from None


async def _read_and_call(route: Route, context: RequestContext, found: Findings) -> Answer | Response:
    """Read the body and answer; problems found outside of the body are reported with those in it."""
    if route.body is None and not route.raw_body:
        return await _call(route, context)
    context.raw = await context.request.read_body()
    if route.raw_body:
        await read_off_loop(context.raw, partial(check_cost, context.raw, VALUES_MAX), context.process.body_threads)
        return await _call(route, context)
    arrived_under = context.caller.correlation
    alone: list[RequestContext | Exception] | None = None
    try:
        prepare = partial(_prepare, route, context, found)
        alone = await read_off_loop(context.raw, prepare, context.process.body_threads)
    finally:  # one that is refused counts too
        await context.process.rate_limits.admit(context.application, context.caller.tenant, "items", len(alone or "1"))
    if alone is not None:
        return await _batch(route, context, alone)
    answer = await _call(route, context)
    is_renamed = context.caller.correlation != arrived_under
    return _echo_correlation(answer, context.caller.correlation) if is_renamed else answer


def _prepare(route: Route, context: RequestContext, found: Findings) -> list[RequestContext | Exception] | None:
    """Decode and check the body: into the request itself, or as a batch, whose items are returned."""
    content_type = context.request.first_headers.get("content-type")
    # Nearly every body is sound: it is decoded once, into its type, and looked at part by part only if that fails.
    if not found.total and context.idempotency_key is None:
        body = decode_directly(route, context.raw, content_type)
        if body is not None:
            context.body = Examined(body, found) if route.judges_body else body
            if correlation := getattr(body, "correlation_id", None):
                _take_correlation(context, correlation)
            return None
    is_left_out = not context.raw and route.body_optional
    values_max = BATCH_VALUES_MAX if route.batch else VALUES_MAX
    if route.toml_field and is_toml(content_type):
        value: Any = {route.toml_field: toml_of(context.raw, values_max)}
    else:
        value = {} if is_left_out else json_of(context.raw, content_type, values_max)
    if route.batch and isinstance(value, dict) and "items" in value:
        if found.total:
            raise found.refusal("parameter")
        return _items(route, context, value)
    _decode(route, context, value, outside=found)
    return None


def _echo_correlation(answer: Answer | Response, correlation: str) -> Answer | Response:
    """Echo a correlation id that came in the body like one of the header, if a header can hold it."""
    if isinstance(answer, Response) or not (correlation.isascii() and correlation.isprintable()):
        return answer
    return msgspec.structs.replace(answer, headers={**answer.headers, "X-Correlation-Id": correlation})


def _decode(route: Route, context: RequestContext, value: Any, path: str = "", outside: Findings | None = None) -> None:
    context.sent, key = value, None if path else context.idempotency_key
    decoded = body_of(route, value, tenant=context.caller.tenant, key=key, path=path, outside=outside)
    context.body, context.idempotency_key = decoded.value, decoded.key
    if context.idempotency_key is not None:
        context.caller = _agreeing(context.caller, route.path.format_map(context.path), value)
    if decoded.correlation:
        _take_correlation(context, decoded.correlation)


def _take_correlation(context: RequestContext, correlation: str) -> None:
    context.caller = msgspec.structs.replace(context.caller, correlation=correlation)


def _agreeing(caller: Caller, path: str, sent: Any) -> Caller:
    """Return the caller with the fingerprint that a repeat of the key must match: the path and the body as sent.

    The key itself is left out, so that it may be in the header or in the body.
    """
    same = {name: part for name, part in sent.items() if name != KEY_FIELD} if isinstance(sent, dict) else sent
    return msgspec.structs.replace(caller, request=fingerprint((path, same)))


async def _call(route: Route, context: RequestContext) -> Answer | Response:
    key = context.idempotency_key if route.keeps_answer else None
    try:
        answer = await (route.answer(context) if key is None else _answer_once(route, context, key))
    except BetimesError as error:
        # Whatever a handler stumbled over in a request that is known to be wrong, the answer names all that is.
        known = context.body.found if isinstance(context.body, Examined) else Findings()
        if known.total and not (isinstance(error, Invalid) and {*known.first} <= {*error.problems}):
            raise known.refusal() from None
        raise
    if isinstance(answer, Response):
        return answer
    if not isinstance(answer, Answer):
        answer = Answer(answer, route.status if answer is not None or route.reply is not None else 204)
    if context.segment_id:
        answer = msgspec.structs.replace(answer, headers={SEGMENT_HEADER: context.segment_id, **answer.headers})
    return answer


async def _answer_once(route: Route, context: RequestContext, key: str) -> Answer:
    """Return the answer that is on record under the key, or a new one that is then kept; repeats take turns."""

    async def find_or_make() -> Answer:
        answers = Answers(context.engine, context.caller)
        body = await answers.find(route.keeps_answer, key)
        if body is None:
            answer = await route.answer(context)
            made = answer.body if isinstance(answer, Answer) else answer
            body = await answers.keep(route.keeps_answer, key, _encoder.encode(made))
        headers = {"Idempotency-Replayed": "true"} if answers.is_replay else {}
        return Answer(body, route.status, headers)

    return await context.process.turns.with_turn((context.caller.tenant, route.keeps_answer, key), find_or_make)


def _items(route: Route, context: RequestContext, value: dict[str, Any]) -> list[RequestContext | Exception]:
    items = value["items"]
    if value.keys() != {"items"} or not isinstance(items, list) or not 1 <= len(items) <= BATCH_MAX:
        raise refusal("field", [("items", f"1 to {BATCH_MAX} items, and no other field")])
    if context.idempotency_key is not None:
        message = "each item of a batch carries its own key"
        raise Invalid(message, (("header.idempotency-key", message),))
    return [_item(route, context, item, place) for place, item in enumerate(items)]


async def _batch(route: Route, context: RequestContext, alone: list[RequestContext | Exception]) -> Answer:
    """Answer every item as if it came alone, in order; those of one stream keep theirs."""
    contexts = [one for one in alone if isinstance(one, RequestContext)]
    answers = iter(await _all(route, context, contexts))
    return Answer(
        Batch(
            [
                batch_item(place, next(answers) if isinstance(one, RequestContext) else one)
                async for place, one in in_slices(enumerate(alone))
            ]
        )
    )


def _item(route: Route, context: RequestContext, item: Any, place: int) -> RequestContext | Exception:
    """Return an item as a request of its own, or the error in it."""
    alone = RequestContext(
        context.application,
        context.caller,
        context.scopes,
        context.process,
        context.request,
        query=_without_trace(context.query),
        key_id=context.key_id,
    )
    try:
        single = route if route.batch_item is None else msgspec.structs.replace(route, body=route.batch_item)
        _decode(single, alone, item, f"items[{place}]")
    except Invalid as error:
        return error
    return alone


async def _all(route: Route, whole: RequestContext, contexts: list[RequestContext]) -> Sequence[Any]:
    """Return an answer or an error for each; an item's problem is its own."""
    if not contexts:
        return []
    if route.answer_many:
        return await route.answer_many(whole, contexts)
    answers: list[Any] = await asyncio.gather(*(_call(route, alone) for alone in contexts), return_exceptions=True)
    return answers


def _without_trace(query: Any) -> Any:
    """Return the query of a batch's item: without a trace unless one is asked for."""
    if getattr(query, "trace", True) is None:
        return msgspec.structs.replace(query, trace=False)
    return query


# -- answers

_encoder = msgspec.json.Encoder(decimal_format="number")


async def _response(answer: Answer | Response, correlation: str = "") -> Response:
    """Return the answer encoded; the items of a list one by one, because all at once may take long."""
    if isinstance(answer, Response):
        answer.headers.setdefault("X-Correlation-Id", correlation)
        return answer
    headers = {"X-Correlation-Id": correlation, **answer.headers} if correlation else answer.headers
    if answer.status == 204:
        return Response(status_code=204, headers=headers)
    body: Any = answer.body
    if isinstance(items := getattr(body, "items", None), list):
        raw = [msgspec.Raw(_encoder.encode(item)) async for item in in_slices(items)]
        body = msgspec.structs.replace(body, items=raw)
    kind = "application/problem+json" if answer.status >= 400 else answer.media_type
    return Response(_encoder.encode(body), answer.status, headers=headers, media_type=kind)


def _problem_answer(error: BaseException) -> Answer:
    problem, headers = problem_of(error)
    return Answer(problem, problem.status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        told = HttpProblem(
            405, "METHOD_NOT_ALLOWED", f"{request.method} is not allowed for this path.", headers=headers
        )
    else:
        told = HttpProblem(404, "NOT_FOUND", "There is no such path; see /docs.")
    return await _response(_problem_answer(told))


async def _handle_failure(request: Request, error: Exception) -> Response:
    return await _response(_problem_answer(error))
