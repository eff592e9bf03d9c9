"""The lease of a call, renewed while the call waits for its slot and while its work lasts."""

from __future__ import annotations

import asyncio

from betimes.core.deciders import EffectCall
from betimes.core.errors import Fenced
from betimes.engine.reports import Report, Reporter
from betimes.engine.store import Store


class LeaseRenewal:
    """Renews the lease of a call, and ends its waiting when the lease is lost.

    Most calls end long before a third of their lease has passed, so until then there is only a timer, no task.
    """

    def __init__(self, store: Store, call: EffectCall, report: Reporter) -> None:
        self._store = store
        self._call = call
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._lost: Fenced | None = None
        self._awaited: asyncio.Future[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(call.lease_s / 3, self._begin)
        self.begun_s: float | None = None
        """The loop's time when the call got its slot and its work began."""

    async def wait_for(self, awaited: asyncio.Future[None]) -> None:
        """Wait for a slot or for the end of the work; raise `Fenced` when somebody else may have the call."""
        if self._lost:
            raise self._lost
        self._awaited = awaited
        await awaited

    def stop(self) -> None:
        self._timer.cancel()
        if self._task:
            self._task.cancel()

    def _begin(self) -> None:
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
