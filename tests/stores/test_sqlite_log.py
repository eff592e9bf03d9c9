"""SQLite's write-ahead log stays bounded, also when somebody always reads or writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from betimes.stores.sqlite import connection as connections
from betimes.stores.sqlite.connection import Connection

PAGE_BYTES = 4_096
READERS = 3
READING_S = 0.01
"""How long each of several overlapping reads lasts, so that there is always one under way."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CHECKPOINT_PAGES", 50)
    monkeypatch.setattr(connections, "LOG_PAGES_MAX", 200)


@contextmanager
def always_read(path: Path) -> Iterator[None]:
    """Reads that overlap, so that there is no instant without one."""
    ended = threading.Event()

    def read(number: int) -> None:
        raw = apsw.Connection(str(path))
        time.sleep(number * READING_S / READERS)
        while not ended.is_set():
            with raw:
                list(raw.execute("SELECT count(*) FROM t"))
                time.sleep(READING_S)
        raw.close()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def write(connection: Connection, commits: int) -> None:
    for _ in range(commits):
        connection.begin()
        connection.run_script("INSERT INTO t VALUES (zeroblob(8000))")
        connection.commit()


def log_pages(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size // PAGE_BYTES


@pytest.mark.usefixtures("small")
def test_the_log_starts_over_though_somebody_always_reads(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    connection = Connection(str(path), "relaxed", create=True)
    connection.run_script("CREATE TABLE t (x)")
    commits = 3_000
    with always_read(path):
        write(connection, commits)
    assert log_pages(path) < commits  # each writes three pages
    connection.close()


@pytest.mark.usefixtures("small")
def test_a_read_that_does_not_end_holds_up_only_few_commits(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    connection = Connection(str(path), "relaxed", create=True)
    connection.run_script("CREATE TABLE t (x)")
    holder = apsw.Connection(str(path))
    with holder:
        list(holder.execute("SELECT count(*) FROM t"))
        write(connection, 400)
        assert log_pages(path) > 800  # nothing was lost, and it was not waited for at every commit
    grown = log_pages(path)
    write(connection, 2_000)
    assert log_pages(path) < 3 * grown
    connection.close()
