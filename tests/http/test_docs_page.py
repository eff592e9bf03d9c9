"""The page that shows the API, in a real browser: what is there, trying it, and that it needs nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from betimes.app.routes import ROUTES
from tests.cli.running import Server, serving
from tests.http.browser import Browser, Page

pytestmark = pytest.mark.browser

TRIGGERS = (
    "[...document.querySelectorAll('.operation')].find(one => one.dataset.words.startsWith('post /v1/triggers '))"
)
FORM = "document.querySelector('.operation[open] .try form')"
OUTPUT = "document.querySelector('.operation[open] .answer').textContent"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("docs")
    with serving("serve", "--dev", "--port", "0", "--db", "memory://", folder=folder) as server:
        yield server


@asynccontextmanager
async def docs(server: Server, browser: Browser) -> AsyncIterator[Page]:
    """The page of a server, when it has read the description; at the end nothing went wrong in it."""
    async with browser.page(f"{server.url}/docs") as page:
        await page.until("document.readyState === 'complete' && document.querySelector('#tags li:last-child')")
        yield page
        assert page.wrong == []


async def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(
    server: Server, browser: Browser
) -> None:
    async with docs(server, browser) as page:
        shown = await page.evaluate("document.querySelectorAll('.operation').length")
        assert shown == len(ROUTES)
        assert await page.evaluate("document.querySelector('h1').textContent") == "betimes 0.1.0"
        assert {asked.removeprefix(server.url) for asked in page.asked} == {"/docs", "/openapi.json"}


async def test_an_operation_is_found_tried_and_answered(server: Server, browser: Browser) -> None:
    async with docs(server, browser) as page:
        await page.evaluate("document.getElementById('find').value = 'ask for a run'")
        await page.evaluate("document.getElementById('find').dispatchEvent(new Event('input'))")
        assert await page.evaluate("document.querySelectorAll('.operation:not([hidden])').length") == 1
        await page.evaluate(f"({TRIGGERS}).querySelector('summary').click()")
        await page.until(FORM)
        await page.evaluate("document.querySelector('.operation[open] .try > summary').click()")
        await page.evaluate(f"{FORM}.querySelector('button.send').click()")
        answer = await page.until(f"{OUTPUT}.includes('explanation') && {OUTPUT}")
        assert answer.startswith("200 OK in ")
        assert '"result": "ALLOW"' in answer
        assert server.ask("GET", "/v1/triggers/sig-991").json["status"] == "allowed"


async def test_what_is_refused_is_shown_as_it_was_told(server: Server, browser: Browser) -> None:
    async with docs(server, browser) as page:
        await page.evaluate(f"location.hash = ({TRIGGERS}).id")
        await page.until(FORM)
        await page.evaluate(f"{FORM}.querySelector('textarea').value = '{{\"account_id\": 7}}'")
        await page.evaluate(f"{FORM}.requestSubmit()")
        answer = await page.until(f"{OUTPUT}.includes('errors') && {OUTPUT}")
        assert answer.startswith("422 ")
        assert "trigger_type" in answer
        assert await page.evaluate("document.querySelector('.operation[open] .answer strong').className") == "bad"
        page.wrong.clear()  # the browser logs every answer of 400 or more


async def test_a_request_is_told_as_a_command_for_a_shell_without_its_key(server: Server, browser: Browser) -> None:
    async with docs(server, browser) as page:
        await page.evaluate("document.getElementById('key').value = 'bt_secret'")
        await page.evaluate(f"({TRIGGERS}).open = true")
        await page.until(FORM)
        await page.evaluate(
            f"[...{FORM}.querySelectorAll('button')].find(one => one.textContent === 'As curl').click()"
        )
        told = await page.evaluate(OUTPUT)
        assert told.startswith(f"curl -s -X POST '{server.url}/v1/triggers'")
        assert "$BETIMES_KEY" in told
        assert "bt_secret" not in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_stand_out_from_the_page_by_day_and_by_night(server: Server, browser: Browser, scheme: str) -> None:
    async with docs(server, browser) as page:
        await page.prefers(scheme)
        await page.evaluate(f"({TRIGGERS}).open = true")
        await page.until(FORM)
        contrasts = await page.evaluate(CONTRASTS)
        assert len(contrasts) > 20
        assert min(contrasts) >= 4.5, "the least that is easy to read"


CONTRASTS = """
(() => {
  const light = text => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    const colour = node ? getComputedStyle(node).backgroundColor : "rgb(255, 255, 255)";
    return colour === "rgba(0, 0, 0, 0)" ? behind(node.parentElement) : colour;
  };
  return [...document.querySelectorAll("h1, h2, p, .method, .summary, .operation[open] *")]
    .filter(node => node.textContent.trim() && node.checkVisibility()).map(node => {
      const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
})()
"""
"""How far the colours of texts are from what is behind them, by the usual formula."""
