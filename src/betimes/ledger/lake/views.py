"""Asking the lake: a DuckDB connection with a view for each table.

    open_lake("lake").sql("SELECT status, count(*) FROM schedule_ticks GROUP BY ALL")

A view has all columns of its table from the first export on, with or without rows, whatever the files hold: batches
that were written before instants were adjusted to UTC, or before a part of a state had a column, are shown like others.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from betimes.core.errors import Invalid, MissingExtra
from betimes.core.lake_tables import INSTANT, JSON, MICRO, Part, Table
from betimes.ledger.lake.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "2",
}
_TYPES = {INSTANT: "TIMESTAMPTZ", MICRO: "DECIMAL(18,6)", JSON: "VARCHAR"}
_LATEST = " QUALIFY row_number() OVER (PARTITION BY tenant, id ORDER BY version DESC) = 1"


def open_lake(path: str, tables: Sequence[Table] = TABLES) -> DuckDBPyConnection:
    """Return a DuckDB connection with a view for each table; tables of states show the latest of each stream."""
    if "://" in path:
        raise Invalid(f"{path} is not a folder; open_lake reads local lakes. Ask DuckDB or another reader of Parquet")
    connection = duckdb_connection()
    for table in tables:
        connection.execute(f"CREATE VIEW {table.name} AS {_view(connection, Path(path), table)}")
    return connection


def _view(connection: DuckDBPyConnection, folder: Path, table: Table) -> str:
    types = {**table.columns, **{name: part.type for name, part in table.parts.items()}, "date": "DATE"}
    if not any(folder.glob(f"batches/*/{table.name}")):
        empty = ", ".join(f"NULL::{_TYPES.get(kind, kind)} AS {quote_name(name)}" for name, kind in types.items())
        return f"SELECT {empty} WHERE false"
    files = files_of(folder, table.name)
    held = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {files}").fetchall()}
    casts = {name: _TYPES.get(kind, kind) for name, kind in types.items()}
    chosen = [f"{_column_sql(table, name, held)}::{cast} AS {quote_name(name)}" for name, cast in casts.items()]
    return f"SELECT {', '.join(chosen)} FROM {files}{'' if table.rows else _LATEST}"


def _column_sql(table: Table, name: str, held: set[str]) -> str:
    """Return SQL for a column as the files have it; what an older batch lacks is made from its state."""
    column = quote_name(name) if name in held else "NULL"
    return f"coalesce({column}, {part_of_state(table.parts[name])})" if name in table.parts else column


def part_of_state(part: Part) -> str:
    """Return SQL for a part of the column `state`; nothing of one that is deleted."""
    path = literal(part.path)
    if part.type == "VARCHAR":
        value = f"json_extract_string(state, {path})"
    elif part.type == INSTANT:
        value = f"make_timestamp(json_extract(state, {path})::BIGINT)::TIMESTAMPTZ"
    else:
        value = f"json_extract(state, {path})::{_TYPES.get(part.type, part.type)}"
    return f"CASE WHEN state IS NOT NULL THEN coalesce({value}, {part.default}) END"


def files_of(folder: Path, table: str) -> str:
    """Return SQL for all files of a table."""
    pattern = f"{folder}/batches/*/{table}/*/*.parquet"
    return f"read_parquet({literal(pattern)}, hive_partitioning = true, union_by_name = true)"


def duckdb_connection() -> DuckDBPyConnection:
    """Return a connection for which every instant is UTC, also one that a file does not say it of."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingExtra("the lake needs duckdb: pip install 'betimes[lake]'") from error
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def quote_name(name: str) -> str:
    return f'"{name}"'


def literal(path: Path | str) -> str:
    text = str(path).replace("'", "''")
    return f"'{text}'"
