"""Effects in the console: find what is stuck, and try it again or let it go."""

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.dialogs import confirm
from tests.console.town import Served
from tests.console.workshop import workshop

pytestmark = pytest.mark.browser
HOURS = 5
DEAD = 4
"""The last report is tried still."""


async def test_what_is_stuck_is_found_and_tried_again(visiting: Visiting) -> None:
    async with workshop(HOURS) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console")
        await page.get_by_role("link", name=f"{DEAD} dead letters").click()
        groups = page.get_by_role("table", name="Dead letters by executor and error")
        await expect(groups.get_by_role("row", name="handler:report")).to_contain_text("no toner")
        await expect(page.get_by_text("No process has handler:brief: 1 call waits")).to_be_visible()
        shop.press.has_toner = True
        await groups.get_by_role("button", name=f"Retry {DEAD} of handler:report").click()
        await page.get_by_role("dialog").get_by_label("Note").fill("toner filled up")
        await expect(page.get_by_role("dialog")).to_contain_text(f"{DEAD} dead letters would be tried again")
        await confirm(page, f"Retry {DEAD} dead letters")
        await shop.bt.advance(by_s=60)
        await page.reload()
        await expect(page.get_by_text("No effects match")).to_be_visible()
        assert shop.press.printed == DEAD + 1
        recorded = await shop.bt.ledger.segments({"kind": "operation", "id": "effects"})
        assert [(one.command or {})["note"] for one in recorded.items] == ["toner filled up"]


async def test_dead_letters_that_are_chosen_are_let_go_with_the_keyboard(visiting: Visiting) -> None:
    async with workshop(HOURS) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/effects?status=dead")
        box = page.get_by_role("checkbox").first
        await box.focus()
        await page.keyboard.press("Space")
        await expect(page.get_by_text("1 selected")).to_be_visible()
        await page.get_by_role("button", name="Discard selected").focus()
        await page.keyboard.press("Enter")
        confirm = page.get_by_role("dialog").get_by_role("button", name="Discard 1 effect")
        await expect(confirm).to_be_enabled()
        await confirm.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("1 dead letter removed")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("checkbox")).to_have_count(3)
        # A dialog tells that it was closed a moment after it is gone.
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_role("main")).to_be_focused()


async def test_a_dead_letter_shows_every_attempt(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/effects?status=dead&error=TONER")
        await page.get_by_role("link", name="schedule:hourly-report:2:0").click()
        attempts = page.get_by_role("table", name="Attempts, oldest first")
        await expect(attempts.get_by_role("row")).to_have_count(7)
        await page.get_by_role("button", name="Retry").click()
        await confirm(page, "Retry schedule:hourly-report:2:0")
        await expect(page.get_by_text("pending").first).to_be_visible()


async def test_filters_can_be_typed_and_a_name_that_is_none_is_said(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/effects")
        text = page.get_by_label("Filter", exact=True)
        await text.fill("colour:red status:gone")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_role("alert")).to_contain_text("colour:red: write name:value")
        await expect(page.get_by_role("alert")).to_contain_text("status is one of pending, dead, failed, done")
        await text.fill('status:done kind:delivery error:"not there"')
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/effects?status=done&effect_kind=delivery&error=not+there")
        await expect(page.get_by_text("No effects match")).to_be_visible()
        await page.get_by_role("link", name="Remove the filter error:not there").click()
        await expect(page.get_by_role("table", name="Effects, newest first").get_by_role("row").nth(1)).to_be_visible()
