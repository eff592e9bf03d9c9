"""The connections of the server: uvicorn's protocol, held to limits before a request is looked at.

A connection over the limits is answered with a problem where it can be, and closed. Time is counted from the outside:
dripping a byte now and then does not put a deadline off. Importing this needs uvicorn and httptools.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from betimes.http.limits import ConnectionLimits
from betimes.http.problems import HttpProblem, problem_of

JOINED_BYTES_MAX, JOINED_PARTS_MAX = 16 * 1024, 4
REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class OpenConnections:
    """The count of open connections, in all and by address."""

    def __init__(self) -> None:
        self._by_address: Counter[str] = Counter()

    def add(self, address: str) -> tuple[int, int]:
        """Return how many there are now, in all and of this address."""
        self._by_address[address] += 1
        return self._by_address.total(), self._by_address[address]

    def remove(self, address: str) -> None:
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class JoinedWrites(asyncio.Transport):
    """A connection's transport as uvicorn uses it, which writes the head of an answer together with its body.

    Each write is a call of the system that may wake whoever reads. What is written in one step of the loop goes out
    with the end of the answer, with the next step, or as soon as it is much.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(bytes(data))
        if len(data) > JOINED_BYTES_MAX or len(self._parts) > JOINED_PARTS_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what is held back, unless the connection has ended meanwhile: `uvloop` raises for what comes then."""
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            if not self._transport.is_closing():
                self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class LimitedProtocol(HttpToolsProtocol):
    """One connection. `limited_protocol` makes the class for a server."""

    limits: ClassVar[ConnectionLimits]
    open_connections: ClassVar[OpenConnections]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = self.limits.keepalive_s  # type: ignore[assignment]
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._is_in_head = True
        self._is_complete = False
        """Whether what came last ended with the end of a request."""
        self._head_bytes = 0
        self._is_refused = False

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = self._joined = JoinedWrites(transport, self.loop)
        total, of_address = self.open_connections.add(self._address)
        if total > self.limits.connections_max:
            self._refuse(503, "OVERLOADED", "The server has reached its limit of connections; try again later.")
        elif of_address > self.limits.connections_per_address_max:
            self._refuse(503, "OVERLOADED", "Your address has reached its limit of connections; reuse the open ones.")
        else:
            self._allow(self.limits.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.remove(self._address)
        self._disarm()
        # Ends the deadline for writing too, which would abort what is gone already.
        self.resume_writing()
        super().connection_lost(exc)

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    # -- requests

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_in_head:
            self._head_bytes += len(data)
        self._is_complete = False
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self.limits.header_bytes_max:
            self._refuse_head()
        # Nearly every request comes whole: a deadline is for the others.
        if self._deadline is None and not self._is_complete and not self._is_refused:
            self._allow(self.limits.header_timeout_s if self._is_in_head else self.limits.body_timeout_s)

    def on_message_begin(self) -> None:
        self._is_complete = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.url_bytes_max:
            self._refuse_url()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if len(self.headers) > self.limits.headers_max or size > self.limits.header_bytes_max:
            self._refuse_head()
        if self._is_refused:
            return
        self._is_in_head, self._head_bytes = False, 0
        self._disarm()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_refused:
            self._is_in_head = self._is_complete = True
            self._disarm()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._joined.flush()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "MALFORMED_REQUEST", "The request is not HTTP/1.1.")

    # -- answers that nobody reads

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self.limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    # -- limits

    def _allow(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.flow.read_paused:  # it is us who do not read on
            self._allow(self.limits.body_timeout_s)
            return
        what, limit = ("headers", "header_timeout_s") if self._is_in_head else ("body", "body_timeout_s")
        self._refuse(408, "REQUEST_TIMEOUT", f"The {what} did not arrive within the {limit} of the server.")

    def _refuse_url(self) -> None:
        self._refuse(414, "URL_TOO_LONG", f"The URL has more than {self.limits.url_bytes_max:,} bytes.")

    def _refuse_head(self) -> None:
        most, size = self.limits.headers_max, self.limits.header_bytes_max
        self._refuse(431, "HEADERS_TOO_LARGE", f"There are more than {most:,} headers, or more than {size:,} bytes.")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Say why, unless an answer is under way or was given, and close."""
        if self._is_refused:
            return
        self._is_refused = True
        last: RequestResponseCycle | None = self.cycle
        # Between two requests the last answer must be out; within a body none may have begun.
        if last is None or (last.response_complete if self._is_in_head else not last.response_started):
            self.transport.write(_answer(HttpProblem(status, code, detail)))
        self.transport.close()


def limited_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol of one server: its connections are counted together."""
    named = {"limits": limits, "open_connections": OpenConnections()}
    return type("LimitedProtocol", (LimitedProtocol,), named)


def _answer(problem: HttpProblem) -> bytes:
    told, _ = problem_of(problem)
    body = msgspec.json.encode(told)
    retry = "Retry-After: 1\r\n" if told.status == 503 else ""
    head = (
        f"HTTP/1.1 {told.status} {REASONS[told.status]}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + body
