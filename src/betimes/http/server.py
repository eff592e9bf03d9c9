"""The ASGI application: from a request to a route's handler and back.

In this order: correlation id, key, scope, tenant, rate limit, path, query, body, handler under its time limit. Every
error becomes a problem body. Deny by default: a route without a scope cannot be made, and without `dev` nobody gets in
without a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Served

from betimes.core.bounds import BATCH_VALUES_MAX, VALUES_MAX, check_cost
from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Findings, refusal
from betimes.core.errors import BetimesError, Invalid
from betimes.domain.hold_view import HOLD_HEADER, hold_header
from betimes.domain.requests import in_slices
from betimes.domain.saved_responses.service import Answers
from betimes.domain.service import Caller
from betimes.http.batches import BATCH_MAX, Batch, batch_item
from betimes.http.dry_runs import caller_who_tries, open_trial, trial_of, wrap_answer
from betimes.http.guard import Guard
from betimes.http.problems import HttpProblem, problem_of
from betimes.http.process import Process
from betimes.http.proxy_sign_in import NOBODY, ProxySignIn
from betimes.http.request_decoder import (
    BODY_BYTES_MAX,
    CORRELATION_CHARS_MAX,
    KEY_FIELD,
    address_problems,
    body_of,
    decode_directly,
    is_toml,
    json_of,
    query_of,
    toml_of,
)
from betimes.http.routes import PUBLIC, Answer, RequestContext, Route, ServedApplication


def serve(
    application: ServedApplication,
    routes: Iterable[Route],
    *,
    dev: bool = False,
    pages: Sequence[Served] = (),
    sessions_act: bool = True,
    proxy: ProxySignIn = NOBODY,
) -> Starlette:
    """Return the application behind HTTP, with pages beside its routes."""
    process = Process(tuple(routes), sessions_act=sessions_act, proxy=proxy)
    guard = Guard(application, process.identities, dev=dev, proxy=proxy)
    by_path: dict[str, list[Route]] = {}
    for route in process.routes:
        by_path.setdefault(route.path, []).append(route)
    served = [
        Served(
            path,
            _endpoint(application, guard, process, {route.method: route for route in group}),
            methods=sorted({route.method for route in group}),
        )
        for path, group in sorted(by_path.items(), key=lambda pair: pair[0].count("{"))
    ]
    handlers: Mapping[Any, Any] = {HTTPException: _not_routed, Exception: _handle_failure}
    starlette = Starlette(routes=[*served, *pages], exception_handlers=handlers)
    starlette.router.redirect_slashes = False  # a redirect would name whatever host the request claims
    starlette.state.process = process
    return starlette


def _endpoint(
    application: ServedApplication, guard: Guard, process: Process, routes: Mapping[str, Route]
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        arrived_s = perf_counter()
        correlation = request.headers.get("x-correlation-id") or process.next_correlation()
        route = routes["GET" if request.method == "HEAD" else request.method]
        try:
            if len(correlation) > CORRELATION_CHARS_MAX:
                raise refusal("header", [("header.x-correlation-id", f"at most {CORRELATION_CHARS_MAX}")])
            answer = await _answer_request(application, guard, process, request, route, correlation)
        except Exception as error:  # noqa: BLE001 — whatever went wrong is told as a problem
            answer = _problem_answer(error)
        if isinstance(answer, Answer):
            answer = await _response(answer, {"X-Correlation-Id": correlation})
        else:
            answer.headers.setdefault("X-Correlation-Id", correlation)
        tenant = getattr(request.state, "tenant", None)
        if tenant and (hold := application.engine.holds.by_tenant.get(tenant)):
            answer.headers[HOLD_HEADER] = hold_header(hold)
        process.metrics.observe_request(route.method, route.path, answer.status_code, perf_counter() - arrived_s)
        return answer

    return endpoint


async def _answer_request(
    application: ServedApplication, guard: Guard, process: Process, request: Request, route: Route, correlation: str
) -> Answer | Response:
    trial = trial_of(route, request.headers)
    caller, scopes, key_id = await guard.caller(request, route, correlation, trial)
    if route.scope != PUBLIC:
        engine, request.state.tenant = application.engine, caller.tenant
        await process.rate_limits.admit(engine, caller.tenant, "requests")
    if not trial:
        return await _answer_as(application, process, request, route, (caller, scopes, key_id))
    caller, wider = caller_who_tries(caller, scopes)
    tried = await open_trial(application, trial, caller, scopes)
    answer = await _answer_as(tried, process, request, route, (caller, wider, key_id))
    return answer if isinstance(answer, Response) else await wrap_answer(tried, answer)


async def _answer_as(
    application: ServedApplication,
    process: Process,
    request: Request,
    route: Route,
    known: tuple[Caller, tuple[str, ...], str],
) -> Answer | Response:
    """Answer a request for a caller, with its scopes and its key's id, who may make it."""
    caller, scopes, key_id = known
    found = address_problems(route, request.path_params, request.headers)
    context = RequestContext(
        application,
        caller,
        scopes,
        process=process,
        path=request.path_params,
        headers=request.headers,
        parameters=dict(request.query_params),
        query=query_of(route, request.query_params, found),
        key_id=key_id,
        idempotency_key=request.headers.get("idempotency-key"),
    )
    is_session = route.signs_in and "authorization" not in request.headers
    if is_session and (named := process.proxy.who(request)):
        context.proxy_key_id = named[1]
    if found.total and (route.body is None or context.query is None):
        raise found.refusal("parameter")
    if context.idempotency_key is not None:
        context.caller = _agreeing(context.caller, request.url.path, None)
    try:
        async with asyncio.timeout(route.time_limit_s):
            return await _read_and_call(route, context, request, found)
    except TimeoutError:
        told = f"It took longer than {route.time_limit_s:g} s; ask again under the same key."
        raise HttpProblem(504, "TIMEOUT", told, headers={"Retry-After": "1"}) from None


async def _read_and_call(route: Route, context: RequestContext, request: Request, found: Findings) -> Answer | Response:
    """Read the body and answer; problems found outside of the body are reported with those in it."""
    if route.body is None and not route.raw_body:
        return await _call(route, context)
    context.raw = await _read(request)
    if route.raw_body:
        await context.process.bodies.read(context.raw, check_cost, context.raw, VALUES_MAX)
        return await _call(route, context)
    arrived_under = context.caller.correlation
    alone: list[RequestContext | Exception] | None = None
    try:
        alone = await context.process.bodies.read(context.raw, _prepare, route, context, found)
    finally:  # one that is refused counts too
        await context.process.rate_limits.admit(context.engine, context.caller.tenant, "items", len(alone or "1"))
    if alone is not None:
        return await _batch(route, alone)
    answer = await _call(route, context)
    is_renamed = context.caller.correlation != arrived_under
    return _echo_correlation(answer, context.caller.correlation) if is_renamed else answer


def _prepare(route: Route, context: RequestContext, found: Findings) -> list[RequestContext | Exception] | None:
    """Decode and check the body: into the request itself, or as a batch, whose items are returned."""
    if not found.total and context.idempotency_key is None:
        body = decode_directly(route, context.raw, context.headers.get("content-type"))
        if body is not None:
            context.body = Examined(body, found) if route.judges_body else body
            if correlation := getattr(body, "correlation_id", None):
                _take_correlation(context, correlation)
            return None
    is_left_out = not context.raw and route.body_optional
    values_max = BATCH_VALUES_MAX if route.batch else VALUES_MAX
    if route.toml_field and is_toml(context.headers.get("content-type")):
        value: Any = {route.toml_field: toml_of(context.raw, values_max)}
    else:
        value = {} if is_left_out else json_of(context.raw, context.headers.get("content-type"), values_max)
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


async def _read(request: Request) -> bytes:
    """Read the body, up to its limit."""
    raw = bytearray()
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > BODY_BYTES_MAX:
                raise HttpProblem(413, "BODY_TOO_LARGE", f"The body has more than {BODY_BYTES_MAX:,} bytes.")
    except ClientDisconnect:
        raise HttpProblem(400, "MALFORMED_JSON", "The connection ended before the body did.") from None
    return bytes(raw)


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
    key = context.idempotency_key
    if not route.keeps_answer or key is None:
        return await _plain(route, context)
    name = (context.caller.tenant, route.keeps_answer, key)
    return await context.process.turns.with_turn(name, lambda: _answer_once(route, context, key))


async def _answer_once(route: Route, context: RequestContext, key: str) -> Answer | Response:
    """Return the answer that is on record under the key, or a new one that is then kept."""
    answers = Answers(context.engine, context.caller)
    body = await answers.find(route.keeps_answer, key)
    if body is None:
        answer = await _plain(route, context)
        assert isinstance(answer, Answer)
        body = await answers.keep(route.keeps_answer, key, _encoder.encode(answer.body))
    headers = {"Idempotency-Replayed": "true"} if answers.is_replay else {}
    return Answer(body, route.status, headers)


async def _plain(route: Route, context: RequestContext) -> Answer | Response:
    try:
        answer = await route.answer(context)
    except BetimesError as error:
        # Whatever a handler stumbled over in a request that is known to be wrong, the answer names all that is.
        known = context.body.found if isinstance(context.body, Examined) else Findings()
        if known.total and not (isinstance(error, Invalid) and {*known.first} <= {*error.problems}):
            raise known.refusal() from None
        raise
    if isinstance(answer, Answer | Response):
        return answer
    return Answer(answer, route.status if answer is not None or route.reply is not None else 204)


def _items(route: Route, context: RequestContext, value: dict[str, Any]) -> list[RequestContext | Exception]:
    items = value["items"]
    if value.keys() != {"items"} or not isinstance(items, list) or not 1 <= len(items) <= BATCH_MAX:
        raise refusal("field", [("items", f"1 to {BATCH_MAX} items, and nothing beside them")])
    if context.idempotency_key is not None:
        message = "each item of a batch carries its own key"
        raise Invalid(message, (("header.idempotency-key", message),))
    return [_item(route, context, item, place) for place, item in enumerate(items)]


async def _batch(route: Route, alone: list[RequestContext | Exception]) -> Answer:
    """Answer every item as if it came alone, in order; those of one stream keep theirs."""
    contexts = [one for one in alone if isinstance(one, RequestContext)]
    answers = iter(await _all(route, contexts))
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
        process=context.process,
        path=context.path,
        headers=context.headers,
        parameters=context.parameters,
        query=_without_trace(context.query),
        key_id=context.key_id,
    )
    try:
        single = route if route.batch_item is None else msgspec.structs.replace(route, body=route.batch_item)
        _decode(single, alone, item, f"items[{place}]")
    except Invalid as error:
        return error
    return alone


async def _all(route: Route, contexts: list[RequestContext]) -> Sequence[Any]:
    """Return an answer or an error for each; an item's problem is its own."""
    if not contexts:
        return []
    if route.answer_many:
        return await route.answer_many(contexts)
    return await asyncio.gather(*(_call(route, alone) for alone in contexts), return_exceptions=True)


def _without_trace(query: Any) -> Any:
    """Return the query of a batch's item: without a trace unless one is asked for."""
    if getattr(query, "trace", True) is None:
        return msgspec.structs.replace(query, trace=False)
    return query


# -- answers

_encoder = msgspec.json.Encoder(decimal_format="number")


async def _response(answer: Answer, headers: dict[str, str]) -> Response:
    """Return the answer encoded; the items of a list one by one, because all at once may take long."""
    body, all_headers = answer.body, {**headers, **answer.headers}
    if answer.status == 204:
        return Response(status_code=204, headers=all_headers)
    if isinstance(items := getattr(body, "items", None), list):
        raw = [msgspec.Raw(_encoder.encode(item)) async for item in in_slices(items)]
        body = msgspec.structs.replace(body, items=raw)
    kind = "application/problem+json" if answer.status >= 400 else answer.media_type
    return Response(_encoder.encode(body), answer.status, headers=all_headers, media_type=kind)


def _problem_answer(error: BaseException) -> Answer:
    problem, headers = problem_of(error)
    return Answer(problem, problem.status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        told = HttpProblem(405, "METHOD_NOT_ALLOWED", f"{request.method} is not for this path.", headers=headers)
    else:
        told = HttpProblem(404, "NOT_FOUND", "There is no such path; see /docs.")
    return await _response(_problem_answer(told), {})


async def _handle_failure(request: Request, error: Exception) -> Response:
    return await _response(_problem_answer(error), {})
