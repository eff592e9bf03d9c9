"""Exporting: the ledger from the checkpoint on, a batch at a time.

report = await export(engine.store, engine.kinds, "lake")
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from betimes.core.lake_tables import INSTANT, MICRO, Row, Table
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds, checkpoint_of
from betimes.engine.store import PAGE_MAX, LedgerQuery, Store
from betimes.ledger.lake.places import LakeBatch, LakePlace, place_of
from betimes.ledger.lake.states import UNREADABLE, Known, state_rows
from betimes.ledger.lake.tables import TABLES
from betimes.ledger.lake.views import duckdb_connection, files_of, literal, part_of_state, quote_name

BATCH_SEGMENTS_MAX = 50_000
_events = msgspec.json.Decoder(list[dict[str, Any]])
_lines = msgspec.json.Encoder()


class ExportReport(msgspec.Struct):
    """The result of an export: how far the ledger is in the lake, and how many rows were added to each table."""

    position: int = 0
    batches: int = 0
    segments: int = 0
    rows: dict[str, int] = {}
    unreadable: int = 0
    """Of the segments, those that could not be read: in the lake they are marked."""


async def export(
    store: Store,
    kinds: Kinds,
    path: str | LakePlace,
    *,
    batch_max: int = BATCH_SEGMENTS_MAX,
    tables: Sequence[Table] = TABLES,
    progress: Callable[[ExportReport], None] = lambda report: None,
) -> ExportReport:
    """Bring the lake up to date. Run it again at any time, and after it was killed at any instant."""
    place = place_of(path) if isinstance(path, str) else path
    report = ExportReport(position=place.position())
    while True:
        batch = place.batch(report.position + 1)
        if batch is None:
            segments = await _read(store, report.position, batch_max)
            if not segments:
                return report
            batch = await _write_batch(store, kinds, place, report.position + 1, segments, tables)
            if batch is None:
                continue  # another export has written it meanwhile
            report.batches += 1
            report.segments += len(segments)
            report.unreadable += batch.unreadable
            for name, count in batch.rows.items():
                report.rows[name] = report.rows.get(name, 0) + count
        place.advance(batch.last)  # also past a batch that is there because an export was killed before this
        report.position = batch.last
        progress(report)


async def _read(store: Store, after: int, limit: int) -> list[Segment]:
    segments: list[Segment] = []
    while len(segments) < limit:
        page = await store.ledger(LedgerQuery(after=after, limit=min(PAGE_MAX, limit - len(segments))))
        segments += page
        if not page:
            break
        after = page[-1].seq
    return segments


async def _write_batch(
    store: Store, kinds: Kinds, place: LakePlace, first: int, segments: list[Segment], tables: Sequence[Table]
) -> LakeBatch | None:
    rows = {table.name: await _rows(store, kinds, place, table, segments) for table in tables}
    counts = {name: len(found) for name, found in rows.items() if found}
    marked = sum(row["unreadable"] is not None for row in rows.get("segments", ()))
    batch = LakeBatch(first, segments[-1].seq, counts, marked)
    with tempfile.TemporaryDirectory(prefix="betimes-lake-") as folder:
        await asyncio.to_thread(_write, Path(folder), rows, tables)
        return batch if await asyncio.to_thread(place.publish, Path(folder) / "batch", batch) else None


async def _rows(store: Store, kinds: Kinds, place: LakePlace, table: Table, segments: list[Segment]) -> list[Row]:
    if table.rows is None:
        touched = {segment.stream for segment in segments if segment.stream.kind == table.kind}
        known = await asyncio.to_thread(_load_known_states, place, table, touched) if touched else {}
        return await state_rows(store, kinds, table.kind, segments, known)
    rows: list[Row] = []
    for segment in segments:
        if table.kind in ("", segment.stream.kind):
            rows += _rows_in(segment, table)
    return rows


def _rows_in(segment: Segment, table: Table) -> list[Row]:
    """Return a table's rows of a segment; of one that cannot be read only the table of all segments has one, marked."""
    assert table.rows is not None
    try:
        return [] if checkpoint_of(segment) else list(table.rows(segment, _events.decode(segment.events)))
    except Exception as error:  # noqa: BLE001 — whatever is wrong with one segment, the others are exported
        return [table.marked(segment, str(error))] if table.marked else []


def _write(folder: Path, rows: dict[str, list[Row]], tables: Sequence[Table]) -> None:
    (folder / "batch").mkdir()
    with duckdb_connection() as connection:
        for table in tables:
            if found := rows[table.name]:
                source = folder / f"{table.name}.ndjson"
                source.write_bytes(_lines.encode_lines(found))
                target = folder / "batch" / table.name
                connection.execute(_copy(table, source, target))


def _copy(table: Table, source: Path, target: Path) -> str:
    types = ", ".join(f"{quote_name(name)}: '{_json_type(kind)}'" for name, kind in table.columns.items())
    chosen = [f"{_select_column(name, kind)} AS {quote_name(name)}" for name, kind in table.columns.items()]
    chosen += [f"{part_of_state(part)} AS {quote_name(name)}" for name, part in table.parts.items()]
    return (
        f"COPY (SELECT {', '.join(chosen)}, make_timestamp(recorded_at)::DATE AS date "
        f"FROM read_json({literal(source)}, "
        f"columns = {{{types}}}, format = 'newline_delimited', maximum_object_size = 67108864)) "
        f"TO {literal(target)} (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date), FILENAME_PATTERN 'part_{{i}}')"
    )


def _json_type(kind: str) -> str:
    return "BIGINT" if kind in (INSTANT, MICRO) else kind


def _select_column(name: str, kind: str) -> str:
    column = quote_name(name)
    if kind == INSTANT:
        return f"make_timestamp({column})::TIMESTAMPTZ"
    if kind == MICRO:
        return f"({column}::DECIMAL(18,0) * 0.000001)::DECIMAL(18,6)"
    return column


def _load_known_states(place: LakePlace, table: Table, touched: set[StreamId]) -> Known:
    """The states of streams as the lake has them."""
    folder = place.local()
    if folder is None or not any(folder.glob(f"batches/*/{table.name}")):
        return {}
    with duckdb_connection() as connection, tempfile.NamedTemporaryFile(suffix=".ndjson") as asked:
        names = [{"tenant": stream.tenant, "id": stream.id} for stream in touched]
        asked.write(_lines.encode_lines(names))
        asked.flush()
        found = connection.execute(
            f"SELECT tenant, id, arg_max(coalesce(state, ''), version) FROM {files_of(folder, table.name)} "
            f"SEMI JOIN read_json({literal(asked.name)}, columns = {{tenant: 'VARCHAR', id: 'VARCHAR'}}, "
            "format = 'newline_delimited') USING (tenant, id) GROUP BY tenant, id "
            f"HAVING arg_max(status, version) <> {literal(UNREADABLE)}"
        ).fetchall()
    return {StreamId(tenant, table.kind, id): state or None for tenant, id, state in found}
