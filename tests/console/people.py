"""Somebody who uses the console: with a mouse, or with the keyboard alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from playwright.async_api import Locator, Page, expect

from tests.console.visits import Visit

Means = Literal["mouse", "keyboard"]
TABS_MAX = 250
PICTURES = os.environ.get("BETIMES_PICTURES")
"""The folder that `make pictures` wants pictures in."""


class Person:
    """Does what a person does, by the means they have."""

    def __init__(self, visit: Visit, means: Means) -> None:
        self._visit = visit
        self._page: Page = visit.page
        self._by_keys = means == "keyboard"

    async def use(self, control: Locator) -> None:
        """Click it, or walk to it with Tab and press Enter."""
        if self._by_keys:
            await self._walk_to(control)
            await self._page.keyboard.press("Enter")
        else:
            await control.click()

    async def write(self, text: str, control: Locator) -> None:
        """Replace what stands in a field."""
        await (self._walk_to(control) if self._by_keys else control.click())
        await self._page.keyboard.press("ControlOrMeta+a")
        await self._page.keyboard.type(text)

    async def go(self, name: str, key: str) -> None:
        """Go to a page by its name in the navigation, or by its key."""
        if self._by_keys:
            await self._page.keyboard.press("g")
            await self._page.keyboard.press(key)
        else:
            await self._page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()
        await expect(self._page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")

    async def find(self, text: str, kind: str) -> None:
        """Find something by its id and its kind, and open it."""
        if self._by_keys:
            await self._page.keyboard.press("/")
        else:
            await self._page.get_by_role("button", name="Find anything").click()
        await self._page.get_by_role("combobox", name="Find").fill(text)
        hit = self._page.get_by_role("option", name=re.compile(rf"^{text}\s*{kind}"))
        await expect(hit).to_be_visible()
        if self._by_keys:
            while await hit.get_attribute("aria-selected") != "true":
                await self._page.keyboard.press("ArrowDown")
            await self._page.keyboard.press("Enter")
        else:
            await hit.click()

    async def open_why(self, row: Locator) -> None:
        """Open the why of a row: by its link, or with j and w."""
        await expect(row).to_be_visible()
        if not self._by_keys:
            await row.get_by_role("link").last.click()
            return
        for _ in range(TABS_MAX):
            await self._page.keyboard.press("j")
            if await row.evaluate("(row) => row.contains(document.activeElement)"):
                await self._page.keyboard.press("w")
                return
        raise AssertionError("j does not lead to the row")

    async def _walk_to(self, control: Locator) -> None:
        await expect(control).to_be_enabled()
        for _ in range(TABS_MAX):
            if await control.evaluate("(one) => one === document.activeElement"):
                return
            await self._page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {control}")


async def take_picture(page: Page, name: str, means: Means = "mouse") -> None:
    """Keep what is in the window, if pictures are wanted: once, as somebody with a mouse sees it."""
    if PICTURES and means == "mouse":
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        await page.evaluate("document.activeElement?.blur()")
        await page.screenshot(path=Path(PICTURES) / f"{name}.png", type="png", scale="css", animations="disabled")
