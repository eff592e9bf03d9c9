"""Memory stores that write ahead: one that does it right, and some that are broken on purpose."""

from __future__ import annotations

from betimes.core.segments import Segment
from betimes.engine.store import Changes, StreamWrite
from betimes.stores.memory.database import MemoryDatabase
from betimes.stores.memory.transaction import MemoryTx
from betimes.testing.conformance.samples import together
from tests.stores.broken import Broken


class AheadTx(MemoryTx):
    """Keeps what is written ahead until the commit."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.ahead: list[Changes] = []

    async def write_ahead(self, streams: list[StreamWrite], segments: list[Segment]) -> None:
        part = Changes(streams=streams, segments=segments)
        self._check(part)
        self.ahead.append(part)

    async def commit(self, changes: Changes) -> None:
        await super().commit(together(*self.ahead, changes))


class AheadStore(Broken):
    """Every transaction of it can write ahead."""

    Transaction = AheadTx


class LosesASlice(AheadStore):
    class Transaction(AheadTx):
        async def commit(self, changes: Changes) -> None:
            self.ahead = self.ahead[:1]
            await super().commit(changes)


class LosesTheSegments(AheadStore):
    class Transaction(AheadTx):
        async def write_ahead(self, streams: list[StreamWrite], segments: list[Segment]) -> None:
            await super().write_ahead(streams, [])


class ReordersSlices(AheadStore):
    class Transaction(AheadTx):
        async def commit(self, changes: Changes) -> None:
            self.ahead.reverse()
            await super().commit(changes)


class AppendsTheRestFirst(AheadStore):
    class Transaction(AheadTx):
        async def commit(self, changes: Changes) -> None:
            await MemoryTx.commit(self, together(changes, *self.ahead))


class ForgetsWhatIsAheadOfAnEmptyCommit(AheadStore):
    class Transaction(AheadTx):
        async def commit(self, changes: Changes) -> None:
            if changes.streams:
                await super().commit(changes)


class WritesAtOnce(AheadStore):
    class Transaction(AheadTx):
        async def write_ahead(self, streams: list[StreamWrite], segments: list[Segment]) -> None:
            part = Changes(streams=streams, segments=segments)
            self._check(part)
            self._apply(part)


class _Keeping(MemoryDatabase):
    """Writes what was left behind when its transaction ends."""

    def release(self, tx: object) -> None:
        if isinstance(tx, AheadTx):
            for part in tx.ahead:
                tx._apply(part)
        super().release(tx)


class KeepsWhatWasLeft(AheadStore):
    Database = _Keeping

    class Transaction(AheadTx):
        async def commit(self, changes: Changes) -> None:
            await super().commit(changes)
            self.ahead = []


class ComparesNoVersionsAhead(AheadStore):
    class Transaction(AheadTx):
        async def write_ahead(self, streams: list[StreamWrite], segments: list[Segment]) -> None:
            self.ahead.append(Changes(streams=streams, segments=segments))

        async def commit(self, changes: Changes) -> None:
            self._check(changes)
            self._apply(together(*self.ahead, changes))


CAUGHT_AHEAD: dict[type[Broken], str] = {
    LosesASlice: "what_is_written_ahead_is_committed_with_the_rest_and_in_order",
    LosesTheSegments: "a_batch_may_be_written_ahead_whole",
    ReordersSlices: "what_is_written_ahead_is_committed_with_the_rest_and_in_order",
    AppendsTheRestFirst: "what_is_written_ahead_is_committed_with_the_rest_and_in_order",
    ForgetsWhatIsAheadOfAnEmptyCommit: "a_batch_may_be_written_ahead_whole",
    WritesAtOnce: "nobody_sees_what_is_written_ahead_before_the_commit",
    KeepsWhatWasLeft: "what_is_written_ahead_is_undone_without_a_commit",
    ComparesNoVersionsAhead: "versions_are_compared_when_written_ahead",
}
