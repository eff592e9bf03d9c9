"""The lease of a call, renewed while the call waits for its slot and while its work lasts.

Most calls end long before a third of their lease has passed, so until then there is neither a task nor a timer of their
own: leases of one length are due in the order in which they were taken, and one timer waits for the first of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from betimes.core.deciders import EffectCall
from betimes.core.errors import Fenced
from betimes.engine.reports import Report, Reporter
from betimes.engine.store import Store


class RenewalTimers:
    """Begins renewals when a third of their leases has passed: one timer for each length of lease."""

    def __init__(self) -> None:
        self._waiting: dict[int, OrderedDict[LeaseRenewal, float]] = {}
        """By length, those that wait, the first that is due first; there is a timer for each length that is here."""

    def add(self, renewal: LeaseRenewal, lease_s: int) -> None:
        loop = asyncio.get_running_loop()
        # After a third, so that two renewals in a row may fail before the lease ends.
        due_s = loop.time() + lease_s / 3
        if lease_s not in self._waiting:
            self._waiting[lease_s] = OrderedDict()
            loop.call_at(due_s, self._begin_due, lease_s)
        self._waiting[lease_s][renewal] = due_s

    def discard(self, renewal: LeaseRenewal, lease_s: int) -> None:
        """Let a renewal wait no longer; the timer finds out when it looks."""
        if waiting := self._waiting.get(lease_s):
            waiting.pop(renewal, None)

    def _begin_due(self, lease_s: int) -> None:
        waiting, loop = self._waiting[lease_s], asyncio.get_running_loop()
        while waiting:
            renewal, due_s = next(iter(waiting.items()))
            if due_s > loop.time():
                loop.call_at(due_s, self._begin_due, lease_s)
                return
            del waiting[renewal]
            renewal.begin()
        # By its absence `add` sees that there is no timer any more.
        del self._waiting[lease_s]


class LeaseRenewal:
    """Renews the lease of a call, and ends its waiting when the lease is lost."""

    def __init__(self, store: Store, call: EffectCall, report: Reporter, timers: RenewalTimers) -> None:
        self._store = store
        self._call = call
        self._report = report
        self._timers = timers
        self._task: asyncio.Task[None] | None = None
        self._lost: Fenced | None = None
        self._awaited: asyncio.Future[None] | None = None
        timers.add(self, call.lease_s)
        self.begun_s: float | None = None
        """The loop's time when the call got its slot and its work began."""

    async def wait_for(self, awaited: asyncio.Future[None]) -> None:
        """Wait for a slot or for the end of the work; raise `Fenced` if another process may have the call."""
        # Lost between the wait for the slot and the wait for the work.
        if self._lost:
            raise self._lost
        self._awaited = awaited
        await awaited

    def stop(self) -> None:
        self._timers.discard(self, self._call.lease_s)
        if self._task:
            self._task.cancel()

    def begin(self) -> None:
        """Renew the lease from now on."""
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        while True:
            try:
                await self._store.renew_lease(self._call.id, self._call.fence)
            except Fenced as lost:
                self._lost = lost
                if self._awaited and not self._awaited.done():
                    self._awaited.set_exception(lost)
                return
            except Exception as error:  # noqa: BLE001 — whatever it was, without its lease the call is made twice
                self._report(Report("renew_failed", self._call.id.handle, error))
            await asyncio.sleep(self._call.lease_s / 3)
