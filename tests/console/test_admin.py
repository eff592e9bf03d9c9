"""Admin: keys are made and revoked, a policy is taken back, an incident is opened, everything is held and let go."""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Visiting
from tests.console.town import unpopulated

pytestmark = pytest.mark.browser


async def ask(address: str, method: str, path: str, body: Any = None) -> Any:
    async with aiohttp.ClientSession(address) as session, session.request(method, path, json=body) as answer:
        return await answer.json()


async def confirm(page: Page, name: str) -> None:
    """Press the button of the dialog, and close it when it is done."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=name, exact=True).click()
    await expect(dialog.get_by_text(re.compile(r"^Done\."))).to_be_visible()
    await page.keyboard.press("Escape")


async def test_a_key_is_shown_once_and_revoked(visiting: Visiting) -> None:
    async with unpopulated() as own, visiting(own.address) as visit:
        page = await visit.open("/console/admin")
        await expect(page.get_by_text("No keys", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Make a key…").click()
        await page.get_by_role("textbox", name="Name").fill("crm")
        await page.get_by_role("checkbox", name="runs:read").check()
        await page.get_by_role("button", name="Make the key").click()
        secret = await page.get_by_role("dialog").get_by_role("code").inner_text()
        assert secret.startswith("bt_default~")
        await page.get_by_role("button", name="I have it").click()
        await page.get_by_role("button", name="Revoke crm").click()
        await confirm(page, "Revoke crm")
        await expect(page.get_by_role("row", name="crm")).to_contain_text("revoked")
        assert secret not in await page.content()
    async with unpopulated() as own, visiting(own.address) as visit:
        page = await visit.open("/console/admin")
        await page.get_by_role("button", name="New webhook secret…").click()
        await page.get_by_role("dialog").get_by_role("button", name="New webhook secret").click()
        await expect(page.get_by_role("code").filter(has_text="whsec_")).to_be_visible()


async def test_an_earlier_policy_is_put_in_force_again(visiting: Visiting) -> None:
    async with unpopulated() as own, visiting(own.address) as visit:
        for lease, note in ((600, "slower workers"), (900, "slower still")):
            body = {"overrides": {"intents": {"claim_lease_s": lease}}, "note": note}
            await ask(own.address, "PUT", "/v1/policy", body)
        page = await visit.open("/console/admin")
        row = page.get_by_role("row", name="slower workers")
        await row.get_by_role("group").click()
        await expect(row.get_by_text("claim_lease_s")).to_be_visible()
        await row.get_by_role("button", name="Roll back to version 1…").click()
        await page.get_by_role("textbox", name="Note").fill("too slow")
        await page.get_by_role("textbox", name="Type default to confirm").fill("default")
        await confirm(page, "Roll back to version 1")
        await expect(page.get_by_role("row", name="too slow")).to_contain_text("in force")
        assert (await ask(own.address, "GET", "/v1/policy"))["overrides"] == {"intents": {"claim_lease_s": 600}}


async def test_a_roll_back_shows_what_it_comes_to_also_after_another(visiting: Visiting) -> None:
    async with unpopulated() as own, visiting(own.address) as visit:
        for lease in (600, 900):
            await ask(own.address, "PUT", "/v1/policy", {"overrides": {"intents": {"claim_lease_s": lease}}})
        await ask(own.address, "POST", "/v1/policy/rollback", {})
        page = await visit.open("/console/admin")
        await page.get_by_role("button", name="Roll back…", exact=True).click()
        changed = page.get_by_role("dialog").get_by_role("listitem").filter(has_text="intents.claim_lease_s")
        await expect(changed).to_have_text("intents.claim_lease_s600 → 300 (default)")


async def test_everything_is_held_and_let_go_and_an_incident_is_opened(visiting: Visiting) -> None:
    async with unpopulated() as own, visiting(own.address) as visit:
        page = await visit.open("/console/admin")
        key_made = page.get_by_role("figure").filter(has_text="betimes key create")
        await expect(key_made).to_contain_text("At the terminal")
        await page.get_by_role("button", name="Hold…").click()
        await page.get_by_role("checkbox", name="scores").uncheck()
        await page.get_by_role("textbox", name="Reason").fill("a wrong template")
        await expect(page.get_by_text("Due meanwhile")).to_be_visible()
        await page.get_by_role("button", name="See what it would do").click()
        await confirm(page, "Hold notifications, runs, intents, automation")
        await expect(page.get_by_role("region", name="Hold")).to_contain_text("a wrong template")
        assert (await ask(own.address, "GET", "/v1/hold"))["held"] is True
        await page.get_by_role("button", name="End the hold…").click()
        await confirm(page, "End the hold")
        await expect(page.get_by_role("region", name="Hold")).to_contain_text("Nothing is held.")
        await visit.open("/console/admin")
        await page.get_by_role("button", name="Open an incident…").click()
        await page.get_by_role("textbox", name="Reason").fill("database move")
        await page.get_by_role("button", name="See what it would do").click()
        await expect(page.get_by_text("0 known persons affected; 0 notifications of theirs wait now.")).to_be_visible()
        await confirm(page, "Open the incident")
        await page.get_by_role("button", name="Close the incident of everybody").click()
        await confirm(page, "Close the incident of everybody")
        await expect(page.get_by_text("No incident is open")).to_be_visible()
