"""How late alarms rang: counted where they ring, once they are committed, and added up by all processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from betimes.core.errors import Unavailable, Unknown
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant
from betimes.engine.alarm_lag import ENTRIES_MAX, KEPT, LAG_BOUNDS, LONGER, AlarmLagCounters
from betimes.engine.read_model import AlarmLagEntry
from betimes.engine.reports import Report
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import MemoryStore
from betimes.testing.sample import Shut
from tests.engine.worlds import World, world
from tests.stores.backends import Backend


async def postpone(w: World) -> None:
    """Leave a visitor at the gate who waits for an alarm in a minute."""
    await w.knock("ann")
    await w.knock("bob")


async def stored(w: World) -> list[AlarmLagEntry]:
    return await w.store.alarm_lags("acme", 0, w.clock() + HOUR)


async def test_a_wake_counts_by_how_late_it_is_and_processes_add_up(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await postpone(w)
        w.clock.advance(63)
        hour = w.clock() // HOUR * HOUR
        await w.engine.tick()
        assert w.engine.alarm_lag.unwritten("acme") == [AlarmLagEntry("acme", hour, 5 * SECOND, 1, 3 * SECOND)]
        await w.engine.alarm_lag.write(w.store)
        assert w.engine.alarm_lag.unwritten("acme") == []
        await w.knock("cid")
        w.clock.advance(64)
        await w.other.tick()
        await w.other.alarm_lag.write(w.other.store)
        assert sum(entry.total for entry in await stored(w)) == 2
        assert max(entry.most for entry in await stored(w)) == 4 * SECOND


async def test_an_alarm_that_rings_ahead_of_a_command_counts_and_a_command_does_not(
    backend: Backend, tmp_path: Path
) -> None:
    async with world(backend, tmp_path) as w:
        await postpone(w)
        w.clock.advance(60 + 3_000)
        await w.knock("cid")
        [entry] = w.engine.alarm_lag.unwritten("acme")
        assert (entry.total, entry.most) == (1, 3_000 * SECOND)
        await w.submit(Shut())
        assert sum(w.engine.alarm_lag.counts) == 1


async def test_what_was_counted_outlives_the_process(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        await postpone(w)
        w.clock.advance(61)
        await w.other.tick()
        await w.other.close()
        assert [(entry.total, entry.most) for entry in await stored(w)] == [(1, SECOND)]


class FailingStore(MemoryStore):
    """A store that fails once, while another alarm rings."""

    def __init__(self, counters: AlarmLagCounters) -> None:
        super().__init__(VirtualClock(DAY))
        self.counters = counters
        self.failure: Exception | None = None

    async def add_alarm_lags(self, entries: Sequence[AlarmLagEntry], *, forget_before: Instant) -> None:
        if self.failure:
            self.counters.count([("acme", HOUR, 5)])
            raise self.failure
        await super().add_alarm_lags(entries, forget_before=forget_before)


async def test_what_was_not_written_is_kept_and_what_may_have_been_is_not_counted_twice() -> None:
    counters = AlarmLagCounters()
    store = FailingStore(counters)
    counters.count([("acme", HOUR, 3)])
    store.failure = Unavailable("the disk is full")
    with pytest.raises(Unavailable):
        await counters.write(store)
    assert [(entry.total, entry.most) for entry in counters.unwritten("acme")] == [(2, 5)]
    store.failure = Unknown("the connection was lost")
    with pytest.raises(Unknown):
        await counters.write(store)
    assert [(entry.total, entry.most) for entry in counters.unwritten("acme")] == [(1, 5)]
    reports: list[Report] = []
    await counters.write_rest(store, reports.append)
    assert [report.what for report in reports] == ["alarm_lag_failed"]
    store.failure = None
    await counters.write(store)
    assert [entry.total for entry in await store.alarm_lags("acme", 0, DAY)] == [1]


async def test_very_many_tenants_are_written_in_parts_and_the_bounds_cover_everything() -> None:
    store, counters = MemoryStore(VirtualClock(DAY)), AlarmLagCounters()
    counters.count((f"t{number}", HOUR, 0) for number in range(ENTRIES_MAX + 1))
    counters.count(("acme", HOUR, lag) for lag in (0, LAG_BOUNDS[0], LAG_BOUNDS[0] + 1, MINUTE, LAG_BOUNDS[-1] + 1))
    await counters.write(store)
    assert [entry.total for entry in await store.alarm_lags(f"t{ENTRIES_MAX}", 0, DAY)] == [1]
    found = {entry.bound: entry.total for entry in await store.alarm_lags("acme", 0, DAY)}
    assert found == {LAG_BOUNDS[0]: 2, LAG_BOUNDS[1]: 1, MINUTE: 1, LONGER: 1}
    assert list(LAG_BOUNDS) == sorted(LAG_BOUNDS)
    assert KEPT >= DAY
