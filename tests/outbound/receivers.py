"""Receivers to call: real servers on loopback, an answer for every name, and secrets that both sides know."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from betimes.core.deciders import EffectCall
from betimes.core.instants import Instant
from betimes.core.streams import EffectId
from betimes.outbound.settings import WebhookSettings
from betimes.outbound.webhooks import Webhooks
from tests.patience import HANGS_S

SECRETS = {"acme": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "other": ["whsec_c2VjcmV0LW9mLXRoZS1vdGhlci10ZW5hbnQ="]}
CERTIFICATE = Path(__file__).parent / "receiver.pem"
"""Made for these tests: valid for `receiver.test`, signed by itself, with its key."""
LOOPBACK = WebhookSettings(allow_http=True, allow_networks=("127.0.0.1/32",))

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def real_now() -> Instant:
    """Receivers refuse old signatures by the real clock."""
    return time.time_ns() // 1_000


def webhooks(settings: WebhookSettings = LOOPBACK, **changes: Any) -> Webhooks:
    usual: dict[str, Any] = {"secrets": lambda tenant: SECRETS[tenant], "now": real_now, "settings": settings}
    return Webhooks(**usual | changes)


def call(payload: Any, *, tenant: str = "acme", executor: str = "webhook", attempt: int = 1) -> EffectCall:
    return EffectCall(EffectId(tenant, "gate", "front", 7, 0), executor, payload, attempt, 0, 1, 60, False, 5, None)


class Names:
    """Answers every name from a table, one list of addresses after the other, the last one for ever."""

    def __init__(self, table: Mapping[str, list[list[str]]]) -> None:
        self._table = {host: list(answers) for host, answers in table.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._table.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Receiver:
    """What a receiver got, and where it is."""

    def __init__(self, host: str, port: int, scheme: str) -> None:
        self.host = host
        self.port = port
        self.url = f"{scheme}://{host}:{port}/hook"
        self.requests: list[tuple[Mapping[str, str], bytes]] = []
        self.reached = asyncio.Event()

    def got(self, headers: Mapping[str, str], body: bytes) -> None:
        self.requests.append((headers, body))
        self.reached.set()


@asynccontextmanager
async def receiver(
    answer: Answer | None = None, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A server that keeps every request and answers as told, or with an empty 200."""

    async def handle(request: web.Request) -> web.StreamResponse:
        here.got(request.headers, await request.read())
        return await answer(request) if answer else web.Response()

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        here = Receiver(host, runner.addresses[0][1], "https" if tls else "http")
        yield here
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(text: bytes, *, more: bytes = b"") -> AsyncIterator[Receiver]:
    """A server that reads a request, writes these bytes, then goes on with `more` until the client hangs up."""
    conversations: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            here.got({}, await reader.readuntil(b"\r\n\r\n"))
            writer.write(text)
            while more:
                await writer.drain()
                writer.write(more)
            await reader.read(-1)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        conversations.add(task)
        task.add_done_callback(conversations.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        here = Receiver("127.0.0.1", server.sockets[0].getsockname()[1], "http")
        yield here
    finally:
        server.close()
        async with asyncio.timeout(HANGS_S):
            await asyncio.gather(*conversations)


def serving_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def trusting_the_certificate() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))
