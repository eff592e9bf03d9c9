"""What a check is given: two independent connections to one fresh database, and the clock both follow.

Nothing here waits for time to pass. Where one task must have come to a lock that another holds, `others_run` gives it
the event loop and the database for a while, and asks whether it is there if the database can be asked (`is_waiting`);
where one must not start before another, they share an `asyncio.Event`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

from betimes.engine.store import Changes, LockRequest, Store, Tx
from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.conformance.expectations import expect
from betimes.testing.conformance.samples import needed

SAFETY_S = 600.0
"""No check takes this long, however busy the machine is; one that hangs fails instead."""
_ROUNDS = 200
_ROUNDS_MAX = 5_000
"""With a database that says who waits: of a store that does not wait where it should."""
_Result = TypeVar("_Result")


class Traits(NamedTuple):
    """In what stores differ and may: one that locks its whole database never finds a row held by somebody else."""

    locks_rows: bool = True


class Pair(NamedTuple):
    """Two opened stores on one database that nothing has been written to."""

    one: Store
    two: Store
    clock: VirtualClock
    is_waiting: Callable[[], Awaitable[bool]] | None = None
    """Return whether somebody waits for a lock. On a busy machine a server may take long to come to it."""

    async def commit(self, changes: Changes) -> None:
        """Commit with the first connection."""
        await commit(self.one, changes)

    async def wait_behind(
        self,
        ask: LockRequest,
        work: Coroutine[Any, Any, _Result],
        says: str,
        act: Callable[[Tx], Awaitable[None]] | None = None,
    ) -> _Result:
        """Return what some work comes to that must wait until the first connection, which holds this, has acted."""
        async with AsyncExitStack() as stack:
            async with self.one.begin(ask) as holder:
                waiter = await stack.enter_async_context(beside(work))
                await self.others_run()
                expect(not waiter.done(), says)
                if act is not None:
                    await act(holder)
            return await waiter

    async def others_run(self) -> None:
        """Let the other tasks come to the locks they must wait for."""
        for number in range(_ROUNDS if self.is_waiting is None else _ROUNDS_MAX):
            await asyncio.sleep(0)
            await self.one.policy("none")
            if self.is_waiting is not None and number >= _ROUNDS and await self.is_waiting():
                return


Check: TypeAlias = Callable[[Pair], Coroutine[Any, Any, None]]


async def run(check: Check, pair: Pair) -> None:
    """One check, which fails instead of hanging."""
    async with asyncio.timeout(SAFETY_S):
        await check(pair)


async def commit(store: Store, changes: Changes) -> None:
    """One transaction that waits for what these changes need, and commits them."""
    async with store.begin(needed(changes)) as tx:
        await tx.commit(changes)


async def hold_for_ever(store: Store, ask: LockRequest, held: asyncio.Event) -> None:
    """Hold what is asked for until cancelled; `held` is set once it is."""
    async with store.begin(ask):
        held.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, _Result]) -> AsyncIterator[asyncio.Task[_Result]]:
    """Run something beside the check; it is over when the context is left."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
