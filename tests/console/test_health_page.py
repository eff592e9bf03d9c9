"""Health in the console: how long requests take, how the ledger grows, and whether a stream is sound."""

import re
from datetime import datetime

import pytest
from playwright.async_api import expect

from betimes.app.betimes import Betimes
from betimes.console.settings import ConsoleSettings
from betimes.core.streams import StreamId
from betimes.demo.town import START
from betimes.engine.replay import verify
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.verifications import record_verification
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
        ledger = page.get_by_role("region", name="Ledger")
        await ledger.get_by_text("The same as a table").click()
        days = page.get_by_role("table", name="Decided a day, newest first")
        await expect(days).to_contain_text("28 Mar")
        decided = await days.get_by_role("row", name="27 Mar").get_by_role("link").inner_text()
        await expect(ledger.get_by_text("never, according to the ledger")).to_be_visible()
        rate = page.get_by_role("region", name="Rate of verdicts, last 24 hours")
        await rate.get_by_text("The same as a table").click()
        cells = page.get_by_role("table", name="Verdicts by half hour and domain, newest first")
        first = cells.get_by_role("row").nth(1).get_by_role("link").first
        count = await first.inner_text()
        await first.click()
        await expect(page.get_by_role("region", name="Answers")).to_contain_text(count)
        await visit.follow("/console/health")
        await ledger.get_by_text("The same as a table").click()
        await days.get_by_role("row", name="27 Mar").get_by_role("link").click()
        legend = page.get_by_role("region", name="Answers")
        answers = [
            int(number.replace(",", ""))
            for number in re.findall(r"(?:now|later|never|other) ([\d,]+)", await legend.inner_text())
        ]
        assert sum(answers[:4]) == int(decided.replace(",", "")), "a number leads to what it counts"


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
        brief = pending.get_by_role("row", name="handler:brief")
        await expect(brief).to_contain_text("no process carries it out")
        await expect(page.get_by_text(re.compile("^Half of the commits wrote at most"))).to_be_visible()
        late = page.get_by_role("region", name="How late alarms rang, last 24 hours")
        rang = int(await late.get_by_role("definition").first.inner_text())
        await late.get_by_text("The same as a table").click()
        hours = page.get_by_role("table", name="How late alarms rang, newest first")
        counts = await hours.get_by_role("link").all_inner_texts()
        assert sum(map(int, counts)) == rang > 0
        await expect(hours).to_contain_text("on time")
        await late.get_by_text("Which ticks of schedules were the latest").click()
        ticks = page.get_by_role("table", name="The latest ticks of the last 24 hours")
        await expect(ticks.get_by_role("link", name="hourly-report").first).to_be_visible()
        await page.get_by_role("link", name="Snoozed wakes").click()
        await expect(page.get_by_role("region", name="Snoozed wakes")).to_be_in_viewport()
        download = page.get_by_role("link", name="Dashboard for Grafana")
        await expect(download).to_have_attribute("href", "/console/grafana.json")
        form = page.get_by_role("form", name="Verify a stream")
        await form.get_by_label("Id").fill("pulse")
        await form.get_by_role("button", name="Verify this stream").click()
        await expect(form).to_contain_text("the stream is what its history gives, byte for byte")
        await form.get_by_label("Id").fill("nobody")
        await form.get_by_role("button", name="Verify this stream").press("Enter")
        await expect(form.get_by_role("alert")).to_contain_text("there is no stream schedule:nobody")
        visit.excuse("404")
        await late.get_by_role("definition").first.get_by_role("link").click()
        await expect(page.get_by_role("table", name="Segments").get_by_role("row")).to_have_count(rang + 1)
        await visit.follow("/console/health")
        await brief.get_by_role("link").first.click()
        await expect(page.get_by_role("main")).to_contain_text("handler:brief")


async def test_a_snoozed_wake_a_verification_and_the_dashboard_are_led_to(visiting: Visiting) -> None:
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    dashboard = "https://grafana.example/d/betimes"
    async with (
        bt,
        served(bt, console=ConsoleSettings(grafana=dashboard)) as found,
        visiting(found.address) as visit,
    ):
        await bt.schedules.create({"schedule_id": "pulse", "every": {"seconds": 60}, "target": {"kind": "sweep"}})
        store, stream = bt.engine.store, StreamId("default", "schedule", "pulse")
        await store.snooze(stream, 1, await store.now() + 600_000_000, "KeyError: 'ticker'")
        report = await verify(store, bt.engine.kinds, tenant="default")
        await record_verification(bt.engine, report, tenant="default", kind=None, actor="lena")
        page = await visit.open("/console/health")
        grafana = page.get_by_role("link", name="Open in Grafana")
        await expect(grafana).to_have_attribute("href", dashboard)
        await expect(grafana).to_have_attribute("rel", "noreferrer")
        row = page.get_by_role("table", name="Streams whose wake failed").get_by_role("row", name="pulse")
        await expect(row).to_contain_text("KeyError: 'ticker'")
        await expect(row).to_contain_text("in 10 min")
        await row.get_by_role("button", name="Ring now").click()
        await expect(page.get_by_role("dialog")).to_contain_text("KeyError: 'ticker'")
        await page.keyboard.press("Escape")
        ledger = page.get_by_role("region", name="Ledger")
        await expect(ledger).to_contain_text("by lena: this tenant")
        await ledger.get_by_role("link", name="sound").click()
        await expect(page.get_by_role("main")).to_contain_text("verify")
