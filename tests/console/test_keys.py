"""Keys: each on every page, where it does what the help says of it, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from playwright.async_api import Page, expect

from betimes.app.betimes import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.test_every_page import DETAILS, LISTS
from tests.console.town import Served, served
from tests.console.visits import Visit
from tests.console.workshop import workshop

pytestmark = pytest.mark.browser
PAGES_BY_KEY = {
    "n": "",
    "x": "/next",
    "l": "/ledger",
    "s": "/schedules",
    "o": "/sensors",
    "i": "/intents",
    "r": "/runs",
    "c": "/scores",
    "e": "/effects",
    "p": "/lab",
    "t": "/try",
    "h": "/health",
    "a": "/admin",
}
SHOWN = "() => [location.pathname + location.search, document.querySelector('main h1').textContent]"
FOCUSED_ROW = "() => Boolean(document.activeElement?.closest('tr.row'))"
"""Whether a row has the focus."""
ROWS = (
    "() => [...document.querySelectorAll('main tr.row')].some((one) => one.checkVisibility() && one.querySelector('a'))"
)
"""Whether there is a row to walk to."""
HAS_WHY = "() => Boolean(document.activeElement?.closest('tr.row')?.querySelector('a[href^=\"/console/why/\"]'))"
"""Whether the row that has the focus knows a why."""
CHECKS_A_PAGE = 100
TURNED = {"earlier": "[", "later": "]"}


async def addresses(address: str) -> list[str]:
    """Return the address of every page, without those of things that are not there."""
    found = list(LISTS)
    async with aiohttp.ClientSession(address) as session:
        for asked, key, path in DETAILS.values():
            async with session.get(asked) as answer:
                items = (await answer.json())["items"]
            found += [path + one[key].replace(":", "%3A") for one in items]
    return found


@asynccontextmanager
async def many_checks() -> AsyncIterator[Served]:
    """Serve an intent that was checked more often than one page shows."""
    clock = VirtualClock("2026-11-17T06:00:00Z")
    async with Betimes("memory://", clock=clock, workers=False, report=lambda _: None) as bt:
        often = {"user_id": "ana", "trigger_type": "interval", "schedule": {"interval_minutes": 60}}
        await bt.intents.put("often", {**often, "action_type": "notify", "action_context": "Stretch."})
        for _ in range(CHECKS_A_PAGE + 5):
            clock.advance(3600)
            await bt.intents.fire("often", {"status": "success"})
        async with served(bt) as found:
            yield found


async def test_every_key_does_what_the_help_says_on_every_page_or_nothing(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        await visit.open("/console/health")
        for path in await addresses(shop.address):
            page = await visit.follow(f"/console{path}")
            await press_what_stays(page)
            await press_through_time(visit, page)
            await press_through_rows(page)
            visit.excuse("404")  # of what is not there, such as the first page of nobody


async def press_what_stays(page: Page) -> None:
    """Press the keys after which the same page is shown: help, search, theme, zone, pause."""
    shown = await page.evaluate(SHOWN)
    for key, name in (("?", "Keys"), ("/", "Find"), ("Control+k", "Find")):
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog", name=name)).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    theme = await page.evaluate("document.documentElement.dataset.theme")
    await page.keyboard.press("t")
    assert await page.evaluate("document.documentElement.dataset.theme") not in (theme, None)
    zone = await page.evaluate("localStorage.getItem('betimes.zone')")
    await page.keyboard.press("z")
    assert await page.evaluate("localStorage.getItem('betimes.zone')") != zone
    pause = page.get_by_role("button", name="Pause", exact=True).and_(page.locator("[data-space]"))
    if await pause.count():
        await page.keyboard.press("Space")
        await expect(page.get_by_role("button", name="Go on")).to_be_visible()
    assert await page.evaluate(SHOWN) == shown


async def press_through_time(visit: Visit, page: Page) -> None:
    """Go earlier or later and back, where there is a window of time; elsewhere stay."""
    for way, key in TURNED.items():
        link = page.locator(f"[data-{way}]")
        before = page.url
        if await link.count():
            await page.keyboard.press(key)
            await page.wait_for_function("(url) => location.href !== url", arg=before)
            await visit.settle()
            await page.keyboard.press("]" if key == "[" else "[")
            await visit.settle()
            return
        await page.keyboard.press(key)
        assert page.url == before


async def press_through_rows(page: Page) -> None:
    """Walk to the first row and back to it, and open its why, or what it links to; stay where there are no rows."""
    has_rows, before = await page.evaluate(ROWS), page.url
    for key in ("j", "j", "k"):
        await page.keyboard.press(key)
        assert await page.evaluate(FOCUSED_ROW) == has_rows
    has_why = await page.evaluate(HAS_WHY)
    await page.keyboard.press("w")
    if has_why:
        await page.wait_for_url("**/console/why/*")
        return
    assert page.url == before
    if has_rows:
        await page.keyboard.press("Enter")
        await page.wait_for_function("(url) => location.href !== url", arg=before)


async def test_g_and_a_letter_lead_to_every_page(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/health")
        links = page.get_by_role("navigation", name="Pages").get_by_role("link")
        assert await links.count() == len(PAGES_BY_KEY)
        for letter, path in PAGES_BY_KEY.items():
            await page.keyboard.press("g")
            await page.keyboard.press(letter)
            await page.wait_for_url(f"**/console{path}")
            await visit.settle()


async def test_the_checks_of_an_intent_are_turned_over_with_keys(visiting: Visiting) -> None:
    """More than one page of them: `[` leads to what is older, `]` back to the newest."""
    async with many_checks() as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/intents/often")
        newest = page.get_by_role("table", name="Executions, newest first").get_by_role("row").nth(1)
        first = await newest.inner_text()
        await page.keyboard.press("[")
        await page.wait_for_url("**cursor=*")
        await expect(newest).not_to_have_text(first)
        await page.keyboard.press("]")
        await page.wait_for_url("**/intents/often")
        await expect(newest).to_contain_text(first.split()[0])
