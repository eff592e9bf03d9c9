"""One connection to the file: how it is opened, how long it waits for a lock, and how named queries run on it.

Everything here is called from the connection's own thread.
"""

from __future__ import annotations

import codecs
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import apsw
import msgspec

from betimes.core.errors import DamagedStore, Unavailable, UnsafeDurability
from betimes.stores.sqlite.failures import LOCK_TIMEOUT_S, translated_commit
from betimes.stores.sqlite.queries import ALIKE_ROWS_MAX, chunks, query, query_for

Durability: TypeAlias = Literal["full", "relaxed"]
Bindings: TypeAlias = Mapping[str, Any]
_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Any)

STATEMENTS_KEPT = 256
CACHE_KIB = 64 * 1024
PAGE_BYTES = 8_192
"""The size of a page of a new file; one that is there keeps its own. With 4 KiB a batch writes twice as many pages."""
CHECKPOINT_PAGES = 8_000
"""Pages in the log before a commit moves them into the file: 64 MiB, so a hot page is moved once for many writes."""
LOG_PAGES_MAX = 4 * CHECKPOINT_PAGES
"""Pages at which a commit waits for the others, so that the log starts over. Moving pages without waiting never comes
to the end while other processes write, and then the log only grows."""
START_OVER_WAIT_MS = 200

QUICK_COMMIT_S = 0.002
QUICK_COMMITS_MIN = 16
"""After so many quick commits in a row the next one is trusted to be quick as well."""

# SQLite's own busy time-out backs off to pauses of 100 ms, many times as long as a commit holds the lock.
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.0002, 0.001
_AFTER_WAITING_IN_VAIN = 0.1
_SYNCHRONOUS = {"full": ("FULL", 2), "relaxed": ("NORMAL", 1)}


def _spell_bytes(error: UnicodeError) -> tuple[str, int]:
    """Spell bytes as `\\xff`, escaped for JSON text in a JSON document: no JSON of its own once it is unwrapped."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(rf"\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end


_SPELT = "betimes-spelt-bytes"
codecs.register_error(_SPELT, _spell_bytes)


class Patience:
    """The busy handler: short random pauses, which starve nobody, until time is up or whoever waits has gone.

    Everything a process writes goes through one connection. After a wait in vain the next ones are short until one has
    been worth it: else each would wait its full time behind the others, and nobody would hear for a long time that the
    file is held.
    """

    def __init__(self) -> None:
        self.given_up = False
        self._until_s = 0.0
        self.wait_s = LOCK_TIMEOUT_S
        """How long the next wait may last; it is reset when the lock is taken."""

    def __call__(self, pauses: int) -> bool:
        if pauses == 0:
            self._until_s = time.monotonic() + self.wait_s
        if self.given_up:
            return False
        if time.monotonic() >= self._until_s:
            self.wait_s = LOCK_TIMEOUT_S * _AFTER_WAITING_IN_VAIN
            return False
        time.sleep(random.uniform(_PAUSE_MIN_S, _PAUSE_MAX_S))
        return True


class Connection:
    """An open connection and its prepared statements."""

    def __init__(
        self, path: str, durability: Durability, *, create: bool = False, temp_in_memory: bool = False
    ) -> None:
        # Only whoever migrates may create the file: a reader or writer that made an empty one would hide that it is
        # gone.
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_CREATE if create else 0)
        self.path = path
        self.patience = Patience()
        self.is_hurried = False
        """Whether it runs on a caller's thread: then it never waits and leaves the log as it is."""
        self._log_pages = 0
        self._quick_commits = 0
        self._start_over_at = LOG_PAGES_MAX
        if create:
            _make_private(path)
        self._raw = apsw.Connection(path, flags=flags, statementcachesize=STATEMENTS_KEPT)
        self.last_number = self._raw.last_insert_rowid
        """Returns the number of the row that was inserted last."""
        try:
            self._raw.set_busy_handler(self.patience)
            if create:
                self._raw.pragma("page_size", PAGE_BYTES)
            self._prepare(durability)
            if temp_in_memory:
                self._raw.pragma("temp_store", "MEMORY")
        except BaseException:
            self._raw.close(True)
            raise

    def _prepare(self, durability: Durability) -> None:
        # SQLite opens a file that cannot be written all the same, for reading only, and says so at the first write.
        if self._raw.readonly("main"):
            raise Unavailable(f"{self.path} is read-only; make the file and its folder writable and try again")
        mode = self._write_ahead()
        setting, expected = _SYNCHRONOUS[durability]
        self._raw.pragma("synchronous", setting)
        # Read back, because a pragma that cannot be followed is no error.
        synchronous = self._raw.pragma("synchronous")
        if durability == "full" and (mode, synchronous) != ("wal", expected):
            raise UnsafeDurability(
                f"{self.path} runs with journal_mode={mode} and synchronous={synchronous} instead of wal and "
                f"{expected}; keep it on a local disk that supports SQLite's WAL, or ask for durability=relaxed"
            )
        # A negative size is in KiB, a positive one in pages.
        self._raw.pragma("cache_size", -CACHE_KIB)
        self._raw.set_wal_hook(self._note_commit)

    def _note_commit(self, _: apsw.Connection, __: str, pages: int) -> int:
        """Told after each commit how long the log is. The commit stands, whatever becomes of this."""
        self._log_pages = pages
        if pages < CHECKPOINT_PAGES or self.is_hurried:
            return apsw.SQLITE_OK
        try:
            if pages < self._start_over_at:
                self.checkpoint()
            else:
                self._start_over()
                self._start_over_at = LOG_PAGES_MAX
        except apsw.Error:
            if pages >= self._start_over_at:
                self._start_over_at = 2 * pages  # somebody holds it for long; not every commit should wait for that
        return apsw.SQLITE_OK

    def _start_over(self) -> None:
        """Checkpoint the whole log into the file, waiting for readers and writers, so that it starts over."""
        # This takes the place of the busy handler, which may wait far longer, until it is put back.
        self._raw.set_busy_timeout(START_OVER_WAIT_MS)
        try:
            self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        finally:
            self._raw.set_busy_handler(self.patience)

    def _write_ahead(self) -> str:
        """Switch the file to its write-ahead log; SQLite does not call the busy handler for this."""
        pauses = 0
        while True:
            try:
                return str(self._raw.pragma("journal_mode", "wal"))
            except apsw.BusyError:
                if not self.patience(pauses):
                    raise
                pauses += 1

    def close(self) -> None:
        self._raw.close(True)

    def checkpoint(self) -> None:
        """Move the log into the file, as far as that is possible without waiting."""
        self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    @property
    def commits_quickly(self) -> bool:
        """Return whether the next commit will most likely take a fraction of a millisecond."""
        return self._quick_commits >= QUICK_COMMITS_MIN and self._log_pages < CHECKPOINT_PAGES

    @property
    def filename(self) -> str:
        """The file itself, where the path is a URI."""
        return self._raw.filename

    @property
    def free_pages(self) -> int:
        """Return how many pages may still be written: those that are free, and those the file may grow by."""
        most, count, free = (self._raw.pragma(name) for name in ("max_page_count", "page_count", "freelist_count"))
        return int(most - count + free)

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def begin(self) -> None:
        """Take the write lock, waiting until it is free."""
        # A deferred transaction that has read cannot wait for the write lock: if anybody wrote meanwhile, it fails at
        # once.
        self._raw.execute("BEGIN IMMEDIATE")
        self.patience.wait_s = LOCK_TIMEOUT_S

    def begin_snapshot(self) -> None:
        self._raw.execute("BEGIN")

    def commit(self) -> None:
        started_s = time.perf_counter()
        try:
            self._raw.execute("COMMIT")
        except apsw.Error as error:
            raise translated_commit(error, self.path) from error
        is_quick = time.perf_counter() - started_s < QUICK_COMMIT_S
        self._quick_commits = self._quick_commits + 1 if is_quick else 0

    def rollback(self) -> None:
        # After a statement with OR ROLLBACK has failed there is nothing left to roll back.
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def run_script(self, text: str) -> None:
        """Run statements that return no rows, one after the other."""
        for _ in self._raw.execute(text):
            pass

    def value(self, name: str, bindings: Bindings) -> Any:
        """The first column of the first row, or `None`."""
        given = frozenset(key for key, bound in bindings.items() if bound is not None)
        return self._raw.execute(query(name, given), bindings).get

    def json(self, name: str, bindings: Bindings, decoder: msgspec.json.Decoder[Any] = _ANYTHING) -> Any:
        """The JSON document a query returns, decoded."""
        given = frozenset(key for key, bound in bindings.items() if bound is not None)
        return self._read(query(name, given), bindings, decoder)

    def change(self, name: str, bindings: Bindings) -> int:
        """Run a statement that writes; how many rows it changed."""
        self._raw.execute(query(name), bindings)
        return self._raw.changes()

    def json_of_rows(self, name: str, rows: Sequence[Sequence[Any]], *last: Any) -> list[Any]:
        """The JSON arrays a query returns for rows it is given, as one list."""
        found: list[Any] = []
        for start, size in chunks(len(rows)):
            bound = (*chain.from_iterable(rows[start : start + size]), *last)
            found += self._read(query_for(name, size), bound)
        return found

    def change_rows(self, name: str, rows: Sequence[Sequence[Any]], *last: Any) -> int:
        """Run a statement that writes the rows it is given; how many rows it changed."""
        changed = 0
        for start, size in chunks(len(rows)):
            bound = (*chain.from_iterable(rows[start : start + size]), *last)
            self._raw.execute(query_for(name, size), bound)
            changed += self._raw.changes()
        return changed

    def change_alike(self, name: str, shared: Sequence[Any], rows: Sequence[Sequence[Any]]) -> int:
        """The same for rows with values in common, which are bound once."""
        changed = 0
        for start, size in chunks(len(rows), ALIKE_ROWS_MAX):
            bound = (*shared, *chain.from_iterable(rows[start : start + size]))
            self._raw.execute(query_for(name, size), bound)
            changed += self._raw.changes()
        return changed

    def _read(self, statement: str, bindings: Any, decoder: msgspec.json.Decoder[Any] = _ANYTHING) -> Any:
        """Decode what a query returns, with bytes that are not UTF-8 spelt out: they damage their own row alone."""
        try:
            text = self._raw.execute(statement, bindings).get
        except UnicodeDecodeError:
            raw = self._raw.execute(f"SELECT CAST(({statement}) AS BLOB)", bindings).get
            text = raw.decode(errors=_SPELT)
        try:
            return decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise DamagedStore(f"{self.path} holds text that cannot be read: {error}; run `verify`") from error


def _make_private(path: str) -> None:
    """Make a file that is not there for its owner alone, since it will hold secrets; its log gets the same mode."""
    name = unquote(urlsplit(path).path) if path.startswith("file:") else path
    with suppress(OSError):  # one that is there keeps its mode; what else is wrong with the path SQLite tells better
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
