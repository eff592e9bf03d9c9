"""What is particular to the SQLite store: one file, shared by processes that take turns."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from betimes.core.errors import MalformedRow, NewerVersion, Unavailable, UnsafeDurability
from betimes.engine.store import Changes, LockRequest, Reached, Store
from betimes.stores.sqlite import SqliteStore, connection
from betimes.stores.sqlite.migrations import known_migrations
from betimes.stores.sqlite.queries import query
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import KIND, A, B, locking, moved, stream, together
from tests.patience import HANGS_S
from tests.stores.sqlite_files import move_a, opened, version_of_a

PROCESSES = 6
INCREMENTS = 15
TURNS = PROCESSES * INCREMENTS
DIARY = b"my diary\n" * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "betimes.db"


def content(path: Path) -> bytes:
    return path.read_bytes()


def replace_content(path: Path, bytes: bytes) -> None:
    path.write_bytes(bytes)


WORKER = f"""
import asyncio, sys
from betimes.stores.sqlite import SqliteStore
from betimes.testing.conformance.samples import A, moved, waiting

async def work():
    store = SqliteStore(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    for _ in range({INCREMENTS}):
        async with store.begin(waiting(A)) as tx:
            await tx.commit(moved(A, tx.rows[A].version + 1, tx.now))
    await store.close()

asyncio.run(work())
"""


@pytest.mark.crash
def test_processes_that_start_together_on_a_new_file_all_work(path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    failures = [errors for worker in workers if (errors := worker.communicate(timeout=HANGS_S)[1])]
    assert failures == []
    with sqlite3.connect(path) as shell:
        assert shell.execute("SELECT version FROM stream").fetchall() == [(TURNS,)]
        assert shell.execute("SELECT count(*), count(DISTINCT version) FROM ledger").fetchone() == (TURNS, TURNS)
        applied = shell.execute("SELECT number, name FROM migration ORDER BY number").fetchall()
        assert applied == [(known.number, known.name) for known in known_migrations()]
    shell.close()


async def test_whoever_takes_all_that_is_due_gets_what_lies_together(path: Path) -> None:
    """In the order in which streams were made, from where it has come, and from the first on after the last."""
    async with opened(path) as store:
        now = await store.now()
        made = [stream(f"s{n * 5 % 32:02}") for n in range(32)]
        for place, of in enumerate(made):
            await commit(store, moved(of, 1, 0, due_at=now - place * 11 % 32))
        for last, expected in ((10, made[11:15]), (29, [*made[30:], *made[:2]])):
            async with store.begin_due("due", [KIND], 4, after=Reached(now, made[last])) as tx:
                assert list(tx.rows) == expected


class WatchedFiles(apsw.VFS):
    """The files that SQLite opens, noting the journals by which it could undo one statement."""

    def __init__(self) -> None:
        super().__init__("watched", "")
        self.journal_count = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 — apsw's
        self.journal_count += bool(flags[0] & apsw.SQLITE_OPEN_SUBJOURNAL)
        return super().xOpen(name, flags)


async def test_a_batch_of_new_streams_writes_no_file_to_undo_its_statements(path: Path) -> None:
    files = WatchedFiles()
    async with opened(f"file:{path}?vfs=watched") as store:
        files.journal_count = 0  # of the migrations
        for batch in range(8):
            # In no order that pages keep together, so that each batch changes many.
            made = [stream(f"s{n * 7_919 % 2_048:04}" * 20) for n in range(batch * 256, batch * 256 + 256)]
            await commit(store, together(*(moved(of, 1, 0) for of in made)))
    assert files.journal_count == 0


async def test_a_new_file_has_large_pages_and_one_that_is_there_keeps_its_own(path: Path) -> None:
    small = path.with_name("small.db")
    made = apsw.Connection(str(small))
    made.execute("PRAGMA page_size = 1024; CREATE TABLE diary (entry); DROP TABLE diary")
    made.close()
    for file, expected in ((path, connection.PAGE_BYTES), (small, 1_024)):
        async with opened(file) as store:
            await move_a(store)
        shell = apsw.Connection(str(file))
        assert shell.pragma("page_size") == expected
        shell.close()


async def test_the_file_can_be_read_with_the_shell_of_sqlite(path: Path) -> None:
    async with opened(path) as store:
        await commit(store, moved(A, 1, 5, status="open", owner="u-1", alarm_at=7))
    assert [file.name for file in path.parent.iterdir()] == ["betimes.db"], "closing moves the log into the file"
    with sqlite3.connect(path) as shell:
        found = shell.execute("SELECT tenant, kind, id, state, owner, wake_at, state ->> 'n' FROM stream").fetchone()
        assert found == (*A, '{"n":1}', "u-1", 7, 1)
        events = shell.execute("SELECT events ->> '$[0].type' FROM ledger").fetchone()
        assert events == ("Done",)
    shell.close()


@pytest.mark.parametrize("place", ["", ":memory:"])
async def test_a_store_without_a_file_is_refused(place: str) -> None:
    with pytest.raises(UnsafeDurability, match=r"betimes\.stores\.memory"):
        await SqliteStore(place, durability="relaxed").open()


async def test_a_store_is_used_only_while_it_is_open(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(Unavailable, match="not open"):
        await store.load([A])
    await store.open()
    await store.open()
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="not open"):
        async with store.begin(locking(A)):
            pass


async def test_a_database_with_a_newer_migration_is_refused(path: Path) -> None:
    async with opened(path):
        pass
    with sqlite3.connect(path) as shell:
        shell.execute("INSERT INTO migration VALUES (?, 'later', 'x', 0)", [len(known_migrations()) + 1])
    shell.close()
    known = len(known_migrations())
    with pytest.raises(NewerVersion, match=rf"betimes\.db has migration {known + 1}, this betimes knows {known}"):
        await SqliteStore(path).open()


async def test_a_process_older_than_segments_by_row_takes_no_calls_and_lets_no_wake_rest(path: Path) -> None:
    """It has the file open while a newer one migrates it, and could not settle what it takes."""
    with sqlite3.connect(path) as older:
        for migration in known_migrations()[:9]:
            older.executescript(migration.text)
        older.execute(query("create_migrations"))
        applied = [(one.number, one.name, one.checksum, 0) for one in known_migrations()[:9]]
        older.executemany("INSERT INTO migration VALUES (?, ?, ?, ?)", applied)
        statements = (
            "UPDATE effect SET status = 'leased', fence = fence + 1, next_attempt_at = 0 + lease_s * 1000000",
            "UPDATE stream SET snooze_until = 1, snooze_error = 'it failed'",
        )
        for statement in statements:
            older.execute(statement)
    async with opened(path):
        pass
    for statement in statements:
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            older.execute(statement)
    older.close()


async def test_a_database_made_with_another_schema_is_refused(path: Path) -> None:
    async with opened(path):
        pass
    with sqlite3.connect(path) as shell:
        shell.execute("UPDATE migration SET checksum = 'x'")
    shell.close()
    with pytest.raises(NewerVersion, match=r"another 0001_initial\.sql"):
        await SqliteStore(path).open()


async def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    replace_content(path, DIARY)
    with pytest.raises(MalformedRow, match=r"betimes\.db is not a readable SQLite database"):
        await SqliteStore(path).open()
    assert content(path) == DIARY


async def test_a_folder_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(Unavailable, match=r"nowhere/betimes\.db cannot be opened; check that its folder"):
        await SqliteStore(path.parent / "nowhere" / path.name).open()


async def test_a_read_only_file_is_named(path: Path) -> None:
    async with opened(path):
        pass
    with pytest.raises(Unavailable, match="read-only; make the file and its folder writable"):
        await SqliteStore(f"file:{path}?mode=ro").open()


async def test_a_damaged_file_is_reported_and_a_restored_one_works_again(path: Path) -> None:
    async with opened(path) as store:
        await commit(store, together(*(moved(stream(f"s{n}"), 1, 5, state='"' + "x" * 900 + '"') for n in range(200))))
    whole = content(path)
    async with opened(path) as store:
        replace_content(path, whole[:4096] + b"\xff" * (len(whole) - 4096))
        with pytest.raises(MalformedRow, match="restore the file from a backup"):
            await store.load([stream(f"s{n}") for n in range(200)])
        with pytest.raises(MalformedRow, match="restore the file from a backup"):
            await move_a(store)
        replace_content(path, whole)
        assert len(await store.load([stream(f"s{n}") for n in range(200)])) == 200


@pytest.fixture
def holder(path: Path) -> Iterator[apsw.Connection]:
    """Somebody else with the file open."""
    other = apsw.Connection(str(path))
    yield other
    other.close(True)


async def test_a_lock_held_too_long_is_reported(
    path: Path, holder: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_S", 0.02)
    async with opened(path) as store:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match=r"betimes\.db was locked by another process"):
            await move_a(store)
        assert await version_of_a(store) == 0, "reading does not wait"
        holder.execute("ROLLBACK")
        await move_a(store)


async def test_a_lock_that_is_given_back_is_waited_for(path: Path, holder: apsw.Connection) -> None:
    async with opened(path) as store:
        holder.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(move_a(store))
        for _ in range(20):
            await store.policy("none")
        assert not waiting.done()
        holder.execute("ROLLBACK")
        await waiting
        assert await version_of_a(store) == 1


async def test_one_cancelled_while_another_process_holds_the_lock_leaves_at_once(
    path: Path, holder: apsw.Connection
) -> None:
    async with opened(path) as store:
        holder.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(move_a(store))
        for _ in range(20):
            await store.policy("none")
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        holder.execute("ROLLBACK")
        await move_a(store)


@pytest.mark.parametrize("steps", range(12))
async def test_a_transaction_cancelled_at_any_step_leaves_the_writer_usable(path: Path, steps: int) -> None:
    async def work(store: Store) -> None:
        async with store.begin(locking(A)) as tx:
            await tx.extend(locking(B))
            await tx.commit(moved(A, 1, 5))

    async with opened(path) as store:
        task = asyncio.create_task(work(store))
        for _ in range(steps):
            await asyncio.sleep(0)
            await store.policy("none")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        async with store.begin(locking(A)) as tx:
            await tx.commit(moved(A, tx.rows[A].version + 1, 5))


async def test_transactions_of_one_process_take_turns_in_order(path: Path) -> None:
    served: list[int] = []

    async def serve(number: int, store: Store) -> None:
        async with store.begin(LockRequest()):
            served.append(number)
            await store.policy("none")

    async with opened(path) as store:
        await asyncio.gather(*(serve(number, store) for number in range(20)))
    assert served == list(range(20))


async def test_a_transaction_that_ended_cannot_be_used_again(path: Path) -> None:
    async with opened(path) as store, store.begin(locking(A)) as tx:
        await tx.commit(moved(A, 1, 5))
        with pytest.raises(RuntimeError, match="has ended"):
            await tx.commit(Changes())
