"""Connections to one database: a pool that heals itself, and sessions that raise only the contract's errors.

**Settings of every session.** `lock_timeout` and `idle_in_transaction_session_timeout` are 5 s, so that a process that
was stopped cannot hold a row for ever: the server ends its transaction. If it was stopped while the server was sending
it an answer, the server would wait for it to read on; whoever has waited in vain for a lock ends such sessions. Plans
are generic and follow indexes: every statement here is a walk along one, whatever the statistics say of a table that is
still empty. Behind a pooler a session cannot be set up once, so each transaction brings its settings along in the
message that begins it.

**Round trips.** BEGIN and `begin_batch`, then `commit_batch` and COMMIT; a small batch's `commit_batch` and COMMIT are
one message, and so is all of a transaction that presumes what it would have been told, however large. A connection
goes back to the pool without another one, since nothing here changes a session's state.

**The ready connection.** A transaction that ends begins the next one in the same message, and its connection is kept
ready for whoever comes next, one of them and for a second at most; it holds no lock and no snapshot meanwhile. Another
use may take it. If it broke while it stood ready, what it was taken for is tried on another one,
unless that was a whole transaction.

**The spare connection.** One that has carried out a single statement is kept for the next, likewise: the pool would
take about as long as the statement.

**Leaving.** However a transaction is left, also by cancellation, it is rolled back and its connection given back, by a
task of its own that a second cancellation cannot stop. A connection that cannot be rolled back is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.errors import Unavailable
from betimes.stores.postgres.driver import driver, ended_by_server, failures, refusal_of, server_name
from betimes.stores.postgres.kept_connection import KeptConnection
from betimes.stores.postgres.rows import Record
from betimes.stores.postgres.session import Session
from betimes.stores.postgres.statements import Prepared

if TYPE_CHECKING:
    from asyncpg.pool import Pool, PoolConnectionProxy

END_STOPPED = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'betimes' AND usename = current_user AND datname = current_database()
        AND state = 'active' AND wait_event = 'ClientWrite' AND backend_xid IS NOT NULL
        AND query_start < clock_timestamp() - make_interval(secs => $1)
"""
"""End sessions that hold locks and whose process has not taken their answer for as long as a lock is waited for."""
LOCK_NOT_AVAILABLE = "55P03"

_Started = TypeVar("_Started")
_Read = TypeVar("_Read")
Durability: TypeAlias = Literal["full", "relaxed"]
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
QUERIES_MAX = 1_000_000
"""After so many queries a connection is replaced."""
KEPT_S = 1.0
"""For so long a connection is kept for the next use."""


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings of sessions; every one of these is a parameter of the store."""

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
            # Scripts carry their values as text; what a quote or a backslash means there must not depend on the server.
            "standard_conforming_strings": "on",
        }
        return plain | ({"synchronous_commit": "off"} if self.durability == "relaxed" else {})

    def begin(self) -> str:
        """The statement that begins a transaction, in one message."""
        local = [f"SET LOCAL {name} = '{value}'" for name, value in self.parameters().items()]
        return "; ".join([BEGIN, *local]) if self.behind_pooler else BEGIN


class Sessions:
    """The pool of one store."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._asyncpg = driver()
        self._failures = failures()
        self._pool: Pool[Any] | None = None
        self._begin = settings.begin()
        # A ready connection is idle inside a transaction, and the server ends those after `idle_timeout_s`.
        self._ready = KeptConnection(min(KEPT_S, settings.idle_timeout_s / 2), self._roll_back_shielded)
        self._spare = KeptConnection(KEPT_S, self._release)
        self._waiting = 0
        self.server = server_name(settings.dsn)
        self.is_behind_pooler = settings.behind_pooler

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
            raise refusal_of(error, self.server) from error

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        await self._ready.close()
        await self._spare.close()
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection of one's own for single statements."""
        pool = self._pool_in_use()
        connection = await self._acquire(pool)
        try:
            yield Session(connection, self.server)
        except BaseException:
            await self._release(pool, connection)
            raise
        await self._set_aside(pool, connection)

    def transaction(self, first: Prepared, start: Callable[[Session, list[Record]], _Started]) -> Transaction[_Started]:
        """A transaction, and what `start` makes of the answer to its first statement."""
        return Transaction(self, first, start)

    async def enter(self, first: Prepared) -> tuple[Pool[Any], Session, list[Record]]:
        """Begin a transaction with a statement; the caller must release the session."""
        pool = self._pool_in_use()
        connection = self._ready.take()
        was_ready = connection is not None
        session = self._session(connection) if connection else await self._begin_on_pooled(pool)
        try:
            try:
                return pool, session, await session.rows(first)
            except Unavailable as error:
                # The lock may be held by a process that was stopped while its answer was on the way, which no timeout
                # ends.
                if getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE:
                    await self._end_stopped(session)
                if not was_ready or not self._has_ended(session, error):
                    raise
            await self.leave(pool, session)
            session = await self._begin_on_pooled(pool)
            return pool, session, await session.rows(first)
        except BaseException:
            await self.leave(pool, session)
            raise

    def _session(self, connection: PoolConnectionProxy[Any]) -> Session:
        return Session(connection, self.server, chains=self._chains)

    def _has_ended(self, session: Session, error: Unavailable) -> bool:
        return session.is_lost() or ended_by_server(error.__cause__)

    async def _begin_on_pooled(self, pool: Pool[Any]) -> Session:
        """Begin a transaction on a connection of the pool; those that the server ended meanwhile are replaced."""
        for _ in range(self._settings.pool_max):
            session = self._session(await self._acquire(pool))
            try:
                await session.execute(self._begin)
            except BaseException as error:
                # A server that was restarted has ended every connection of the pool; each is found out when it is used.
                is_replaced = isinstance(error, Unavailable) and self._has_ended(session, error)
                await self.leave(pool, session)
                if not is_replaced:
                    raise
            else:
                return session
        raise self._all_ended()

    async def commit(self, script: str) -> None:
        """Run a whole transaction in one message; if the connection is lost meanwhile, the outcome is unknown."""
        pool = self._pool_in_use()
        connection = self._ready.take()
        # A ready connection has begun its transaction already.
        script = script if connection else f"{self._begin}; {script}"
        session = self._session(connection or await self._acquire(pool))
        try:
            await session.commit(script)
        finally:
            await self.leave(pool, session)

    async def _end_stopped(self, session: Session) -> None:
        """Free what stopped processes hold, after a lock was waited for in vain."""
        with suppress(Unavailable):
            await session.execute("ROLLBACK")
            session.ended = True
            await session.value((END_STOPPED, [self._settings.lock_timeout_s]))

    async def leave(self, pool: Pool[Any], session: Session) -> None:
        """Give a transaction's connection back, or keep it ready; what was not committed is rolled back."""
        if session.chained and self._chains() and pool is self._pool and not session.is_lost():
            self._ready.keep(pool, session.connection)
        elif session.ended and not session.chained:
            await self._release(pool, session.connection)
        else:
            await self._roll_back_shielded(pool, session.connection)

    def _chains(self) -> bool:
        """Return whether a transaction that ends now had better begin the next one."""
        return not self._ready and not self._waiting and not self._settings.behind_pooler

    async def _set_aside(self, pool: Pool[Any], connection: PoolConnectionProxy[Any]) -> None:
        """Keep a connection for the next statement, or give it back."""
        if self._spare or self._waiting or pool is not self._pool:
            await self._release(pool, connection)
        else:
            self._spare.keep(pool, connection)

    async def rows(self, statement: Prepared, timeout_s: float | None = None) -> list[Record]:
        return await self._read(lambda session: session.rows(statement, timeout_s))

    async def value(self, statement: Prepared) -> Any:
        return await self._read(lambda session: session.value(statement))

    async def _read(self, read: Callable[[Session], Awaitable[_Read]]) -> _Read:
        """Read, on another connection if the server has ended the one that was taken."""
        for _ in range(self._settings.pool_max):
            async with self.session() as session:
                try:
                    return await read(session)
                except Unavailable as error:
                    if not self._has_ended(session, error):
                        raise
        raise self._all_ended()

    def _all_ended(self) -> Unavailable:
        return Unavailable(f"{self.server}: every connection of the pool was ended by the server; try again")

    async def write(self, statement: Prepared) -> list[Record]:
        async with self.session() as session:
            return await session.write(statement)

    def _pool_in_use(self) -> Pool[Any]:
        if self._pool is None:
            raise Unavailable(f"{self.server}: the store is not open; await store.open() first")
        return self._pool

    async def _acquire(self, pool: Pool[Any]) -> PoolConnectionProxy[Any]:
        if spare := self._spare.take():
            if not self._session(spare).is_lost():
                return spare
            await self._release(pool, spare)
        # The ready connection is one of the pool's: with none left, whoever waits would wait for one that nobody uses.
        if self._ready and not pool.get_idle_size() and pool.get_size() == pool.get_max_size():
            await self._ready.give_back()
        self._waiting += 1
        try:
            return await pool.acquire(timeout=self._settings.connect_timeout_s)
        except self._failures as error:
            raise refusal_of(error, self.server) from error
        finally:
            self._waiting -= 1

    async def _roll_back_shielded(self, pool: Pool[Any], connection: PoolConnectionProxy[Any]) -> None:
        """Roll back and release; a second cancellation would leave the locks with an abandoned connection."""
        await asyncio.shield(asyncio.ensure_future(self._roll_back(pool, connection)))

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


class Transaction(Generic[_Started]):
    """A transaction as a context; left without a commit, it is rolled back."""

    _pool: Pool[Any]
    _session: Session

    def __init__(self, sessions: Sessions, first: Prepared, start: Callable[[Session, list[Record]], _Started]) -> None:
        self._sessions = sessions
        self._first = first
        self._start = start

    async def __aenter__(self) -> _Started:
        self._pool, self._session, answer = await self._sessions.enter(self._first)
        try:
            return self._start(self._session, answer)
        except BaseException:
            await self._sessions.leave(self._pool, self._session)
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._sessions.leave(self._pool, self._session)
