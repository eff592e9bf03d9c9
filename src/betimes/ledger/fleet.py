"""The fleet: processes that work on this database, and the backlog of a tenant.

A process tells of itself every few seconds while it is open, and when it is closed. One that has been silent for a
day is forgotten; whoever looks sees when each was last heard of.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from importlib.metadata import version
from itertools import groupby

from betimes.core.datetimes import moment
from betimes.core.instants import DAY, MINUTE, Instant
from betimes.domain.derivation import derive
from betimes.domain.hold_view import HoldView, read_hold
from betimes.domain.json_view import JsonView
from betimes.engine.engine import Engine
from betimes.engine.read_model import (
    CLOSED,
    VIRTUAL_CLOCK,
    ExecutorBacklog,
    ProcessRow,
    TenantBacklog,
    UpcomingQuery,
)
from betimes.engine.reports import Report, Reporter, log_report
from betimes.ledger.reader import LedgerReader
from betimes.ledger.upcoming_items import DUE_KINDS, FOREVER

BEAT_S = 10.0
FORGOTTEN = DAY
PROCESSES_MAX = 200
COUNT_MAX = 10_000
EXECUTORS_MAX = 200
"""Of one process."""
EXECUTORS_COUNTED_MAX = 50
"""For whom effects are counted."""


class ProcessView(JsonView, frozen=True, kw_only=True):
    name: str
    role: str
    """`closed` for one that ended normally; with a virtual clock, it ends with `, virtual clock`."""
    version: str
    executors: list[str]
    """The effects it can carry out."""
    started_at: datetime
    seen_at: datetime
    alive: bool


class ProcessList(JsonView, frozen=True):
    items: list[ProcessView]


class BacklogView(JsonView, frozen=True, kw_only=True):
    """Due and pending work of the tenant; a count that stops at its bound says so."""

    now: datetime
    alarms_due: int
    oldest_alarm_at: datetime | None
    snoozed: int
    effects_pending: int
    effects_dead: int
    effects_failing: int
    """Calls whose last attempt failed and that will be retried; they are pending too."""
    orphaned: dict[str, int]
    """Orphaned calls, which no process took for a minute, by executor."""
    checks_overdue: int
    """Due checks, such as those of intents, that no worker took for a minute."""
    oldest_check_at: datetime | None
    """When the oldest of them was due."""
    capped: bool
    """Whether a count reached its limit."""
    hold: HoldView | None
    """The hold in force, if any; held work is counted all the same."""


class ExecutorView(JsonView, frozen=True, kw_only=True):
    """Pending effects of one executor, in the domains the key may read."""

    executor: str
    """Such as `webhook` or `deliver:push`; `send` are commands to other streams."""
    pending: int
    capped: bool
    """Whether the count reached its limit: there are that many or more."""
    first_at: datetime | None
    """When the first of them is due, or the attempt in progress must have ended; `null` for commands."""
    orphaned: int
    """Orphaned ones, which no process took for a minute."""


def read_wall_clock() -> Instant:
    """Return the real time of this machine, in microseconds."""
    return time.time_ns() // 1_000


class Fleet(LedgerReader):
    """Says who works, and what is owed."""

    async def backlog(self) -> BacklogView:
        """Return what is owed to the tenant and how late it is.

        The tenant's due alarms, snoozed wakes, pending and dead effects. Executors are named only
        where effects of domains the key may read wait for them.
        """
        owed = await self.engine.store.tenant_backlog(self.caller.tenant, COUNT_MAX)
        now, hold = await self.engine.store.now(), await read_hold(self.engine, self.caller.tenant)
        checks, oldest_check_at = await self._overdue_checks(now)
        counts = (owed.alarms_due, owed.snoozed, owed.effects_pending, owed.effects_dead, checks)
        return derive(
            BacklogView,
            owed,
            orphaned=self._orphans(owed),
            checks_overdue=checks,
            oldest_check_at=oldest_check_at,
            now=now,
            capped=max(counts) >= COUNT_MAX,
            hold=hold,
        )

    async def _overdue_checks(self, now: Instant) -> tuple[int, Instant | None]:
        """Count what is due and was taken by no worker for a minute; return the instant of the oldest too."""
        if now <= MINUTE:
            return 0, None
        found = [
            counted
            for kind in DUE_KINDS
            if self.may_see(kind)
            for counted in await self.engine.store.upcoming(
                UpcomingQuery(self.caller.tenant, 0, now - MINUTE, FOREVER, COUNT_MAX, due_kind=kind)
            )
        ]
        return sum(one.total for one in found), min((one.first_at for one in found), default=None)

    def _orphans(self, owed: TenantBacklog) -> dict[str, int]:
        """Return the unclaimed calls by executor, as far as the caller may read the streams that caused them."""
        found = {
            executor: sum(count for kind, count in by_kind.items() if self.may_see(kind))
            for executor, by_kind in owed.orphaned.items()
        }
        return {executor: count for executor, count in found.items() if count}

    async def executors(self) -> list[ExecutorView]:
        """List who has effects of the tenant to carry out, with how many are pending, the one with the most first."""
        tenant = self.caller.tenant
        found = await self.engine.store.executor_backlog(tenant, COUNT_MAX, EXECUTORS_COUNTED_MAX)
        orphaned = self._orphans(await self.engine.store.tenant_backlog(tenant, COUNT_MAX)) if found else {}
        views = [
            ExecutorView(
                executor=executor,
                pending=sum(row.total for row in seen),
                capped=sum(row.total for row in rows) >= COUNT_MAX,
                first_at=moment(min((row.first_at for row in seen if row.first_at is not None), default=None)),
                orphaned=orphaned.get(executor, 0),
            )
            for executor, rows in _group_by_executor(found).items()
            if (seen := [row for row in rows if self.may_see(row.kind)])
        ]
        return sorted(views, key=lambda view: (-view.pending, view.executor))

    async def processes(self, *, virtual: bool = False) -> ProcessList:
        """List the processes by their last heartbeat, newest first; under a virtual clock by real time."""
        now = read_wall_clock() if virtual else await self.engine.store.now()
        return ProcessList([_view(row, now) for row in await self.engine.store.processes(PROCESSES_MAX)])


def _group_by_executor(rows: list[ExecutorBacklog]) -> dict[str, list[ExecutorBacklog]]:
    return {name: list(group) for name, group in groupby(rows, key=lambda row: row.executor)}


def _view(row: ProcessRow, now: Instant) -> ProcessView:
    return derive(ProcessView, row, alive=row.is_alive(now))


class Heartbeat:
    """Tells the store that this process is alive."""

    def __init__(
        self, engine: Engine, name: str, role: str, *, virtual: bool = False, report: Reporter = log_report
    ) -> None:
        self._engine = engine
        self._is_virtual = virtual
        role += VIRTUAL_CLOCK if virtual else ""
        self._row = ProcessRow(name, role, version("betimes"), (), 0, 0)
        self._report = report

    async def beat(self) -> None:
        now = await self._now()
        executors = tuple(sorted(self._engine.executors))[:EXECUTORS_MAX]
        self._row = self._row._replace(executors=executors, started_at=self._row.started_at or now, seen_at=now)
        await self._engine.store.beat(self._row, forget_before=now - FORGOTTEN)
        await self._engine.alarm_lag.write(self._engine.store)

    async def end(self) -> None:
        """Record that it is closed, if it was ever recorded as running."""
        if self._row.started_at:
            now = await self._now()
            await self._engine.store.beat(self._row._replace(role=CLOSED, seen_at=now), forget_before=now - FORGOTTEN)

    async def _now(self) -> Instant:
        # a process lives in real time, also where its streams do not
        return read_wall_clock() if self._is_virtual else await self._engine.store.now()

    async def run(self) -> None:
        """Tell every few seconds, until cancelled; then that it has ended."""
        try:
            while True:
                await self._tell(self.beat)
                await asyncio.sleep(BEAT_S)
        finally:
            await self._tell(self.end)

    async def _tell(self, tell: Callable[[], Awaitable[None]]) -> None:
        try:
            await tell()
        except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
            self._report(Report("heartbeat_failed", "store", error))
