"""The functions and types of the database: each is defined once, in a file of `functions/`, and all together are a set.

**A set's names end in its checksum** (`commit_batch_1f0c2a9b`; the files and queries are written without it). So a
process calls the functions it was written for and no others, and two versions of betimes whose tables are the same can
work on one database at the same time: during a rolling start the new process adds its set, the old ones go on with
theirs.

**When a set goes.** A set is applied by the first process that opens the database with it. The one that was applied or
opened last before stays, for processes that still run or are started again; others are dropped. So after a version was
rolled back, the next one leaves the functions of the processes at work, not those of the version that was given up. A
numbered migration drops all others: functions that do not know the tables must not write to them. A process whose set
is gone is refused by its next statement, before anything is written; see `driver.py`.

Triggers belong to tables and call functions of the set that was applied last.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

SCHEMA = "betimes"
FOLDER = files(__package__)
FILES = ("types.sql", "begin.sql", "begin_due.sql", "commit.sql", "turn.sql", "presume.sql", "ledger.sql", "head.sql")
TRIGGERS = "triggers.sql"
SUFFIX_LENGTH = 8

_DEFINED = re.compile(rf"^CREATE (?:FUNCTION|PROCEDURE|TYPE) {SCHEMA}\.(\w+)", re.MULTILINE)
_NAME = re.compile(rf"\b{SCHEMA}\.(\w+)")
_LIST_OBJECTS = """
    SELECT format('DROP ROUTINE %s CASCADE', oid::regprocedure) FROM pg_proc
    WHERE pronamespace = $1::regnamespace AND right(proname, length($2) + 1) = '_' || $2
    UNION ALL
    SELECT format('DROP TYPE %s', oid::regtype) FROM pg_type
    WHERE typnamespace = $1::regnamespace AND right(typname, length($2) + 1) = '_' || $2 AND typtype = 'c'
"""
_MAY_NOTE = "SELECT has_table_privilege($1, 'UPDATE')"


class FunctionSet(NamedTuple):
    """The files of `functions/`, and the names they define."""

    sql: str
    triggers: str
    names: frozenset[str]
    checksum: str

    @property
    def suffix(self) -> str:
        return self.checksum[:SUFFIX_LENGTH]


@cache
def function_set() -> FunctionSet:
    """Return the set that this betimes calls."""
    *functions, triggers = ((FOLDER / "functions" / name).read_text() for name in (*FILES, TRIGGERS))
    sql = "\n".join(functions)
    return FunctionSet(sql, triggers, frozenset(_DEFINED.findall(sql)), sha256((sql + triggers).encode()).hexdigest())


def put_in_schema(schema: str, sql: str) -> str:
    """Return SQL with the names of tables in this schema."""
    return sql if schema == SCHEMA else _NAME.sub(rf"{schema}.\1", sql)


def qualify_names(schema: str, sql: str) -> str:
    """Return SQL with its names in this schema, and those of functions and types with the suffix of their set."""
    names, suffix = function_set().names, function_set().suffix
    return put_in_schema(schema, _NAME.sub(lambda m: f"{m[0]}_{suffix}" if m[1] in names else m[0], sql))


async def list_sets(connection: PoolConnectionProxy[Any], schema: str) -> list[str]:
    """Return the checksums of the sets that are there, the one applied or opened last first."""
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.function_set") is None:
        return []
    found = await connection.fetch(f"SELECT checksum FROM {schema}.function_set ORDER BY applied_at DESC")
    return [checksum for (checksum,) in found]


async def find_set(connection: PoolConnectionProxy[Any], schema: str) -> bool:
    """Return whether this betimes' set is there, and if it is not the last one, note that it is in use again."""
    there, checksum = await list_sets(connection, schema), function_set().checksum
    # A role that may only read need not note it.
    if checksum in there[1:] and await connection.fetchval(_MAY_NOTE, f"{schema}.function_set"):
        await connection.execute(
            f"UPDATE {schema}.function_set SET applied_at = clock_timestamp() WHERE checksum = $1", checksum
        )
    return checksum in there


async def apply_set(connection: PoolConnectionProxy[Any], schema: str, *, keep_previous: bool) -> None:
    """Create this betimes' functions and types, and drop the sets that are not kept; within a transaction."""
    functions, there = function_set(), await list_sets(connection, schema)
    if functions.checksum not in there:
        # What is left of one that was dropped by halves would be in the way.
        await _drop_set(connection, schema, functions.checksum)
        # A function may call one that is defined further down.
        await connection.execute("SET LOCAL check_function_bodies = off")
        await connection.execute(qualify_names(schema, functions.sql))
        await connection.execute(f"INSERT INTO {schema}.function_set (checksum) VALUES ($1)", functions.checksum)
    # Before others are dropped: a function that a trigger calls takes it along, and so locks its table for readers too.
    await connection.execute(qualify_names(schema, functions.triggers))
    others = [checksum for checksum in there if checksum != functions.checksum]
    for checksum in others[1 if keep_previous else 0 :]:
        await _drop_set(connection, schema, checksum)


async def _drop_set(connection: PoolConnectionProxy[Any], schema: str, checksum: str) -> None:
    for (statement,) in await connection.fetch(_LIST_OBJECTS, schema, checksum[:SUFFIX_LENGTH]):
        await connection.execute(statement)
    await connection.execute(f"DELETE FROM {schema}.function_set WHERE checksum = $1", checksum)
