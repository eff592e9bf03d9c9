"""A worker's connection to the simulated server: the memory store, with everything that can happen on the way.

Every error raised here keeps the store contract: all but `Unknown` mean that nothing was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

from betimes.core.errors import Conflict, Unavailable, Unknown
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import EffectId, StreamId
from betimes.engine.store import Changes, DueBounds, DueIndex, DueTenants, Lease, LockRequest, WaitingSend
from betimes.stores.memory import MemoryStore
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.simulator.faults import NO_FAULTS
from betimes.testing.simulator.server import WAIT_S_MAX, Server

PRESUMED_LAG_MAX = SECOND


class SimulatedTx(MemoryTx):
    """One transaction. `is_under_way`: its commit was sent and has not ended. `has_ended`: the server ended it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.database, connection.clock)
        self.connection = connection
        self.server = connection.server
        self.is_under_way = False
        self.has_ended = False
        self.read_to_seq = 0
        """How far the ledger went when this transaction read the policies it decides by."""

    async def start(self, ask: LockRequest) -> None:
        await super().start(ask)
        self.read_to_seq = self.db.seq

    def presume(self, ask: LockRequest) -> None:
        """By a time that was told a moment ago."""
        super().presume(ask)
        self.now -= int(self.server.random.random() * PRESUMED_LAG_MAX)

    def lock_presumed(self, ask: LockRequest) -> None:
        super().lock_presumed(ask)
        self.read_to_seq = self.db.seq

    async def extend(self, ask: LockRequest) -> None:
        await self.connection.reach("extend")
        await super().extend(ask)
        if ask.reads:
            self.read_to_seq = self.db.seq

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        await self.connection.reach("turn_at")
        if self.has_ended:
            raise Unavailable("the server ended this transaction")
        return await super().turn_at(stream, version)

    async def commit(self, changes: Changes) -> None:
        await asyncio.sleep(0)
        fault = self.server.commit_fault()
        if fault is None:
            self.server.write(self, changes)
        else:
            self.connection.say(fault)
            await getattr(self, f"_{fault}")(changes)

    def check(self, changes: Changes) -> None:
        self._check(changes)

    def apply(self, changes: Changes) -> None:
        self._apply(changes)

    # -- what can happen to a commit, by the name of the fault

    async def _crash_before_commit(self, changes: Changes) -> None:
        await self.connection.die()

    async def _crash_after_commit(self, changes: Changes) -> None:
        self.server.write(self, changes)
        await self.connection.die()

    async def _crash_during_commit(self, changes: Changes) -> None:
        self.server.write_later(self, changes)
        await self.connection.die()

    async def _unknown_written(self, changes: Changes) -> None:
        self.server.write(self, changes)
        raise Unknown("the answer to the commit was lost")

    async def _unknown_not_written(self, changes: Changes) -> None:
        raise Unknown("the commit was lost")

    async def _unknown_written_later(self, changes: Changes) -> None:
        self.server.write_later(self, changes)
        await self._until_it_holds_its_locks()
        raise Unknown("the connection broke while the commit was under way")

    async def _until_it_holds_its_locks(self) -> None:
        """What is presumed has no lock that shows it is under way; it is waited for until it is too old to be done."""
        if self.presumed:
            await asyncio.sleep(WAIT_S_MAX)

    async def _unknown_given_up_later(self, changes: Changes) -> None:
        self.server.write_later(self, None)
        raise Unknown("the connection broke while the commit was under way")

    async def _conflict(self, changes: Changes) -> None:
        raise Conflict("the database broke the transaction off")

    async def _unavailable(self, changes: Changes) -> None:
        raise Unavailable("the database does not take commits")

    async def _session_ended(self, changes: Changes) -> None:
        self.server.end(self)
        await asyncio.sleep(self.server.pause_s())
        self.server.write(self, changes)

    async def _locks_lost(self, changes: Changes) -> None:
        self.server.lose_locks(self)
        await asyncio.sleep(self.server.pause_s())
        self.server.write(self, changes)

    async def _slow(self, changes: Changes) -> None:
        await asyncio.sleep(self.server.pause_s())
        self.server.write(self, changes)


class Connection(MemoryStore):
    """One worker's store."""

    def __init__(
        self,
        server: Server,
        name: str,
        clock: Callable[[], Instant],
        kill: Callable[[], None],
        say: Callable[[str], None] = lambda what: None,
    ) -> None:
        super().__init__(clock, server.database)
        self.server = server
        self.name = name
        self.say = say
        self._kill = kill

    def transaction(self) -> SimulatedTx:
        return SimulatedTx(self)

    def transactions(self) -> list[SimulatedTx]:
        """Those that hold anything."""
        holders = dict.fromkeys(self.database.holders.values())
        return [tx for tx in holders if isinstance(tx, SimulatedTx) and tx.connection is self]

    async def die(self) -> None:
        """The worker ends here: whoever awaits this never goes on."""
        self._kill()
        await asyncio.get_running_loop().create_future()

    async def reach(self, what: str) -> None:
        """Get through to the server, or not."""
        server = self.server
        if server.faults is NO_FAULTS:
            return
        if server.happens(server.faults.unavailable):
            self.say(f"unavailable: {what}")
            raise Unavailable(f"the server cannot be reached ({what})")
        await asyncio.sleep(server.pause_s() if server.happens(server.faults.slow) else 0)

    def _answer(self, what: str) -> None:
        """Hear that something was done, or not."""
        if self.server.happens(self.server.faults.answer_lost):
            self.say(f"answer lost: {what}")
            raise Unknown(f"the answer was lost ({what})")

    # -- the store contract, where it may fail

    @asynccontextmanager
    async def begin(self, ask: LockRequest) -> AsyncIterator[MemoryTx]:
        await self.reach("begin")
        async with super().begin(ask) as tx:
            yield tx

    @asynccontextmanager
    async def begin_due(
        self, index: DueIndex, kinds: Sequence[str], limit: int, **bounds: Unpack[DueBounds]
    ) -> AsyncIterator[MemoryTx]:
        await self.reach("begin_due")
        async with super().begin_due(index, kinds, limit, **bounds) as tx:
            yield tx

    async def due_tenants(self, *args: Any, **kwargs: Any) -> DueTenants:
        await self.reach("due_tenants")
        return await super().due_tenants(*args, **kwargs)

    async def now(self) -> Instant:
        await self.reach("now")
        return await super().now()

    async def next_due(self, *args: Any, **kwargs: Any) -> Instant | None:
        await self.reach("next_due")
        return await super().next_due(*args, **kwargs)

    async def snooze(self, stream: StreamId, version: int, until: Instant, error: str = "") -> None:
        await self.reach("snooze")
        await super().snooze(stream, version, until, error)
        self._answer("snooze")

    async def lease_calls(self, *args: Any, **kwargs: Any) -> list[Lease]:
        await self.reach("lease_calls")
        leases = await super().lease_calls(*args, **kwargs)
        self.server.note_leases(leases)
        self._answer("lease_calls")
        return leases

    async def renew_lease(self, effect: EffectId, fence: int) -> None:
        await self.reach("renew_lease")
        await super().renew_lease(effect, fence)
        self._answer("renew_lease")

    async def waiting_sends(self, *args: Any, **kwargs: Any) -> list[WaitingSend]:
        await self.reach("waiting_sends")
        return await super().waiting_sends(*args, **kwargs)
