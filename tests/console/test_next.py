"""What's next: what is due when, what piles up, what is late, and what waits for what."""

import re
from datetime import datetime
from typing import Any

import pytest
from playwright.async_api import expect

from betimes.app.betimes import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.town import Served, served

pytestmark = pytest.mark.browser
QUIET = {"timezone": "UTC", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
NOTE: dict[str, Any] = {"source": "chat", "channels": ["in_app"], "event_type": "MESSAGE", "title": "Tom replied"}
HOURLY: dict[str, Any] = {"cron": "30 * * * *", "target": {"kind": "sweep"}}
SLEEPERS = 25
DIGESTED = 40
UNIMPORTANT: dict[str, Any] = {
    **NOTE,
    "event_type": "PROMO",
    "priority_hint": "LOW",
    "user_id": "awake",
    "event_id": "offer",
    "message": "An offer",
}


async def sleep_tight(bt: Betimes) -> None:
    """Let many people sleep, with a message for each of them; something small happens every hour."""
    await bt.schedules.put("hourly", HOURLY)
    for number in range(SLEEPERS):
        await bt.notifications.set_preferences(f"s{number}", QUIET)
        note = {**NOTE, "user_id": f"s{number}", "event_id": f"e{number}", "message": f"Message {number}"}
        await bt.notifications.send(note)


async def test_what_is_due_next_is_found_from_the_first_page_and_narrowed(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        await page.get_by_role("link", name="What's next").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("What's next")
        await page.keyboard.press("]")
        await expect(page.get_by_role("region", name="Due 29 Mar 15:20 – 30 Mar 15:20")).to_be_visible()
        await page.keyboard.press("[")
        await expect(page.get_by_role("region", name="Due in the next 24 h")).to_be_visible()
        told = await town.bt.ledger.upcoming()
        await page.get_by_text("The same as a table").click()
        numbers = page.get_by_role("table", name="Due by time and kind")
        await expect(numbers.get_by_role("columnheader", name="schedule ticks")).to_be_visible()
        assert {row.kind for row in told.rows} >= {"inbox", "schedule"}
        await page.get_by_role("navigation", name="Kind").get_by_role("link", name="schedule").click()
        await page.wait_for_url("**kinds=schedule*")
        items = page.get_by_role("table", name=re.compile("^Waiting"))
        await expect(items).to_have_count(1)
        await expect(items.get_by_role("link", name="brief-0")).to_have_count(1)
        headings = items.get_by_role("columnheader")
        await expect(headings).to_have_text(["When", "Who", "What"])  # ticks wait for no reason
        # Every schedule in its own zone, with the offset beside the time; in one zone it is said once.
        brief = items.get_by_role("row", name="brief-0")
        await expect(brief).to_contain_text(re.compile(r"29 Mar 07:30:00 \+02:00\s+in 14 h 10 min"))
        await page.get_by_role("combobox", name="Time zone").select_option("utc")
        await expect(headings).to_have_text(["When +00:00", "Who", "What"])
        await expect(brief).to_contain_text(re.compile(r"29 Mar 05:30:00\s+in 14 h 10 min"), use_inner_text=True)
        await page.get_by_role("link", name="Remove the filter kind:schedule").click()
        await page.get_by_role("link", name="QUIET_HOURS").first.click()
        await expect(page.get_by_role("link", name="Remove the filter reason:QUIET_HOURS")).to_be_visible()
        await page.get_by_role("link", name=re.compile("^Why ")).first.click()
        await page.wait_for_url("**/console/why/*")
        assert len(visit.requests) <= 36


async def test_what_waits_stands_in_one_list_in_the_order_of_time(town: Served, visiting: Visiting) -> None:
    """Also where not everything is loaded: what may be followed by something between stands apart until it is."""
    async with visiting(town.address) as visit:
        page = await visit.open("/console/next")
        orders = page.get_by_role("navigation", name="Order")
        await expect(orders.get_by_role("link", name="time")).to_have_attribute("aria-current", "true")
        await expect(page.get_by_role("heading", name="What waits, soonest first")).to_be_visible()
        waiting = page.get_by_role("table", name=re.compile("^Waiting"))
        await expect(waiting).to_have_count(1)
        times = waiting.get_by_role("rowheader").locator("time")
        told = await town.bt.ledger.upcoming_items(limit=200)
        shown = await times.evaluate_all("(all) => all.map((one) => one.dateTime)")
        assert [datetime.fromisoformat(one) for one in shown] == sorted(item.at for item in told.items)
        # People's zones are mixed here, so each time says its offset and how far it is from now.
        texts = await times.all_inner_texts()
        assert all(re.search(r"[+-]\d\d:\d\d\s+in \d", text) for text in texts), texts
        await orders.get_by_role("link", name="reason").click()
        await page.wait_for_url("**by=reason")
        await expect(page.get_by_role("heading", name="What waits, by reason")).to_be_visible()
        await expect(page.get_by_role("heading", name="schedule ticks")).to_contain_text(
            "next 18:00 +00:00 in 2 h 40 min"
        )
        await expect(page.get_by_role("table", name="Waiting: reason QUIET_HOURS")).to_have_count(1)


async def test_what_is_not_loaded_yet_may_come_between_and_is_said_to(visiting: Visiting) -> None:
    digest = {"notifications": {"event_types": {"UPDATE": {"digest": True}}}}
    clock = VirtualClock("2026-11-17T01:10:00Z")
    async with Betimes("memory://", clock=clock, policy=digest, report=lambda _: None) as bt:
        await sleep_tight(bt)
        await bt.notifications.send(UNIMPORTANT)
        for number in range(DIGESTED):
            update = {**NOTE, "event_type": "UPDATE", "user_id": "awake"}
            await bt.notifications.send(
                {**update, "event_id": f"u{number}", "title": f"Update {number}", "message": "."}
            )
        async with served(bt) as night, visiting(night.address) as visit:
            page = await visit.open("/console/next")
            whole = page.get_by_role("table", name="Waiting, soonest first", exact=True)
            beyond = page.get_by_role("table", name="Waiting later, as far as it is loaded")
            await expect(beyond).to_have_count(1)
            await page.get_by_role("button", name="Show more").click()
            await expect(page.get_by_role("button", name="Show more")).to_have_count(0)
            await expect(beyond).to_have_count(0)
            await expect(whole.get_by_role("row")).to_have_count(1 + SLEEPERS + 1 + DIGESTED + 1)


async def test_what_piles_up_is_named_and_leads_to_those_who_wait(visiting: Visiting) -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-11-17T01:10:00Z"), report=lambda _: None) as bt:
        await sleep_tight(bt)
        async with served(bt) as night, visiting(night.address) as visit:
            page = await visit.open("/console/next")
            await expect(page.get_by_text("07:00–07:15: 25 people with notifications")).to_be_visible()
            await page.get_by_role("listitem").get_by_role("link", name="07:00–07:15").click()
            waiting = page.get_by_role("table", name="Waiting, soonest first", exact=True)
            await expect(waiting.get_by_role("row")).to_have_count(SLEEPERS + 1)
            await expect(waiting.get_by_role("row", name="QUIET_HOURS")).to_have_count(SLEEPERS)
            for distance, count in (("<1h", 1), ("<7h", SLEEPERS + 1)):
                await page.get_by_role("textbox", name="Filter").fill(f"until:{distance}")
                await page.get_by_role("button", name="Apply").click()
                await expect(
                    page.get_by_role("table", name=re.compile("^Waiting")).get_by_role("link")
                ).not_to_have_count(0)
                await expect(page.locator(".next-items tbody tr")).to_have_count(count)
            await page.get_by_role("link", name="7 d", exact=True).click()
            await expect(page.get_by_role("heading", name="Due in the next 7 d")).to_be_visible()


async def test_what_is_late_stands_above_in_words_and_first_in_the_list(visiting: Visiting) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    async with Betimes("memory://", clock=clock, workers=False, report=lambda _: None) as bt:
        await sleep_tight(bt)
        clock.advance(7 * 3600)
        async with served(bt) as night, visiting(night.address) as visit:
            page = await visit.open("/console/next")
            await expect(page.get_by_text(f"{SLEEPERS + 1} late, the oldest was due")).to_be_visible()
            await page.get_by_role("link", name=f"{SLEEPERS + 1}", exact=True).first.click()
            await page.wait_for_url("**to=*")
            waiting = page.get_by_role("table", name="Waiting, soonest first", exact=True)
            await expect(waiting.locator("tr.late-row")).to_have_count(SLEEPERS + 1)
            await page.get_by_role("link", name="reason", exact=True).click()
            late = page.get_by_role("table", name="Waiting: late")
            await expect(late.get_by_role("row")).to_have_count(SLEEPERS + 2)


async def test_what_is_next_follows_a_clock_that_leaps(visiting: Visiting) -> None:
    """Nothing is decided meanwhile, and still what was next is not next any more."""
    async with Betimes("memory://", clock=VirtualClock("2026-11-17T01:10:00Z"), report=lambda _: None) as bt:
        await bt.schedules.put("noon", {"cron": "0 12 * * *", "target": {"kind": "sweep"}})
        async with served(bt) as night, visiting(night.address) as visit:
            page = await visit.open("/console/next")
            await expect(page.get_by_role("row", name="noon")).to_contain_text("in 10 h 50 min")
            await expect(page.get_by_text("live", exact=True)).to_be_visible()
            await bt.advance(by_s=7200)
            await expect(page.get_by_role("row", name="noon")).to_contain_text("in 8 h 50 min")


async def test_a_server_with_nothing_to_do_teaches_how_to_give_it_something(
    nothing: Served, visiting: Visiting
) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/next")
        await expect(page.get_by_text("Nothing is due in the next 24 h.")).to_be_visible()
        await expect(page.get_by_role("figure").first).to_contain_text(f"{nothing.address}/v1/schedules/brief")


async def test_a_filter_that_is_not_known_is_an_error(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/next")
        await page.get_by_role("textbox", name="Filter").fill("colour:red")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_role("alert").get_by_text("colour:red")).to_be_visible()
        await page.get_by_role("textbox", name="Filter").fill("until:soon")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_role("alert")).to_contain_text("write an instant")
