"""The built-in sweep: every hour, each running process takes what is left of the debt of all scores that are due.

A sweep belongs to an instant, the last full hour, not to the process that carries it out: it takes the scores that were
due by then, each up to then. So nothing is stored about it beside the scores: the index of due scores says whether an
hour is done. Any number of processes do it together, one that comes late does the rest, and after days without any
process there is one sweep, up to the last full hour.

    sweep = HourlySweep(engine, SweepSettings())
    await sweep.once()             # the rest of the last full hour, for a tick
    await sweep.run()              # until cancelled
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from betimes.core.errors import BetimesError
from betimes.core.instants import SECOND, Instant
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.reports import Report, Reporter, guard_reporter, log_report
from betimes.scores.model import KIND
from betimes.scores.sweep import EVERYBODY, SweepRequest, SweepResult, Sweeps

ACTOR = "hourly-sweep"
PASS_S = 25.0
"""How long one pass of a worker lasts before it reads the clock again."""
LEAST_S = 1.0
"""The least time a sweep gets, even of a pass whose time is nearly up."""
_REST_MIN_S, _REST_MAX_S = 0.05, 60.0
_AGAIN_S = 1.0
"""When to look again for rows that were locked."""


class SweepSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sweep of scores that workers and ticks make by themselves."""

    enabled: bool = True
    """Without it scores decay at a requested sweep, or when something happens to them."""
    every_s: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 3_600
    """Counted from midnight UTC: on the full hour, or for 900 at every quarter."""


class HourlySweep:
    """The sweep of full hours, for one tenant or for all."""

    def __init__(
        self, engine: Engine, settings: SweepSettings, *, tenant: str | None = None, report: Reporter = log_report
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._tenant = tenant
        self._sweeps = Sweeps(engine, Caller(tenant or EVERYBODY, actor=ACTOR))
        self._report = guard_reporter(report)

    async def once(self, limit: int | None = None, max_s: float = PASS_S) -> SweepResult:
        """Take the debt that is left at the last full hour; read no score if there is none."""
        at = self._last_hour(await self._engine.store.now())
        due_at = await self._due_at()
        # One look at an index, so that an hour in which nothing is due costs nothing.
        if due_at is None or due_at > at:
            return SweepResult()
        return await self._sweeps.sweep(SweepRequest(limit=limit, max_s=max(LEAST_S, max_s)), until_at=at)

    async def next_at(self) -> Instant | None:
        """Return the first full hour still to come at which a score will be due; `None` if none ever is."""
        due_at = await self._due_at()
        if due_at is None:
            return None
        now, every = await self._engine.store.now(), self._settings.every_s * SECOND
        return max(self._last_hour(due_at - 1), self._last_hour(now)) + every

    async def run(self) -> None:
        """Sweep every hour until cancelled, the last one first if it was missed."""
        done_at: Instant | None = None
        while True:
            rest_s = _AGAIN_S
            try:
                hour = self._last_hour(await self._engine.store.now())
                swept = SweepResult() if hour == done_at else await self.once()
                if swept.complete:
                    done_at, rest_s = hour, await self._rest_s(hour)
                # It was stopped by its time, not by a fault: go on at once.
                elif swept.processed:
                    rest_s = 0.0
            except BetimesError as error:
                self._report(Report("sweep_failed", ACTOR, error))
            await asyncio.sleep(rest_s)

    async def _rest_s(self, hour: Instant) -> float:
        """Return the time to the next hour by the store's clock, at most a minute: the clock may be set meanwhile."""
        left_s = (hour - await self._engine.store.now()) / SECOND + self._settings.every_s
        return min(max(left_s, _REST_MIN_S), _REST_MAX_S)

    async def _due_at(self) -> Instant | None:
        if not self._settings.enabled:
            return None
        return await self._engine.store.next_due("due", [KIND], tenant=self._tenant)

    def _last_hour(self, at: Instant) -> Instant:
        return at - at % (self._settings.every_s * SECOND)
