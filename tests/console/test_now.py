"""Now: what happens appears by itself, every number leads to what it counts, and time is walked without a mouse."""

import re
from datetime import UTC, datetime

import pytest
from playwright.async_api import expect

from betimes.app.betimes import Betimes
from betimes.demo.town import START
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.town import Served, served

pytestmark = pytest.mark.browser


async def test_the_first_verdict_of_a_new_server_appears_by_itself_and_its_clock_is_moved(visiting: Visiting) -> None:
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    async with bt, served(bt) as own, visiting(own.address) as visit:
        page = await visit.open("/console")
        await expect(page.get_by_text("Nothing was decided here yet")).to_be_visible()
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        await bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})
        verdicts = page.get_by_role("table", name="Verdicts, newest first")
        await expect(verdicts.get_by_role("row", name="ALLOW")).to_contain_text("acct-7")
        await bt.schedules.put("hourly", {"cron": "30 * * * *", "target": {"kind": "sweep"}})
        await page.get_by_role("button", name="virtual").press("Enter")
        dialog = page.get_by_role("dialog", name="Move the clock")
        await dialog.get_by_role("button", name="Advance the clock by 10 min").press("Enter")
        await expect(dialog).to_contain_text("Fri 27 Mar 06:10:00 +00:00")
        await dialog.get_by_role("button", name="Go there").press("Enter")
        await expect(dialog).to_contain_text("Fri 27 Mar 06:30:00 +00:00")
        await expect(dialog).to_contain_text("1 alarm rang")


async def test_rows_are_walked_with_the_arrow_keys_and_ranges_with_brackets(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        table = page.get_by_role("table", name="Verdicts, newest first")
        await page.get_by_role("group", name="Verdicts, newest first").focus()
        for row in (1, 2):
            await page.keyboard.press("ArrowDown")
            assert await table.get_by_role("row").nth(row).evaluate("(one) => one.contains(document.activeElement)")
        await page.keyboard.press("[")
        await expect(page.get_by_role("heading", name="In this window")).to_be_visible()
        await expect(page.get_by_role("link", name="26 Mar 16:00 – 27 Mar 16:00 ✕")).to_be_visible()
        await page.keyboard.press("]")
        await expect(page.get_by_role("heading", name="As it happens")).to_be_visible()
        await visit.follow("/console?colour=red")
        await expect(page.get_by_role("alert")).to_contain_text("query.colour")
        visit.excuse("422")


async def test_counts_and_trends_are_those_of_the_range_that_is_asked_for(town: Served, visiting: Visiting) -> None:
    """A day is usual; since earlier than that the range is as long as it must be, and since later as short as it is."""
    async with visiting(town.address) as visit:
        points: dict[str, int] = {}
        counted: list[int] = []
        for since, name in (("-3h", "24 h"), ("-5d", "7 d")):
            page = await visit.follow(f"/console?from={since}") if points else await visit.open("/console?from=-3h")
            await expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "true")
            line = await page.locator(".tile .sparkline .line").first.get_attribute("d")
            points[since] = (line or "").count("L") + 1
            counted = [int(await one.inner_text()) for one in await page.locator(".tile-value").all()]
        assert points == {"-3h": 7, "-5d": 41}  # by half hours, and by three hours, with the step that is under way
        begin, end = datetime(2026, 3, 23, 15, tzinfo=UTC), datetime(2026, 3, 28, 18, tzinfo=UTC)
        told = await town.bt.ledger.stats(since=begin, until=end, step="3h")
        assert sum(counted) == sum(cell.count for cell in told.cells)


async def test_what_is_recorded_is_never_ahead_of_the_clock(visiting: Visiting) -> None:
    """The page has not heard of the leap of the clock that a row was recorded after."""
    clock = VirtualClock(START)
    bt = Betimes("memory://", clock=clock, report=lambda _: None)
    async with bt, served(bt) as own, visiting(own.address) as visit:
        await visit.page.route("**/v1/verdicts/stream**", lambda route: route.abort())
        page = await visit.open("/console/schedules")
        meta = await page.evaluate("fetch('/v1/meta').then((one) => one.text())")
        await page.route("**/v1/meta", lambda route: route.fulfill(body=meta, content_type="application/json"))
        clock.advance(16)
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "one"})
        await visit.follow("/console/ledger")
        row = page.get_by_role("row", name="06:00:16").filter(has_text="RequestRun")
        await expect(row).to_contain_text("now")
        await expect(row).not_to_contain_text("in 16 s")
        visit.excuse("ERR_FAILED")


async def test_numbers_lead_to_what_they_count(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        await expect(page.get_by_text(re.compile(r"^at most \d+ in 30 min$"))).to_be_visible()
        # All answers that are now, whatever each domain calls it.
        first = page.get_by_role("region", name="Answers").get_by_role("link").first
        count = int(await first.inner_text())
        await first.click()
        await expect(page.get_by_role("link", name="Remove the filter outcome:ALLOW,NOW,fired,")).to_be_visible()
        assert sum([int(await one.inner_text()) for one in await page.locator(".tile-value").all()]) == count
        # Chips and their text say the same, and a day is one of the zone shown.
        await page.get_by_role("textbox", name="Filter").fill("domain:runs since:2026-03-28")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console?domain=runs&from=2026-03-28T00%3A00%3A00.000Z")
        # So far back that minutes of the day before, with which it is compared, are kept no more.
        await page.get_by_role("textbox", name="Filter").fill("domain:runs since:-30h")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console?domain=runs&from=2026-03-27T**")
        await page.get_by_role("link", name="Remove the filter since:").click()
        await expect(page.get_by_role("textbox", name="Filter")).to_have_value("domain:runs")
        await page.get_by_role("textbox", name="Filter").fill("domain:runs until:soon")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert").filter(has_text="until:soon")).to_be_visible()
        skipped = page.get_by_title(re.compile(r"^never: \d+$"))
        await skipped.click()
        await expect(page.get_by_role("link", name="Remove the filter outcome:SKIP")).to_be_visible()
        reasons = page.get_by_role("table", name="Reasons of answers that were later or never")
        await reasons.get_by_role("row", name="BUDGET_EXHAUSTED").get_by_role("link").last.click()
        await expect(page.get_by_role("link", name="Remove the filter reason:BUDGET_EXHAUSTED")).to_be_visible()
        await page.get_by_text("The same as a table").click()
        await page.get_by_role("table", name="Answers over time").get_by_role("link").first.press("Enter")
        await expect(page.get_by_role("heading", name="In this window")).to_be_visible()
        shown = page.get_by_role("table", name="Verdicts, newest first").get_by_role("row")
        assert await shown.count() > 1
        assert await shown.filter(has_text="SKIP").count() == await shown.count() - 1
