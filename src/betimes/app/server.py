"""Serving: HTTP, alarms, effects and intents in one process, or apart.

The role `api` answers requests, `worker` rings alarms, carries out effects and works off intents, `all` does both; any
number of each may share one database. SIGTERM and SIGINT drain: nothing new is accepted, what was accepted is finished.
SIGHUP reads the configuration again and puts its policy in force; one that cannot work is reported and changes nothing.

Without keys (`dev`) only loopback is listened on, and a page in a browser that comes from elsewhere is refused, be it
by its origin or by the name it reached us under.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from betimes.app.at_rest import at_rest_warnings
from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration, is_loopback
from betimes.core.errors import BetimesError, Invalid, MissingExtra
from betimes.core.visible import visible
from betimes.http.problems import Problem
from betimes.outbound.channels import before_logging

Role: TypeAlias = Literal["all", "api", "worker"]
Announce: TypeAlias = Callable[[Mapping[str, Any]], None]
Reread: TypeAlias = Callable[[], Configuration]

YOUNG_OBJECTS_MAX = 10_000
"""Going through so many takes about half a millisecond."""
_log = logging.getLogger("betimes.serving")


class Serving(msgspec.Struct, frozen=True):
    """The application to serve, and its configuration."""

    bt: Betimes
    configuration: Configuration
    role: Role = "all"
    reread: Reread | None = None
    """Reads the configuration again, on SIGHUP."""


def run(serving: Serving, announce: Announce) -> None:
    """Serve until a signal says to stop; call `announce` once everything is ready."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve_until_signal(serving, announce))


async def _serve_until_signal(serving: Serving, announce: Announce) -> None:
    stopping = asyncio.Event()
    with signals(stopping, lambda: reload_policy(serving)):
        listener = listening(serving.configuration) if serving.role != "worker" else None
        try:
            serving.bt.role = serving.role
            async with serving.bt:
                if not serving.configuration.server.dev:
                    for told in at_rest_warnings(serving.bt.url, serving.bt.settings.encryption):
                        _log.warning("%s", told)
                if listener is None:
                    announce({"event": "working", "role": serving.role, "db": hide_password(serving.bt.url)})
                    await stopping.wait()
                else:
                    await answer_requests(serving, listener, stopping, announce)
        finally:
            if listener is not None:
                listener.close()


async def answer_requests(
    serving: Serving, listener: socket.socket, stopping: asyncio.Event, announce: Announce
) -> None:
    """Serve HTTP on an open application until it is to stop, then until the requests under way are answered."""
    from betimes.app.routes import ROUTES
    from betimes.console.site import console_routes
    from betimes.http.server import serve

    dev = serving.configuration.server.dev
    console = serving.configuration.console
    pages = console_routes(console, dev=dev)
    application: Any = serve(
        serving.bt, ROUTES, dev=dev, pages=pages, sessions_act=console.actions, proxy=console.proxy
    )
    server = _uvicorn_server(serving.configuration, LoopbackOnly(application) if dev else application)
    serving_task = asyncio.create_task(server.serve(sockets=[listener]))
    stop_task = asyncio.create_task(stopping.wait())
    set_heap_aside()
    try:
        announce(_listening_event(serving, listener))
        await asyncio.wait({serving_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        application.state.process.streams.close()
        server.should_exit = True
        stop_task.cancel()
        await serving_task


def set_heap_aside() -> None:
    """Keep the garbage collector from what the start made: modules, routes and types live as long as the process.

    They are some 60,000 objects. Going through them in each full collection stops every request for seven reference
    steps of `tests/http/pauses.py`, about 35 ms; cached states are not gone through either, since their structs are
    declared with `gc=False`. Young objects are gone through once there are as many as some 60 requests under way hold:
    the default of 700 looks again and again at what they still need, for 8 % of a request's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


def _uvicorn_server(configuration: Configuration, application: Any) -> Any:
    import uvicorn

    from betimes.http.connections import limited_protocol

    config = uvicorn.Config(
        application,
        http=limited_protocol(configuration.server.limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Which proxy is trusted is told by the address that connects, so no header may replace it.
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(configuration.engine.drain_s)),
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    return server


def _listening_event(serving: Serving, listener: socket.socket) -> dict[str, Any]:
    host, port = listener.getsockname()[:2]
    return {
        "event": "listening",
        "role": serving.role,
        "url": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
        "host": host,
        "port": port,
        "db": hide_password(serving.bt.url),
        "dev": serving.configuration.server.dev,
        "virtual": serving.bt.is_virtual,
    }


@contextmanager
def _no_signals() -> Iterator[None]:
    """Leave signals to this module, so that the engine is closed after the last request."""
    yield


def listening(configuration: Configuration) -> socket.socket:
    """Return the socket of the API, before anything else starts, so that a port that is taken is told at once."""
    host, port = configuration.server.host, configuration.server.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=2048)
        # Connections inherit it. asyncio sets it only for sockets that name their protocol, and without it the second
        # part of an answer waits up to 40 ms for the client to acknowledge the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise Invalid(
            f"cannot listen on {host}:{port}: {reason}. Choose another --port, or 0 for any free one",
            (("server.port", reason),),
        ) from None


# -- signals


@contextmanager
def signals(stopping: asyncio.Event, reload: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Let SIGTERM and SIGINT stop, and SIGHUP reload."""
    loop = asyncio.get_running_loop()
    reloading: set[asyncio.Task[None]] = set()

    def on_hangup() -> None:
        task = asyncio.ensure_future(reload())
        reloading.add(task)
        task.add_done_callback(reloading.discard)

    handlers = {signal.SIGTERM: stopping.set, signal.SIGINT: stopping.set, signal.SIGHUP: on_hangup}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def reload_policy(serving: Serving) -> None:
    """Put the policy of the file in force; whatever is wrong with it is reported, and the old one stays."""
    if serving.reread is None:
        return
    try:
        policy = serving.reread().policy
        if policy is None:
            _log.info("the configuration has no policy; what is in force stays")
            return
        fingerprint = await serving.bt.apply_policy(policy)
        _log.info("policy %s is in force", fingerprint)
    except BetimesError as error:
        _log.error("policy_not_reloaded: %s; the old policy stays in force", error)


# -- development


class LoopbackOnly:
    """Refuses pages of other sites that try to reach a server without keys through their visitor's browser."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        host = _host(b"//" + headers.get(b"host", b"localhost"))
        origin = _host(headers[b"origin"]) if b"origin" in headers else host
        if is_loopback(host) and is_loopback(origin):
            await self._application(scope, receive, send)
            return
        detail = "--dev serves loopback only; use keys to serve other hosts and origins."
        problem, code = "urn:betimes:problem:LOOPBACK_ONLY", "LOOPBACK_ONLY"
        body = msgspec.json.encode(Problem(problem, "Only from this machine", 403, detail, code, [], 0, None))
        kind = [(b"content-type", b"application/problem+json")]
        await send({"type": "http.response.start", "status": 403, "headers": kind})
        await send({"type": "http.response.body", "body": body})


def _host(address: bytes) -> str:
    try:
        return urlsplit(address.decode("latin-1")).hostname or ""
    except ValueError:
        return ""


# -- the process


def hide_password(url: str) -> str:
    """Return a database URL without its password."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    return url.replace(f":{parts.password}@", ":…@", 1)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Log to standard error: standard output is for answers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    logging.basicConfig(handlers=[handler], level=level)
    logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))
    before_logging(lambda: messages_to_stderr(level))


class _LineFormatter(logging.Formatter):
    """Writes lines of the log as those of its channels are written: the instant in UTC, the level, the rest."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — the library's name
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return f"{at} [{record.levelname.lower():9}] {record.name}: {record.message}"


def messages_to_stderr(level: int) -> None:
    """Print what the log's channels send: one plain line each, with the time of the clock it was sent by."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _stamp,
            _show_plainly,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )


def _stamp(_logger: Any, _level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say when it was: by the clock the line brings along, or else by the machine's."""
    line["timestamp"] = line.pop("at", None) or datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return line


def _show_plainly(_logger: Any, _level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make messages of people plain text: they must not reach a terminal as anything else."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in line.items()}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop of uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def demand_server() -> None:
    """Raise `MissingExtra` without the extra `server`."""
    try:
        import httptools  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"serving needs {error.name}: pip install 'betimes[server]'") from None
