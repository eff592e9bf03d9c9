"""A server that runs elsewhere, for commands that read: each call of a service becomes a request for its route.

A route names the method that answers it (`betimes.http.service_calls`), so nothing about routes is written twice here:
path, query and the type of the answer are the route's own. Only routes that read are asked. A command that writes, or
works on the database itself, is refused with what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, get_origin, get_type_hints
from urllib.parse import quote

import msgspec

from betimes.app.routes import ROUTES
from betimes.cli.bootstrap import NEEDS_DATABASE, Target
from betimes.core.errors import (
    BetimesError,
    Invalid,
    MalformedRow,
    MissingScope,
    NewerVersion,
    NotFound,
    Refused,
    Unavailable,
)
from betimes.domain.service import Caller
from betimes.http.definitions import DefinitionRoutes
from betimes.http.routes import Route
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.service import Ledger
from betimes.outbound.bodies import read_body
from betimes.tenancy import Tenancy

if TYPE_CHECKING:
    import aiohttp

ANSWERS_S = 60.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
ITEMS_MAX = 100_000
"""Of a list that is read page by page."""
_NAMES = re.compile(r"\{(\w+)\}")
_PAGES = re.compile(r"(?<=[^/])/(console|docs|v1|healthz|metrics)([/?#].*)?$")
"""Paths that people copy from a browser's address bar; any other may be where a proxy has put the server."""


class _FieldProblem(msgspec.Struct):
    path: str = ""
    message: str = ""


class _Problem(msgspec.Struct):
    """An error as a server tells it."""

    code: str
    detail: str
    errors: list[_FieldProblem] = []


class RemoteApplication:
    """The application behind an address, as far as commands read it."""

    def __init__(self, target: Target) -> None:
        self._address = (target.url or "").rstrip("/")
        self._key = target.key
        if not self._address.startswith(("http://", "https://")):
            raise Invalid("an address begins with http:// or https://", (("url", "http://… or https://…"),))
        if "@" in self._address:  # whatever it is, it is not repeated: it may be a password
            raise Invalid(
                "an address has no name and password; give the key with --api-key or BETIMES_KEY",
                (("url", "without what stands before @"),),
            )
        if page := _PAGES.search(self._address):
            raise Invalid(
                f"{page[0]} is a page of the server; give its address without a path: {self._address[: page.start()]}",
                (("url", "without a path"),),
            )

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWERS_S))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def for_caller(self, caller: Caller) -> Tenancy:
        return cast(Tenancy, RemoteTenancy(partial(self.read, caller.tenant)))

    def ledger_for(self, caller: Caller) -> Ledger:
        return cast(Ledger, RemoteService("ledger", Ledger, partial(self.read, caller.tenant)))

    def effects_for(self, caller: Caller) -> EffectActions:
        return cast(EffectActions, RemoteService("effects", EffectActions, partial(self.read, caller.tenant)))

    def __getattr__(self, name: str) -> NoReturn:
        raise Invalid(NEEDS_DATABASE, (("url", "not with this command"),))

    async def read(self, tenant: str, route: Route, path: str, query: Mapping[str, str]) -> Any:
        """Return what the server answers, in the type that the route says; raise what it says is wrong."""
        import aiohttp

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {"X-Tenant": tenant}
        try:
            async with self._session.get(
                self._address + path, params=query, headers=headers, allow_redirects=False
            ) as answer:
                body = await read_body(answer, ANSWER_BYTES_MAX)
                if answer.status != 200:
                    raise self._error_of(answer, body)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"no betimes answers at {self._address}: {_describe_failure(error)}") from None
        if len(body) > ANSWER_BYTES_MAX:
            raise Unavailable(f"{self._address} answers with more than {ANSWER_BYTES_MAX:,} bytes; ask for less")
        try:
            return msgspec.json.decode(body, type=route.reply)
        except (msgspec.MsgspecError, RecursionError):
            raise Unavailable(f"{self._address} answers, but not like a betimes server") from None

    def _error_of(self, answer: aiohttp.ClientResponse, body: bytes) -> BetimesError:
        """Return the error that a server tells, as it would be raised here."""
        try:
            told = msgspec.json.decode(body, type=_Problem)
        except (msgspec.MsgspecError, RecursionError):
            return Unavailable(f"{answer.url.origin()} answers with {answer.status}, but not like a betimes server")
        for kind in (MalformedRow, NewerVersion):
            if told.code == kind.code:  # about one row, and no sign that the server is not there
                return kind(told.detail)
        match answer.status:
            case 401:
                said = "the key is unknown, expired or revoked" if self._key else "the server needs a key"
                way = "give one with --api-key or BETIMES_KEY; `betimes key create` makes one where the database is"
                return Refused(told.code, f"{said}; {way}")
            case 403:
                return MissingScope(told.detail)
            case 404:
                has_path = self._address.count("/") > len("//")
                return NotFound(f"{told.detail} Is the path in {self._address} right?" if has_path else told.detail)
            case 422:
                return Invalid(
                    told.detail, tuple((one.path.removeprefix("query."), one.message) for one in told.errors)
                )
            case status if status >= 500:
                return Unavailable(told.detail)
        return Refused(told.code, told.detail)


def _describe_failure(error: Exception) -> str:
    """Return in plain words why a server could not be asked, and what to look at next."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the host {error.host} is not known; is the address right?"
        case aiohttp.ClientSSLError():
            return "no secure connection; does it serve https://, with a certificate that is trusted here?"
        case aiohttp.ClientConnectorError():
            return "nothing listens there; is it running (betimes serve), and is the address right?"
        case TimeoutError():
            return f"no answer within {ANSWERS_S:g} s; is it busy, or is the address right?"
        case _:
            return f"{error or type(error).__name__}; is the address right?"


class RemoteTenancy:
    """The services of a tenant elsewhere."""

    def __init__(self, read: Callable[..., Awaitable[Any]]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> RemoteService:
        service = get_type_hints(getattr(Tenancy, name).func)["return"]
        return RemoteService(name, service, self._read)


class RemoteService:
    """A service elsewhere: the methods that have a route."""

    def __init__(self, name: str, service: type, read: Callable[..., Awaitable[Any]]) -> None:
        self._name = name
        self._service = service
        self._read = read

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._service, name)
        route = next((route for route in ROUTES if self._is_answered_by(route, name, method)), None)
        if route is None or route.method != "GET":
            way = f"; over HTTP it is {route.method} {route.path}" if route else ""
            raise Invalid(
                f"with --url or BETIMES_URL betimes only reads{way}, and where the database is, leave them out",
                (("url", "not with this command"),),
            )
        return partial(self._ask, route, method)

    def _is_answered_by(self, route: Route, name: str, method: Callable[..., Any]) -> bool:
        """Return whether this method answers the route: a handler has its name, or was made of it."""
        answer = route.answer
        if (called := getattr(answer, "method", None)) is not None:
            return called is method
        if isinstance(collection := getattr(answer, "__self__", None), DefinitionRoutes):
            return (f"{collection.noun}s", answer.__name__) == (self._name, name)
        package = self._service.__module__.rpartition(".")[0]
        return answer.__name__ == name and answer.__module__.startswith(f"{package}.")

    async def _ask(self, route: Route, method: Callable[..., Any], *given: Any, **keywords: Any) -> Any:
        names = _NAMES.findall(route.path)
        path = route.path.format(**{name: quote(str(value), safe="") for name, value in zip(names, given)})  # noqa: B905
        rest = dict(zip([*signature(method).parameters][1 + len(names) :], given[len(names) :]))  # noqa: B905
        asked = {**rest.pop("filters", {}), **rest, **keywords}
        query = msgspec.to_builtins(route.query(**asked))
        told = {name: _spell(value) for name, value in query.items() if value is not None}
        found = await self._read(route, path, told)
        if get_origin(get_type_hints(method)["return"]) is not list:
            return found
        # In Python the list is whole, and a server tells it page by page.
        items = [*found.items]
        while found.next_cursor and found.items and len(items) < ITEMS_MAX:
            found = await self._read(route, path, {**told, "cursor": found.next_cursor})
            items += found.items
        return items


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
