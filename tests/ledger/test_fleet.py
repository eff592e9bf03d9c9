"""The fleet: processes tell of themselves while they are open, and when they are closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.app import Betimes
from betimes.core.datetimes import instant
from betimes.core.instants import DAY, MINUTE, SECOND
from betimes.engine.read_model import ProcessRow
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger import fleet
from betimes.ledger.fleet import Heartbeat
from tests.http.stores import STORES, StoreName
from tests.ledger.test_questions import asked, get
from tests.patience import HANGS_S


@pytest.mark.parametrize("store", STORES)
async def test_processes_tell_of_themselves(store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = VirtualClock("2030-01-01T00:00:00Z")
    monkeypatch.setattr(fleet, "read_wall_clock", wall)
    async with asked(store, tmp_path) as (bt, client, clock):
        await Heartbeat(bt.engine, "one", "worker", virtual=True).beat()
        await bt.engine.store.beat(ProcessRow("old", "api", "0", (), 0, wall() - 2 * MINUTE), forget_before=0)
        clock.advance_to(clock() + 2 * DAY)  # which is not the time that processes live in
        listed = (await get(client, "/v1/processes"))["items"]
        assert [(row["name"], row["role"], row["alive"]) for row in listed] == [
            ("one", "worker, virtual clock", True),
            ("old", "api", False),
        ]
        assert "handler:note" in listed[0]["executors"]
        wall.advance_to(wall() + 2 * DAY)
        await Heartbeat(bt.engine, "two", "api", virtual=True).beat()
        assert [row["name"] for row in (await get(client, "/v1/processes"))["items"]] == ["two"]


@pytest.mark.parametrize("store", STORES)
async def test_a_process_that_was_closed_is_not_alive_any_more(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = VirtualClock("2030-01-01T00:00:00Z")
    monkeypatch.setattr(fleet, "read_wall_clock", wall)
    async with asked(store, tmp_path) as (bt, client, _):
        heartbeat = Heartbeat(bt.engine, "one", "worker", virtual=True)
        await heartbeat.beat()
        beating = asyncio.create_task(heartbeat.run())
        await asyncio.sleep(0)
        [row] = (await get(client, "/v1/processes"))["items"]
        assert row["alive"]
        wall.advance_to(wall() + 2 * SECOND)
        beating.cancel()
        await asyncio.wait([beating])
        [row] = (await get(client, "/v1/processes"))["items"]
        assert (row["name"], row["role"], row["alive"]) == ("one", "closed", False)
        assert (row["started_at"], row["seen_at"]) == ("2030-01-01T00:00:00Z", "2030-01-01T00:00:02Z")


async def test_a_process_that_was_closed_before_it_told_of_itself_is_not_listed() -> None:
    async with Betimes("memory://", clock=VirtualClock(), workers=False) as bt:
        await Heartbeat(bt.engine, "brief", "worker", virtual=True).end()
        assert (await bt.ledger.processes(virtual=True)).items == []


async def test_a_server_under_a_virtual_clock_tells_of_itself_in_real_time() -> None:
    server = Betimes("memory://", clock=VirtualClock(), workers=False)
    server.role = "all"
    async with server as bt:
        async with asyncio.timeout(HANGS_S):
            # its first beat has no event that could be waited for
            while not (found := (await bt.ledger.processes(virtual=True)).items):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert [(row.role, row.alive) for row in found] == [("all, virtual clock", True)]


@pytest.mark.parametrize("store", STORES)
async def test_checks_that_no_worker_takes_are_owed_after_a_minute(store: StoreName, tmp_path: Path) -> None:
    watch = {"user_id": "bob", "trigger_type": "price", "schedule": {"check_interval_minutes": 5}}
    dip = {**watch, "condition": {"expression": "NVDA < 130"}, "action_type": "notify", "action_context": "cheap"}
    async with asked(store, tmp_path) as (bt, client, clock):
        clock.advance_to(clock() + DAY)  # whatever else there is has been owed for long
        before = (await get(client, "/v1/backlog"))["checks_overdue"]
        await bt.intents.put("dip", dip)
        due_at = (await bt.intents.get("dip")).due_at
        assert due_at is not None
        clock.advance_to(instant(due_at) + MINUTE - SECOND)
        assert (await get(client, "/v1/backlog"))["checks_overdue"] == before
        clock.advance_to(clock() + 2 * SECOND)
        backlog = await get(client, "/v1/backlog")
        assert backlog["checks_overdue"] == before + 1
        assert backlog["oldest_check_at"] is not None
        await bt.intents.disable("dip")
        assert (await get(client, "/v1/backlog"))["checks_overdue"] == before
