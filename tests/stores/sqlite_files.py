"""A SQLite store on a file, and the smallest thing to do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from betimes.engine.store import Store
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.sqlite import SqliteStore
from betimes.stores.sqlite.queries import query
from betimes.testing.conformance.pairs import commit
from betimes.testing.conformance.samples import A, moved


@asynccontextmanager
async def opened(path: Path | str, **options: Any) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=VirtualClock(), **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def version_of_a(store: Store) -> int:
    rows = await store.load([A])
    return rows[A].version if A in rows else 0


async def move_a(store: Store) -> None:
    await commit(store, moved(A, await version_of_a(store) + 1, await store.now()))


def end_blocks(shell: apsw.Connection) -> None:
    """End the blocks of a ledger that was filled by hand, as commits do."""
    last = {"last": shell.execute("SELECT max(seq) / 1024 * 1024 FROM ledger").get}
    shell.execute(query("end_blocks"), last)
    shell.execute(query("open_block"), last)
