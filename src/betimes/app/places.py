"""Database URLs: `sqlite:///betimes.db`, `postgresql://…`, `memory://`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from betimes.core.errors import Invalid, NotFound
from betimes.core.instants import Instant
from betimes.core.names import spell_name
from betimes.engine.store import Store

Clock = Callable[[], Instant]


def store_at(url: str, clock: Clock | None = None) -> Store:
    """The store a URL names; `clock` takes the place of the store's own time, and then only one process may use it."""
    _check_clock(clock)
    scheme, found, rest = url.partition("://")
    if not found:
        raise Invalid(f"{url!r} is not a database URL; say sqlite:///betimes.db, postgresql://… or memory://")
    if scheme == "sqlite":
        return _sqlite(rest.removeprefix("/"), clock)
    if scheme in ("postgresql", "postgres"):
        from betimes.stores.postgres import PostgresStore

        return PostgresStore(url, clock=clock)
    if scheme == "memory":
        from betimes.stores.memory import MemoryStore

        return MemoryStore(clock or system_clock)
    raise Invalid(f"there is no store for {scheme}://; say sqlite:///betimes.db, postgresql://… or memory://")


def _check_clock(clock: object) -> None:
    """Raise `Invalid` with the clock that is meant, if this is none: an instant is often taken for one."""
    if clock is not None and not callable(clock):
        meant = f"clock=VirtualClock({clock!r})" if isinstance(clock, str) else "clock=VirtualClock(…)"
        raise Invalid(f"a clock must be callable, which {spell_name(clock)[:80]} cannot be; say {meant}")


def demand_there(url: str) -> None:
    """Refuse a file that does not exist: a reader would otherwise create an empty one and show that."""
    if not is_there(url):
        path = _sqlite_path(url)
        raise NotFound(f"there is no database {path}; say which is meant with --db, or begin one with betimes serve")


def is_there(url: str) -> bool:
    """Return whether there is such a database, as far as this machine knows: only files are looked for."""
    path = _sqlite_path(url)
    return path is None or Path(path).exists()


def _sqlite_path(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    return rest.removeprefix("/") or None if scheme == "sqlite" else None


def _sqlite(path: str, clock: Clock | None) -> Store:
    from betimes.stores.sqlite import SqliteStore

    if not path:
        raise Invalid("sqlite:// needs a file: sqlite:///betimes.db, or sqlite:////var/lib/betimes.db")
    return SqliteStore(path, clock=clock) if clock else SqliteStore(path)


def system_clock() -> Instant:
    return time.time_ns() // 1_000
