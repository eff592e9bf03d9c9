"""Sensors, intents, runs and scores in the console: found, understood, and changed after a dry run."""

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Visiting
from tests.console.dialogs import confirm
from tests.console.town import Served
from tests.console.workshop import workshop

pytestmark = pytest.mark.browser


async def test_a_sensor_shows_its_evaluations_and_is_evaluated_by_hand(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/sensors")
        await page.get_by_role("link", name="inventory").click()
        evaluations = page.get_by_role("table", name="Evaluations, newest first")
        await expect(evaluations.get_by_role("row", name="triggered")).to_have_count(2)
        await page.get_by_role("button", name="Evaluate now").click()
        dialog = page.get_by_role("dialog", name="Evaluate inventory now")
        await expect(dialog).to_contain_text("nothing of it was kept.Foundno change")
        assert (await shop.bt.sensors.get("inventory")).cursor == {"looked": 7}
        await dialog.get_by_role("button", name="Evaluate inventory now").click()
        await expect(dialog.get_by_text("Done.")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(evaluations.get_by_role("row", name="manual")).to_have_count(1)
        assert (await shop.bt.sensors.get("inventory")).cursor == {"looked": 8}


async def test_sensors_are_listed_with_how_their_last_evaluations_went(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/sensors")
        await expect(page.get_by_role("row", name="Select inventory")).to_contain_text("2 triggered")
        await expect(page.get_by_role("row", name="Select inventory")).to_contain_text("no change")
        mail = page.get_by_role("row", name="Select mail")
        await expect(mail).to_contain_text("1 triggered")
        # Whoever comes back to the tab sees what happened meanwhile.
        await shop.bt.sensors.message("mail", {"message_id": "m2", "data": {"subject": "again"}})
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(mail).to_contain_text("2 triggered")


@pytest.mark.parametrize(
    ("path", "name"),
    [("/sensors/inventory", "inventory"), ("/schedules/pulse", "pulse"), ("/intents/nvda-tom", "nvda-tom")],
)
async def test_a_definition_is_deleted_after_its_name_is_typed(visiting: Visiting, path: str, name: str) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        page = await visit.open(f"/console{path}")
        await page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog", name=f"Delete {name}")
        await expect(dialog.get_by_text("A dry run:")).to_be_visible()
        await expect(dialog.get_by_role("button", name=f"Delete {name}")).to_be_disabled()
        await dialog.get_by_label(f"Type {name} to confirm").fill(name)
        await dialog.get_by_role("button", name=f"Delete {name}").click()
        await expect(dialog.get_by_text("Done.")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
        assert page.url.endswith(path.rpartition("/")[0])


async def test_an_intent_is_fired_by_hand(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        never = {"ticker": "NVDA", "operator": "<", "value": 1}
        await shop.bt.intents.patch("nvda-ana", {"condition": never})
        await shop.bt.advance(by_s=24 * 3600)
        page = await visit.open("/console/intents/nvda-ana")
        executions = page.get_by_role("table", name="Executions, newest first")
        await expect(executions).to_contain_text("condition not met")
        before = (await shop.bt.intents.history("nvda-ana")).items
        await page.get_by_role("button", name="Fire by hand").click()
        await page.get_by_label("What came of it").select_option(label="blocked by the gate")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("dialog")).to_contain_text("It would be recorded as blocked by the gate")
        assert (await shop.bt.intents.history("nvda-ana")).items == before
        await confirm(page, "Fire nvda-ana by hand")
        await expect(executions).to_contain_text("blocked by the gate")


async def test_an_intent_that_was_checked_very_often_still_has_its_versions(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        clock = {"trigger_type": "interval", "schedule": {"interval_minutes": 60}, "condition": None}
        often = {"user_id": "ana", "action_type": "notify", "action_context": "stretch", **clock}
        await shop.bt.intents.put("often", often)
        for _ in range(510):  # one page of the ledger looks at 500 segments
            await shop.bt.intents.fire("often", {"status": "condition_not_met"})
        page = await visit.open("/console/intents/often")
        await expect(page.get_by_text("last 100 checks: ")).to_be_visible()
        versions = page.get_by_role("table", name="Versions of the definition, newest first")
        await expect(versions).to_contain_text("the oldest that is kept")
        await expect(page.get_by_text("pruned")).to_have_count(0)


async def test_a_cursor_is_reset_only_if_nothing_moved_it_since(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/sensors/inventory")
        await _ask_for_cursor(page, '{"looked": ')
        await expect(page.get_by_role("alert")).to_contain_text("JSON")
        await page.get_by_role("button", name="Close").click()
        await shop.bt.advance(by_s=1800)
        await _ask_for_cursor(page, '{"looked": 0}')
        dialog = page.get_by_role("dialog", name="Reset the cursor of inventory")
        await expect(dialog.get_by_role("alert")).to_contain_text("The version has changed")
        visit.excuse("412")
        await page.keyboard.press("Escape")
        await page.reload()
        await _ask_for_cursor(page, '{"looked": 0}')
        await expect(dialog).to_contain_text('{"looked":6} → {"looked":0}')
        await confirm(page, "Reset the cursor of inventory")
        assert (await shop.bt.sensors.get("inventory")).cursor == {"looked": 0}


async def _ask_for_cursor(page: Page, cursor: str) -> None:
    await page.get_by_role("button", name="Reset the cursor").click()
    await page.get_by_label("Cursor, as JSON").fill(cursor)
    await page.get_by_role("button", name="Preview").click()


async def test_an_intent_is_paused_and_all_that_match_are_resumed(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/intents?view=pending&in_cooldown=true")
        await page.get_by_role("link", name="nvda-ana").click()
        await expect(page.get_by_role("table", name="Executions, newest first")).to_contain_text("success")
        await page.get_by_role("button", name="Pause").press("Enter")
        await confirm(page, "Pause nvda-ana")
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        await page.get_by_role("link", name="Intents").click()
        await page.get_by_role("navigation", name="Enabled").get_by_role("link", name="false").click()
        await expect(page.get_by_role("checkbox")).to_have_count(1)
        await page.get_by_role("button", name="Resume all that match").click()
        await expect(page.get_by_role("dialog")).to_contain_text("1 intent would be changed")
        await confirm(page, "Resume all that match", "Resume 1 intent")
        await expect(page.get_by_text("No intents match")).to_be_visible()
        assert (await shop.bt.intents.get("nvda-ana")).enabled


async def test_a_run_shows_its_verdict_its_life_and_its_cause(visiting: Visiting) -> None:
    async with workshop(hours=2) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/runs?status=succeeded&account_id=acct-7")
        await page.get_by_role("table", name="Runs, newest first").get_by_role("link", name="run_").first.click()
        await expect(page.get_by_text("It is within all limits.")).to_be_visible()
        await expect(page.get_by_role("list").filter(has_text="allowed")).to_contain_text("succeeded")
        await page.get_by_role("link", name="pulse", exact=True).click()
        await page.wait_for_url("**/console/schedules/pulse")


async def test_a_trigger_that_waits_is_dropped(visiting: Visiting) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        for key in ("first", "second"):
            asked = {"account_id": "acct-9", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key}
            await shop.bt.runs.trigger(asked)
            await shop.bt.advance(by_s=100)
        page = await visit.open("/console/runs")
        await page.get_by_role("table", name="Triggers that wait").get_by_role("button", name="Cancel second").click()
        await expect(page.get_by_role("dialog")).to_contain_text("It would be skipped")
        await confirm(page, "Cancel second")
        await expect(page.get_by_role("heading", name="Waiting")).to_have_count(0)
        status = await shop.bt.runs.trigger_status("second")
        assert status.retry
        assert (status.status, status.retry.reason) == ("skipped", "CANCELLED")


async def test_a_score_shows_where_it_goes_and_is_adjusted(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/scores?overdue=true")
        await page.get_by_role("link", name="ana", exact=True).click()
        forecast = page.get_by_role("table", name="Forecast, soonest first")
        await expect(forecast.get_by_role("row", name="floor")).to_be_visible()
        await page.get_by_role("button", name="Adjust").click()
        await page.get_by_label("By", exact=True).fill("7.5")
        await page.get_by_label("Reason, for the ledger").fill("a gift")
        await page.get_by_role("button", name="Preview").click()
        before = (await shop.bt.scores.get("ana")).score
        await expect(page.get_by_role("dialog")).to_contain_text(f"Score after{float(before) + 7.5:g}")
        await confirm(page, "Adjust the score of ana")
        await expect(page.get_by_role("table", name="Changes of the score")).to_contain_text("a gift")
        await page.get_by_role("button", name="Record an interaction").click()
        await page.get_by_role("button", name="Preview").click()
        await confirm(page, "Record an interaction of ana")
        assert (await shop.bt.scores.get("ana")).hours_overdue == 0


async def test_the_status_of_a_score_is_changed(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        page = await visit.open("/console/scores/ana")
        await page.get_by_role("button", name="Change the status").click()
        await page.get_by_label("Status", exact=True).fill("boss_fight")
        await page.get_by_label("Pause the decay for, in minutes").fill("60")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("dialog")).to_contain_text("→ boss_fight")
        assert (await shop.bt.scores.get("ana")).game_status != "boss_fight"
        await confirm(page, "Change the status of ana")
        assert (await shop.bt.scores.get("ana")).game_status == "boss_fight"


async def test_empty_lists_say_how_to_make_the_first(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open("/console/effects")
        await expect(page.get_by_text("Nothing had to happen outside yet")).to_be_visible()
        for name in ("schedule", "sensor", "intent", "run", "score"):
            await page.get_by_role("link", name=f"{name.capitalize()}s", exact=True).click()
            await expect(page.get_by_text(f"No {name} yet")).to_be_visible()
            await expect(page.get_by_text(f"curl -X POST {nothing.address}/v1/")).to_be_visible()


async def test_a_filter_that_the_server_does_not_know_is_its_error(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console/runs?colour=red")
        await expect(page.get_by_role("alert").filter(has_text="422")).to_contain_text("colour")
        visit.excuse("422")
