"""Visits to the console with a real browser: Playwright drives Debian's Chromium over a server that really serves.

One thread has one event loop, in which the browser and the servers of all tests of this process live; a test is a
coroutine that runs there. A window is used again by the next visit, emptied of everything that the one before has left:
opening one costs the browser more than a page does. Whatever a page does wrong fails the test that opened it: an error
it logs, a request to somewhere else, one that the API does not describe, a violation of the page's content policy.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright, expect

from tests.http.browser import CHROMIUM, FLAGS
from tests.patience import HANGS_S

T = TypeVar("T")
Scheme = Literal["light", "dark"]
PATIENCE_S = 120
"""How long a page is waited for before the test says what never came."""
WATCH_POLICY = (
    "document.addEventListener('securitypolicyviolation', (event) =>"
    " console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));"
)

FOLLOW = """async (path) => {
  const router = document.querySelector("script[type=module]").src.replace("main.js", "router.js");
  await (await import(router)).go(path);
}"""


class LoopThread:
    """An event loop in a thread of its own, for as long as the tests of a process run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANGS_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANGS_S)
        self._loop.close()


@contextmanager
def entered(loop: LoopThread, manager: Any) -> Iterator[Any]:
    """Enter an asynchronous context in the loop's thread, and leave it there."""
    found = loop.run(manager.__aenter__())
    try:
        yield found
    finally:
        loop.run(manager.__aexit__(None, None, None))


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=PATIENCE_S * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS[1:]))
        yield browser
        await browser.close()


class Visit:
    """A page that somebody looks at, and everything that it asked for or got wrong."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.wrong: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self._hears: dict[Any, Callable[[Any], None]] = {
            "console": self._note_message,
            "pageerror": lambda error: self.wrong.append(str(error)),
            "request": self._note,
        }
        for event, heard in self._hears.items():
            page.on(event, heard)

    def end(self) -> None:
        """Hear no more of what the page does."""
        for event, heard in self._hears.items():
            self.page.remove_listener(event, heard)

    def _note_message(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.wrong.append(said.text)

    def _note(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.address and parts.scheme != "data":
            self.wrong.append(f"a request to elsewhere: {request.url}")
        if not parts.path.startswith("/console"):
            self.requests.append((request.method, parts.path))

    async def open(self, path: str) -> Page:
        """Go to an address of the console, and wait until its page stands."""
        await self.page.goto(self.address + path)
        await self.settle()
        return self.page

    async def follow(self, path: str) -> Page:
        """Go on from the open page as a link does, and wait until the next one stands; loading it anew costs twice."""
        await self.page.evaluate(FOLLOW, path)
        await self.settle()
        return self.page

    async def settle(self) -> None:
        """Wait until the page has its heading."""
        await self.page.locator("main h1").first.wait_for()

    def excuse(self, pattern: str) -> None:
        """Forget what went wrong as the test meant it to."""
        self.wrong = [one for one in self.wrong if not re.search(pattern, one)]


class Windows:
    """Windows of a browser that wait for their next visit, by the zone they are in."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[str, list[Page]] = {}

    async def take(self, zone: str) -> Page:
        idle = self._idle.get(zone)
        return idle.pop() if idle else await open_window(self._browser, zone)

    async def give_back(self, zone: str, page: Page, address: str) -> None:
        """Leave nothing in a window of what was done there, and keep it."""
        await page.unroute_all()
        await page.set_extra_http_headers({})
        if page.url.startswith(address):
            await page.evaluate("sessionStorage.clear()")
        await page.goto("about:blank")
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": "all"})
        await devtools.detach()
        await page.context.clear_cookies()
        self._idle.setdefault(zone, []).append(page)


async def open_window(browser: Browser, zone: str) -> Page:
    context: BrowserContext = await browser.new_context(timezone_id=zone)
    await context.add_init_script(WATCH_POLICY)
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    return page


@asynccontextmanager
async def visit(
    browser: Browser | Windows,
    address: str,
    described: list[tuple[str, re.Pattern[str]]],
    *,
    width: int = 1440,
    height: int = 900,
    scheme: Scheme = "light",
    zone: str = "Europe/Berlin",
) -> AsyncIterator[Visit]:
    """Open the console as somebody who was never here; check at the end that its pages behaved."""
    windows = browser if isinstance(browser, Windows) else None
    page = await (windows.take(zone) if windows else open_window(cast("Browser", browser), zone))
    found = Visit(page, address)
    try:
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield found
        assert not found.wrong, found.wrong
        unknown = [asked for asked in found.requests if not is_described(asked, described)]
        assert not unknown, f"not in the API's description: {unknown}"
        found.end()
        if windows:
            await windows.give_back(zone, page, address)
            return
    except BaseException:
        await page.context.close()
        raise
    await page.context.close()


def is_described(asked: tuple[str, str], described: list[tuple[str, re.Pattern[str]]]) -> bool:
    return any(method == asked[0] and pattern.fullmatch(asked[1]) for method, pattern in described)


def described_routes(openapi: dict[str, Any]) -> list[tuple[str, re.Pattern[str]]]:
    """Return what the API describes, as methods and patterns of paths."""
    return [
        (method.upper(), re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))))
        for path, methods in openapi["paths"].items()
        for method in methods
    ]
