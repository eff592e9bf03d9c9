"""Hostile texts in the console: whatever somebody has recorded stays text, in its place, and links still lead on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Visiting
from tests.console.rogue import IDS, MARKUP, rogue
from tests.console.town import Served
from tests.console.visits import LoopThread, Visit, entered

pytestmark = pytest.mark.browser

LISTS = (
    *("", "/next", "/ledger", "/schedules", "/sensors", "/intents", "/runs", "/scores", "/effects"),
    *("/lab", "/try", "/health", "/admin"),
)
MADE_UP = (
    f"/why/{quote(MARKUP, safe='')}",
    f"/people/{quote(MARKUP, safe='')}",
    "/people/a%2Fb",
    "/schedules/..%2F..%2Fadmin",
    "/runs/%E0%A4%A",
    "/why/%",
    f"/ledger?kind={quote(MARKUP, safe='')}&id=%00&nonsense={quote(MARKUP, safe='')}",
    f"/?reason={quote(MARKUP, safe='')}&range=<b>&from=x&to=y",
    f"/effects?status={quote(MARKUP, safe='')}&error=%E0%A4%A",
    f"/{quote(MARKUP, safe='')}",
)
FAILURES = ("This did not work", "The console could not start")
LIVE_MARKUP = "img, iframe, object, embed, style, base, form[action], [onerror], [onclick], [onload], [srcdoc]"
ALIVE = """(markup) => [
  typeof rogue,
  document.body.querySelectorAll("script").length,
  document.scripts.length,
  document.querySelectorAll(markup).length,
]"""
LOOSE_TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    if (!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(walker.currentNode.data)) continue;
    const style = getComputedStyle(walker.currentNode.parentElement);
    if (style.display === "inline" && !style.unicodeBidi.startsWith("isolate")) {
      found.push(walker.currentNode.parentElement.outerHTML.slice(0, 200));
    }
  }
  return found;
}"""
"""Texts that turn the direction of what stands beside them in the same line."""


@pytest.fixture(scope="module")
def server(loop: LoopThread) -> Iterator[Served]:
    """What a rogue has recorded; these tests only look."""
    with entered(loop, rogue()) as found:
        yield found


async def check_harmless(page: Page) -> None:
    """Find whether a text became an element, ran, turned its neighbours around, or made the page wider."""
    assert await page.evaluate(ALIVE, LIVE_MARKUP) == ["undefined", 0, 2, 0]  # two scripts the page was served with
    assert await page.evaluate(LOOSE_TEXTS) == []
    for width in (1440, 320):
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{page.url[:120]} is {wide} px too wide at {width}"


async def one_of_each(server: Served) -> dict[str, str]:
    """Return a segment of each command that was recorded."""
    page = await server.bt.ledger.segments({}, limit=200)
    return {str((one.command or {}).get("type")): one.segment_id for one in page.items}


async def follow_and_check(visit: Visit, paths: Iterable[str]) -> None:
    await visit.open("/console/health")
    for path in paths:
        page = await visit.follow(f"/console{path}")
        await check_harmless(page)
        assert await page.get_by_role("heading", level=1).inner_text() not in FAILURES, path


async def test_texts_stay_texts_on_every_list(server: Served, visiting: Visiting) -> None:
    async with visiting(server.address) as visit:
        await follow_and_check(visit, LISTS)


@pytest.mark.parametrize("one", IDS, ids=("long", "odd", "false instant"))
async def test_texts_stay_texts_on_the_page_of_each_thing(one: str, server: Served, visiting: Visiting) -> None:
    name, plain = quote(one, safe=""), quote(one.replace(":", "-"), safe="")
    async with visiting(server.address) as visit:
        run_id = (await server.bt.runs.runs()).items[0].run_id
        paths = [f"/people/{name}", f"/accounts/{name}", f"/scores/{name}"]
        paths += [f"/{kind}/{plain}" for kind in ("schedules", "sensors", "intents")]
        await follow_and_check(visit, (*paths, f"/runs/{run_id}"))
        page = await visit.follow("/console/effects?status=dead")
        await page.get_by_role("link", name=f"schedule:{one.replace(':', '-')}:2:0").click()
        await expect(page.get_by_role("table", name="Attempts, oldest first")).to_be_visible()
        await check_harmless(page)


async def test_texts_stay_texts_in_every_why(server: Served, visiting: Visiting) -> None:
    async with visiting(server.address) as visit:
        segments = (await one_of_each(server)).values()
        await follow_and_check(visit, [f"/why/{quote(one, safe='')}" for one in segments])


async def test_links_with_odd_ids_lead_where_they_say(server: Served, visiting: Visiting) -> None:
    async with visiting(server.address) as visit:
        page = await visit.open("/console/ledger?kind=inbox")
        for one in IDS:
            await page.get_by_role("row").get_by_role("link", name=one, exact=True).first.click()
            await expect(page.get_by_role("heading", level=1)).to_contain_text(one)
            await page.go_back()


async def test_an_address_that_somebody_made_up_is_said_to_be_wrong(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        for path in MADE_UP:
            page = await visit.open(f"/console{path}")
            await check_harmless(page)
            heading = await page.get_by_role("heading", level=1).inner_text()
            assert heading != "The console could not start", path
            visit.excuse("40[04]|422")


async def test_what_is_searched_for_is_text_too(server: Served, visiting: Visiting) -> None:
    async with visiting(server.address) as visit:
        page = await visit.open("/console")
        await page.keyboard.press("/")
        for asked in (MARKUP, "id:W", "_a..b~c"):
            await page.get_by_role("combobox", name="Find").fill(asked)
            await expect(page.get_by_role("dialog")).to_contain_text("Nothing begins" if asked == MARKUP else asked)
            await check_harmless(page)
