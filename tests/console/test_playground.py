"""The playground: somebody asks what would be said at another instant, tries what is recorded again, and sends it."""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.town import Served, unpopulated

pytestmark = pytest.mark.browser


async def ask(address: str, path: str) -> Any:
    async with aiohttp.ClientSession(address) as session, session.get(path) as answer:
        return await answer.json()


async def test_a_notification_is_tried_at_another_instant_beside_now(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/try")
        await page.get_by_role("textbox", name="user_id").fill("somebody-new")
        await page.get_by_label("Instant (UTC)").fill("2026-06-01T03:30:00")
        await page.get_by_role("button", name="Beside another").click()
        await page.get_by_role("group", name="Beside").get_by_label("Instant (UTC)").fill("")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_role("heading", name="2026-06-01T03:30:00Z, policy in force")).to_be_visible()
        await expect(page.get_by_role("heading", name="now, policy in force")).to_be_visible()
        await expect(page.get_by_role("listitem", name="quiet_hours: passed")).to_have_count(2)
        await expect(page.get_by_text("1 Jun 03:30:00 +00:00")).to_be_visible()
        await expect(page.get_by_role("button", name="Send a notification · somebody-new")).to_be_visible()
        shared = page.url.removeprefix(town.address)
    async with visiting(town.address) as visit:
        page = await visit.open(shared)
        await expect(page.get_by_role("textbox", name="user_id")).to_have_value("somebody-new")
    assert (await ask(town.address, "/v1/streams/inbox/somebody-new"))["status"] == 404, "trying writes nothing"


async def test_the_whole_answer_of_a_try_is_shown_but_for_its_texts(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/try")
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_text("Everything it would answer and write").click()
        whole = page.locator("details").filter(has_text="Everything it would").get_by_role("code")
        await expect(whole).to_contain_text('"answer": {')
        await expect(whole).to_contain_text('"title": "•••"')
        await page.get_by_role("button", name="Show texts").click()
        await expect(whole).to_contain_text('"title": "Tom replied"')


async def test_a_recorded_notification_is_tried_again_under_a_new_name(town: Served, visiting: Visiting) -> None:
    items = (await ask(town.address, "/v1/ledger?kind=inbox&order=desc&limit=200"))["items"]
    told = next(one for one in items if one["command"] and one["command"]["type"] == "Notify")
    async with visiting(town.address) as visit:
        page = await visit.open(f"/console/try?segment={told['segment_id']}&set=priority_hint=CRITICAL")
        await expect(page.get_by_role("textbox", name="user_id")).to_have_value(told["id"])
        assert await page.get_by_role("textbox", name="event_id").input_value() != told["key"]
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_role("listitem", name="critical: bound")).to_be_visible()


async def test_the_draft_of_the_lab_is_tried_beside_the_policy_in_force(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        await visit.open("/console/lab?set=notifications.thresholds.now_from=0.5")
        page = await visit.open("/console/try")
        await page.get_by_role("textbox", name="user_id").fill("somebody-new")
        await page.get_by_role("button", name="Beside another").click()
        await page.get_by_role("button", name="Try it").click()
        answers = page.get_by_role("region", name="Answer")
        await expect(answers.get_by_role("heading", name="now, the lab's draft")).to_be_visible()
        await expect(answers.get_by_role("listitem", name="score: bound")).to_have_count(1)
        await expect(answers.get_by_text("No rule bound.")).to_have_count(1)


async def test_sending_for_real_is_shown_first_and_then_recorded(visiting: Visiting) -> None:
    async with unpopulated() as own, visiting(own.address) as visit:
        page = await visit.open("/console/try?as=json")
        body = '{"account_id": "acct-1", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k-1"}'
        await page.get_by_role("combobox", name="Command").select_option("trigger")
        await expect(page.get_by_role("textbox", name="Body")).to_have_value(re.compile("account_id"))
        await page.get_by_role("textbox", name="Body").fill("{")
        await expect(page.get_by_text("Not JSON")).to_be_visible()
        await page.get_by_role("textbox", name="Body").fill(body)
        await page.get_by_role("button", name="Send it for real…").click()
        await expect(page.get_by_text("2 events would be recorded")).to_be_visible()
        await page.get_by_role("dialog").get_by_role("button", name="Ask for a run").click()
        await expect(page.get_by_text("Done.")).to_be_visible()
        assert (await ask(own.address, "/v1/triggers/k-1"))["status"] == "allowed"
