"""Send recovery: any process applies commands to other streams that the committing process has not applied.

Sends are looked at a page at a time, the oldest first, and only those to kinds this process knows. A page may be full
of sends that cannot be applied now, because each waits behind one to a kind that is not known here, or behind a wake
that fails. So a look goes on behind the last page: what can be applied must not wait for what cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from betimes.core.instants import seconds
from betimes.core.segments import Recorded
from betimes.engine.codecs import Kinds
from betimes.engine.commit_queue import WorkerParts
from betimes.engine.reports import Report
from betimes.engine.store import WaitingSend


class SendRecovery:
    """Finds sends that wait and queues them."""

    def __init__(self, parts: WorkerParts, kinds: Kinds) -> None:
        self._store, self._queue, self._settings, self._report = parts
        self._kinds = kinds

    async def apply(self, limit: int, tenant: str | None, is_over: Callable[[], bool]) -> int:
        """Apply the first page of sends of which any can be applied; return how many were."""
        after: WaitingSend | None = None
        while True:
            waiting = await self._store.waiting_sends(
                limit,
                # One more, because an effect created at this very instant counts too.
                created_before=await self._store.now() + 1,
                tenant=tenant,
                kinds=self._kinds.names,
                after=after,
            )
            applied = await self._apply_page(waiting)
            if applied or len(waiting) < limit or is_over():
                return applied
            after = waiting[-1]

    async def _apply_page(self, waiting: Sequence[WaitingSend]) -> int:
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Recorded]] = []
        for send in waiting:
            if job := self._queue.send_job(send.id, send.to, send.command):
                job.answer = answer = loop.create_future()  # before it is queued: a stopped queue answers at once
                under_way = self._queue.put_send(send.id, job)
                # Whoever waits for it already keeps their future, or they would never be told.
                if isinstance(under_way.answer, asyncio.Future):
                    answer = under_way.answer
                under_way.answer = answer
                answers.append(answer)
        # Shielded, since others may wait for the same answers and whoever asked for this pass may give up.
        results = await asyncio.gather(*map(asyncio.shield, answers), return_exceptions=True)
        return sum(isinstance(result, Recorded) for result in results)

    async def run(self) -> None:
        """Queue sends that have not been applied for a while, oldest first, in an endless loop until cancelled."""
        after: WaitingSend | None = None
        limit, age_s = self._settings.batch_max, self._settings.send_recovery_s
        while True:
            # The pause comes first: the process that committed a send applies it itself, unless it ended.
            await asyncio.sleep(age_s)
            try:
                before = await self._store.now() - seconds(age_s)
                waiting = await self._store.waiting_sends(
                    limit, created_before=before, kinds=self._kinds.names, after=after
                )
                # A page that is not full was the last; the next look begins at the oldest again.
                after = waiting[-1] if len(waiting) == limit else None
                for send in waiting:
                    if job := self._queue.send_job(send.id, send.to, send.command):
                        self._queue.put_send(send.id, job)
            except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
                self._report(Report("recover_sends_failed", "store", error))
