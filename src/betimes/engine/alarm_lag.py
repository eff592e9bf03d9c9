"""Alarm lag: how late alarms rang, counted by each process and added up in the store, hour by hour.

A segment does not say when its alarm was due, so this is counted where alarms ring: a batch notes how late each of its
wakes is, and once it is committed they are added here, to bounds that double or so. Every few seconds, and when it
closes, a process writes what it has counted since; a process that is killed loses the counts of those seconds, and
nothing else. Nobody who decides waits for any of it.

A wake counts from its alarm, or from the end of the hold that kept it; one that failed counts from its alarm too, when
it rings at last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from betimes.core.errors import BetimesError, Unavailable
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant
from betimes.engine.read_model import AlarmLagEntry
from betimes.engine.reports import Report, Reporter
from betimes.engine.store import Store

_MS = SECOND // 1_000
_SHORT_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000)
LAG_BOUNDS = (
    *(_MS * bound for bound in _SHORT_MS),
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY),
)
"""Upper bounds of what is counted together, in microseconds."""
LONGER = 36_500 * DAY
"""The bound of what was later than all others."""
KEPT = 2 * DAY
ENTRIES_MAX = 5_000
"""Written at once."""


class AlarmLagCounters:
    """The wakes that this process has committed, by how late they were."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LAG_BOUNDS) + 1)
        """Since the process started, up to each bound and beyond the last."""
        self.total_lag = 0
        self._unwritten: dict[tuple[str, Instant, int], list[int]] = {}
        """How many, and how late the latest was."""

    def count(self, rung: Iterable[tuple[str, Instant, int]]) -> None:
        """Count wakes that were committed: whose, when, and how late."""
        unwritten, counts = self._unwritten, self.counts
        for tenant, at, lag in rung:
            place = bisect_left(LAG_BOUNDS, lag)
            counts[place] += 1
            self.total_lag += lag
            name = (tenant, at - at % HOUR, place)
            found = unwritten.get(name)
            if found is None:
                unwritten[name] = [1, lag]
                continue
            found[0] += 1
            if lag > found[1]:
                found[1] = lag

    def unwritten(self, tenant: str) -> list[AlarmLagEntry]:
        """Return what is counted of a tenant and not yet in the store."""
        return [_entry(name, counted) for name, counted in self._unwritten.items() if name[0] == tenant]

    async def write(self, store: Store) -> None:
        """Add to the store what was counted since; what surely was not written is kept for the next time."""
        while names := list(islice(self._unwritten, ENTRIES_MAX)):
            forget_before = await store.now() - KEPT
            taken = {name: self._unwritten.pop(name) for name in names}
            try:
                await store.add_alarm_lags([_entry(*one) for one in taken.items()], forget_before=forget_before)
            except Unavailable:
                for name, (total, most) in taken.items():
                    if name[1] < forget_before:
                        continue
                    since_total, since_most = self._unwritten.get(name, (0, 0))
                    self._unwritten[name] = [total + since_total, max(most, since_most)]
                raise

    async def write_rest(self, store: Store, report: Reporter) -> None:
        """Write for the last time; what cannot be written is reported, and lost."""
        try:
            await self.write(store)
        except BetimesError as error:
            report(Report("alarm_lag_failed", "store", error))


def _entry(name: tuple[str, Instant, int], counted: list[int]) -> AlarmLagEntry:
    tenant, at, place = name
    return AlarmLagEntry(tenant, at, LAG_BOUNDS[place] if place < len(LAG_BOUNDS) else LONGER, *counted)
