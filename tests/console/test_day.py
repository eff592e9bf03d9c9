"""The day of a person: why they were not told something, what waits, and what can be done about it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, expect

from betimes.app.betimes import Betimes
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.town import Served, served

pytestmark = pytest.mark.browser
NOTE: dict[str, Any] = {
    "user_id": "ana",
    "source": "chat",
    "channels": ["in_app"],
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
}
QUIET = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}

BARS = ("cooldown", "debounce")
SWATCH = """(key) => {
    const { backgroundImage, backgroundColor } = getComputedStyle(key, "::before");
    return { pattern: backgroundImage, colour: backgroundColor };
}"""


@asynccontextmanager
async def a_night() -> AsyncIterator[Served]:
    """Serve a person who sleeps, and for whom two messages wait."""
    async with Betimes("memory://", clock=VirtualClock("2026-11-17T01:10:00Z"), report=lambda _: None) as bt:
        await bt.notifications.set_preferences("ana", QUIET)
        for event_id, title in (("first", "Tom replied"), ("second", "Kofi wrote at length")):
            await bt.notifications.send(
                {**NOTE, "event_id": event_id, "title": title, "message": f"{title}: {event_id}"}
            )
        async with served(bt) as found:
            yield found


async def confirm(page: Page, button: str) -> None:
    """Read the dry run, confirm, and close the dialog."""
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("A dry run:")).to_be_visible()
    await dialog.get_by_role("button", name=button, exact=True).click()
    await expect(dialog.get_by_text("Done.")).to_be_visible()
    await dialog.get_by_role("button", name="OK", exact=True).click()


async def test_why_a_person_was_not_told_something_is_found_with_the_keyboard_only(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        page = await visit.open("/console")
        await page.keyboard.press("/")
        await page.keyboard.type("ana")
        await expect(page.get_by_role("dialog").get_by_role("option", name="ana")).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("ana")
        marks = page.get_by_role("list", name="Marks, in order of time")
        first = marks.get_by_role("link").first
        await expect(first).to_have_accessible_name(
            "17 Nov 02:10:00 · MESSAGE first: LATER (QUIET_HOURS). Quiet hours last until 07:00 in Europe/Berlin."
        )
        await first.focus()
        await page.keyboard.press("ArrowRight")
        await expect(marks.get_by_role("link").nth(1)).to_be_focused()
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("LATER")
        await expect(page.get_by_label("quiet_hours: bound")).to_contain_text(
            "Quiet hours last until 07:00 in Europe/Berlin."
        )
        changes = page.get_by_role("region", name="What would have changed the answer")
        await expect(changes).to_contain_text("Re-deciding reproduced the recorded verdict")
        await expect(changes.get_by_role("heading", name="The person")).to_be_visible()


async def test_a_day_is_in_the_persons_zone_and_shows_the_seam_of_daylight_saving_time(
    town: Served, visiting: Visiting
) -> None:
    async with visiting(town.address, zone="America/New_York") as visit:
        page = await visit.open("/console/people/p0?date=2026-03-29")
        await expect(page.get_by_role("region", name="Sunday, 29 March 2026")).to_contain_text(
            "Europe/Berlin, UTC+01:00 and then UTC+02:00"
        )
        await expect(page.get_by_text("UTC+01:00 becomes UTC+02:00")).to_be_visible()
        await page.get_by_role("link", name="← Previous day").click()
        await expect(page.get_by_role("heading", name="Saturday, 28 March 2026")).to_be_visible()
        await page.keyboard.press("[")
        await expect(page.get_by_role("heading", name="Friday, 27 March 2026")).to_be_visible()
        await page.keyboard.press("]")
        await expect(page.get_by_role("heading", name="Saturday, 28 March 2026")).to_be_visible()
        await expect(page.get_by_text("UTC+01:00 becomes UTC+02:00")).to_have_count(0)
        table = page.get_by_role("table", name="The day as a table")
        await page.get_by_role("link", name="never", exact=False).first.click()
        await expect(table.get_by_role("row", name="NEVER").first).to_be_visible()
        await expect(table.get_by_role("row", name="LATER")).to_have_count(0)
        await page.get_by_role("link", name="6 h", exact=True).click()
        await expect(page.get_by_text("28 Mar 13:00 – 19:00")).to_be_visible()
        assert "hours=6" in page.url
        await expect(page.get_by_role("link", name="Next 6 h →")).to_be_visible()


async def test_a_band_that_ends_today_says_the_days_of_both_ends(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        await night.bt.advance(by_s=86_400)
        page = await visit.open("/console/people/ana?date=2026-11-17")
        await page.get_by_text("Bands and windows as tables").click()
        band = page.get_by_role("table", name="Bands").get_by_role("row", name="quiet hours").last
        cells = await band.get_by_role("cell").all_inner_texts()
        assert [text[:12] for text in cells[-2:]] == ["17 Nov 22:00", "18 Nov 07:00"], cells


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_cooldown_and_a_debounce_are_told_apart_by_shape_and_colour(scheme: str, visiting: Visiting) -> None:
    policy = {"runs": {"registry": {"PING": {"cooldown_seconds": 14_400, "debounce_seconds": 7_200}}}}
    async with Betimes(
        "memory://", clock=VirtualClock("2026-11-17T01:10:00Z"), policy=policy, report=lambda _: None
    ) as bt:
        await bt.runs.trigger({"account_id": "acct", "trigger_type": "PING", "idempotency_key": "one"})
        async with served(bt) as night, visiting(night.address, scheme=scheme) as visit:
            page = await visit.open("/console/accounts/acct")
            await expect(page.locator("line.band.debounce")).to_have_count(1)
            await expect(page.locator("rect.band.cooldown")).not_to_have_count(0)
            cooldown, debounce = [await page.locator(f".day-key.{name}").evaluate(SWATCH) for name in BARS]
            assert cooldown["pattern"] == "none" != debounce["pattern"]
            assert cooldown["colour"] not in debounce["pattern"]


async def test_everything_that_is_drawn_is_in_the_tables_too(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/people/p0?date=2026-03-27")
        marks = page.get_by_role("list", name="Marks, in order of time").get_by_role("listitem")
        drawn = await marks.count()
        assert drawn > 5
        more = page.get_by_role("button", name="more")
        while await more.count():
            await more.click()
        assert await page.get_by_role("table", name="The day as a table").get_by_role("row").count() == drawn + 1
        await page.get_by_text("Bands and windows as tables").click()
        await expect(
            page.get_by_role("table", name="Bands").get_by_role("row", name="quiet hours").first
        ).to_be_visible()
        caps = page.get_by_role("table", name="Windows and their caps")
        await expect(caps.get_by_role("row", name="told in 1 h")).to_contain_text("10")


async def test_what_waits_is_sent_now_or_cancelled_and_a_person_is_banned(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        page = await visit.open("/console/people/ana")
        await page.get_by_role("button", name="Send now: first").click()
        await confirm(page, "Send now first")
        await expect(page.get_by_role("button", name="Send now: first")).to_have_count(0)
        await page.get_by_role("button", name="Cancel: second").click()
        await confirm(page, "Cancel second")
        await expect(page.get_by_text("Nothing waits.")).to_be_visible()
        assert (await night.bt.notifications.notification("second")).status == "cancelled"
        await page.get_by_role("button", name="Ban…").click()
        await page.get_by_role("dialog").get_by_label("Reason").fill("spam")
        await confirm(page, "Ban ana")
        await expect(page.get_by_role("button", name="Lift the ban")).to_be_visible()
        await expect(page.get_by_role("region", name="Preferences")).to_contain_text("spam")


async def test_what_waits_for_a_person_is_on_the_page_of_the_account_of_that_name(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        page = await visit.open("/console/accounts/ana")
        await expect(page.get_by_role("heading", name="What waits: 2")).to_be_visible()
        await expect(page.get_by_role("button", name="Send now: first")).to_be_visible()


async def test_what_waits_for_another_day_is_counted_on_each(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        page = await visit.open("/console/people/ana?date=2026-11-16")
        await expect(page.get_by_role("heading", name="What waits: 2")).to_be_visible()
        await page.get_by_role("link", name="2 wait, 0 of them this day").click()
        table = page.get_by_role("table", name="The day as a table")
        await expect(table.get_by_role("row", name="MESSAGE first")).to_be_visible()
        await page.get_by_role("link", name="Next day →").click()
        await expect(page.get_by_role("link", name="2 wait", exact=True)).to_be_visible()


async def test_of_too_many_marks_those_nearest_to_now_are_drawn(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        for number in range(120):
            await night.bt.advance(by_s=1)
            note = {**NOTE, "event_id": f"n{number}", "title": f"Note {number}", "message": f"Number {number} is new"}
            await night.bt.notifications.send(note)
            await night.bt.runs.trigger(
                {"account_id": "ana", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"t{number}"}
            )
        page = await visit.open("/console/people/ana")
        above = page.get_by_text("Only the 200 marks nearest to now of")
        await expect(above).to_be_visible()
        marks = page.get_by_role("list", name="Marks, in order of time").get_by_role("listitem")
        await expect(marks).to_have_count(200)
        await expect(marks.get_by_role("link", name="MESSAGE n119")).not_to_have_count(0)
        await expect(marks.get_by_role("link", name="MESSAGE n0:")).to_have_count(0)
        top = await above.bounding_box()
        drawn = await page.get_by_role("region", name="The day, drawn").bounding_box()
        assert top
        assert drawn
        assert top["y"] < drawn["y"]


async def test_other_quiet_hours_are_tried_in_the_playground(visiting: Visiting) -> None:
    async with a_night() as night, visiting(night.address) as visit:
        page = await visit.open("/console/people/ana")
        await page.get_by_label("and ended at").fill("06:00")
        await page.get_by_role("button", name="Try it in the playground").click()
        await page.wait_for_url("**/console/try?command=preferences&user_id=ana&body=*")
        assert "06%3A00" in page.url


async def test_a_backtest_shows_the_answers_of_both_worlds(visiting: Visiting) -> None:
    async with a_night() as night, aiohttp.ClientSession(night.address) as session:
        asked = {"policy": {"notifications": {"mode": "shadow"}}, "since": "2026-11-17T00:00:00Z"}
        async with session.post("/v1/backtests", json=asked) as answer:
            backtest_id = (await answer.json())["backtest_id"]
        await night.bt.tick()
        async with visiting(night.address) as visit:
            page = await visit.open(f"/console/people/ana?backtest={backtest_id}")
            await expect(page.get_by_text("in the trial", exact=True)).to_be_visible()
            other = page.get_by_label("In the backtest: NOW instead of LATER.")
            await expect(other).to_have_count(2)
            table = page.get_by_role("table", name="The day as a table")
            await expect(table.get_by_role("row", name="NOW instead of LATER")).to_have_count(2)
            await expect(page.get_by_text("The backtest changes 2 answers here")).to_be_visible()
            # Without a date it is the day on which something changes, and another day says where that is.
            await page.get_by_role("link", name="Next day →").click()
            await expect(page.get_by_text("The backtest changes nothing here")).to_be_visible()
            await page.get_by_role("link", name="17 Nov: 2").click()
            await other.first.press("Enter")
            await page.wait_for_url(f"**/console/lab/{backtest_id}?who=ana*")
            changed = page.get_by_role("region", name="Changed answers")
            await expect(changed.get_by_role("group")).to_have_count(2)


async def test_somebody_who_is_not_known_gets_a_way_to_begin(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/people/nobody")
        await expect(page.get_by_text("Nothing is known of nobody this day")).to_be_visible()
        await expect(page.get_by_role("figure").first).to_contain_text(
            f"curl -X POST {nothing.address}/v1/notifications"
        )


async def test_the_names_of_lanes_stay_where_a_day_scrolls(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address, width=320) as visit:
        page = await visit.open("/console/people/p0?date=2026-03-27")
        drawn = page.get_by_role("region", name="The day, drawn")
        for place in (0, 1000):
            await drawn.evaluate("(box, place) => box.scrollTo(place, 0)", place)
            await expect(drawn.get_by_text("Notifications", exact=True)).to_be_in_viewport()
