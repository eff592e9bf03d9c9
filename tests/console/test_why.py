"""Why: from an answer to the rule that bound, and to what would have had to be different."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Page, expect

from betimes.console.settings import ConsoleSettings
from betimes.ledger.verdict_list import VerdictFilters
from tests.console.conftest import Visiting
from tests.console.town import Served, reopened, served

pytestmark = pytest.mark.browser


async def last_segment(town: Served, outcome: str, reason: str) -> str:
    """Return the newest segment with such an answer, for such a reason."""
    page = await town.bt.ledger.verdicts(VerdictFilters(outcome=outcome, reason=reason), limit=100)
    return next(event.segment_id for event in page.items if event.reasons[-1] == reason)


def why(segment_id: str) -> str:
    return f"/console/why/{quote(segment_id, safe='')}"


async def open_alternatives(page: Page) -> str:
    """Wait until the segment has been decided again, and return what is said about it."""
    part = page.get_by_role("region", name="What would have changed the answer")
    await part.get_by_text("Re-deciding reproduced the recorded verdict").wait_for()
    return await part.inner_text()


async def test_every_rule_is_shown_and_the_one_that_bound_says_so(town: Served, visiting: Visiting) -> None:
    segment_id = await last_segment(town, "LATER", "SCORE_DEFER")
    told = await town.bt.ledger.explain(segment_id)
    async with visiting(town.address) as visit:
        page = await visit.open(why(segment_id))
        assert told.judged[0].key in await page.get_by_role("heading", level=1).inner_text()
        assert told.verdict is not None
        await page.get_by_label("The answer", exact=True).get_by_text(told.verdict.explanation).wait_for()
        rules = page.get_by_role("region", name="The rules, in order").get_by_role("listitem")
        named = [await rule.get_attribute("aria-label") for rule in await rules.all()]
        states = {"passed": "passed", "bound": "bound", "not_reached": "not looked at"}
        assert [one for one in named if one] == [f"{rule.rule}: {states[rule.outcome]}" for rule in told.rules]
        bound = page.get_by_label("score: bound", exact=True)
        assert "BOUND" in (await bound.inner_text()).upper()
        assert await bound.get_by_role("meter").get_attribute("aria-valuenow") == told.rules[-1].values["score"]
        await bound.get_by_text("settings").click()
        href = await bound.get_by_role("link", name="notifications.thresholds.now_from").get_attribute("href")
        assert parse_qs(urlsplit(str(href)).query) == {"set": ["notifications.thresholds.now_from=0.65"]}
        assert len({path for _, path in visit.requests}) <= 12


async def test_times_are_theirs_also_where_no_rule_looked_at_their_zone(town: Served, visiting: Visiting) -> None:
    found = await town.bt.ledger.verdicts(VerdictFilters(outcome="NEVER", reason="DEDUP_EXACT"), limit=100)
    told = await town.bt.ledger.explain(next(event.segment_id for event in found.items if event.id == "p0"))
    assert told.timezone == "Europe/Berlin"
    async with visiting(town.address) as visit:
        page = await visit.open(why(told.segment_id))
        answer = await page.get_by_label("The answer", exact=True).inner_text()
        assert told.timezone in answer
        assert f"{told.at.astimezone(ZoneInfo(told.timezone)):%H:%M:%S}" in answer


async def test_what_would_have_had_to_be_different_leads_to_the_lab_and_the_playground(
    town: Served, visiting: Visiting
) -> None:
    segment_id = await last_segment(town, "LATER", "SCORE_DEFER")
    found = await town.bt.ledger.alternatives(segment_id)
    async with visiting(town.address) as visit:
        page = await visit.open(why(segment_id))
        said = await open_alternatives(page)
        for change in found.changes:
            assert change.kind == "time" or change.says in said
        setting = next(change for change in found.changes if change.kind == "setting")
        href = str(await page.get_by_role("link", name="Try it in the lab").first.get_attribute("href"))
        assert parse_qs(urlsplit(href).query)["set"] == [f"{setting.path}={setting.after}"]
        await page.get_by_role("button", name="See the rule").click()
        assert await page.evaluate("document.activeElement.id") == "rule-score"
        await page.get_by_role("link", name="Open in the playground").click()
        await page.wait_for_url(re.compile(r"/console/try\?segment="))


async def test_a_story_is_followed_to_the_next_judgement_and_back(town: Served, visiting: Visiting) -> None:
    page_of_verdicts = await town.bt.ledger.verdicts(VerdictFilters(reason="DEFER_EXHAUSTED"), limit=20)
    told = await town.bt.ledger.explain(page_of_verdicts.items[-1].segment_id)
    first = told.judgements[0].segment_id
    async with visiting(town.address) as visit:
        page = await visit.open(why(told.segment_id))
        story = page.get_by_role("region", name="Story")
        await story.get_by_role("link", name=first).click()
        await page.get_by_text(first, exact=True).first.wait_for()
        await page.get_by_role("region", name="Story").get_by_role("link", name=told.segment_id).first.click()
        await page.wait_for_url("**" + why(told.segment_id))


async def test_the_fire_of_an_intent_leads_to_what_it_sent_and_says_instants_in_the_chosen_zone(
    town: Served, visiting: Visiting
) -> None:
    found = await town.bt.ledger.verdicts(VerdictFilters(domain="intents", outcome="success"), limit=1)
    fired = found.items[0].segment_id
    async with visiting(town.address) as visit:
        page = await visit.open(why(fired))
        sentence = page.get_by_label("The answer", exact=True).get_by_text(
            "its notification was answered NOW; the next check is at"
        )
        assert re.search(r"is at 29 Mar 15:00 \+00:00\.$", await sentence.inner_text())
        assert await sentence.get_by_role("time").get_attribute("datetime") == "2026-03-29T15:00:00Z"
        await page.keyboard.press("z")
        await sentence.get_by_text("29 Mar 17:00 +02:00").wait_for()  # after a change of the clock
        await expect(page.get_by_label("The answer", exact=True)).to_contain_text(
            re.compile(r"carried out \(NVDA was 1\d\d\)")
        )
        await expect(page.get_by_label("The answer", exact=True)).to_contain_text("Looked at next")
        happened = page.get_by_role("region", name="What happened")
        await expect(happened.get_by_role("button", name="Show message preview")).to_be_visible()
        await expect(happened).not_to_contain_text("next check")  # which is said above, with the cooldown heeded
        story = page.get_by_role("region", name="Story")
        await expect(story.get_by_role("listitem").filter(has_text="Led to")).to_contain_text("inbox:p30:")
        await expect(story).not_to_contain_text("correlation")
        await story.get_by_role("link", name="inbox:p30:").click()
        await page.wait_for_url("**/why/inbox*")
        await story.get_by_role("link", name=fired).click()
        await page.wait_for_url("**" + why(fired))


async def test_a_segment_that_judged_nothing_shows_what_happened(town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open(why("schedule:brief-0:1"))
        assert await page.get_by_role("heading", level=1).inner_text() == "Define schedule: schedule brief-0"
        await page.get_by_role("heading", name="Recorded: Schedule defined").wait_for()
        assert await page.get_by_role("region", name="The rules, in order").count() == 0
        assert not [path for _, path in visit.requests if path.endswith("alternatives")]


async def test_what_never_happens_would_pass_at_no_instant_and_has_its_day(town: Served, visiting: Visiting) -> None:
    segment_id = await last_segment(town, "NEVER", "DEDUP_EXACT")
    told = await town.bt.ledger.explain(segment_id)
    assert told.verdict
    assert told.verdict.would_pass_at
    async with visiting(town.address) as visit:
        page = await visit.open(why(segment_id))
        said = await page.get_by_label("The answer", exact=True).inner_text()
        assert "Would pass" not in said
        assert re.search(r"Decided\s+\d+ Mar \d\d:\d\d:\d\d", said)


@pytest.mark.parametrize("texts", ["never", "click", "always"])
async def test_texts_are_shown_as_the_settings_say(texts: str, town: Served, visiting: Visiting) -> None:
    segment_id = await last_segment(town, "NEVER", "DEDUP_EXACT")
    command = (await town.bt.ledger.explain(segment_id)).command
    assert command
    console = ConsoleSettings(texts=texts)  # type: ignore[arg-type]
    async with served(town.bt, console=console) as other, visiting(other.address) as visit:
        page = await visit.open(why(segment_id))
        title = page.get_by_text(command["title"], exact=True)
        assert await title.count() == (1 if texts == "always" else 0)
        assert await page.get_by_role("button", name="Show title").count() == (1 if texts == "click" else 0)
        if texts == "click":
            await page.get_by_role("button", name="Show title").click()
            await title.wait_for()
        await page.get_by_role("button", name="Raw JSON").click()
        assert (command["message"] in await page.get_by_role("dialog").inner_text()) == (texts == "always")


@pytest.mark.parametrize("texts", ["never", "click"])
async def test_the_ledger_and_the_playground_keep_to_the_same(texts: str, town: Served, visiting: Visiting) -> None:
    segment_id = await last_segment(town, "NEVER", "DEDUP_EXACT")
    told = await town.bt.ledger.explain(segment_id)
    assert told.command
    console = ConsoleSettings(texts=texts)  # type: ignore[arg-type]
    async with served(town.bt, console=console) as other, visiting(other.address) as visit:
        page = await visit.open(f"/console/ledger?kind=inbox&id={told.id}&order=desc")
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=segment_id, exact=True))
        await row.get_by_text("JSON", exact=True).click()
        await row.get_by_text(f'"{segment_id}"').wait_for()
        assert told.command["message"] not in await row.inner_text()
        assert await row.get_by_role("button", name="Show texts").count() == (1 if texts == "click" else 0)
        page = await visit.open(f"/console/try?segment={segment_id}")
        shown = await page.get_by_role("textbox", name="message").input_value()
        # to open it there is a click, too; where nothing is shown, it is the example's
        assert shown == (told.command["message"] if texts == "click" else "See you at nine?")


async def test_an_effect_that_cannot_be_read_is_named(recorded: Path, tmp_path: Path, visiting: Visiting) -> None:
    copied = Path(shutil.copy(recorded, tmp_path))
    with closing(sqlite3.connect(copied)) as database, database:
        ids = "SELECT kind, id, version FROM effect WHERE kind = 'inbox' ORDER BY created_at DESC LIMIT 1"
        [kind, id, version] = database.execute(ids).fetchone()
        database.execute("UPDATE effect SET payload = '{', history = '[7]'")
    async with reopened(copied) as damaged, visiting(damaged.address) as visit:
        page = await visit.open(why(f"{kind}:{id}:{version}"))
        await page.get_by_text("1 row cannot be shown").wait_for()
        await page.get_by_role("listitem").filter(has_text=f"{kind}:{id}:{version}:0").first.wait_for()
        await visit.follow("/console/effects")
        await page.get_by_text("rows cannot be shown").wait_for()


async def test_a_segment_that_is_not_there_says_so_and_leads_to_its_stream(nothing: Served, visiting: Visiting) -> None:
    async with visiting(nothing.address) as visit:
        page = await visit.open(why("inbox:nobody:1"))
        assert "there is no segment inbox:nobody:1" in await page.get_by_role("alert").inner_text()
        visit.excuse("404")
        await page.get_by_role("link", name="Look in Ledger").click()
        await page.wait_for_url("**/console/ledger?kind=inbox&id=nobody")
