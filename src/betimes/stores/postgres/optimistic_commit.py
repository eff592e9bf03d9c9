"""The optimistic commit: lock, compare versions, write and commit in one message.

An engine that has everything cached knows what `begin` would answer, unless somebody else was here. So it decides
first, and one message does the rest: it locks the rows without waiting and compares them with what was cached, writes,
compares keys as always, refuses everything if anything moved or is held, and commits. A batch so takes one journey to
the database instead of three, and a single submit one instead of two.

**One segment is a script**, its values written out, which needs no plan and can begin the next transaction. More are a
statement with parameters that commits by itself; behind a pooler, which has no plans to keep, so is no batch.

**What time it is** can be told without asking for a while after an answer: at least what the answer said and what has
passed here since, taken to be a little less because no two clocks run alike. So it is never ahead of the database's
time, which is compared too.

**Unknown outcomes.** The message of a connection that broke may still be on its way, and nothing is locked yet. It is
refused once it is a second old by the database's clock. So whoever cannot know waits for two before it says so, and
then it is as with any other transaction: it holds its locks, or it will do nothing. (A clock that is set back by more
than that is not allowed for.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from betimes.core.errors import Conflict, Unavailable, Unknown
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.engine.store import Changes, LockRequest
from betimes.stores.postgres.rows import change_arrays, lock_values
from betimes.stores.postgres.sessions import Sessions
from betimes.stores.postgres.transaction import Dialect, PostgresTx

HEARD_S_MAX = 10.0
"""How long after an answer the time is estimated without a query."""
RATE = 0.9995
"""Of a second here, how much has passed there at least."""
REFUSED_AFTER_S = 2.0
"""When a message is refused for its age: `presume` counts a second, by a clock that may be slowed down meanwhile."""


class EstimatedClock:
    """A lower bound of the time in the database, estimated from its answers."""

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._elapsed = elapsed
        self._heard_at: Instant | None = None
        self._heard_s = 0.0

    def hear(self, at: Instant) -> None:
        self._heard_at, self._heard_s = at, self._elapsed()

    def now(self) -> Instant | None:
        """Return an estimate that is never ahead of the server's time; `None` without a recent answer."""
        passed_s = self._elapsed() - self._heard_s
        if self._heard_at is None or passed_s > HEARD_S_MAX:
            return None
        return self._heard_at + int(passed_s * RATE * SECOND)


class PresumedTx(PostgresTx):
    """A transaction that has not begun; see the contract's `Presumes`."""

    def __init__(self, dialect: Dialect, *, sessions: Sessions, ask: LockRequest, sent_at: Instant) -> None:
        super().__init__(dialect)
        self._sessions = sessions
        self._asked = ask
        self._sent_at = sent_at
        self.now = self._clock() if self._clock else sent_at
        self.unchanged.update(ask.locks, ask.reads)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""

    async def extend(self, ask: LockRequest) -> None:
        # Decided again under locks: nothing that was presumed has been compared yet.
        raise Conflict("the batch needs streams that were not locked")

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        raise Conflict("an optimistic commit knows nothing of streams that were not loaded")

    async def commit(self, changes: Changes) -> None:
        if changes.policies:
            raise Unavailable("the batch writes more than fits into one message; lock its streams first")
        is_script = len(changes.segments) <= 1 or self._sessions.is_behind_pooler
        script = self._everything_at_once(changes) if is_script else None
        sent_s = time.monotonic()
        try:
            if script is not None:
                await self._sessions.commit(script)
            else:
                values = self._presumed_values({write.stream for write in changes.streams}) | change_arrays(changes)
                self._hear((await self._sessions.write(self._statement("commit_presumed", **values)))[0][0])
        except Unknown:
            # By then the message was refused for its age or holds its locks, so whoever asks what became of it gets the
            # last word.
            await asyncio.sleep(max(0.0, sent_s + REFUSED_AFTER_S - time.monotonic()))
            raise

    def _everything_at_once(self, changes: Changes) -> str | None:
        """Return the script that compares and writes; `None` if a text cannot be in one."""
        writing, presuming = self._writing(changes), self._script("presume", **self._presumed_values())
        return writing and presuming and f"{presuming}; {writing}"

    def _presumed_values(self, written: Iterable[StreamId] = ()) -> dict[str, Any]:
        """Return what is to be compared; streams that are written are compared by the writing."""
        ask = self._asked
        return {
            "locks": lock_values(ask.locks, sorted(ask.locks.keys() - written)),
            "reads": lock_values(ask.reads, sorted(ask.reads)),
            "sent_at": self._sent_at,
        }
