"""In which thread a SQLite store commits: the event loop's own as long as that keeps nobody waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from betimes.core.errors import Conflict
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.engine.store import NOT_CACHED, Changes, LockRequest
from betimes.stores.sqlite import SqliteStore, connection
from betimes.stores.sqlite.connection import QUICK_COMMITS_MIN
from betimes.testing.conformance.samples import A, moved
from tests.stores.sqlite_files import move_a, opened, version_of_a

ENOUGH = QUICK_COMMITS_MIN + 1


class Watched:
    """A store whose commits take `commit_s` on the stopwatch and note whether they used this thread."""

    def __init__(self, store: SqliteStore, clock: list[float]) -> None:
        self.store = store
        self.commit_s = 0.0
        self.here: list[bool] = []
        self._clock = clock

    async def watch(self) -> None:
        async with self.store._turn() as writer:
            await writer.run(lambda connection: connection._raw.set_commit_hook(self._commit))

    def _commit(self) -> bool:
        self._clock[0] += self.commit_s
        self.here.append(threading.current_thread() is threading.main_thread())
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a stopwatch shows, which only commits move."""
    shown = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: shown[0])
    return shown


@asynccontextmanager
async def watched(path: Path, clock: list[float]) -> AsyncIterator[Watched]:
    async with opened(path) as store:
        watched = Watched(store, clock)
        await watched.watch()
        yield watched


async def test_commits_leave_the_thread_once_they_have_proved_quick(tmp_path: Path, clock: list[float]) -> None:
    async with watched(tmp_path / "betimes.db", clock) as its:
        for _ in range(ENOUGH):
            await move_a(its.store)
        assert its.here == [False] * QUICK_COMMITS_MIN + [True]
        assert await version_of_a(its.store) == ENOUGH


async def test_after_a_slow_commit_the_next_ones_are_the_threads(tmp_path: Path, clock: list[float]) -> None:
    async with watched(tmp_path / "betimes.db", clock) as its:
        for _ in range(ENOUGH):
            await move_a(its.store)
        its.commit_s = 0.01
        await move_a(its.store)
        its.commit_s, its.here = 0.0, []
        for _ in range(ENOUGH):
            await move_a(its.store)
        assert its.here == [False] * QUICK_COMMITS_MIN + [True]


async def test_many_rows_are_always_written_in_the_thread(tmp_path: Path, clock: list[float]) -> None:
    async with watched(tmp_path / "betimes.db", clock) as its:
        for _ in range(ENOUGH):
            await move_a(its.store)
        its.here = []
        streams = [A._replace(id=f"many-{number}") for number in range(20)]
        async with its.store.begin(LockRequest(dict.fromkeys(streams, NOT_CACHED))) as tx:
            await tx.commit(together(streams, tx.now))
        assert its.here == [False]


def together(streams: list[StreamId], now: Instant) -> Changes:
    changes = Changes()
    for stream in streams:
        one = moved(stream, 1, now)
        changes.streams += one.streams
        changes.segments += one.segments
    return changes


async def test_a_log_that_has_grown_is_moved_into_the_file_by_the_thread(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "betimes.db"
    async with watched(path, clock) as its:
        for _ in range(ENOUGH):
            await move_a(its.store)
        monkeypatch.setattr(connection, "CHECKPOINT_PAGES", 1)
        its.here = []
        assert version_in_the_file_alone(path) is None
        await move_a(its.store)
        assert its.here == [False]
        assert version_in_the_file_alone(path) == ENOUGH + 1


def version_in_the_file_alone(path: Path) -> int | None:
    """What a copy of the file has without its log."""
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    found: int | None = apsw.Connection(str(copy)).execute("SELECT version FROM stream WHERE id = ?", (A.id,)).get
    return found


async def test_a_commit_that_is_refused_here_leaves_nothing_behind(tmp_path: Path, clock: list[float]) -> None:
    async with watched(tmp_path / "betimes.db", clock) as its:
        for _ in range(ENOUGH):
            await move_a(its.store)
        with pytest.raises(Conflict):
            async with its.store.begin(LockRequest({A: NOT_CACHED})) as tx:
                await tx.commit(moved(A, 7, tx.now))
        assert await version_of_a(its.store) == ENOUGH
        await move_a(its.store)
        assert await version_of_a(its.store) == ENOUGH + 1
