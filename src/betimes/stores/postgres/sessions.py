"""Connections to one database: a pool that heals itself, and sessions that raise only the contract's errors.

**Settings of every session.** `lock_timeout` and `idle_in_transaction_session_timeout` are 5 s, so that a process that
was stopped cannot hold a row for ever: the server ends its transaction. Plans are generic and follow indexes: every
statement here is a walk along one, whatever the statistics say of a table that is still empty. Behind a pooler a
session cannot be set up once, so each transaction brings its settings along in the message that begins it.

**Round trips.** BEGIN and `begin_batch`, then `commit_batch` and COMMIT; a connection goes back to the pool without
another one, since nothing here changes a session's state.

**Leaving.** However a transaction is left, also by cancellation, it is rolled back and its connection given back, by a
task of its own that a second cancellation cannot stop. A connection that cannot be rolled back is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from betimes.core.errors import Unavailable
from betimes.stores.postgres.driver import driver, failures, refused, server_name
from betimes.stores.postgres.rows import Record
from betimes.stores.postgres.statements import Prepared

if TYPE_CHECKING:
    from asyncpg.pool import Pool, PoolConnectionProxy

Durability: TypeAlias = Literal["full", "relaxed"]
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
QUERIES_MAX = 1_000_000
"""After so many queries a connection is replaced."""


class SessionSettings(msgspec.Struct, frozen=True):
    """How sessions are made; every one of these is a parameter of the store."""

    dsn: str
    durability: Durability = "full"
    pool_min: int = 0
    pool_max: int = 10
    behind_pooler: bool = False
    lock_timeout_s: float = 5.0
    idle_timeout_s: float = 5.0
    connect_timeout_s: float = 10.0
    command_timeout_s: float = 30.0

    def parameters(self) -> dict[str, str]:
        """The server's parameters every session needs."""
        plain = {
            "lock_timeout": f"{self.lock_timeout_s * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{self.idle_timeout_s * 1000:.0f}",
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "enable_bitmapscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "enable_memoize": "off",
            "jit": "off",
        }
        return plain | ({"synchronous_commit": "off"} if self.durability == "relaxed" else {})

    def begin(self) -> str:
        """What begins a transaction, in one message."""
        local = [f"SET LOCAL {name} = '{value}'" for name, value in self.parameters().items()]
        return "; ".join([BEGIN, *local]) if self.behind_pooler else BEGIN


class Session:
    """A connection while somebody has it; its errors are the contract's."""

    def __init__(self, connection: PoolConnectionProxy[Any], server: str) -> None:
        self.connection = connection
        self.ended = False
        self._server = server
        self._failures = failures()

    async def rows(self, statement: Prepared) -> list[Record]:
        sql, arguments = statement
        try:
            return await self.connection.fetch(sql, *arguments)
        except self._failures as error:
            raise refused(error, self._server) from error

    async def value(self, statement: Prepared) -> Any:
        sql, arguments = statement
        try:
            return await self.connection.fetchval(sql, *arguments)
        except self._failures as error:
            raise refused(error, self._server) from error

    async def write(self, statement: Prepared) -> list[Record]:
        """A statement that commits by itself: when its answer is lost, the outcome is not known."""
        sql, arguments = statement
        try:
            return await self.connection.fetch(sql, *arguments)
        except self._failures as error:
            raise refused(error, self._server, committing=True) from error

    async def execute(self, sql: str) -> None:
        try:
            await self.connection.execute(sql)
        except self._failures as error:
            raise refused(error, self._server) from error

    async def commit(self) -> None:
        """COMMIT; whoever loses the connection from here on cannot know."""
        if self._is_lost():
            raise Unavailable(f"{self._server}: the connection was lost before the commit; try again")
        try:
            answer = await self.connection.execute("COMMIT")
        except self._failures as error:
            raise refused(error, self._server, committing=True) from error
        self.ended = True
        if answer != "COMMIT":
            raise Unavailable(f"{self._server}: the transaction had failed and was rolled back; try again")

    async def roll_back(self) -> None:
        await self.execute("ROLLBACK")
        self.ended = True

    def _is_lost(self) -> bool:
        """Whether the connection is known to be gone; the pool takes one that is away from whoever has it."""
        try:
            return bool(self.connection.is_closed())
        except self._failures:
            return True


class Sessions:
    """The pool of one store."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._asyncpg = driver()
        self._failures = failures()
        self._pool: Pool[Any] | None = None
        self._begin = settings.begin()
        self.server = server_name(settings.dsn)

    async def open(self) -> None:
        if self._pool is not None:
            return
        settings = self._settings
        named = {"application_name": "betimes", "default_transaction_isolation": "read committed"}
        try:
            self._pool = await self._asyncpg.create_pool(
                settings.dsn,
                min_size=settings.pool_min,
                max_size=settings.pool_max,
                max_queries=QUERIES_MAX,
                reset=_keep_as_it_is,
                timeout=settings.connect_timeout_s,
                command_timeout=settings.command_timeout_s,
                **({"statement_cache_size": 0} if settings.behind_pooler else {}),
                server_settings=None if settings.behind_pooler else named | settings.parameters(),
            )
        except self._failures as error:
            raise refused(error, self.server) from error

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection of one's own for single statements."""
        pool = self._opened()
        connection = await self._acquire(pool)
        try:
            yield Session(connection, self.server)
        finally:
            await self._release(pool, connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """A connection with a transaction begun; left without a commit, it is rolled back."""
        pool = self._opened()
        connection = await self._acquire(pool)
        session = Session(connection, self.server)
        try:
            await session.execute(self._begin)
            yield session
        finally:
            if session.ended:
                await self._release(pool, connection)
            else:
                await asyncio.shield(asyncio.ensure_future(self._roll_back(pool, connection)))

    async def rows(self, statement: Prepared) -> list[Record]:
        async with self.session() as session:
            return await session.rows(statement)

    async def value(self, statement: Prepared) -> Any:
        async with self.session() as session:
            return await session.value(statement)

    async def write(self, statement: Prepared) -> list[Record]:
        async with self.session() as session:
            return await session.write(statement)

    def _opened(self) -> Pool[Any]:
        if self._pool is None:
            raise Unavailable(f"{self.server}: the store is not open; await store.open() first")
        return self._pool

    async def _acquire(self, pool: Pool[Any]) -> PoolConnectionProxy[Any]:
        try:
            return await pool.acquire(timeout=self._settings.connect_timeout_s)
        except self._failures as error:
            raise refused(error, self.server) from error

    async def _roll_back(self, pool: Pool[Any], connection: PoolConnectionProxy[Any]) -> None:
        try:
            await connection.execute("ROLLBACK")
        except self._failures:
            with suppress(*self._failures):
                connection.terminate()
        await self._release(pool, connection)

    async def _release(self, pool: Pool[Any], connection: PoolConnectionProxy[Any]) -> None:
        with suppress(*self._failures):
            await pool.release(connection)


async def _keep_as_it_is(connection: Any) -> None:
    """Nothing to reset when a connection is given back."""
