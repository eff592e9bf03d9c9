"""An application on a store of its own: a file of SQLite, or a schema of PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from betimes.app import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.postgres import empty_schema, patient_store, server_dsn

StoreName: TypeAlias = Literal["sqlite", "postgres"]
STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))


@asynccontextmanager
async def application_on(
    store: StoreName, folder: Path, clock: VirtualClock, declare: Callable[[Betimes], None] = lambda bt: None
) -> AsyncIterator[Betimes]:
    """Open an application; `declare` is given it before."""
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{folder}/betimes.db" if store == "sqlite" else server_dsn()
        bt = Betimes(url, clock=clock, workers=False)
        if store == "postgres":
            schema = await stack.enter_async_context(empty_schema())
            bt._store = patient_store(server_dsn(), schema=schema, clock=clock)
        declare(bt)
        yield await stack.enter_async_context(bt)
