"""A connection thread: one thread with one connection, which runs jobs in the order they came.

A job that raises leaves no transaction open. A connection that failed in a way only a new one can mend is dropped and
made again for the next job, so a store works again once the cause of its trouble is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import apsw

from betimes.core.errors import Unavailable, Unknown
from betimes.stores.sqlite.connection import Connection
from betimes.stores.sqlite.failures import outlives_the_connection, translate_error

_Result = TypeVar("_Result")


class ConnectionThread:
    """One thread that runs jobs on its connection."""

    def __init__(self, name: str, path: str, connect: Callable[[], Connection]) -> None:
        self._path = path
        self._connect = connect
        self._connection: Connection | None = None
        self._last: Future[Any] = Future()
        self._last.set_result(None)
        # One worker: jobs keep their order, and apsw refuses a connection that two threads use at once.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"betimes-sqlite-{name}")

    async def run(self, job: Callable[[Connection], _Result]) -> _Result:
        """Run a job in the thread. When its caller is cancelled it is left out, or no longer waits for locks."""
        future = self._submit(job)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # One that has begun runs to its end; it only stops waiting for the lock, which nobody needs any more.
            if not future.cancel() and self._connection:
                self._connection.patience.given_up = True
            raise

    def run_here(self, job: Callable[[Connection], None]) -> bool:
        """Run a short job in the caller's own thread, which spares two changes of thread; whether that was possible.

        It is when the thread has nothing to do and no lock must be waited for. A job that could not be run, or
        that failed, left nothing behind and may be given to the thread.
        """
        connection = self._connection
        if connection is None or not self._last.done():
            return False
        connection.patience.given_up = True  # waiting for a lock here would stop the event loop
        try:
            job(connection)
        except apsw.Error:
            # Not reported from here: the thread is asked next, and says what is wrong if it still is.
            connection.rollback()
            return False
        return True

    def commits_here(self) -> bool:
        """Return whether a few rows can be committed in the caller's own thread without keeping it from other work."""
        return self._connection is not None and self._last.done() and self._connection.commits_quickly

    def commit_here(self, job: Callable[[Connection], None]) -> None:
        """Run a job that commits in the caller's own thread; what it raises is what the thread would."""
        self._work(job, is_hurried=True)

    async def undo(self) -> None:
        """Leave no transaction open, also when the caller is cancelled now: the next job comes after this."""
        await asyncio.shield(asyncio.wrap_future(self._submit(Connection.rollback)))

    async def close(self) -> None:
        """Close the connection and let the thread end."""
        await asyncio.shield(asyncio.wrap_future(self._thread.submit(self._drop)))
        # The connection is closed by now; waiting for the thread itself would stop the event loop.
        self._thread.shutdown(wait=False)

    def _submit(self, job: Callable[[Connection], _Result]) -> Future[_Result]:
        try:
            future = self._thread.submit(self._work, job)
        except RuntimeError as error:
            raise Unavailable(f"the store on {self._path} was closed; await its open() first") from error
        self._last = future
        return future

    def _work(self, job: Callable[[Connection], _Result], *, is_hurried: bool = False) -> _Result:
        try:
            connection = self._connection = self._connection or self._connect()
            # Set for every job: the caller of the one before may have been cancelled and have given up.
            connection.patience.given_up = connection.is_hurried = is_hurried
            try:
                return job(connection)
            except BaseException:
                self._roll_back(connection)
                raise
        # How its commit ended is found out with a new connection, which reads the log from the file.
        except Unknown:
            self._drop()
            raise
        except apsw.Error as error:
            if outlives_the_connection(error):
                self._drop()
            raise translate_error(error, self._path) from error

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.rollback()
        except apsw.Error:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            connection.close()
