"""The simulated database server: one in-memory database, the faults of its commits, and a record of what it did.

A server outlives its clients. It ends the transactions of a client that died, gives up on one that is idle for too
long, and finishes a commit that it was sent whoever is left to hear of it; until then that commit's locks are held.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from betimes.core.errors import Conflict, Duplicate, Fenced, StoreError, Unavailable
from betimes.core.streams import EffectId
from betimes.engine.store import Changes, EffectWrite, Lease
from betimes.stores.memory import MemoryDatabase
from betimes.testing.simulator.faults import CRASHES, NO_FAULTS, UNKNOWNS, Faults
from betimes.testing.simulator.loop import SeededLoop

if TYPE_CHECKING:
    from betimes.testing.simulator.connection import SimulatedTx

IDLE_TIMEOUT_S = 5.0
WAIT_S_MAX = 3.0


class Ending(NamedTuple):
    """A settlement that was written, and the newest lease there was at that moment."""

    effect: EffectId
    fence: int
    newest_fence: int


class ServerRecord:
    """What the server saw, whatever its tables say now."""

    def __init__(self) -> None:
        self.effects: dict[EffectId, EffectWrite] = {}
        self.newest_fence: dict[EffectId, int] = {}
        self.endings: list[Ending] = []
        self.reads: dict[str, tuple[int, int]] = {}
        """By turn: how far the ledger went when it was read for deciding, and when the commit was written."""
        self.lock_failures: list[str] = []
        """What can only happen when locks or reservations did not exclude somebody."""


class SimulatedDatabase(MemoryDatabase):
    """Locks of a commit under way are held until it has ended."""

    def release(self, tx: object) -> None:
        if not getattr(tx, "is_under_way", False):
            super().release(tx)


class Server:
    """Everything the connections share."""

    def __init__(self, loop: SeededLoop, random: Random, faults: Faults) -> None:
        self.loop = loop
        self.random = random
        self.faults = faults
        self.database = SimulatedDatabase()
        self.record = ServerRecord()
        self.checks_locks = faults.locks_lost == 0.0
        self._context = Context()

    def heal(self) -> None:
        """Nothing goes wrong from here on."""
        self.faults = NO_FAULTS

    def happens(self, chance: float) -> bool:
        return chance > 0.0 and self.random.random() < chance

    def commit_fault(self) -> str | None:
        """What goes wrong with a commit, if anything."""
        faults, drawn = self.faults, self.random.random()
        for chance, names in (
            (faults.crash, CRASHES),
            (faults.unknown, UNKNOWNS),
            (faults.conflict, ("conflict",)),
            (faults.unavailable, ("unavailable",)),
            (faults.session_ended, ("session_ended",)),
            (faults.locks_lost, ("locks_lost",)),
            (faults.slow, ("slow",)),
        ):
            drawn -= chance
            if drawn < 0:
                return self.random.choice(names)
        return None

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        """Do something of the server's own accord, whatever becomes of its clients."""
        self.loop.call_later(after_s, action, context=self._context)

    def pause_s(self) -> float:
        return self.random.random() ** 2 * WAIT_S_MAX

    # -- transactions

    def write(self, tx: SimulatedTx, changes: Changes) -> None:
        """Check and write a commit, or raise what forbids it."""
        if tx.has_ended:
            raise Unavailable("the server ended this transaction; nothing was written")
        if tx.presumed:
            tx.lock_presumed(tx.presumed)
        self._check_locks(tx, changes)
        try:
            tx.check(changes)
        except (Conflict, Duplicate) as error:
            self._excused(error, changes)
            raise
        except Fenced as error:
            if not changes.settlements:
                self._excused(error, changes)
            raise
        self._note(tx, changes)
        tx.apply(changes)

    def write_later(self, tx: SimulatedTx, changes: Changes | None) -> None:
        """Finish a commit, or give it up, after whoever sent it has stopped listening."""
        tx.is_under_way = True

        def finish() -> None:
            tx.is_under_way = False
            try:
                if changes is not None:
                    self.write(tx, changes)
            except StoreError:
                pass
            finally:
                self.database.release(tx)

        self.later(self.pause_s(), finish)

    def lose_locks(self, tx: SimulatedTx) -> None:
        self.database.release(tx)

    def end(self, tx: SimulatedTx) -> None:
        """End a transaction from the server's side."""
        if not tx.is_under_way:
            tx.has_ended = True
            self.database.release(tx)

    def _check_locks(self, tx: SimulatedTx, changes: Changes) -> None:
        if not self.checks_locks:
            return
        for write in changes.streams:
            shown = write.stream in tx.rows or write.stream in tx.unchanged
            if shown and self.database.holders.get(write.stream) is not tx:
                self.record.lock_failures.append(f"{write.stream} was written without its lock")

    def _excused(self, error: StoreError, changes: Changes) -> None:
        """Where no lock can be lost, the second guard has nothing to find."""
        if self.checks_locks:
            turn = changes.segments[0].turn if changes.segments else "a commit"
            self.record.lock_failures.append(f"{turn} was refused although it held its locks: {error}")

    # -- the record

    def _note(self, tx: SimulatedTx, changes: Changes) -> None:
        record = self.record
        for segment in changes.segments:
            record.reads[segment.turn] = (tx.read_to_seq, self.database.seq)
        for effect in changes.effects:
            record.effects[effect.id] = effect
            record.newest_fence[effect.id] = int(effect.is_leased)
        for settled in changes.settlements:
            record.endings.append(Ending(settled.id, settled.fence, record.newest_fence.get(settled.id, 0)))

    def note_leases(self, leases: list[Lease]) -> None:
        for lease in leases:
            self.record.newest_fence[lease.call.id] = lease.call.fence
