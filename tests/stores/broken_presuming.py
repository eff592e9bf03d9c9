"""Memory stores that presume and are broken on purpose."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from betimes.engine.store import Changes, LockRequest
from betimes.stores.memory.transaction import MemoryTx
from tests.stores.broken import Broken


class ComparesNothingPresumed(Broken):
    class Transaction(MemoryTx):
        def lock_presumed(self, ask: LockRequest) -> None:
            """Everything is as it was presumed."""


class ComparesNoReads(Broken):
    class Transaction(MemoryTx):
        def lock_presumed(self, ask: LockRequest) -> None:
            super().lock_presumed(replace(ask, reads={}))


class ComparesNoKeys(Broken):
    class Transaction(MemoryTx):
        def lock_presumed(self, ask: LockRequest) -> None:
            super().lock_presumed(replace(ask, keys=()))

        def _check(self, changes: Changes) -> None:
            super()._check(replace(changes, keys=[]))


class WritesWhatOthersHold(Broken):
    class Transaction(MemoryTx):
        def lock_presumed(self, ask: LockRequest) -> None:
            held, self.db.holders = self.db.holders, {}
            super().lock_presumed(ask)
            self.db.holders = held


class LocksWhatItPresumes(Broken):
    class Transaction(MemoryTx):
        def presume(self, ask: LockRequest) -> None:
            super().presume(ask)
            self.lock_presumed(ask)


class PresumesAtNoTime(Broken):
    class Transaction(MemoryTx):
        def presume(self, ask: LockRequest) -> None:
            super().presume(ask)
            self.now = 0


class PresumesWhatNobodyKnows(Broken):
    def presume(self, ask: LockRequest) -> AbstractAsyncContextManager[MemoryTx] | None:
        return self._begin_presumed(ask)


class PresumesNothing(Broken):
    def presume(self, ask: LockRequest) -> AbstractAsyncContextManager[MemoryTx] | None:
        return None


class PresumesMoreOnTheWay(Broken):
    class Transaction(MemoryTx):
        async def extend(self, ask: LockRequest) -> None:
            self.unchanged.update(ask.locks, ask.reads)


CAUGHT_PRESUMING: dict[type[Broken], str] = {
    ComparesNothingPresumed: "a_version_that_moved_is_refused",
    ComparesNoReads: "a_read_that_moved_is_refused",
    ComparesNoKeys: "a_key_that_was_used_is_refused",
    WritesWhatOthersHold: "a_presumption_upon_a_stream_that_is_held_is_refused",
    LocksWhatItPresumes: "a_presumption_left_without_a_commit_leaves_nothing",
    PresumesAtNoTime: "a_presumption_has_the_stores_time",
    PresumesWhatNobodyKnows: "only_what_is_cached_is_presumed",
    PresumesNothing: "what_was_presumed_is_committed",
    PresumesMoreOnTheWay: "more_than_was_presumed_is_refused",
}
