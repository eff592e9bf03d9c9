"""Server-sent events: responses that are counted, bounded per tenant, and end with their reader's key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from betimes.engine.engine import Engine
from betimes.http.problems import HttpProblem
from betimes.http.process import STREAMS_PER_TENANT_MAX, Streams
from betimes.http.routes import RequestContext
from betimes.http.sessions import token_in


class EventStream(StreamingResponse):
    """Counted from its first byte to its last."""

    def __init__(self, events: AsyncIterator[bytes], streams: Streams, tenant: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._streams = streams
        self._tenant = tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        with self._streams.one(self._tenant):
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        # Ended with the response, and not when the collector comes by: nothing reads on for who has left.
        async with aclosing(self.body_iterator):  # type: ignore[type-var]
            await super().stream_response(send)


def demand_room(streams: Streams, tenant: str) -> None:
    """Raise 429 if a tenant has as many streams open as it may have.

    Nothing may be awaited between this and the first byte, or another stream could come between.
    """
    if streams.is_full(tenant):
        message = f"{STREAMS_PER_TENANT_MAX} streams are open, which is the limit; close one first."
        raise HttpProblem(429, "TOO_MANY_STREAMS", message, headers={"Retry-After": "5"})


async def read_rounds(
    engine: Engine, streams: Streams, may_read_on: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Yield for each look at what is new, until the process stops or the reader may read on no more.

    The reader's key is looked at as often as it hears a comment.
    """
    loop = asyncio.get_running_loop()
    asked_s = loop.time()
    while engine.is_open and not streams.is_closed:
        if loop.time() - asked_s >= streams.comment_s:
            if not await may_read_on():
                return
            asked_s = loop.time()
        yield


async def may_go_on(request: RequestContext) -> bool:
    """Return whether the reader's key or session is still alive; without keys everybody's is."""
    if not request.key_id:
        return True
    return await request.process.identities.of(request.engine, token_in(request.headers)) is not None
