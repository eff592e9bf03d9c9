"""A real browser: Debian's Chromium without a window, driven over its DevTools protocol.

A test of a page is marked `browser` and takes the fixture of that name, which skips it, with the reason, where there is
no Chromium. One is started for all tests of a process; each page has storage, cookies and cache of its own. Nothing is
waited for by the clock: `until` waits in the page, frame by frame, for an expression to hold.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from tests.patience import HANGS_S

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first of these that there is; Chromium without the parts that need a window takes a third less CPU for a page."""
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--renderer-process-limit=1",  # for each storage; otherwise a process is started for each page
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--window-size=1200,900",
)
WHY_SKIPPED = "there is no Chromium; as root, `make browser` installs Debian's, or: apt install chromium-headless-shell"


class Page:
    """One page, and what it asked of whom."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self.asked: list[str] = []
        """The addresses of everything it loaded."""
        self.wrong: list[str] = []
        """What went wrong in it: exceptions, and errors it logged."""

    async def do(self, method: str, **params: Any) -> Any:
        """One command of the protocol; events that come before its answer are heeded."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(HANGS_S):
            while True:
                message = json.loads((await self._socket.receive()).data)
                if message.get("id") == number:
                    assert "error" not in message, message
                    return message["result"]
                self._heed(message)

    def _heed(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.wrong.append(params["exceptionDetails"]["text"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.wrong.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of the promise it is."""
        told = await self.do("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression holds; its value."""
        return await self.evaluate(
            "new Promise((done, fail) => { const from = performance.now(); const look = () => {"
            f" const value = ({expression}); if (value) done(value);"
            f" else if (performance.now() - from > {HANGS_S * 1000}) fail(new Error('it never held'));"
            " else requestAnimationFrame(look); }; look(); })"
        )

    async def picture(self) -> bytes:
        """What it looks like, as PNG: for whoever changes it."""
        return b64decode((await self.do("Page.captureScreenshot", format="png"))["data"])

    async def prefers(self, scheme: str) -> None:
        """Show the page as somebody with this colour scheme sees it."""
        await self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


class Browser:
    """A browser that runs, and where it listens."""

    def __init__(self, host: str, path: str) -> None:
        self._host = host
        self._path = path

    @asynccontextmanager
    async def page(self, url: str) -> AsyncIterator[Page]:
        """The page at an address, which shares nothing with any other; it is closed with the block."""
        async with aiohttp.ClientSession() as session, self._socket(session, self._path) as whole:
            browser = Page(whole)
            context = (await browser.do("Target.createBrowserContext"))["browserContextId"]
            target = await browser.do("Target.createTarget", url="about:blank", browserContextId=context)
            try:
                async with self._socket(session, f"devtools/page/{target['targetId']}") as socket:
                    page = Page(socket)
                    for domain in ("Page", "Runtime", "Network", "Log"):
                        await page.do(f"{domain}.enable")
                    await page.do("Page.navigate", url=url)
                    yield page
            finally:
                await browser.do("Target.disposeBrowserContext", browserContextId=context)

    @asynccontextmanager
    async def _socket(
        self, session: aiohttp.ClientSession, path: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with session.ws_connect(f"ws://{self._host}/{path}", max_msg_size=0) as socket:
            yield socket


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, which must be there; it ends with the block."""
    assert CHROMIUM is not None
    # Short, because the browser has sockets there.
    with TemporaryDirectory(prefix="betimes-browser-", ignore_cleanup_errors=True) as folder:
        said = Path(folder) / "said"
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, "TMPDIR": folder},
            )
        try:
            yield _listening(process, said)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listening(process: subprocess.Popen[bytes], said: Path) -> Browser:
    """Wait until it says where it listens."""
    ends_s = time.monotonic() + HANGS_S
    while process.poll() is None and time.monotonic() < ends_s:
        _, found, address = said.read_text(errors="replace").partition("DevTools listening on ws://")
        if found and "\n" in address:
            host, _, path = address.partition("\n")[0].strip().partition("/")
            return Browser(host, path)
        time.sleep(0.02)
    raise AssertionError(f"Chromium did not come to listen: {said.read_text(errors='replace')[-2000:]}")
