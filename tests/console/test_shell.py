"""The frame of the console: where it is, what it may load, how one moves in it."""

import aiohttp
import pytest

from tests.console.conftest import Visiting
from tests.console.town import Served

pytestmark = pytest.mark.browser


async def test_a_browser_is_led_to_the_console_and_a_script_is_not(town: Served) -> None:
    async with aiohttp.ClientSession(town.address) as session:
        async with session.get("/", headers={"Accept": "text/html"}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (307, "/console")
        async with session.get("/", headers={"Accept": "application/json"}) as answer:
            assert answer.status == 404


async def test_now_is_the_first_page(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        assert await page.get_by_role("heading", level=1).inner_text() == "Now"
        await page.get_by_role("link", name="What's next").click()
        await page.wait_for_url("**/console/next")
