"""The SQLite store on disks that do not sync, fill up, refuse and fail: what was acknowledged stays, no more."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from betimes.core.errors import Unavailable, Unknown, UnsafeDurability
from betimes.stores.sqlite import SqliteStore
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, B, locking, moved
from tests.stores.sqlite_files import move_a, opened, version_of_a


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "betimes.db"


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection the stores of a test make."""
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    yield made
    apsw.connection_hooks.remove(made.append)


async def test_every_commit_is_synced_to_the_disk(path: Path, connections: list[apsw.Connection]) -> None:
    async with opened(path) as store:
        await move_a(store)
        settings = {(made.pragma("journal_mode"), made.pragma("synchronous")) for made in connections[1:]}
    assert settings == {("wal", 2)}


async def test_relaxed_durability_syncs_the_log_less_often(path: Path, connections: list[apsw.Connection]) -> None:
    async with opened(path, durability="relaxed") as store:
        await move_a(store)
        assert {made.pragma("synchronous") for made in connections[1:]} == {1}


async def test_a_file_system_without_a_write_ahead_log_is_refused_unless_relaxed(path: Path) -> None:
    uri = f"file:{path}?vfs=unix-dotfile"
    with pytest.raises(UnsafeDurability, match=r"journal_mode=delete.*durability=relaxed"):
        await SqliteStore(uri).open()
    async with opened(uri, durability="relaxed") as store:
        await move_a(store)
        assert await version_of_a(store) == 1


async def test_a_full_database_refuses_and_works_again_when_there_is_room(
    path: Path, connections: list[apsw.Connection]
) -> None:
    async with opened(path) as store:
        await move_a(store)
        for made in connections[1:]:
            made.pragma("max_page_count", made.pragma("page_count"))
        large = moved(B, 1, 5, state='"' + "x" * 100_000 + '"')
        with pytest.raises(Unavailable, match=r"betimes\.db cannot grow: the disk is full; free some space"):
            await commit(store, large)
        assert await store.load([B]) == {}
        for made in connections[1:]:
            made.pragma("max_page_count", 1_000_000)
        await commit(store, large)
        assert len(await store.load([B])) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)


@pytest.mark.crash
async def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    async with opened(small_disk / "betimes.db") as store:
        acknowledged: list[int] = []

        async def fill() -> None:
            for version in range(1, 1_000):
                await commit(store, moved(A, version, 5, state='"' + "x" * 20_000 + '"'))
                acknowledged.append(version)

        with pytest.raises(Unavailable, match="free some space"):
            await fill()
        assert len(acknowledged) > 1
        assert await version_of_a(store) == acknowledged[-1]
        enlarge(small_disk)
        await move_a(store)
        assert await version_of_a(store) == acknowledged[-1] + 1


class Disk(apsw.VFS):
    """A disk that fails in the way it is told to."""

    def __init__(self) -> None:
        self.on_write: apsw.Error | None = None
        self.on_sync: apsw.Error | None = None
        super().__init__("failing", base="")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        if self.disk.on_write:
            raise self.disk.on_write
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.disk.on_sync:
            raise self.disk.on_sync
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (apsw.FullError("none left"), "cannot grow: the disk is full"),
        (apsw.ReadOnlyError("mounted so"), "cannot be written; make the file and its folder writable"),
    ],
)
async def test_a_write_the_disk_refuses_writes_nothing(
    path: Path, disk: Disk, failure: apsw.Error, message: str
) -> None:
    async with opened(f"file:{path}?vfs=failing") as store:
        await move_a(store)
        disk.on_write = failure
        with pytest.raises(Unavailable, match=message):
            await move_a(store)
        disk.on_write = None
        assert await version_of_a(store) == 1
        await move_a(store)
        assert await version_of_a(store) == 2


async def test_a_commit_whose_sync_fails_is_unknown_until_the_stream_is_locked_again(path: Path, disk: Disk) -> None:
    async with opened(f"file:{path}?vfs=failing") as store:
        await move_a(store)
        disk.on_sync = apsw.IOError("no answer")
        with pytest.raises(Unknown, match="under the same key"):
            await move_a(store)
        disk.on_sync = None
        async with store.begin(locking(A)) as tx:
            assert (await tx.turn_at(A, 2) is None) == (tx.rows[A].version == 1)
            await tx.commit(moved(A, tx.rows[A].version + 1, 5))
        row, segments = await store.history(A, 0, 10)
        assert row
        assert [segment.version for segment in segments] == list(range(1, row.version + 1))
