"""Schedules in the console: what ticks, how it went, and how to stop it."""

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.dialogs import confirm
from tests.console.town import Served
from tests.console.workshop import SCHEDULES, workshop

pytestmark = pytest.mark.browser
LIST_CALM_MS = 11_000
"""After which a list may be shown again."""


async def test_a_schedule_is_paused_and_that_is_undone_with_the_keyboard(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/schedules")
        await page.get_by_role("link", name="hourly-report").press("Enter")
        await page.get_by_role("button", name="Pause").press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("The next that would not:")
        await page.get_by_role("button", name="Pause hourly-report").press("Enter")
        undo = page.get_by_role("button", name="Undo", exact=True)
        await expect(undo).to_be_visible()
        assert (await shop.bt.schedules.get("hourly-report")).status == "paused"
        await undo.press("Enter")
        await expect(page.get_by_text("Undone: Resume hourly-report.")).to_be_visible()
        await page.keyboard.press("Escape")
        versions = page.get_by_role("table", name="Versions of the definition").get_by_role("row")
        await expect(versions).to_contain_text(["What changed", "resumed", "paused", "the oldest"])
        assert (await shop.bt.schedules.get("hourly-report")).status == "active"


async def test_ticks_appear_as_they_happen(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/schedules/pulse")
        rows = page.get_by_role("table", name="Ticks, newest first").get_by_role("row")
        await expect(rows).to_have_count(3)
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        await shop.bt.advance(by_s=3600)
        await expect(rows).to_have_count(5)
        # A count leads to what it counts, in the same page.
        await page.get_by_role("link", name="4", exact=True).click()
        await expect(page.get_by_role("link", name="status:fired ✕")).to_be_visible()
        await expect(page.get_by_role("region", name="Ticks")).to_be_focused()
        await page.keyboard.press("[")
        await expect(page.get_by_text("No tick in this range.")).to_be_visible()
        await page.keyboard.press("]")
        await expect(rows).to_have_count(5)


async def test_a_list_shows_by_itself_what_was_decided_meanwhile(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address, own=True) as visit:
        await visit.page.clock.install()
        page = await visit.open("/console/schedules")
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        await shop.bt.schedules.create({"schedule_id": "newcomer", **SCHEDULES["pulse"]})
        await shop.bt.schedules.trigger("newcomer")
        await page.clock.fast_forward(LIST_CALM_MS)
        await expect(page.get_by_role("row", name="Select newcomer")).to_contain_text("active")


async def test_schedules_that_match_are_paused_together_and_some_resumed(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/schedules?status=active")
        await page.get_by_role("button", name="Pause all that match").click()
        await expect(page.get_by_role("dialog")).to_contain_text("4 schedules would be changed")
        await expect(page.get_by_role("dialog")).to_contain_text("The next that would not fire:")
        await confirm(page, "Pause all that match", "Pause 4 schedules")
        await expect(page.get_by_text("No schedules match")).to_be_visible()
        await page.get_by_role("link", name="paused").click()
        for name in ("brief", "pulse"):
            await page.get_by_role("checkbox", name=f"Select {name}").check()
        await page.get_by_role("button", name="Resume selected").click()
        await confirm(page, "Resume 2 schedules")
        await expect(page.get_by_role("checkbox")).to_have_count(2)
        assert {one.schedule_id for one in (await shop.bt.schedules.list(status="active")).items} == {"brief", "pulse"}


async def test_a_tick_by_hand_and_a_backfill_are_shown_first_and_then_made(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/schedules/night-watch")
        await expect(page.get_by_text("No tick in this range.")).to_be_visible()
        await page.get_by_role("button", name="Tick now").click()
        await expect(page.get_by_role("dialog")).to_contain_text("would ask for the run")
        await confirm(page, "Tick night-watch now")
        await expect(page.get_by_role("table", name="Ticks, newest first")).to_contain_text("manual")
        await page.get_by_role("button", name="Backfill").click()
        await page.get_by_label("From (Europe/Berlin)").fill("2026-03-20T00:00")
        await page.get_by_label("To, not included (Europe/Berlin)").fill("2026-03-25T00:00")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("dialog")).to_contain_text(
            "5 ticks in the range, none of which exists yet, 5 would"
        )
        await confirm(page, "Backfill night-watch")
        await expect(page.get_by_role("table", name="Backfills, newest first")).to_contain_text("of 5")


async def test_a_backfill_says_how_many_of_its_ticks_exist_already(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/schedules/hourly-report")
        await page.get_by_role("button", name="Backfill").click()
        await page.get_by_label("From (Europe/Berlin)").fill("2026-03-27T05:00")
        await page.get_by_label("To, not included (Europe/Berlin)").fill("2026-03-27T10:00")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("dialog")).to_contain_text("5 ticks in the range: 2 of them exist already")
        await expect(page.get_by_role("dialog")).to_contain_text("3 would fire.")


async def test_a_schedule_shows_what_it_means_what_changed_and_what_the_clock_does_to_it(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        await shop.bt.schedules.patch("night-watch", {"overlap": "skip"})
        page = await visit.open("/console/schedules/night-watch")
        await expect(page.get_by_text("At 02:30 every day").first).to_be_visible()
        versions = page.get_by_role("table", name="Versions of the definition")
        await expect(versions).to_contain_text("overlap: allow → skip")
        await expect(versions.get_by_role("columnheader", name="Since")).to_have_text("Since +01:00")
        forward = page.get_by_role("table", name="forward by 1 h")
        await expect(forward.get_by_role("row", name="29 Mar 03:00 +02:00")).to_contain_text("changed")
        await expect(page.get_by_role("table", name="back by 1 h")).to_be_visible()


async def test_ticks_of_a_town_are_seen_with_their_runs(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/schedules")
        row = page.get_by_role("row", name="Select brief-0")
        await expect(row).to_contain_text("At 07:30 every day")
        await expect(row).to_contain_text("2 fired")
        await row.get_by_role("link", name="brief-0").click()
        await page.get_by_role("link", name="week").click()
        ticks = page.get_by_role("table", name="Ticks, newest first")
        await expect(ticks.get_by_role("row")).to_have_count(3)
        assert len([path for _, path in visit.requests if path.startswith("/v1/schedules/brief-0")]) <= 4


NOTHING_SCROLLS = """(count) => {
  const found = [...document.querySelectorAll(".timeline, .stacks")];
  return found.length >= count && found.every((one) => one.firstChild && one.scrollWidth <= one.clientWidth);
}"""


@pytest.mark.parametrize("path", ["/schedules/brief-0", "/sensors/mail", "/intents/nvda-0", "/scores/p0"])
async def test_drawings_and_tables_follow_the_window(path: str, town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open(f"/console{path}")
        for width in (320, 768, 1024, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            await page.wait_for_function(NOTHING_SCROLLS, arg=2)
