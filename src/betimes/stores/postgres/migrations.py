"""Bringing a database up to date, and refusing one that would lose what it acknowledged.

Migrations are the numbered files of `migrations/`: tables, columns, indexes and changes of data, applied in order, each
once. Functions and types are no part of them; they are applied whenever their files have changed, see `functions.py`.
All of it happens in one transaction under an advisory lock: of many processes that start together one does the work and
the others find it done. The table `migration` remembers each file with its checksum. A database that is ahead of this
betimes, or was brought up to date by files that are not these, is refused. A database that is up to date is only read,
so a role without the right to create anything will do.

A file that was rewritten without changing what it leads to names its former checksum in its first line. (Until
migration 17 functions were defined in these files too; numbers that are missing held nothing else.)
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.core.errors import NewerVersion, Unavailable, UnsafeDurability
from betimes.stores.postgres.functions import FOLDER, apply_set, find_set, put_in_schema

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

LOCK_TIMEOUT = "10min"
COMMAND_TIMEOUT_S = 3600.0
_MUST_BE_ON = ("fsync", "full_page_writes")
_FORMERLY = "-- formerly: "


class Migration(NamedTuple):
    """One numbered file."""

    number: int
    name: str
    sql: str
    checksum: str

    def accepts(self, checksum: str) -> bool:
        """Return whether this file, as it is or as it was, has that checksum."""
        return checksum == self.checksum or self.sql.startswith(f"{_FORMERLY}{checksum}\n")


@cache
def migrations() -> tuple[Migration, ...]:
    """The files this betimes brings, in order."""
    found = []
    for file in (FOLDER / "migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        sql = file.read_text()
        found.append(Migration(int(number), name, sql, sha256(sql.encode()).hexdigest()))
    return tuple(sorted(found))


async def migrate(connection: PoolConnectionProxy[Any], schema: str, server: str) -> None:
    """Apply what is missing; safe when many do so at once."""
    missing = _missing(await _applied_checksums(connection, schema), server)
    if not missing and await find_set(connection, schema):
        return
    async with connection.transaction():
        # One process may take minutes; the others wait for it, longer than for any other lock.
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext('betimes'), hashtext($1))", schema, timeout=COMMAND_TIMEOUT_S
        )
        await connection.execute(_table(schema))
        missing = _missing(await _applied_checksums(connection, schema), server)
        for migration in missing:
            await connection.execute(put_in_schema(schema, migration.sql), timeout=COMMAND_TIMEOUT_S)
            await connection.execute(
                f"INSERT INTO {schema}.migration (number, name, checksum) VALUES ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
            )
        await apply_set(connection, schema, keep_previous=not missing)


def _table(schema: str) -> str:
    return f"""
        CREATE SCHEMA IF NOT EXISTS {schema};
        CREATE TABLE IF NOT EXISTS {schema}.migration (
            number integer PRIMARY KEY,
            name text NOT NULL,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        )
    """


async def _applied_checksums(connection: PoolConnectionProxy[Any], schema: str) -> dict[int, str]:
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.migration") is None:
        return {}
    return dict(await connection.fetch(f"SELECT number, checksum FROM {schema}.migration"))


def _missing(applied: dict[int, str], server: str) -> list[Migration]:
    known = migrations()
    if max(applied, default=0) > known[-1].number:
        raise NewerVersion(
            f"{server}: its schema is at {max(applied)} and this betimes knows {known[-1].number}; upgrade this process"
        )
    for migration in known:
        if not migration.accepts(applied.get(migration.number, migration.checksum)):
            raise NewerVersion(
                f"{server}: migration {migration.number} ({migration.name}) was applied by another build of betimes; "
                "run the build that made the database, or one after it"
            )
    return [migration for migration in known if migration.number not in applied]


async def check_durable(connection: PoolConnectionProxy[Any], server: str) -> None:
    """Refuse a server that acknowledges what a power cut can take back."""
    for name in _MUST_BE_ON:
        if await connection.fetchval("SELECT current_setting($1)", name) != "on":
            raise UnsafeDurability(f"{server}: {name} is off; set it on, or ask for durability='relaxed'")
    if await connection.fetchval("SELECT current_setting('synchronous_commit')") == "off":
        raise UnsafeDurability(f"{server}: synchronous_commit is off; set it on, or ask for durability='relaxed'")


async def check_writable(connection: PoolConnectionProxy[Any], server: str) -> None:
    """Refuse a standby and a database that is set read-only."""
    if await connection.fetchval("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"):
        raise Unavailable(f"{server}: it is read-only; point the DSN at the primary")
