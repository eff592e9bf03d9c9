"""One effect in memory: pending, leased under a fence, and at last done, failed or dead."""

from __future__ import annotations

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.instants import SECOND, Instant
from betimes.engine.store import (
    ATTEMPTS_KEPT,
    LEASE_RAN_OUT,
    Attempt,
    DeadSend,
    EffectRow,
    EffectStatus,
    EffectWrite,
    Lease,
    Settlement,
)


class MemoryEffect:
    """`next_attempt_at` is when it may be taken: its first attempt, its next one, or the end of its lease."""

    def __init__(self, write: EffectWrite) -> None:
        self.write = write
        self.status: EffectStatus = "leased" if write.is_leased else "pending"
        self.attempts = self.fence = int(write.is_leased)
        self.next_attempt_at: Instant | None = write.next_attempt_at
        self.finished_at: Instant | None = None
        self.last_error = ""
        self.history: tuple[Attempt, ...] = ()

    def is_due(self, now: Instant) -> bool:
        return self.next_attempt_at is not None and self.next_attempt_at <= now

    def lease(self, now: Instant) -> Lease:
        write = self.write
        spent = self.status == "leased" and (write.at_most_once or self.attempts >= write.attempts_max)
        # Nobody settled the attempt before; that its lease ran out is noted by whoever takes it next.
        if self.status == "leased" and not spent:
            self._keep(Attempt(now, False, LEASE_RAN_OUT, None))
        self.status = "leased"
        self.attempts += not spent
        self.fence += 1
        self.next_attempt_at = now + write.lease_s * SECOND
        call = EffectCall(
            write.id,
            write.executor,
            msgspec.json.decode(write.payload),
            self.attempts,
            write.created_at,
            self.fence,
            write.lease_s,
            write.at_most_once,
            write.attempts_max,
            write.to,
        )
        return Lease(call, spent)

    def settle(self, settled: Settlement) -> None:
        self.status = settled.status
        self.next_attempt_at = settled.next_attempt_at
        self.last_error = settled.error
        self.finished_at = None if settled.status == "pending" else settled.at
        self._keep(Attempt(settled.at, settled.status == "done", settled.error, settled.duration_ms))

    def bury(self, dead: DeadSend) -> None:
        self.status, self.next_attempt_at, self.finished_at, self.last_error = "dead", None, dead.at, dead.error
        self._keep(Attempt(dead.at, False, dead.error, None))

    def _keep(self, attempt: Attempt) -> None:
        self.history = (*self.history, attempt)[-ATTEMPTS_KEPT:]

    def revive(self, now: Instant) -> bool:
        if self.status != "dead":
            return False
        self.status, self.attempts, self.next_attempt_at, self.finished_at = "pending", 0, now, None
        return True

    def row(self) -> EffectRow:
        write = self.write
        return EffectRow(
            write.id,
            write.executor,
            write.payload,
            self.status,
            self.attempts,
            write.created_at,
            self.next_attempt_at,
            self.finished_at,
            self.last_error,
            write.at_most_once,
            write.to,
            self.history,
        )
