"""A real browser: Debian's Chromium without a window, driven over its DevTools protocol.

A test that needs it is marked `browser` and skipped, with the reason, where there is none. Nothing is waited for by the
clock: `until` waits in the page, frame by frame, for an expression to hold.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pytest

from tests.patience import HANGS_S

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--window-size=1200,900",
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium; as root, `make browser` installs Debian's, or: apt install chromium"
)


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


@asynccontextmanager
async def browsed(url: str, folder: Path) -> AsyncIterator[Page]:
    """The page at an address, in a browser that ends with the block."""
    with TemporaryDirectory(prefix="betimes-browser-", ignore_cleanup_errors=True) as temp:
        async with _browsed(url, folder, temp) as page:
            yield page


@asynccontextmanager
async def _browsed(url: str, folder: Path, temp: str) -> AsyncIterator[Page]:
    """`temp` is for the browser's own files, and short: it has sockets there."""
    assert CHROMIUM is not None
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": temp},
    )
    try:
        address = await _address(process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{address}/json/list") as answer:
                [target] = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Network", "Log"):
                    await page.do(f"{domain}.enable")
                await page.do("Page.navigate", url=url)
                yield page
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    """Where it listens, as it says once it does."""
    assert process.stderr is not None
    said: list[str] = []
    async with asyncio.timeout(HANGS_S):
        async for line in process.stderr:
            said.append(line.decode())
            if "DevTools listening on ws://" in said[-1]:
                return f"http://{said[-1].split('ws://', 1)[1].split('/', 1)[0]}"
    raise AssertionError(f"Chromium ended: {''.join(said)[-2000:]}")
