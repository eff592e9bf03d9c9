"""Orphans: calls whose executor no running process has, or has time for.

A process takes only what it can carry out, so a call that names a handler nobody registered would wait for ever, and
silently. A process that works, in the background or by ticks, looks from time to time at the calls that nobody took for
a minute, and reports each executor once; again when its calls were taken meanwhile and are left alone once more.
"""

from __future__ import annotations

import asyncio

from betimes.core.errors import StoreError
from betimes.core.instants import Instant, seconds
from betimes.engine.reports import Report, Reporter
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Store

REST_MIN_S = 0.05
FROM_APPLICATIONS = ("handler:", "evaluator:", "deliver:function:")
"""Executors that are functions of an application: a process that was started without it has none of them."""


class OrphanWatch:
    """Reports executors whose calls no process claims."""

    def __init__(self, store: Store, settings: EngineSettings, report: Reporter) -> None:
        self._store = store
        self._every_s = settings.orphans_every_s
        self._report = report
        self._reported: frozenset[str] = frozenset()
        self._looked_at: Instant | None = None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(max(self._every_s, REST_MIN_S))
            try:
                await self.look(await self._store.now())
            except StoreError as error:
                self._report(Report("orphans_failed", "store", error))

    async def look(self, now: Instant) -> None:
        """Report orphans that are new, unless a check was made recently."""
        if self._looked_at is not None and now - self._looked_at < seconds(self._every_s):
            return
        self._looked_at = now
        # Of no kinds: only calls are asked about here, not alarms.
        orphaned = (await self._store.backlog(())).orphaned
        for executor in sorted(orphaned.keys() - self._reported):
            self._report(Report("calls_orphaned", executor, RuntimeError(_sentence(executor, orphaned[executor]))))
        self._reported = frozenset(orphaned)


def spell_start(executor: str) -> str:
    """Return the command that starts a process with this executor."""
    return "`betimes serve --app module:name`" if executor.startswith(FROM_APPLICATIONS) else "`betimes serve`"


def _sentence(executor: str, count: int) -> str:
    calls = "1 call was" if count == 1 else f"{count:,} calls were"
    start = f"start a process that has this executor ({spell_start(executor)})"
    return f"{calls} not claimed by any process for a minute; {start}, or raise calls_max if one is running but busy"
