"""Bringing the schema up to date: numbered files, each applied once, all in one exclusive transaction.

The table `migration` says which were applied and what they were. A database that has one this code does not know, or
knows differently, is refused: writing to it would lose what its maker knows.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from betimes.core.errors import NewerVersion
from betimes.core.instants import Instant
from betimes.stores.sqlite.connection import Connection

_FOLDER = Path(__file__).with_name("migrations")


class SqliteMigration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()


def known_migrations() -> list[SqliteMigration]:
    """All steps this code knows, in order."""
    return [
        SqliteMigration(int(path.name[:4]), path.stem, path.read_text("utf-8"))
        for path in sorted(_FOLDER.glob("*.sql"))
    ]


def migrate(connection: Connection, now: Instant) -> None:
    """Apply what is missing. A process that comes second waits, and finds nothing left to do."""
    known = known_migrations()
    # Without the lock first: most starts find nothing to do, and need not wait for whoever writes.
    if not _missing(connection, known):
        return
    connection.begin()
    connection.change("create_migrations", {})
    # Asked again under the lock, since another process may have been here while this one waited.
    for migration in _missing(connection, known):
        connection.run_script(migration.text)
        connection.change(
            "record_migration",
            {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "at": now},
        )
    connection.commit()


def _missing(connection: Connection, known: list[SqliteMigration]) -> list[SqliteMigration]:
    applied = _applied_names(connection)
    if len(applied) > len(known):
        raise NewerVersion(
            f"{connection.path} has migration {max(applied)}, this betimes knows {len(known)}; upgrade this process"
        )
    for migration in known[: len(applied)]:
        if applied.get(migration.number) != migration.checksum:
            raise NewerVersion(
                f"{connection.path} was made with another {migration.name}.sql than this betimes has; "
                "use the version of betimes that made it"
            )
    return known[len(applied) :]


def _applied_names(connection: Connection) -> dict[int, str]:
    if not connection.value("has_migrations", {}):
        return {}
    return dict(connection.json("applied_migrations", {}))
