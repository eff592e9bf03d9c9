"""Health in the console: how long requests take, how the ledger grows, and whether a stream is sound."""

import re
from datetime import datetime

import pytest
from playwright.async_api import expect

from betimes.app.betimes import Betimes
from betimes.core.streams import StreamId
from betimes.demo.town import START
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.town import Served, served
from tests.console.workshop import workshop

pytestmark = pytest.mark.browser


async def test_request_times_and_the_growth_of_the_ledger_are_shown(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        await visit.open("/console/health")
        page = await visit.open("/console/health")  # by now requests were answered
        times = page.get_by_role("table", name="Request times, slowest first")
        await expect(times).to_contain_text("GET /v1/")
        await expect(times).to_contain_text("ms")
        await page.get_by_role("heading", name="Ledger").locator("xpath=..").get_by_text("The same as a table").click()
        await expect(page.get_by_role("table", name="Decided a day, newest first")).to_contain_text("2026-03-2")


async def test_processes_are_seen_by_real_time_under_a_virtual_clock(visiting: Visiting) -> None:
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    bt.role = "all"
    async with bt, served(bt) as found, visiting(found.address, zone="UTC") as visit:
        page = await visit.open("/console/health")
        row = page.get_by_role("table", name="Processes that work on this database").get_by_role("row", name=bt.name)
        await expect(row).to_contain_text("all, virtual clock")
        await expect(row).to_contain_text("active")
        [process] = (await bt.ledger.processes(virtual=True)).items
        seen = row.get_by_role("time")
        shown = datetime.fromisoformat(await seen.get_attribute("datetime") or "")
        assert process.started_at <= shown <= process.seen_at, "years after what the clock of the streams says"
        await expect(seen).not_to_contain_text(re.compile("ago|in "))


async def test_what_pruning_would_take_is_said_with_the_command_that_does_it(visiting: Visiting) -> None:
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    async with bt, served(bt) as found, visiting(found.address) as visit:
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        await bt.advance(by_s=40 * 86_400)
        page = await visit.open("/console/health")
        await page.get_by_text("Prune old history").click()
        await expect(page.get_by_text("Nothing is that old")).to_be_visible()
        await page.get_by_label("Older than").select_option("30")
        await expect(page.get_by_text("one checkpoint a stream would stand for them")).to_be_visible()
        await expect(page.get_by_text("betimes prune --history-days 30 --tenant default")).to_be_visible()


async def test_old_history_is_counted_confirmed_and_pruned(visiting: Visiting) -> None:
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    async with bt, served(bt) as found, visiting(found.address) as visit:
        for key in "abc":
            await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})
        await bt.advance(by_s=40 * 86_400)
        page = await visit.open("/console/health")
        await page.get_by_text("Prune old history").click()
        await page.get_by_label("Older than").select_option("30")
        await page.get_by_role("button", name="Count what would go").click()
        dialog = page.get_by_role("dialog", name="Prune old history")
        await expect(dialog).to_contain_text("There is no way back")
        confirm = dialog.get_by_role("button", name="segments")
        await expect(confirm).to_be_disabled()
        _, before = await bt.engine.store.history(StreamId("default", "account", "a"), 0, 10)
        assert [one.version for one in before][:3] == [1, 2, 3], "counting changes nothing"
        await dialog.get_by_label("Note, for the ledger").fill("it was long ago")
        await dialog.get_by_label("Type prune to confirm").fill("prune")
        await confirm.click()
        await dialog.get_by_role("link", name="Recorded as operation:history:1").wait_for()
        await expect(dialog).to_contain_text("went.")
        _, after = await bt.engine.store.history(StreamId("default", "account", "a"), 0, 10)
        assert after[0].version == before[-1].version, "one checkpoint stands for what was"
        await dialog.get_by_role("link", name="Recorded as operation:history:1").click()
        await expect(page.get_by_role("main")).to_contain_text("it was long ago")


async def test_what_is_under_way_is_told_by_executor_and_a_stream_is_verified(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/health")
        assert len(visit.requests) <= 12, visit.requests
        pending = page.get_by_role("table", name="Effects pending, by executor")
        await expect(pending.get_by_role("row", name="handler:brief")).to_contain_text("no process carries it out")
        await expect(page.get_by_text(re.compile("^Half of the commits wrote at most"))).to_be_visible()
        await page.get_by_text("How late ticks were in the last 24 hours").click()
        late = page.get_by_role("table", name="The latest ticks of the last 24 hours")
        await expect(late.get_by_role("link", name="hourly-report").first).to_be_visible()
        form = page.get_by_role("form", name="Verify a stream")
        await form.get_by_label("Id").fill("pulse")
        await form.get_by_role("button", name="Verify this stream").click()
        await expect(form).to_contain_text("the stream is what its history gives, byte for byte")
        await form.get_by_label("Id").fill("nobody")
        await form.get_by_role("button", name="Verify this stream").press("Enter")
        await expect(form.get_by_role("alert")).to_contain_text("there is no stream schedule:nobody")
        visit.excuse("404")
