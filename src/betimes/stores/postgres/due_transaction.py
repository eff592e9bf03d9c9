"""A transaction that begins with streams that are due, whichever they are.

Who picks streams looks at others besides, such as policies, and cannot name them before it has seen what was picked.
They are mostly those that were looked at by the last pick. So these are read along in the statement that picks, after
the locks as always, and a pick whose guess was right needs no second journey to the database.
"""

from __future__ import annotations

from typing import Any, Self

from msgspec.structs import replace

from betimes.core.streams import StreamId
from betimes.engine.store import LockRequest, Row
from betimes.stores.postgres.rows import Record, Values, lock_values
from betimes.stores.postgres.session import Session
from betimes.stores.postgres.transaction import Dialect, PostgresTx

READS_MAX = 64
"""So many are read along at most."""


class LastReads:
    """The streams that the last pick of a process looked at, each with the version that was cached."""

    def __init__(self) -> None:
        self.versions: dict[StreamId, int] = {}

    def note(self, ask: LockRequest) -> None:
        if len(ask.reads) <= READS_MAX:
            self.versions = dict(ask.reads)


class DueTx(PostgresTx):
    """A transaction on streams that are due; see the contract's `begin_due`."""

    def __init__(self, dialect: Dialect, last_reads: LastReads) -> None:
        super().__init__(dialect)
        self._last_reads = last_reads
        self._guessed = last_reads.versions
        self._moved: dict[StreamId, Row] = {}

    def asks_due(self, asked: dict[str, Any]) -> tuple[str, list[Any]]:
        """Return the statement that picks, and reads what the last pick looked at."""
        reads: list[Values] = lock_values(self._guessed, list(self._guessed))
        return self._statement("begin_due", **asked, reads=reads)

    def start(self, session: Session, answer: list[Record]) -> Self:
        self._session = session
        first, *records = answer
        self.now = self._clock() if self._clock else first["now"]
        if not self._clock:
            self._hear(self.now)
        guessed = list(self._guessed)
        for place, tenant, kind, id, *columns in records:
            # What was only read along is not named in the answer; it is known by its place in what was asked.
            if tenant is None:
                self._moved[guessed[place - 1]] = Row(*columns)
            else:
                self.rows[StreamId(tenant, kind, id)] = Row(*columns)
        return self

    async def extend(self, ask: LockRequest) -> None:
        self._last_reads.note(ask)
        # A guess answers for a stream only if it was made with the version that is cached now: the cache may have
        # moved.
        known = {stream for stream, cached in ask.reads.items() if self._guessed.get(stream) == cached}
        self.unchanged |= known - self._moved.keys()
        self.rows |= {stream: self._moved[stream] for stream in known & self._moved.keys()}
        ask = replace(ask, reads={stream: cached for stream, cached in ask.reads.items() if stream not in known})
        if ask.locks or ask.reads or ask.keys or ask.sends:
            await super().extend(ask)
