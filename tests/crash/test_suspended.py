"""A process that is stopped and goes on later, as a laptop's lid or a hypervisor may have it: it must not believe what
it knew before.

Real time is the subject here: leases of one second, and the five seconds after which PostgreSQL ends a transaction
whose process says nothing.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from betimes.testing.sample import GatePolicy
from tests.crash.fleet import Child, Fleet
from tests.crash.journal import Called, Failed, Journals
from tests.crash.perils import Peril, Point
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules
from tests.crash.workload import Workload

pytestmark = pytest.mark.crash

ONE_KNOCK = Workload(seed=1, commands=1, at_once=1, shared=0)
NOTHING = Workload(commands=0)
ONE_ROW_FOR_ALL = Rules(GatePolicy(cooldown_s=0, per_hour=1_000_000, tenant_per_hour=1_000_000), lease_s=1)
BUSY = Workload(seed=5, at_once=2, tenants=1, gates=20, pause_s=0.01)


async def test_a_call_whose_process_slept_past_its_lease_is_abandoned_and_never_made_again(
    place: Place, tmp_path: Path
) -> None:
    async with Fleet(place, tmp_path) as fleet:
        sleeper = await asleep_past_its_lease(fleet, "called")
        await sleeper.says("refused CLAIM_LOST")
        await fleet.drain()
    outcome = await reconcile(place, tmp_path, Rules())
    assert (outcome.admissions, outcome.abandoned, len(Journals(tmp_path).of(Called))) == (1, 1, 1)


async def test_a_call_whose_process_slept_past_its_lease_before_making_it_is_never_made(
    place: Place, tmp_path: Path
) -> None:
    async with Fleet(place, tmp_path) as fleet:
        await asleep_past_its_lease(fleet, "leased")
        await fleet.drain()
    outcome = await reconcile(place, tmp_path, Rules())
    assert (outcome.admissions, outcome.abandoned, len(Journals(tmp_path).of(Called))) == (1, 1, 0)


async def asleep_past_its_lease(fleet: Fleet, point: Point) -> Child:
    """A process that slept at a point of its only call until another one recorded it as abandoned."""
    sleeper = await fleet.start(load=ONE_KNOCK, peril=Peril(point, signal="SIGSTOP"))
    await sleeper.says(f"at {point}")
    await sleeper.stopped()
    [other] = await fleet.start_ready(load=NOTHING)
    await other.says("report call_abandoned")
    sleeper.send(signal.SIGCONT)
    return sleeper


@pytest.mark.postgres
@pytest.mark.parametrize("point", ["begun", "committing"])
async def test_postgresql_takes_the_locks_of_a_stopped_process_away(
    postgres: Place, tmp_path: Path, point: Point
) -> None:
    async with Fleet(postgres, tmp_path) as fleet:
        others = await fleet.start_ready(2, rules=ONE_ROW_FOR_ALL, load=BUSY)
        sleeper = await fleet.start(rules=ONE_ROW_FOR_ALL, load=BUSY, peril=Peril(point, nth=5, signal="SIGSTOP"))
        await sleeper.says(f"at {point}")
        await sleeper.stopped()
        stopped_s = time.monotonic()
        await asyncio.gather(*(child.says_more("answered", 10) for child in others))
        print(f"stopped at {point!r}: the others went on after {time.monotonic() - stopped_s:.1f} s")
        answered = sleeper.said["answered"]
        sleeper.send(signal.SIGCONT)
        await sleeper.says("answered", answered + 10)
        await fleet.drain()
    await reconcile(postgres, tmp_path, ONE_ROW_FOR_ALL)


async def test_sqlite_says_which_file_a_stopped_process_holds_and_others_go_on_when_it_does(
    sqlite_place: Place, tmp_path: Path
) -> None:
    async with Fleet(sqlite_place, tmp_path) as fleet:
        sleeper, other = await one_holds_the_file(fleet)
        for _ in range(2):  # whoever asks later is told no later
            await other.says_more("failed STORE_UNAVAILABLE", BUSY.at_once)
        sleeper.send(signal.SIGCONT)
        await asyncio.gather(other.says_more("answered", 10), sleeper.says_more("answered", 10))
        await fleet.drain()
    failures = [line for line in Journals(tmp_path, other.name).of(Failed) if line.code != "REFUSED"]
    assert {line.code for line in failures} == {"STORE_UNAVAILABLE"}
    assert all(sqlite_place.path in line.message and "try again" in line.message for line in failures)
    await reconcile(sqlite_place, tmp_path, ONE_ROW_FOR_ALL)


async def test_a_stopped_process_that_is_killed_lets_go_of_the_sqlite_file(sqlite_place: Place, tmp_path: Path) -> None:
    async with Fleet(sqlite_place, tmp_path) as fleet:
        sleeper, other = await one_holds_the_file(fleet)
        await sleeper.killed()
        await other.says_more("answered", 10)
        await fleet.drain()
    await reconcile(sqlite_place, tmp_path, ONE_ROW_FOR_ALL)


async def one_holds_the_file(fleet: Fleet) -> tuple[Child, Child]:
    """A process that was stopped inside a transaction, and one that wants to write."""
    [other] = await fleet.start_ready(rules=ONE_ROW_FOR_ALL, load=BUSY)
    sleeper = await fleet.start(rules=ONE_ROW_FOR_ALL, load=BUSY, peril=Peril("begun", nth=5, signal="SIGSTOP"))
    await sleeper.says("at begun")
    await sleeper.stopped()
    return sleeper, other
