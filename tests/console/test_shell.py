"""The frame of the console: where it is, what it may load, how one moves in it."""

import json
import subprocess

import aiohttp
import pytest
from playwright.async_api import expect

from betimes.app.betimes import Betimes
from betimes.demo.town import START
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.town import Served, served
from tests.console.visits import LoopThread

pytestmark = pytest.mark.browser
CURL = """async ([tenant, path, body]) => {
  sessionStorage.setItem("betimes.tenant", tenant);
  const made = (await import(document.querySelector("script[type=module]").src.replace("main.js", "samples.js")))
    .curl("POST", path, body);
  sessionStorage.clear();
  return made;
}"""

TROUBLES = """async (health) => {
  const shell = await import(document.querySelector("script[type=module]").src.replace("main.js", "shell.js"));
  return shell.troubles(health).map((one) => one.text);
}"""


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


@pytest.mark.parametrize(("many", "told"), [(20, "100 % more than the day before"), (1, "1 the day before")])
async def test_a_day_is_compared_with_as_many_hours_before_it_if_enough_happened(
    many: int, told: str, visiting: Visiting
) -> None:
    clock = VirtualClock("2026-03-02T10:00:00Z")
    async with Betimes("memory://", clock=clock, report=lambda _: None) as bt, served(bt) as own:
        # Some are older than both days, as many are of the day before, twice as many are of the last day.
        for at in ("02T10:00", "03T10:00", "03T18:00", "04T16:00"):
            await bt.advance(to=f"2026-03-{at}:01Z")
            names = [f"{at}-{number}" for number in range(many)]
            await bt.runs.trigger_many(
                [{"account_id": one, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": one} for one in names]
            )
        await bt.advance(to="2026-03-04T17:00:00Z")
        async with visiting(own.address) as visit:
            page = await visit.open("/console")
            await expect(page.locator(".tile", has_text="runs")).to_contain_text(told)


async def test_nobody_is_late_or_missing_while_everything_is_held(nothing: Served, visiting: Visiting) -> None:
    owed = {"now": "2026-03-02T10:00:00Z", "oldest_alarm_at": "2026-03-02T09:00:00Z", "orphaned": {"handler:think": 3}}
    domains = ["automation", "intents", "notifications", "runs", "scores"]
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console")
        told = [
            await page.evaluate(TROUBLES, {**owed, "hold": {"reason": "a move", "domains": domains[:count]}})
            for count in (5, 4)
        ]
    assert told[0] == ["On hold: a move"]
    assert told[1] == ["On hold: a move", "Alarms are 1 h late", "Nobody carries out handler:think"]


def words_in_shell(command: str) -> list[str]:
    """Return what a shell would hand to curl."""
    script = "curl() { printf '%s\\0' \"$@\"; }\n" + command
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout.split("\0")


async def test_a_command_to_copy_is_what_it_says_in_a_shell(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console")
        for odd in ("*", "a'b", "$(touch x)", "'; touch x; '", "`x`\n", 'a" b'):
            told = await page.evaluate(CURL, [odd, f"/v1/{odd}", {"id": odd}])
            words = words_in_shell(told)
            assert words[2] == f"{nothing.address}/v1/{odd}"
            assert words[4] == f"X-Tenant: {odd}"
            assert json.loads(words[8]) == {"id": odd}


async def test_a_page_that_is_opened_knows_that_a_virtual_clock_has_moved(visiting: Visiting, loop: LoopThread) -> None:
    """What has just happened is not told as something to come."""
    bt = Betimes("memory://", clock=VirtualClock(START), report=lambda _: None)
    async with bt, served(bt) as found, visiting(found.address) as visit:
        page = await visit.open("/console/health")
        await bt.advance(by_s=3600)
        await bt.runs.trigger({"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"})
        await page.get_by_role("link", name="Ledger").click()
        await expect(page.get_by_role("row").filter(has_text="account:a:1")).to_contain_text("now")
