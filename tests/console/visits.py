"""Visits to the console with a real browser: Playwright drives Debian's Chromium over a server that really serves.

One thread has one event loop, in which the browser and the servers of all tests of this process live; a test is a
coroutine that runs there. Whatever a page does wrong fails the test that opened it: an error it logs, a request to
somewhere else, one that the API does not describe, a violation of the page's content policy.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Page, Request, async_playwright, expect

from tests.http.browser import CHROMIUM, FLAGS
from tests.patience import HANGS_S

T = TypeVar("T")
PATIENCE_S = 120
"""How long a page is waited for before the test says what never came."""
WATCH_POLICY = (
    "document.addEventListener('securitypolicyviolation', (event) =>"
    " console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));"
)


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
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._note)

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

    async def settle(self) -> None:
        """Wait until the page has its heading."""
        await self.page.locator("main h1").first.wait_for()

    def excuse(self, pattern: str) -> None:
        """Forget what went wrong as the test meant it to."""
        self.wrong = [one for one in self.wrong if not re.search(pattern, one)]


@asynccontextmanager
async def visit(
    browser: Browser,
    address: str,
    described: list[tuple[str, re.Pattern[str]]],
    *,
    width: int = 1440,
    height: int = 900,
    scheme: str = "light",
    zone: str = "Europe/Berlin",
) -> AsyncIterator[Visit]:
    """Open the console as somebody who was never here; check at the end that its pages behaved."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        timezone_id=zone,
        reduced_motion="reduce",
    )
    try:
        await context.add_init_script(WATCH_POLICY)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        found = Visit(page, address)
        yield found
        assert not found.wrong, found.wrong
        unknown = [asked for asked in found.requests if not is_described(asked, described)]
        assert not unknown, f"not in the API's description: {unknown}"
    finally:
        await context.close()


def is_described(asked: tuple[str, str], described: list[tuple[str, re.Pattern[str]]]) -> bool:
    return any(method == asked[0] and pattern.fullmatch(asked[1]) for method, pattern in described)


def described_routes(openapi: dict[str, Any]) -> list[tuple[str, re.Pattern[str]]]:
    """Return what the API describes, as methods and patterns of paths."""
    return [
        (method.upper(), re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))))
        for path, methods in openapi["paths"].items()
        for method in methods
    ]
