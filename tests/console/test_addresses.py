"""Addresses of pages: filters as a text and as chips, times as people write them, and what cannot be read is said."""

import re

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.town import Served

pytestmark = pytest.mark.browser

ABSURD = {
    "?range=banana": "range=banana: write one of 1h, 24h, 7d, 30d.",
    "?from=99999-99-99": "from=99999-99-99: write an instant such as",
    "/next?at=abc": "at=abc: write an instant such as",
    "/people/p0?date=2026-02-31": "date=2026-02-31: write a day of the calendar",
    "/people/p0?answer=perhaps": "answer=perhaps: write one of now, later, never, waits.",
    "/schedules/brief-0?range=year": "range=year: write one of day, week, month.",
    "/try?at=yesterday": "at=yesterday: write an instant such as",
    "/try?command=sing": "command=sing: write one of send, trigger",
    "/try?as=xml": "as=xml: write one of form, json.",
    "/lab?days=9": "days=9: write one of 1, 7, 30.",
    "/lab?domain=weather": "domain=weather: write one of notifications,",
    "/lab?set=cap": "set=cap: write path=value",
    "/intents?view=all-of-them": "view=all-of-them: write one of all, pending.",
    "/next?by=colour": "by=colour: write one of time, reason.",
    "?from=-90d": "write an instant of the 30 days before",
}
PAGES = (
    *("", "/next", "/ledger", "/schedules", "/sensors", "/intents", "/intents?view=pending", "/runs", "/scores"),
    *("/effects", "/lab", "/lab/b1", "/try", "/health", "/admin", "/people/p0", "/accounts/p0", "/why/inbox%3Aa%3A1"),
    *("/schedules/a", "/sensors/a", "/intents/a", "/runs/a", "/scores/a", "/effects/a"),
)
GONE = {
    "/schedules/a": "Schedules",
    "/sensors/a": "Sensors",
    "/intents/a": "Intents",
    "/runs/a": "Runs",
    "/scores/a": "Scores",
    "/effects/inbox%3Aa%3A1%3A0": "Effects",
    "/lab/bkt_a": "Policy lab",
}


async def test_an_absurd_address_says_what_is_wrong_and_leads_back(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/admin")
        for path, told in ABSURD.items():
            await visit.follow(f"/console{path}")
            await expect(page.get_by_role("alert")).to_contain_text(told)
            await page.get_by_role("link", name="Show this page as it is without filters").click()
            await expect(page.get_by_role("heading", level=1)).not_to_have_text("This did not work")
            await expect(page.get_by_role("alert").filter(has_text="write")).to_have_count(0)


async def test_a_name_that_a_page_does_not_know_is_an_error(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/admin")
        for path in PAGES:
            await visit.follow(f"/console{path}{'&' if '?' in path else '?'}colour=red")
            await expect(page.get_by_role("alert").filter(has_text="colour").first).to_be_visible()
        visit.excuse("422")


async def test_what_is_not_there_leads_to_the_list_it_would_be_in_and_to_the_search(
    nothing: Served, visiting: Visiting
) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/admin")
        for path, name in GONE.items():
            await visit.follow(f"/console{path}")
            await expect(page.get_by_role("heading", level=1)).to_contain_text("There is no")
            await expect(page.get_by_role("link", name=f"Look in {name}")).to_be_visible()
        await visit.follow("/console/intents/a")
        await page.get_by_role("button", name="Search for a").click()
        await expect(page.get_by_role("combobox", name="Find")).to_have_value("a")
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("link", name="Look in Intents").click()
        await page.wait_for_url("**/console/intents")
        visit.excuse("404")


async def test_a_word_without_a_name_is_said_to_be_read_as_an_id_and_may_be_read_otherwise(
    town: Served, visiting: Visiting
) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/ledger")
        await page.get_by_role("textbox", name="Filter").fill("brief-0")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/ledger?id=brief-0")
        await expect(page.get_by_role("link", name="Remove the filter id:brief-0")).to_contain_text("id:brief-0")
        reading = page.get_by_role("status").filter(has_text="“brief-0” was read as an id")
        await reading.get_by_role("link", name="correlation").click()
        await page.wait_for_url("**/ledger?correlation_id=brief-0")
        await expect(reading).to_have_count(0)
        await page.get_by_role("textbox", name="Filter").fill("brief-0 brief-1")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("brief-1: there is a value of id already")


async def test_the_ledger_is_narrowed_by_a_day_and_by_a_distance_from_now(town: Served, visiting: Visiting) -> None:
    """The town stands at 15:20 UTC on 28 March; its person is in Berlin, an hour ahead."""
    async with visiting(town.address) as visit:
        page = await visit.open("/console/ledger?since=abc")
        await expect(page.get_by_role("alert").filter(has_text="422")).to_contain_text("query.since")
        visit.excuse("422")
        text = page.get_by_role("textbox", name="Filter")
        written = {
            "kind:sensor since:-30m": "since=2026-03-28T14%3A50%3A00.000Z",
            "kind:sensor since:2026-03-28": "since=2026-03-28T00%3A00%3A00.000Z",
            "kind:sensor until:2026-03-28T09:30": "until=2026-03-28T09%3A30%3A00.000Z",
        }
        for said, query in written.items():
            await text.fill(said)
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(re.compile(re.escape(query)))
        await expect(page.get_by_role("link", name="Remove the filter until:")).to_contain_text("09:30 +00:00")
        await page.get_by_role("combobox", name="Time zone").select_option("mine")
        await expect(page.get_by_role("link", name="Remove the filter until:")).to_contain_text("10:30 +01:00")
        await text.fill("since:2026-03-28")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("since=2026-03-27T23%3A00%3A00.000Z"))
        await expect(page.get_by_role("link", name="Remove the filter since:")).to_contain_text("00:00 +01:00")
        await visit.follow("/console/ledger?since=-10m")
        await expect(page.get_by_role("table", name="Segments").get_by_role("row").first).to_be_visible()
