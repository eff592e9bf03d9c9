"""What a connection may cost before anybody knows whose it is, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration, ServerSettings
from betimes.app.server import Serving, answer_requests, listening
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.connections import JoinedWrites
from betimes.http.limits import ConnectionLimits

GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
POST = b"POST /v1/triggers HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
CHUNK = b"x" * 65_536


class Connection:
    """One of a client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """Everything until it is closed."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def answer(self) -> int:
        """The status of one answer, its body read."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await self.reader.readexactly(int(size.partition(b":")[2]))
        return status_of(head)


class Server:
    def __init__(self, port: int) -> None:
        self.port = port

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def server(**limits: float) -> AsyncIterator[Server]:
    """A server of its own; `limits` are those of its connections."""
    said = msgspec.convert(limits, ConnectionLimits)
    configuration = Configuration(server=ServerSettings(port=0, limits=said))
    listener, stopping = listening(configuration), asyncio.Event()
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    bt = Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z"), workers=False)
    async with bt:
        serving = answer_requests(
            Serving(bt, configuration), listener, stopping, lambda event: told.set_result(event["port"])
        )
        task = asyncio.create_task(serving)
        try:
            yield Server(await told)
        finally:
            stopping.set()
            await task
            listener.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def code_of(answer: bytes) -> str:
    code: str = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])["code"]
    return code


async def test_slow_connections_are_closed_at_the_limit_whatever_they_drip() -> None:
    async def dripped(one: Connection, first: bytes) -> bytes:
        """What comes back to somebody who sends a byte whenever there is no answer."""
        await one.send(first)
        answer = asyncio.create_task(one.rest())
        while not answer.done():
            one.writer.write(first[-2:] if first == b"\r\n" else b"x")
            await asyncio.wait([answer], timeout=0.02)
        return await answer

    async with server(header_timeout_s=0.3, body_timeout_s=0.3) as here:
        starts = [b"", GET, b"GET /", b"\r\n", POST] * 6

        async def closed(first: bytes) -> bytes:
            async with here.connection() as one:
                return await dripped(one, first) if first else await one.rest()

        for answer in await asyncio.gather(*map(closed, starts)):
            assert answer == b"" or (status_of(answer), code_of(answer)) in [
                (408, "REQUEST_TIMEOUT"),
                (401, "UNAUTHENTICATED"),
            ]


async def test_a_connection_is_used_again_and_closed_when_it_stays_idle() -> None:
    async with server(header_timeout_s=30, keepalive_s=1) as here, here.connection() as one:
        for _ in range(3):
            await one.send(GET + b"\r\n")
            assert await one.answer() == 200
        assert await one.rest() == b""


async def test_a_second_request_on_a_connection_has_a_limit_too() -> None:
    async with server(header_timeout_s=1, keepalive_s=30) as here, here.connection() as one:
        await one.send(GET + b"\r\n" + b"GET /hea")
        assert await one.answer() == 200
        assert status_of(await one.rest()) == 408


async def test_a_long_url_or_many_headers_are_refused_without_being_read() -> None:
    async with server(url_bytes_max=1_000, header_bytes_max=4_000, headers_max=20) as here:
        for request, status, code in (
            (b"GET /" + b"x" * 1_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n", 414, "URL_TOO_LONG"),
            (GET + b"X-Long: " + b"x" * 4_000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
            (GET + b"X-Long: " + b"x" * 4_000, 431, "HEADERS_TOO_LARGE"),
            (GET + b"X-One: 1\r\n" * 20 + b"\r\n", 431, "HEADERS_TOO_LARGE"),
            (b"nonsense\r\n\r\n", 400, "MALFORMED_REQUEST"),
        ):
            async with here.connection() as one:
                await one.send(request)
                answer = await one.rest()
                assert (status_of(answer), code_of(answer)) == (status, code)
        async with here.connection() as one:
            await one.send(GET + b"X-One: 1\r\n" * 10 + b"\r\n")
            assert await one.answer() == 200


async def test_forty_megabytes_of_url_are_not_taken() -> None:
    async with server() as here, here.connection() as one:
        sent = 0
        try:
            one.writer.write(b"GET /")
            while sent < 640 and not one.reader.at_eof():
                await one.send(CHUNK)
                sent += 1
        except ConnectionError:
            pass
        await one.rest()
        assert sent < 640


async def test_connections_are_counted_by_address_and_given_back() -> None:
    async with server(connections_per_address_max=2) as here, here.connection() as first:
        await first.send(GET + b"\r\n")
        assert await first.answer() == 200
        async with here.connection() as second:
            await second.send(GET + b"\r\n")
            assert await second.answer() == 200
            async with here.connection() as third:
                answer = await third.rest()
                assert (status_of(answer), code_of(answer)) == (503, "OVERLOADED")
                assert b"Retry-After" in answer
            await second.send(b"nonsense\r\n\r\n")
            await second.rest()
        async with here.connection() as again:
            await again.send(GET + b"\r\n")
            assert await again.answer() == 200


async def test_connections_are_counted_in_all() -> None:
    async with server(connections_max=1) as here, here.connection() as first:
        await first.send(GET + b"\r\n")
        assert await first.answer() == 200
        async with here.connection() as second:
            assert code_of(await second.rest()) == "OVERLOADED"


async def test_a_client_that_reads_nothing_of_its_answer_is_closed() -> None:
    reads = b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n"
    async with server(write_timeout_s=0.2) as here, here.connection() as one:
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            while not one.writer.is_closing():
                await one.send(reads)
                await asyncio.sleep(0)
        except ConnectionError:
            return


def test_what_was_held_back_for_a_connection_that_ended_is_dropped() -> None:
    uvloop = pytest.importorskip("uvloop")
    faults: list[str] = []

    async def abort_before_it_is_written() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: faults.append(str(told)))
        listener = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, *listener.sockets[0].getsockname())
        listener.close()
        joined = JoinedWrites(transport, loop)
        joined.write(b"head")
        joined.abort()
        await asyncio.sleep(0)
        joined.write(CHUNK)  # too long to be held back

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(abort_before_it_is_written())
    assert faults == []
