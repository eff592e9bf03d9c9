"""The lake: every row once, however often and however rudely it is exported."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import create_subprocess_exec
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import msgspec
import pytest

from betimes.core.errors import Invalid, MissingExtra
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.ledger.lake.export import ExportReport, export
from betimes.ledger.lake.places import place_of
from betimes.ledger.lake.queries import QUERIES
from betimes.ledger.lake.tables import TABLES
from betimes.ledger.lake.views import open_lake
from betimes.schedules.tables import schedule_ticks
from betimes.schedules.views import BackfillRequest
from tests.automation.exporter import POINTS
from tests.automation.test_sensor_service import POLL, counting
from tests.automation.worlds import HANDLER, Automation, automation_world
from tests.definition_requests import sensor_request
from tests.stores.backends import BACKENDS, Backend

SQLITE = BACKENDS[1]
OURS = ("segments", "schedule_ticks", "schedule_state", "sensor_evals", "sensor_state", "runs")


async def live(world: Automation, hours: int = 6) -> None:
    """Some hours in the life of schedules and sensors."""
    await world.schedule("five", max_catchup_ticks=3)
    await world.schedule("hourly", "0 * * * *", asset_selection=["a", "b"])
    await world.sensor(**POLL, interval_seconds=600)
    await world.sensors.create(
        sensor_request({"sensor_id": "pushed", "sensor_type": "push", "target": HANDLER, "auth": "signature"})
    )
    for hour in range(hours):
        await world.go(3_600)
        await world.sensors.receive("pushed", {}, msgspec.json.encode({"message_id": f"m{hour}", "data": hour}))
    await world.schedules.disable("five")
    await world.schedules.delete("hourly")
    await world.settle()


def contents(path: Path) -> dict[str, list[Any]]:
    """Everything people can ask of the lake."""
    lake = open_lake(str(path))
    tables = {name for (name,) in lake.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    return {name: sorted(map(str, lake.execute(f"SELECT * FROM {name}").fetchall())) for name in sorted(tables)}


async def exported(world: Automation, path: Path | str, **options: Any) -> ExportReport:
    return await export(world.engine.store, world.engine.kinds, str(path), **options)


async def test_the_lake_has_every_segment_tick_evaluation_and_state(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await live(world)
        report = await exported(world, tmp_path / "lake")
        lake = open_lake(str(tmp_path / "lake"))

        def asked(sql: str) -> list[Any]:
            return lake.execute(sql).fetchall()

        assert asked("SELECT count(*), count(DISTINCT seq) FROM segments") == [(report.segments, report.segments)]
        ticks = (await world.schedules.ticks("five", limit=200)).items
        rows = asked(
            "SELECT tick_id, status, reason, count, run_id, lag_ms, tzdata_version FROM schedule_ticks "
            "WHERE schedule_id = 'five'"
        )
        assert sorted(map(str, rows)) == sorted(
            str((t.tick_id, t.status, t.reason, t.count, t.run_id, t.lag_ms, t.tzdata_version)) for t in ticks
        )
        assert asked("SELECT id, status, is_deleted FROM schedule_state ORDER BY id") == [
            ("five", "paused", False),
            ("hourly", "", True),
        ]
        assert asked(
            "SELECT DISTINCT asset_selection FROM schedule_ticks WHERE schedule_id = 'hourly' AND status = 'fired'"
        ) == [(["a", "b"],)]
        evaluations = (await world.sensors.evaluations("orders", limit=200)).items
        rows = asked("SELECT evaluation_id, status, cursor FROM sensor_evals WHERE sensor_id = 'orders'")
        assert sorted(rows) == sorted((e.evaluation_id, e.status, str(e.cursor)) for e in evaluations)
        assert asked("SELECT count(*) FROM runs WHERE status <> 'settled'") == [(0,)]
        state = (await world.engine.store.load([StreamId("acme", "schedule", "five")])).popitem()[1].state
        [(shown,)] = asked("SELECT state FROM schedule_state WHERE id = 'five'")
        assert state
        assert msgspec.json.decode(shown) == msgspec.json.decode(state)


async def test_no_secret_is_in_the_lake(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=1)
        secret = (await world.sensors.rotate_secret("pushed")).secret
        assert secret
        await exported(world, tmp_path / "lake")
        assert secret not in str(contents(tmp_path / "lake"))
        assert "whsec_" not in str(contents(tmp_path / "lake"))


async def test_exported_twice_nothing_doubles(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        await exported(world, tmp_path / "lake")
        before = contents(tmp_path / "lake")
        again = await exported(world, tmp_path / "lake")
        assert (again.batches, again.segments) == (0, 0)
        assert contents(tmp_path / "lake") == before


async def test_exported_in_steps_or_at_once_it_is_the_same(backend: Backend, tmp_path: Path) -> None:
    async with automation_world(backend, tmp_path, evaluators=counting()) as world:
        for step in range(3):
            if step == 0:
                await live(world, hours=2)
            else:
                await world.go(3_600)
                await world.schedules.trigger("five", {"step": step})
            await exported(world, tmp_path / "steps", batch_max=5 + step)
        report = await exported(world, tmp_path / "whole")
        assert report.batches == 1
        assert contents(tmp_path / "steps") == contents(tmp_path / "whole")
        assert set(OURS) <= set(contents(tmp_path / "whole"))


@pytest.mark.crash
@pytest.mark.parametrize("point", POINTS)
async def test_killed_midway_nothing_is_half_visible_and_the_next_one_completes_it(tmp_path: Path, point: str) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        places = str(tmp_path / "betimes.db"), str(tmp_path / "lake")
        killed = await create_subprocess_exec(sys.executable, "-m", "tests.automation.exporter", *places, point)
        assert await killed.wait() == -9
        lake = open_lake(str(tmp_path / "lake"))
        [(seen,)] = lake.execute("SELECT count(*) FROM segments").fetchall()
        whole = 14 if point in ("published", "advanced") else 7
        assert seen == whole
        in_batches = lake.execute(
            "SELECT max(version) FROM segments WHERE kind = 'schedule' AND id = 'five'"
        ).fetchall()
        assert lake.execute("SELECT version FROM schedule_state WHERE id = 'five'").fetchall() == in_batches
        await exported(world, tmp_path / "lake", batch_max=7)
        await exported(world, tmp_path / "whole")
        assert contents(tmp_path / "lake") == contents(tmp_path / "whole")


async def test_two_exports_at_once_write_everything_once(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        reports = await asyncio.gather(*(exported(world, tmp_path / "lake", batch_max=9) for _ in range(3)))
        whole = await exported(world, tmp_path / "whole")
        assert sum(report.segments for report in reports) == whole.segments
        assert contents(tmp_path / "lake") == contents(tmp_path / "whole")


async def test_files_are_filed_by_date(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path) as world:
        await world.schedule(cron="0 */12 * * *")
        await world.go(43_200)
        await world.go(43_200)
        await exported(world, tmp_path / "lake")
        dates = {path.parent.name for path in (tmp_path / "lake").rglob("schedule_ticks/*/*.parquet")}
        assert dates == {"date=2026-01-05", "date=2026-01-06"}


async def test_every_documented_query_runs(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world)
        nine = datetime(2026, 1, 5, 9, tzinfo=UTC)
        await world.schedules.backfill("five", BackfillRequest(nine - timedelta(hours=1), nine))
        await world.settle()
        await exported(world, tmp_path / "lake")
        lake = open_lake(str(tmp_path / "lake"))
        answers = {query.name: lake.execute(query.sql).fetchall() for query in QUERIES}
        assert all(answers[name] for name in ("lateness", "missed", "outcomes", "busiest", "chain"))
        documented = (Path(__file__).parent.parent.parent / "docs" / "automation.md").read_text()
        assert all(query.sql in documented for query in QUERIES)


def test_the_tables_are_those_of_the_specification() -> None:
    assert {table.name for table in TABLES} == {*OURS, "notifications", "intent_executions", "score_history"}


def test_the_rows_of_other_domains() -> None:
    def rows(name: str, kind: str, *events: dict[str, Any]) -> list[Any]:
        [table] = [table for table in TABLES if table.name == name]
        assert table.rows
        assert table.kind == kind
        segment = Segment(StreamId("acme", kind, "u-1"), 3, "t", 5, 1, None, "", "p", "", "d", seq=9)
        return list(table.rows(segment, list(events)))

    [row] = rows("notifications", "inbox", {"type": "Suppressed", "item": 3, "event_id": "e", "reasons": ["QUIET"]})
    assert (row["user_id"], row["event_id"], row["outcome"], row["reasons"]) == ("u-1", "e", "suppressed", ["QUIET"])
    [row] = rows("notifications", "inbox", {"type": "Postponed", "item": {"event_id": "e", "event_type": "t"}})
    assert (row["event_id"], row["outcome"]) == ("e", "postponed")
    [row] = rows("intent_executions", "intent", {"type": "IntentFired", "status": "success", "at": 5})
    assert (row["intent_id"], row["status"], row["seq"]) == ("u-1", "success", 9)
    decay, crossing = (
        {"type": "Decayed", "amount": 1_600_000, "score": 48_400_000},
        {"type": "ThresholdCrossed", "name": "low"},
    )
    [row] = rows("score_history", "score", decay, crossing)
    assert (row["event_type"], row["score"], row["thresholds_crossed"]) == ("decay", 48_400_000, ["low"])


def test_a_tick_without_a_run_has_no_outcome() -> None:
    segment = Segment(StreamId("acme", "schedule", "s"), 3, "t", 5, 1, None, "", "p", "", "d", seq=9)
    ticked = {"type": "ScheduleTicked", "scheduled_for": 1, "fired_at": 5, "error": "no such zone"}
    [row] = schedule_ticks(segment, [ticked])
    assert (row["status"], row["run_id"], row["outcome"]) == ("failed", None, None)


def test_a_lake_at_a_url_is_not_opened_as_a_folder() -> None:
    with pytest.raises(Invalid, match="local"):
        open_lake("s3://bucket/lake")


def test_a_url_needs_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.delitem(sys.modules, "fsspec.core", raising=False)
    with pytest.raises(MissingExtra, match="fsspec"):
        place_of("memory://lake")


async def test_a_lake_at_a_url_is_written_and_resumed(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        url = f"memory://{tmp_path.name}"
        await exported(world, url, batch_max=9)
        assert (await exported(world, url)).batches == 0
        fsspec.filesystem("memory").get(f"/{tmp_path.name}/", str(tmp_path / "lake"), recursive=True)
        await exported(world, tmp_path / "whole")
        assert contents(tmp_path / "lake") == contents(tmp_path / "whole")


def files_with_instants(path: Path) -> dict[str, set[str]]:
    """How the files of a lake say of each instant what it is."""
    lake = open_lake(str(path))
    kinds = lake.execute(
        f"SELECT DISTINCT name, logical_type FROM parquet_schema('{path}/batches/*/*/*/*.parquet') "
        "WHERE logical_type LIKE '%Timestamp%'"
    ).fetchall()
    return {name: {kind for other, kind in kinds if other == name} for name, _ in kinds}


async def test_instants_are_adjusted_to_utc_in_every_file(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        await exported(world, tmp_path / "lake")
        kinds = files_with_instants(tmp_path / "lake")
        assert kinds.keys() >= {"recorded_at", "scheduled_for", "fired_at", "next_tick_at", "last_evaluated_at"}
        assert not [name for name, said in kinds.items() if any("isAdjustedToUTC=0" in one for one in said)]
        lake = open_lake(str(tmp_path / "lake"))
        [(at,)] = lake.execute("SELECT min(recorded_at) FROM segments").fetchall()
        assert (at.utcoffset(), at) == (timedelta(0), datetime(2026, 1, 5, 9, tzinfo=UTC))


async def test_states_have_a_column_for_what_people_ask_of_them(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        await world.schedule("daily", "30 7 * * *")
        await world.sensors.create(sensor_request({"sensor_id": "new", "sensor_type": "push", "target": HANDLER}))
        await exported(world, tmp_path / "lake")
        lake = open_lake(str(tmp_path / "lake"))
        sensors = {view.sensor_id: view for view in (await world.sensors.list()).items}
        rows = lake.execute(
            "SELECT id, sensor_type, enabled, definition_version, state_version, cursor, next_evaluation_at, "
            "last_evaluated_at, consecutive_errors, created_at FROM sensor_state"
        ).fetchall()
        assert len(rows) == 3
        for id, *columns in rows:
            view = sensors[id]
            cursor = None if view.cursor is None else msgspec.json.encode(view.cursor).decode()
            assert columns == [
                view.sensor_type,
                view.enabled,
                view.version,
                view.state_version,
                cursor,
                view.next_evaluation_at,
                view.last_evaluated_at,
                view.consecutive_errors,
                view.created_at,
            ]
        rows = lake.execute(
            "SELECT id, timezone, enabled, definition_version, next_tick_at, last_scheduled_for, changed_at "
            "FROM schedule_state WHERE NOT is_deleted"
        ).fetchall()
        schedules = {view.schedule_id: view for view in (await world.schedules.list()).items}
        assert len(rows) == len(schedules) == 2
        for id, *columns in rows:
            of = schedules[id]
            assert columns == [
                of.timezone,
                of.enabled,
                of.version,
                of.next_tick_at,
                of.last_scheduled_for,
                of.changed_at,
            ]
        gone = "SELECT enabled, next_tick_at, definition_version FROM schedule_state WHERE is_deleted"
        assert lake.execute(gone).fetchall() == [(None, None, None)]


async def test_the_lake_shows_when_any_schedule_occurs(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path) as world:
        await world.schedule("one", "@daily")
        await world.schedules.put("several", {"cron": ["0 8 * * *", "0 20 * * *"], "target": HANDLER})
        await world.schedules.put("interval", {"every": {"seconds": 900}, "target": HANDLER})
        await world.go(3_600)
        await exported(world, tmp_path / "lake")
        lake = open_lake(str(tmp_path / "lake"))
        rows = lake.execute("SELECT id, cron, every, next_tick_at FROM schedule_state ORDER BY id").fetchall()
        next_at = {view.schedule_id: view.next_tick_at for view in (await world.schedules.list()).items}
        assert rows == [
            ("interval", None, '{"seconds":900}', next_at["interval"]),
            ("one", '"@daily"', None, next_at["one"]),
            ("several", '["0 8 * * *","0 20 * * *"]', None, next_at["several"]),
        ]


def columns_of_views(path: Path) -> dict[str, list[Any]]:
    lake = open_lake(str(path))
    described = "SELECT column_name, column_type FROM (DESCRIBE {})"
    return {table.name: lake.execute(described.format(table.name)).fetchall() for table in TABLES}


async def test_every_view_is_there_from_the_first_export_on(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await exported(world, tmp_path / "lake")
        lake, before = open_lake(str(tmp_path / "lake")), columns_of_views(tmp_path / "lake")
        for name in {table.name for table in TABLES} - {"segments"}:
            assert lake.execute(f"SELECT count(*) FROM {name}").fetchall() == [(0,)]
        assert [lake.execute(query.sql).fetchall() for query in QUERIES if query.name != "chain"] == [[]] * 6
        await live(world, hours=1)
        await exported(world, tmp_path / "lake")
        assert columns_of_views(tmp_path / "lake") == before


def as_written_before(path: Path) -> None:
    """Make the files what they were when instants were naive and states had no columns for their parts."""
    lake = open_lake(str(path))
    for table in TABLES:
        for file in path.glob(f"batches/*/{table.name}/*/*.parquet"):
            chosen = ", ".join(
                f'"{name}"::TIMESTAMP AS "{name}"' if kind == "INSTANT" else f'"{name}"'
                for name, kind in table.columns.items()
            )
            other = file.with_suffix(".old")
            lake.execute(f"COPY (SELECT {chosen} FROM read_parquet('{file}')) TO '{other}' (FORMAT parquet)")
            other.replace(file)


async def test_a_lake_that_was_begun_before_is_gone_on_with(tmp_path: Path) -> None:
    async with automation_world(SQLITE, tmp_path, evaluators=counting()) as world:
        await live(world, hours=2)
        await exported(world, tmp_path / "lake")
        as_written_before(tmp_path / "lake")
        assert "isAdjustedToUTC=0" in str(files_with_instants(tmp_path / "lake"))
        await exported(world, tmp_path / "whole")
        assert contents(tmp_path / "lake") == contents(tmp_path / "whole")
        await world.go(3_600)
        await world.schedules.trigger("five", {"step": 1})
        await exported(world, tmp_path / "lake")
        await exported(world, tmp_path / "whole")
        assert contents(tmp_path / "lake") == contents(tmp_path / "whole")
