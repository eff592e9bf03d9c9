"""Routes that hand a request on to one method of a service.

The names in the path, the filters of a list and the body become the method's first arguments, in that order, and the
parameters of the query its keywords. What a handler must do besides (another status, a location, a condition) is
written as a function.

A method says itself what it takes and returns, so `route` reads the types of the query, of the body and of the answer
from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any, Concatenate, Generic, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from starlette.responses import Response

from betimes.core.checks import Examined
from betimes.core.type_hints import is_struct
from betimes.domain.derivation import derive
from betimes.domain.service import Service
from betimes.http.field_docs import describe_function
from betimes.http.routes import Answer, Empty, Handler, Listed, RequestContext, Route, Traced, answer_of, name_segment

S = TypeVar("S", bound=Service)
Answering: TypeAlias = Callable[Concatenate[S, ...], Awaitable[Any]] | Handler
"""The handler of a route: a method of the service, or a function of the request."""
_RESPONSES = (Answer, Response)


class ServiceCall:
    """A handler made of a method, and what the method itself says of the query, of the body and of the answer.

    A method that takes an idempotency key as `key` is given that of the request; its answer says if it is a replay.
    """

    def __init__(self, method: Callable[..., Awaitable[Any]], service: Callable[[RequestContext], Any]) -> None:
        self._service = service
        self.method = method
        key = signature(method).parameters.get("key")
        self._takes_key = key is not None and key.kind is key.KEYWORD_ONLY
        hints = get_type_hints(method, include_extras=True)
        self.reply = None if hints["return"] is type(None) else hints["return"]
        self.query = query_of(method)
        self.body = _struct_in(hints.get("request"))
        self.judges_body = any(get_origin(kind) is Examined for kind in get_args(hints.get("request")))

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a route that the method answers for."""
        return {
            "query": self.query,
            "body": self.body,
            "judges_body": self.judges_body,
            "reply": self.reply,
            "description": describe_function(self.method),
        }

    async def __call__(self, request: RequestContext) -> Any:
        service, arguments, keywords = self._service(request), _arguments(request), _keywords(request)
        if not self._takes_key:
            body = await self.method(service, *arguments, **keywords)
            name_segment(request, service)
            return body
        return answer_of(service, await self.method(service, *arguments, **keywords, key=request.idempotency_key))


class ServiceRoutes(Generic[S]):
    """The routes of one service, which is found by the request; what all of them share is said once.

    A route is answered by a method of the service, or by a function of the request. Its scope is that to read or to
    write, unless another is given.
    """

    def __init__(self, service: Callable[[RequestContext], S], tag: str, *, read: str, write: str) -> None:
        self.service = service
        self._tag = tag
        self._read, self._write = read, write

    def get(self, path: str, answer: Answering[S], summary: str, **fields: Any) -> Route:
        return self._route(path, answer, summary, {"method": "GET", "scope": self._read} | fields)

    def post(self, path: str, answer: Answering[S], summary: str, **fields: Any) -> Route:
        return self._route(path, answer, summary, {"method": "POST", "scope": self._write} | fields)

    def put(self, path: str, answer: Answering[S], summary: str, **fields: Any) -> Route:
        return self._route(path, answer, summary, {"method": "PUT", "scope": self._write} | fields)

    def patch(self, path: str, answer: Answering[S], summary: str, **fields: Any) -> Route:
        return self._route(path, answer, summary, {"method": "PATCH", "scope": self._write} | fields)

    def delete(self, path: str, answer: Answering[S], summary: str, **fields: Any) -> Route:
        return self._route(path, answer, summary, {"method": "DELETE", "scope": self._write} | fields)

    def _route(self, path: str, answer: Answering[S], summary: str, fields: dict[str, Any]) -> Route:
        is_method = "self" in signature(answer).parameters
        return route(path, ServiceCall(answer, self.service) if is_method else answer, summary, tag=self._tag, **fields)


def route(path: str, answer: Any, summary: str, **fields: Any) -> Route:
    """Return a route; query, body and answer have the types of the method that answers, unless others are given.

    It is described by what the method's docstring says after its first paragraph. A function that answers says what
    it is sent as `RequestContext[Body]`, or `RequestContext[Examined[Body]]` if it judges the body itself, and what it
    answers as its own type or as `Answer[Reply]`.
    """
    if isinstance(answer, ServiceCall):
        return Route(path, answer, summary, **answer.fields | fields)
    return Route(path, answer, summary, **_types_of(answer) | fields)


def _types_of(handler: Handler) -> dict[str, Any]:
    """Return what a handler says of its body, `RequestContext[…]`, and of its answer."""
    hints = get_type_hints(handler)
    [sent] = get_args(hints["request"]) or (None,)
    returned = hints["return"]
    [told] = get_args(returned) if get_origin(returned) is Answer else (returned,)
    is_body = told is not type(None) and not (isinstance(told, type) and issubclass(told, _RESPONSES))
    judges_body = get_origin(sent) is Examined
    body = get_args(sent)[0] if judges_body else sent
    return {"body": body, "judges_body": judges_body, "reply": told if is_body else None}


def _arguments(request: RequestContext) -> tuple[Any, ...]:
    filters = () if _filters_in(request) is None else (derive(_filters_in(request), request.query),)
    body = () if request.body is None else (request.body,)
    return (*request.path.values(), *filters, *body)


def _keywords(request: RequestContext) -> dict[str, Any]:
    if isinstance(request.query, Traced):
        return {"trace": request.wants_trace}
    of_filters = getattr(_filters_in(request), "__struct_fields__", ())
    return {name: value for name, value in msgspec.structs.asdict(request.query).items() if name not in of_filters}


def _filters_in(request: RequestContext) -> Any:
    """Return the struct of filters that the query was made of, if there is one."""
    return getattr(request.query, "fields_from", None)


def query_of(method: Callable[..., Awaitable[Any]]) -> type[msgspec.Struct]:
    """Return the parameters that a method takes from the query: the fields of its `filters`, and its keywords.

    Its docstring says what its keywords mean, below `Parameters`. Beside a `request` they are for Python alone.
    """
    given = signature(method).parameters.items()
    keywords = {name: one.default for name, one in given if one.kind is one.KEYWORD_ONLY and name != "key"}
    hints = get_type_hints(method, include_extras=True)
    if "trace" in keywords:
        return Traced
    if not keywords or "request" in hints:
        return Empty
    filters = _struct_in(hints.get("filters"))
    of_filters = msgspec.structs.fields(filters) if filters else ()
    fields = [
        *((field.name, field.type, field.default) for field in of_filters),
        *((name, hints[name], default) for name, default in keywords.items() if name not in Listed.__struct_fields__),
    ]
    return msgspec.defstruct(
        "Query",
        fields,
        bases=(Listed,) if "cursor" in keywords else None,
        namespace={"parameters_of": method, **({"fields_from": filters} if filters else {})},
        frozen=True,
        forbid_unknown_fields=True,
        rename=lambda name: name.removesuffix("_"),  # `from` is no name in Python
    )


def filters_of(method: Callable[..., Awaitable[Any]]) -> type[Listed]:
    """Return the query of a list."""
    return cast(type[Listed], query_of(method))


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    """Return the struct that a method takes; from Python it takes a mapping too."""
    return next((kind for kind in (hint, *get_args(hint)) if is_struct(kind)), None)
