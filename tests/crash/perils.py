"""Named points at which a process kills or stops itself: a thin cover over its store.

The points lie in the tests, not in the engine: whatever the engine does goes through its store, so the instants
before and after each of the store's steps are all the instants that matter to whoever comes after.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, TypeAlias, cast

import msgspec

from betimes.core.errors import StoreError
from betimes.core.instants import Instant
from betimes.engine.store import Changes, DueIndex, Lease, LockRequest, Presumes, Reached, Store, Tx

Point: TypeAlias = Literal[
    "begun",
    "writing",
    "written",
    "picked",
    "waking",
    "woken",
    "sending",
    "sent",
    "leased",
    "called",
    "settling",
    "settled",
    "committing",
    "committed",
]
"""Of a command that is asked for: its streams are locked; of any, before and after its commit. Of an alarm: due streams
are locked; before and after its commit. Of a command to another stream: before and after its commit. Of a call: after
the lease, after the call, before and after the commit that settles it. Of any commit on PostgreSQL that was asked for:
everything is written, before and after COMMIT itself."""


NOTHING = LockRequest()


class Peril(msgspec.Struct, frozen=True):
    """What happens at a point when it is reached for the nth time."""

    point: Point
    nth: int = 1
    signal: Literal["SIGKILL", "SIGSTOP"] = "SIGKILL"


class Perils:
    """Counts how often points are reached and acts on the one that was ordered; `say` is told first."""

    def __init__(self, peril: Peril | None, say: Callable[[str], None]) -> None:
        self._peril = peril
        self._reached: Counter[Point] = Counter()
        self.say = say

    def reach(self, point: Point) -> None:
        self._reached[point] += 1
        if self._peril and (self._peril.point, self._peril.nth) == (point, self._reached[point]):
            self.say(f"at {point}")
            os.kill(os.getpid(), getattr(signal, self._peril.signal))


class PerilousTx:
    """A transaction whose commit passes points; `say` is told of refusals."""

    def __init__(self, tx: Tx, perils: Perils, *, is_due: bool) -> None:
        self._tx = tx
        self._perils = perils
        self._is_due = is_due
        session = getattr(tx, "_session", None)
        if session is not None:
            session.commit = self._around(session.commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def commit(self, changes: Changes) -> None:
        points = list(_points(changes, self._is_due))
        for before, _ in points:
            self._perils.reach(before)
        try:
            await self._tx.commit(changes)
        except StoreError as error:
            self._perils.say(f"refused {error.code}")
            raise
        for _, after in points:
            self._perils.reach(after)

    def _around(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        async def committed(*last: str) -> None:
            self._perils.reach("committing")
            await commit(*last)
            self._perils.reach("committed")

        return committed


def _points(changes: Changes, is_due: bool) -> list[tuple[Point, Point]]:
    passed: list[tuple[bool, tuple[Point, Point]]] = [
        (is_due, ("waking", "woken")),
        (bool(changes.keys), ("writing", "written")),
        (bool(changes.sends_applied), ("sending", "sent")),
        (bool(changes.settlements), ("settling", "settled")),
    ]
    return [points for applies, points in passed if applies]


class PerilousStore:
    """Everything a store does, with points around it."""

    def __init__(self, store: Store, perils: Perils) -> None:
        self._store = store
        self._perils = perils

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def begin(self, ask: LockRequest) -> AbstractAsyncContextManager[Tx]:
        return self._watched(self._store.begin(ask), "begun" if ask.keys else None, ask)

    def presume(self, ask: LockRequest) -> AbstractAsyncContextManager[Tx] | None:
        begin = self._store.presume(ask) if isinstance(self._store, Presumes) else None
        return begin and self._watched(begin, None)

    def begin_due(
        self,
        index: DueIndex,
        kinds: Sequence[str],
        limit: int,
        *,
        after: Reached | None = None,
        until_at: Instant | None = None,
        tenant: str | None = None,
        shares: Mapping[str, int] | None = None,
    ) -> AbstractAsyncContextManager[Tx]:
        begin = self._store.begin_due(index, kinds, limit, after=after, until_at=until_at, tenant=tenant, shares=shares)
        return self._watched(begin, "picked")

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        leases = await self._store.lease_calls(executors, limit, shares=shares)
        if leases:
            self._perils.reach("leased")
        return leases

    @asynccontextmanager
    async def _watched(
        self, begin: AbstractAsyncContextManager[Tx], point: Point | None, ask: LockRequest = NOTHING
    ) -> AsyncIterator[Tx]:
        async with begin as tx:
            held = tx.rows.keys() | tx.unchanged
            if point and held and held >= ask.locks.keys():
                self._perils.reach(point)
            yield cast(Tx, PerilousTx(tx, self._perils, is_due=point == "picked"))


def perilous(store: Store, perils: Perils) -> Store:
    return cast(Store, PerilousStore(store, perils))
