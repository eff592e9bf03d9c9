"""Health: how late alarms rang, what is pending by executor, and when the ledger was last verified."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from betimes.app import Betimes
from betimes.core.errors import MalformedRow
from betimes.core.instants import HOUR, MINUTE, SECOND, render
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.read_model import AlarmLagEntry
from betimes.engine.replay import verify
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger import fleet
from betimes.ledger.alarm_lag import sum_up
from betimes.ledger.fleet import Heartbeat
from betimes.ledger.verifications import record_verification
from tests.http.stores import STORES, StoreName
from tests.ledger.test_questions import all_pages, asked, get


@pytest.mark.parametrize("store", STORES)
async def test_how_late_alarms_rang_is_told_by_the_hour(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, clock):
        await bt.schedules.create({"schedule_id": "late", "every": {"seconds": 3600}, "target": {"kind": "sweep"}})
        clock.advance_to(clock() // HOUR * HOUR + 2 * HOUR)
        await bt.tick()
        clock.advance(3600 + 7)
        await bt.tick()
        told = (await get(client, "/v1/health"))["alarm_lag"]
        now_hour = clock() // HOUR * HOUR
        assert (told["since"], told["until"]) == (render(now_hour - 23 * HOUR), render(now_hour + HOUR))
        assert [hour["at"] for hour in told["hours"]] == [render(now_hour - back * HOUR) for back in range(23, -1, -1)]
        assert told["alarms"] == sum(hour["alarms"] for hour in told["hours"]) > 0
        assert told["max_ms"] == max(hour["max_ms"] for hour in told["hours"] if hour["alarms"]) >= 7_000
        assert told["p50_ms"] <= told["p99_ms"] <= told["max_ms"]
        wakes = await all_pages(client, f"/v1/ledger?command_type=Wake&limit=200&since={told['since']}")
        assert {one["command"]["type"] for one in wakes} == {"Wake"}
        assert told["alarms"] == len(wakes), "as many as rang"
        await bt.engine.alarm_lag.write(bt.engine.store)
        assert (await get(client, "/v1/health"))["alarm_lag"] == told, "written or not, it is the same"


def test_bounds_are_told_no_higher_than_the_latest() -> None:
    entries = [AlarmLagEntry("a", 0, 10_000, 98, 9_000), AlarmLagEntry("a", 0, 5 * SECOND, 2, 3 * SECOND)]
    lag = sum_up(entries)
    assert (lag.alarms, lag.p50_ms, lag.p99_ms, lag.max_ms) == (100, 10, 3_000, 3_000)
    assert sum_up([]).p50_ms is None


@pytest.mark.parametrize("store", STORES)
async def test_pending_effects_are_counted_by_executor(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(store, tmp_path) as (bt, client, clock):
        before = {one["executor"]: one["pending"] for one in (await get(client, "/v1/health"))["executors"]}
        for name in ("nobody-a", "nobody-b"):
            target = {"kind": "handler", "name": name}
            await bt.schedules.create({"schedule_id": name, "every": {"seconds": 60}, "target": target})
        clock.advance(60)
        await bt.tick()
        clock.advance(120)
        await bt.tick()
        told = {one["executor"]: one for one in (await get(client, "/v1/health"))["executors"]}
        assert {f"handler:{name}" for name in ("nobody-a", "nobody-b")} == set(told) - set(before)
        one = told["handler:nobody-a"]
        assert (one["pending"] >= 2, one["capped"], one["orphaned"] > 0) == (True, False, True)
        assert one["first_at"] < render(clock())
        listed = (await get(client, "/v1/effects?status=pending&executor=handler:nobody-a"))["items"]
        assert len(listed) == one["pending"]
        monkeypatch.setattr(fleet, "COUNT_MAX", 1)
        capped = {one["executor"]: one for one in (await get(client, "/v1/health"))["executors"]}
        assert (capped["handler:nobody-a"]["pending"], capped["handler:nobody-a"]["capped"]) == (1, True)


async def verified(engine: Engine, tenant: str | None, kind: str | None = None) -> None:
    report = await verify(engine.store, engine.kinds, tenant=tenant, kind=kind)
    await record_verification(engine, report, tenant=tenant, kind=kind, actor="ann")
    assert not [note for note in report.notes if "on record" in note]


@pytest.mark.parametrize("store", STORES)
async def test_the_last_verification_is_on_record(store: StoreName, tmp_path: Path) -> None:
    async with asked(store, tmp_path) as (bt, client, clock):
        assert (await get(client, "/v1/health"))["verifications"] == []
        await verified(bt.engine, "default")
        clock.advance(60)
        await verified(bt.engine, None)
        whole, own = (await get(client, "/v1/health"))["verifications"]
        assert (own["by"], own["everything"], own["sound"], own["findings"]) == ("ann", False, True, 0)
        assert (own["segment_id"], own["segments"] > 0) == ("operation:verification:1", True)
        assert (whole["everything"], whole["sound"], whole["streams"], whole["segment_id"]) == (True, True, None, None)
        why = await get(client, f"/v1/explain/{own['segment_id']}")
        assert (why["actor"], why["command"]["action"]) == ("ann", "verify")
        assert why["command"]["result"]["segments"] == own["segments"]
        clock.advance(60)
        report = await verify(bt.engine.store, bt.engine.kinds, tenant="default")
        assert report.is_sound, "a record of a verification verifies too"


async def test_a_verification_that_cannot_be_recorded_says_so_and_an_empty_database_stays_empty() -> None:
    async with Betimes("memory://", clock=VirtualClock(), workers=False) as bt:
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        report = await verify(bt.engine.store, bt.engine.kinds)
        nobody = replace(report, streams=0)
        await record_verification(bt.engine, nobody, tenant="nobody", kind=None, actor="ann")
        assert await bt.engine.store.load([StreamId("nobody", "operation", "verification")]) == {}
        engine = bt.engine
    await record_verification(engine, report, tenant=None, kind=None, actor="ann")
    assert "the result could not be recorded" in report.notes[-1]


async def test_findings_are_counted_and_named_by_their_record() -> None:
    async with Betimes("memory://", clock=VirtualClock(), workers=False) as bt:
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        database, stream = bt.engine.store.database, StreamId("default", "account", "a")  # type: ignore[attr-defined]
        database.rows[stream] = replace(database.rows[stream], alarm_at=1)
        await verified(bt.engine, "default")
        [found] = (await bt.ledger.health()).verifications
        assert (found.sound, found.findings) == (False, 1)
        [segment] = (await bt.ledger.segments({"kind": "operation"})).items
        assert segment.command
        assert segment.command["subjects"] == ["default/account/a"]
        assert DEPLOYMENT.tenant not in {segment.id, segment.kind}


async def test_a_verification_of_a_part_hides_none_of_the_whole() -> None:
    async with Betimes("memory://", clock=VirtualClock(), workers=False) as bt:
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        await verified(bt.engine, None)
        for tenant, kind in (("default", "account"), ("default", None), ("default", "account"), (None, "account")):
            await bt.advance(by_s=60)
            await verified(bt.engine, tenant, kind)
        await verified(bt.engine, DEPLOYMENT.tenant)  # about its own streams, of which others need not hear
        found = [(one.everything, one.kind) for one in (await bt.ledger.health()).verifications]
        assert found == [(True, "account"), (False, "account"), (False, None), (True, None)]


@pytest.mark.parametrize("change", ["tenant = 'evil'", "id = 'renamed'"])
async def test_a_row_that_was_renamed_is_found(change: str, tmp_path: Path) -> None:
    """SQLite finds segments by the number of the row, whatever it is called."""
    path = tmp_path / "renamed.db"
    async with Betimes(f"sqlite:///{path}", clock=VirtualClock(), workers=False) as bt:
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
    apsw.Connection(str(path)).execute(f"UPDATE stream SET {change} WHERE kind = 'account'")
    async with Betimes(f"sqlite:///{path}", clock=VirtualClock(), workers=False) as bt:
        report = await verify(bt.engine.store, bt.engine.kinds)
        assert "it is of default/account/a, not of this stream" in " ".join(map(str, report.findings))


async def test_a_store_is_closed_though_the_last_counts_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    async with Betimes(
        "memory://", clock=VirtualClock(), workers=False, report=lambda one: told.append(one.what)
    ) as bt:
        closed: list[bool] = []

        async def damaged(*_: object, **__: object) -> None:
            raise MalformedRow("a row is damaged")

        async def close() -> None:
            closed.append(True)

        bt.engine.alarm_lag.count([("default", 0, SECOND)])
        monkeypatch.setattr(bt.engine.store, "add_alarm_lags", damaged)
        monkeypatch.setattr(bt.engine.store, "close", close)
    assert (told, closed) == (["alarm_lag_failed"], [True])


async def test_a_heartbeat_writes_how_late_alarms_rang() -> None:
    async with Betimes("memory://", clock=VirtualClock(), workers=False) as bt:
        bt.engine.alarm_lag.count([("default", await bt.engine.store.now(), MINUTE)])
        await Heartbeat(bt.engine, "one", "worker", virtual=True).beat()
        assert bt.engine.alarm_lag.unwritten("default") == []
        assert (await bt.ledger.health()).alarm_lag.max_ms == 60_000
