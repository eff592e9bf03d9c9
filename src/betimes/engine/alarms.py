"""Alarms: streams that asked to be woken are woken when they are due.

The store holds every alarm in the row of its stream, written by the commit that set it, so there is nothing to recover
after a crash and any number of processes may ring together: each takes due streams inside the deciding transaction,
skipping what the others hold. A timer here only decides when to look; the store decides what is due. No timer is armed
for long, so a suspended machine or a stepped clock costs at most one poll.

A long backlog is worked off in longer and longer passes, which write each page of an index less often, as long as
nobody waits for a command: whoever does waits for one pass of a batch's length at most, but for the first.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from betimes.core.instants import SECOND, Instant
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.commit_queue import WorkerParts
from betimes.engine.jobs import WAKE, Job, Submission
from betimes.engine.reports import Report
from betimes.engine.tenant_turns import PART_MIN
from betimes.engine.transactions import PASS_BATCHES, DueRequest, longest_pass

LENGTHEN_EVERY = 3
"""So many full passes in a row, and the next are twice as long: a backlog costs less in longer ones."""


class Alarms:
    """Rings what is due, through the queue."""

    def __init__(self, parts: WorkerParts, kinds: tuple[str, ...]) -> None:
        self._store, self._queue, self._settings, self._report = parts
        self._kinds = kinds
        self._sooner = asyncio.Event()
        self._next_at: Instant | None = None

    async def ring(self, limit: int, kinds: tuple[str, ...] | None = None, tenant: str | None = None) -> Counter[str]:
        """Wake up to `limit` streams that are due now; how many of each kind were woken."""
        due = DueRequest(
            by="alarm", kinds=self._kinds if kinds is None else kinds, limit=limit, make=_wake, tenant=tenant
        )
        done = await self._queue.take_due(due)
        return Counter(job.stream.kind for job, result in done if job.stream and isinstance(result, Recorded))

    async def run(self) -> None:
        """Ring until cancelled."""
        self._queue.alarm_set = self._alarm_set
        rung_count = full_count = 0
        while True:
            try:
                # After a full pass more is due, most likely: whoever waits behind it need not wait for the question.
                is_sure = rung_count < PART_MIN
                if is_sure and not await self._is_due():
                    await self._rest()
                    continue
                limit = self._next_length(full_count)
                rung_count = (await self.ring(limit)).total()
                full_count = full_count + 1 if rung_count >= limit and not self._queue.has_callers else 0
                if is_sure and not rung_count:
                    await asyncio.sleep(self._settings.retry_store_min_s)  # what is due is held by another process
            except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
                rung_count = full_count = 0
                self._report(Report("alarms_failed", "store", error))
                await asyncio.sleep(self._settings.poll_s)

    def _next_length(self, full_count: int) -> int:
        """Return how many streams the next pass wakes, after so many full ones in a row."""
        batch_max = self._settings.batch_max
        # The shift has a bound of its own, or a backlog of days would make ever longer numbers.
        return min(batch_max << min(full_count // LENGTHEN_EVERY, PASS_BATCHES), longest_pass(batch_max))

    async def _is_due(self) -> bool:
        self._next_at = await self._store.next_due("alarm", self._kinds)
        return self._next_at is not None and self._next_at <= await self._store.now()

    async def _rest(self) -> None:
        # An alarm that was set since the store was asked is in `_next_at`, which the pause is counted from: clearing
        # loses nothing.
        self._sooner.clear()
        try:
            async with asyncio.timeout(await self._pause_s()):
                await self._sooner.wait()
        except TimeoutError:
            return

    async def _pause_s(self) -> float:
        if self._next_at is None:
            return self._settings.poll_s
        ahead_s = (self._next_at - await self._store.now()) / SECOND
        return min(max(ahead_s, 0.001), self._settings.poll_s)

    def _alarm_set(self, at: Instant) -> None:
        # Only an earlier alarm shortens the rest; a later one is found when the rest is over.
        if self._next_at is None or at < self._next_at:
            self._next_at = at
            self._sooner.set()


def _wake(stream: StreamId) -> Job:
    return Job(Submission(stream=stream, command=WAKE))
