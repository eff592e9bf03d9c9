"""The policy lab: somebody tries a calmer policy on what was recorded, applies it, and takes it back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Visiting
from tests.console.dialogs import confirm
from tests.console.town import Served, populated
from tests.console.visits import LoopThread, entered

pytestmark = pytest.mark.browser

CAP = "notifications.fatigue.hour.cap"
DAY_CAP = "notifications.fatigue.day.cap"
TABS_MAX = 120


class Village(NamedTuple):
    """A small town of these tests' own, whose policy they change and put back, and a sweep that was tried on it."""

    address: str
    sweep_id: str

    async def history(self) -> list[Any]:
        async with aiohttp.ClientSession(self.address) as session, session.get("/v1/policy/history") as answer:
            items: list[Any] = (await answer.json())["items"]
            return items


@asynccontextmanager
async def built(folder: Path) -> AsyncIterator[Village]:
    async with populated(folder, people=8, steps=48) as served, aiohttp.ClientSession(served.address) as session:
        async with session.post("/v1/backtests", json={"sweep": {DAY_CAP: [2, 1]}}) as answer:
            sweep_id = (await answer.json())["backtest_id"]
        await served.bt.tick()
        yield Village(served.address, sweep_id)


@pytest.fixture(scope="module")
def village(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Village]:
    with entered(loop, built(tmp_path_factory.mktemp("village"))) as found:
        yield found


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has the focus is called so."""
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        if (
            await page.evaluate(
                "(document.activeElement.getAttribute('aria-label') ?? '') || "
                "(document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent)"
            )
            == name
        ):
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


async def test_a_calmer_policy_is_tried_applied_and_rolled_back_with_the_keyboard(
    village: Village, visiting: Visiting
) -> None:
    async with visiting(village.address) as visit:
        page = await visit.open("/console/lab")
        await tab_to(page, "Find a setting")
        await page.keyboard.type("fatigue hour cap")
        await tab_to(page, CAP)
        await page.keyboard.press("ControlOrMeta+a")
        await page.keyboard.type("1")
        await expect(page.get_by_text("Everybody: about")).to_be_visible()
        await tab_to(page, "Width of Edit")
        width = page.get_by_role("separator", name="Width of Edit")
        before = int(await width.get_attribute("aria-valuenow") or 0)
        await page.keyboard.press("ArrowRight")
        await expect(width).to_have_attribute("aria-valuenow", str(before + 2))
        await tab_to(page, "Try on 200 subjects")
        # The clock rings what was asked for before it moves, and nothing that comes after.
        async with page.expect_response("**/v1/backtests"):
            await page.keyboard.press("Enter")
        # One is queued already: it is named, and can be opened or cancelled.
        await page.get_by_role("button", name="Try on everybody").press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("is queued; wait for it, or delete it first")
        visit.excuse("409")
        await expect(page.get_by_role("link", name="Open it")).to_be_visible()
        async with page.expect_response("**/v1/backtests"):
            await page.get_by_role("button", name="Cancel it and try this").press("Enter")
        await page.get_by_role("button", name="Advance the clock by 1 s").press("Enter")
        await expect(page.get_by_text("The recorded policy reproduces all")).to_be_visible()
        await page.get_by_role("region", name="Changed answers").get_by_role("group").first.press("Enter")
        await tab_to(page, "Apply…")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("What waits now will be reconsidered")).to_be_visible()
        await expect(page.get_by_role("button", name="Apply the policy")).to_be_disabled()
        await tab_to(page, "Note, for the ledger (optional)")
        await page.keyboard.type("calmer evenings")
        await tab_to(page, "Type default to confirm")
        await page.keyboard.type("default")
        await tab_to(page, "Apply the policy")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Done.")).to_be_visible()
        await page.keyboard.press("Escape")
        watch = page.get_by_role("region", name="Watch")
        await expect(watch).to_contain_text("Watch version 1")
        applied = (await village.history())[0]
        assert (applied["note"], applied["backtest_id"][:4]) == ("calmer evenings", "bkt_")
        await watch.get_by_role("button", name="Roll back…").press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("1 → 10 (default)")
        await page.get_by_role("textbox", name="Type default to confirm").fill("default")
        await confirm(page, "Roll back")
    last = (await village.history())[0]
    assert (last["version"], last["overrides"]) == (2, {})


async def test_values_of_a_setting_are_swept_and_shown_to_whoever_has_the_link(
    village: Village, visiting: Visiting
) -> None:
    async with visiting(village.address) as visit:
        page = await visit.open(f"/console/lab/{village.sweep_id}")
        await expect(page.get_by_text("The recorded policy reproduces all")).to_be_visible()
        table = page.get_by_role("table", name="Policies side by side")
        await table.get_by_role("link", name=f"{DAY_CAP}=1").click()
        await page.get_by_role("button", name=f"{DAY_CAP}=1 into the draft").click()
        await expect(page.get_by_role("spinbutton", name=DAY_CAP)).to_have_value("1")
        await page.get_by_role("link", name="Times people are told").click()
        await expect(page.get_by_role("region", name="When people are told something")).to_be_focused()
        changed = page.get_by_role("table", name="Answers before and after")
        await expect(changed.get_by_role("row").nth(1)).to_contain_text("NOW")
        await page.get_by_role("region", name="Changed answers").get_by_role("group").first.click()
        await expect(page.get_by_text("← here they part")).to_be_visible()
        parting = page.get_by_role("region", name="Both traces of").get_by_role("row", name="here they part")
        await expect(parting).to_contain_text("within 24 hours; the cap is 30.")  # as the page of a verdict says it
        shared = page.url.removeprefix(village.address)
    async with visiting(village.address) as visit:
        page = await visit.open(shared)
        await expect(page.get_by_role("spinbutton", name=DAY_CAP)).to_have_value("1")


async def test_a_window_that_ends_today_says_the_days_of_both_ends(village: Village, visiting: Visiting) -> None:
    async with visiting(village.address, zone="Pacific/Auckland") as visit:
        page = await visit.open(f"/console/lab/{village.sweep_id}")
        window = page.get_by_text("commands from outside")
        await expect(window).to_be_visible()
        await page.get_by_role("combobox", name="Time zone").select_option("mine")
        await expect(window).to_contain_text(re.compile(r"^27 Mar 19:00 \+13:00 to 28 Mar 03:00(:\d\d)? \+13:00"))


async def test_a_wrong_line_of_toml_is_named(village: Village, visiting: Visiting) -> None:
    async with visiting(village.address) as visit:
        page = await visit.open("/console/lab?edit=toml")
        text = page.get_by_role("textbox", name="Overrides as TOML")
        await text.fill("[notifications.fatigue.hour]\ncap = 6\ncup = 7\n")
        await expect(page.get_by_role("button", name="Line 3")).to_be_visible()
        await text.fill("[notifications.fatigue.hour]\ncap 6\n")
        await expect(page.get_by_role("button", name="Line 2")).to_be_visible()
        visit.excuse("422")
        await text.fill("[notifications.fatigue.hour]\nca")
        await text.press("ControlOrMeta+ ")
        await page.get_by_role("option", name="cap").wait_for()
        await text.press("Enter")
        await text.press_sequentially("6")
        await expect(page.get_by_text("The server takes it.")).to_be_visible()
        await expect(page.get_by_role("region", name="Apply")).to_contain_text(f"{CAP}10 → 6")
        visit.excuse("422")


async def test_a_lab_where_nothing_happened_says_how_to_begin(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/lab")
        await expect(page.get_by_text("Nothing tried yet")).to_be_visible()
        await expect(page.get_by_role("button", name="Try on 200 subjects")).to_be_disabled()
        await page.get_by_role("link", name="Calmer: told at most once an hour, unless").click()
        await expect(page.get_by_role("spinbutton", name=CAP)).to_have_value("1")
        await expect(page.get_by_role("heading", name="Ideas to begin with")).to_have_count(0)


async def test_a_draft_stays_with_its_tenant(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/lab?set=notifications.ai_fallback=0.66")
        await expect(page.get_by_text("notifications.ai_fallback").first).to_be_visible()
        kept = "Object.keys(sessionStorage).filter((name) => name.startsWith('betimes.draft'))"
        assert await page.evaluate(kept) == ["betimes.draft.default"]
        await page.get_by_role("button", name="default").click()
        await page.get_by_role("dialog").get_by_role("textbox").fill("other")
        await page.get_by_role("button", name="Look").click()
        await expect(page.get_by_role("button", name="other")).to_be_visible()
        await page.get_by_role("link", name="Policy lab").click()
        await expect(page.get_by_role("heading", name="Policy lab")).to_be_visible()
        assert "draft" not in page.url
        await expect(page.get_by_text("ai_fallback 0.5 → 0.66")).to_have_count(0)
