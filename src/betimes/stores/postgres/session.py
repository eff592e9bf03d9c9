"""A borrowed connection: statements, commit and rollback, with the errors of the store contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from betimes.core.errors import Unavailable
from betimes.stores.postgres.driver import failures, refusal_of
from betimes.stores.postgres.rows import Record
from betimes.stores.postgres.statements import Prepared

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy


class Session:
    """A borrowed connection that raises only errors of the store contract."""

    def __init__(
        self, connection: PoolConnectionProxy[Any], server: str, *, chains: Callable[[], bool] = lambda: False
    ) -> None:
        self.connection = connection
        self.ended = False
        self.chained = False
        """Ended, and the next transaction begun."""
        self._chains = chains
        self._server = server
        self._failures = failures()

    async def rows(self, statement: Prepared, timeout_s: float | None = None) -> list[Record]:
        """Return the rows of a statement, within the default time-out unless another is given."""
        sql, arguments = statement
        try:
            return await self.connection.fetch(sql, *arguments, timeout=timeout_s)
        except self._failures as error:
            raise refusal_of(error, self._server) from error

    async def value(self, statement: Prepared) -> Any:
        sql, arguments = statement
        try:
            return await self.connection.fetchval(sql, *arguments)
        except self._failures as error:
            raise refusal_of(error, self._server) from error

    async def write(self, statement: Prepared) -> list[Record]:
        """A statement that commits by itself: when its answer is lost, the outcome is not known."""
        sql, arguments = statement
        try:
            return await self.connection.fetch(sql, *arguments)
        except self._failures as error:
            raise refusal_of(error, self._server, committing=True) from error

    async def execute(self, sql: str) -> None:
        try:
            await self.connection.execute(sql)
        except self._failures as error:
            raise refusal_of(error, self._server) from error

    async def commit(self, last: str = "") -> None:
        """Commit, after a last statement; if the connection is lost from here on, the outcome is unknown."""
        if self.is_lost():
            raise Unavailable(f"{self._server}: the connection was lost before the commit; try again")
        chained = self._chains()
        end = "COMMIT AND CHAIN" if chained else "COMMIT"
        try:
            answer = await self.connection.execute(f"{last}; {end}" if last else end)
        except self._failures as error:
            raise refusal_of(error, self._server, committing=True) from error
        self.ended, self.chained = True, chained
        # To commit a transaction that has failed is no error for the server: it rolls back, and only its answer says
        # so.
        if answer != "COMMIT":
            raise Unavailable(f"{self._server}: the transaction had failed and was rolled back; try again")

    async def roll_back(self) -> None:
        chained = self._chains()
        await self.execute("ROLLBACK AND CHAIN" if chained else "ROLLBACK")
        self.ended, self.chained = True, chained

    def is_lost(self) -> bool:
        """Return whether the connection is known to be closed; the pool detaches a closed one from its user."""
        try:
            return bool(self.connection.is_closed())
        except self._failures:
            return True
