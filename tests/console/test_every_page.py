"""Every page: accessible in light and dark, with much to show and with nothing, narrow and wide, within its bounds."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, Route

from betimes.console.site import START, load_assets, modules_of, page_modules
from tests.console.conftest import Visiting
from tests.console.town import Served
from tests.console.visits import Scheme

pytestmark = pytest.mark.browser

NODES_MAX = 3_000
REQUESTS_MAX = 12
SHELL_BYTES_MAX = 60_000
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES: dict[str, Any] = {"type": "tag", "values": TAGS}
CONTRAST: dict[str, Any] = {"type": "rule", "values": ["color-contrast"]}
HIDE_REPEATS = """() => {
  const attributes = (one) => [...one.attributes].map((each) => each.name).sort();
  const make = (one) => `${one.tagName} ${one.getAttribute("class")} ${attributes(one)}`;
  for (const parent of document.querySelectorAll("tbody, ul, ol, svg, svg g")) {
    const seen = {};
    for (const child of parent.children) {
      const parts = [child, ...child.querySelectorAll("*")];
      const name = parts.map(make).join();
      seen[name] = (seen[name] ?? 0) + 1;
      const isMark = child instanceof SVGElement && parts.some((one) => one.matches("a, [tabindex]"));
      child.style.display = seen[name] > 2 && !isMark ? "none" : "";
    }
  }
}"""
"""Of rows, items and shapes made of the same elements, classes and attributes, two are looked at; marks that somebody
can press are all looked at, because one may be too near to another."""
LOOSE_COUNTS = r"""() => {
  const places = ".tile-value, .tile-below *, .legend *, .number, .share, strong";
  const heading = (one) => one.closest("[data-label]")?.dataset.label ?? one.closest(".tile, section")?.innerText;
  return [...document.querySelectorAll(`main :is(${places})`)]
    .filter((one) => !one.firstElementChild && !one.closest("a, time, code, .measure"))
    .filter((one) => /^[^\d]*[1-9][\d,]*( or more| of [\d,]+)?$/.test(one.textContent.trim()))
    .map((one) => `${heading(one)}: ${one.textContent}`);
}"""
"""Whole numbers in tiles, legends and columns of numbers that lead nowhere. What counts nothing has the class
`measure`, or is no whole number: it has a unit or a fraction."""
AXE = Axe().axe_script
STATIC = Path(__file__).parents[2] / "src" / "betimes" / "console" / "static"
LISTS = (
    *("", "/next", "/ledger", "/schedules", "/sensors", "/intents", "/runs", "/scores", "/effects", "/lab", "/try"),
    *("/health", "/admin", "/people/p0", "/accounts/p0", "/no/such/page"),
)
REFUSED = ("/ledger?colour=red",)
"""Pages that show what the server says when it refuses."""
DETAILS = {
    "why": ("/v1/verdicts?domain=notifications&outcome=LATER&limit=1", "segment_id", "/why/"),
    "why of a run": ("/v1/verdicts?domain=runs&limit=1", "segment_id", "/why/"),
    "schedule": ("/v1/schedules?limit=1", "schedule_id", "/schedules/"),
    "sensor": ("/v1/sensors?limit=1", "sensor_id", "/sensors/"),
    "intent": ("/v1/intents?limit=1", "intent_id", "/intents/"),
    "run": ("/v1/runs?limit=1", "run_id", "/runs/"),
    "score": ("/v1/scores?limit=1", "user_id", "/scores/"),
    "effect": ("/v1/effects?limit=1", "effect_id", "/effects/"),
}


async def violations(page: Page, rules: dict[str, Any], within: str = ":root") -> list[str]:
    """Return what axe finds in a part of a page; it is in the page already."""
    options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
    find = "([within, options]) => axe.run(within, options).then((found) => found.violations)"
    found = await page.evaluate(find, [within, options])
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"][:3]]


async def check_page(page: Page) -> None:
    """Find whether the page fits narrow windows, and what axe finds in light and dark."""
    for width in (320, 768, 1440):  # 320 is also what a window of 1280 has at 400 %
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{page.url} is {wide} px too wide at {width}"
    await page.evaluate(HIDE_REPEATS)
    if await page.evaluate("typeof axe") == "undefined":
        await page.evaluate(AXE)
    # What stands around all pages is the same in the dark, and looked at on the first.
    dark = ":root" if page.url.endswith("/console") else "main"
    looks: tuple[tuple[Scheme, dict[str, Any], str], ...] = (("light", RULES, ":root"), ("dark", CONTRAST, dark))
    for scheme, rules, within in looks:
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page, rules, within) == [], f"{page.url} in {scheme}"


@pytest.mark.parametrize("path", LISTS)
async def test_a_page_of_a_town(town: Served, visiting: Visiting, path: str) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open(f"/console{path}")
        await page.wait_for_load_state("load")
        assert await page.get_by_role("heading", level=1).count() == 1
        assert await page.evaluate("document.querySelectorAll('*').length") <= NODES_MAX
        assert len(visit.requests) <= REQUESTS_MAX, visit.requests
        assert path == "/health" or await page.evaluate(LOOSE_COUNTS) == []  # its numbers are those of other systems
        await check_page(page)


@pytest.mark.parametrize("name", DETAILS)
async def test_a_page_of_one_thing(town: Served, visiting: Visiting, name: str) -> None:
    asked, key, path = DETAILS[name]
    async with aiohttp.ClientSession(town.address) as session, session.get(asked) as answer:
        found = await answer.json()
    async with visiting(town.address) as visit:
        page = await visit.open(f"/console{path}{found['items'][0][key].replace(':', '%3A')}")
        assert await page.evaluate("document.querySelectorAll('*').length") <= NODES_MAX
        assert len(visit.requests) <= REQUESTS_MAX, visit.requests
        assert await page.evaluate(LOOSE_COUNTS) == []
        await check_page(page)


@pytest.mark.parametrize("paths", [LISTS[::2], (*LISTS[1::2], *REFUSED)], ids=("one half", "the other half"))
async def test_pages_where_nothing_has_happened(nothing: Served, visiting: Visiting, paths: tuple[str, ...]) -> None:
    async with visiting(nothing.address) as visit:
        await visit.open("/console/health")
        for path in paths:
            page = await visit.follow(f"/console{path}")
            visit.excuse("404|422")
            await check_page(page)


async def test_a_page_is_legible_on_paper_and_in_colours_of_ones_own(town: Served, visiting: Visiting) -> None:
    """Paper is white whatever the screen is; the rule that bound has a bar where backgrounds are not shown."""
    background = "(one) => getComputedStyle(one).backgroundColor"
    bar = "(one) => Number.parseFloat(getComputedStyle(one).borderInlineStartWidth)"
    asked, key, path = DETAILS["why"]
    async with aiohttp.ClientSession(town.address) as session, session.get(asked) as answer:
        found = await answer.json()
    async with visiting(town.address, scheme="dark") as visit:
        page = await visit.open(f"/console{path}{found['items'][0][key].replace(':', '%3A')}")
        card, bound = page.get_by_label("The answer", exact=True), page.get_by_label(re.compile(": bound$"))
        assert await card.evaluate(background) != "rgb(255, 255, 255)"
        await page.emulate_media(media="print", color_scheme="dark")
        assert await card.evaluate(background) == "rgb(255, 255, 255)"
        assert await bound.evaluate(bar) >= 6
        assert not await page.get_by_role("navigation", name="Pages").is_visible()
        await page.emulate_media(media="screen", forced_colors="active", color_scheme="dark")
        assert await bound.evaluate(bar) >= 6
        await page.emulate_media(forced_colors="none")


def test_the_shell_is_small() -> None:
    assets = load_assets()
    whole = sum(len(assets[name].packed) for name in (*modules_of(assets, START), "style.css"))
    assert whole <= SHELL_BYTES_MAX, f"{whole:,} bytes"


def test_every_page_has_a_place_with_its_modules() -> None:
    places = dict(page_modules(load_assets()))
    pages = {path.name for path in STATIC.glob("page_*.js")}
    assert pages == {name for modules in places.values() for name in modules if name.startswith("page_")}
    assert len(places) == (STATIC / START).read_text("utf-8").count("  place(")


@pytest.mark.parametrize("path", ["", "/people/p0", "/lab", "/try", "/health"])
async def test_a_page_names_all_its_modules_before_any_of_them_runs(
    nothing: Served, visiting: Visiting, path: str
) -> None:
    """A module that another one has to name costs the page a journey to the server more."""
    async with visiting(nothing.address) as visit:
        page = await visit.open(f"/console{path}")
        named = await page.evaluate("[...document.querySelectorAll('link[rel=modulepreload]')].map((one) => one.href)")
        loaded = await page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert {one for one in loaded if one.endswith(".js")} == set(named)


async def test_who_looks_and_what_the_server_is_are_asked_together(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        is_asked = asyncio.Event()

        async def answer_after_the_other(route: Route) -> None:
            await is_asked.wait()
            await route.continue_()

        async def note(route: Route) -> None:
            is_asked.set()
            await route.continue_()

        await visit.page.route("**/v1/whoami", answer_after_the_other)
        await visit.page.route("**/v1/meta", note)
        await visit.open("/console")


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_a_module_is_short_and_takes_no_markup(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("/**")
    assert len(text.splitlines()) <= 300
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_assets_are_packed_as_they_are() -> None:
    for asset in load_assets().values():
        assert gzip.decompress(asset.packed) == asset.plain
