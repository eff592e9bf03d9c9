"""A served application under virtual time, and a client that speaks HTTP to it without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.types import Message

from betimes.app import Betimes
from betimes.app.deployment import HandlerSettings
from betimes.app.routes import ROUTES
from betimes.app.settings import Settings
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve

ANY_HANDLER = Settings(handlers=HandlerSettings(tenants={"*": ("*",)}))
"""For tests that call Python handlers from several tenants."""


class Reply:
    """What came back."""

    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.raw)


class Client:
    """Sends requests to the ASGI application."""

    def __init__(self, application: Starlette, headers: dict[str, str] | None = None) -> None:
        self._application = application
        self._headers = headers or {}

    async def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> Reply:
        path, _, query = target.partition("?")
        raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        sent = {"content-type": "application/json", **self._headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send(method, path, query.encode(), sent, raw)

    async def send(self, method: str, path: str, query: bytes, headers: dict[str, str], raw: bytes) -> Reply:
        """A request in its parts, as they come out of the protocol."""
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("utf-8", "surrogatepass"),
            "query_string": query,
            "headers": [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        messages: list[Message] = []
        bodies = iter([{"type": "http.request", "body": raw, "more_body": False}])

        async def receive() -> Message:
            return next(bodies, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            messages.append(message)

        await self._application(scope, receive, send)
        start = messages[0]
        told = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], told, b"".join(message.get("body", b"") for message in messages[1:]))


class Site:
    """The application, its clock, and clients."""

    def __init__(self, bt: Betimes, clock: VirtualClock, application: Starlette) -> None:
        self.bt = bt
        self.clock = clock
        self.application = application
        self.client = Client(application)

    def as_tenant(self, tenant: str) -> Client:
        return Client(self.application, {"x-tenant": tenant})

    def with_key(self, secret: str) -> Client:
        return Client(self.application, {"authorization": f"Bearer {secret}"})


@asynccontextmanager
async def site(
    *,
    dev: bool = True,
    url: str = "memory://",
    policy: dict[str, Any] | None = None,
    declare: Callable[[Betimes], None] = lambda bt: None,
    **settings: Any,
) -> AsyncIterator[Site]:
    """Everything on one store, served; `declare` is given the application before it opens."""
    clock = VirtualClock("2026-01-05T09:00:00Z")
    bt = Betimes(url, clock=clock, policy=policy, workers=False, **settings)
    declare(bt)
    async with bt:
        yield Site(bt, clock, serve(bt, ROUTES, dev=dev))
