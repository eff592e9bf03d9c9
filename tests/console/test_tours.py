"""Tours of the console: what somebody wants to find out or do who was never here, with a mouse and without.

They begin at the first page of a town, as `make run` shows it, and go by what the pages say. `make pictures` keeps what
they see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from tests.console.conftest import Visiting
from tests.console.people import PICTURES, Means, Person, take_picture
from tests.console.town import Served, populated
from tests.console.visits import LoopThread, entered

pytestmark = [pytest.mark.browser]
by_all_means = pytest.mark.parametrize("means", ["mouse", "keyboard"])
HOUR_CAP = "notifications.fatigue.hour.cap"


@pytest.fixture(scope="module")
def hamlet(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A small town of these tests' own, which they change."""
    with entered(loop, populated(tmp_path_factory.mktemp("hamlet"), people=12, steps=70)) as found:
        yield found


@by_all_means
async def test_find_why_somebody_was_not_told(means: Means, town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        person = Person(visit, means)
        await person.find("p0", "person")
        await expect(page.get_by_role("heading", level=1)).to_have_text("p0")
        await take_picture(page, "day", means)
        await person.use(page.get_by_role("link", name=re.compile(r"^\d+ never$")))
        rows = page.get_by_role("table", name="The day as a table").get_by_role("row", name="NEVER")
        await person.open_why(rows.filter(has_text="repeats an earlier one, exactly").first)
        rules = page.get_by_role("region", name="The rules, in order")
        await expect(rules.get_by_label(re.compile(": bound$"))).to_contain_text("repeats an earlier one")
        different = page.get_by_role("region", name="What would have changed the answer")
        await expect(different).to_contain_text("Re-deciding reproduced the recorded verdict")
        await take_picture(page, "why", means)


@by_all_means
async def test_see_what_is_due_next(means: Means, town: Served, visiting: Visiting) -> None:
    async with visiting(town.address) as visit:
        page = await visit.open("/console")
        person = Person(visit, means)
        await person.go("What's next", "x")
        await expect(page.get_by_role("region", name="Due in the next 24 h")).to_be_visible()
        await take_picture(page, "next", means)
        await person.use(page.get_by_role("navigation", name="Kind").get_by_role("link", name="schedule"))
        waiting = page.get_by_role("table", name="Waiting, soonest first", exact=True)
        await person.use(waiting.get_by_role("link", name="brief-0", exact=True))
        await expect(page.get_by_role("heading", level=1)).to_contain_text("brief-0")
        await take_picture(page, "schedule", means)


@by_all_means
async def test_find_what_is_stuck_and_try_it_again(means: Means, hamlet: Served, visiting: Visiting) -> None:
    async with visiting(hamlet.address) as visit:
        page = await visit.open("/console")
        person = Person(visit, means)
        await person.use(page.get_by_role("link", name=re.compile(r"^\d+ dead letters?$")))
        groups = page.get_by_role("table", name="Dead letters by executor and error")
        stuck = groups.get_by_role("row", name="handler:print_invoices")
        await expect(stuck).to_contain_text("the printer is out of paper")
        await take_picture(page, "effects", means)
        await person.use(stuck.get_by_role("button", name=re.compile("^Retry")))
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("would be tried again")
        await person.write(f"paper filled up by {means}", dialog.get_by_label("Note"))
        await person.use(dialog.get_by_role("button", name=re.compile("^Retry")))
        await expect(dialog).to_contain_text("Done.")
        await page.keyboard.press("Escape")
        await expect(page.get_by_text("No effects match")).to_be_visible()
    noted = await hamlet.bt.ledger.segments({"kind": "operation", "id": "effects"}, order="desc", limit=1)
    assert (noted.items[0].command or {})["note"] == f"paper filled up by {means}"
    await hamlet.bt.advance(by_s=7_200)  # there is none yet: it gets stuck again


@by_all_means
async def test_see_what_a_calmer_policy_would_change(means: Means, hamlet: Served, visiting: Visiting) -> None:
    async with visiting(hamlet.address) as visit:
        page = await visit.open("/console")
        person = Person(visit, means)
        await person.go("Policy lab", "p")
        await person.write("fatigue hour cap", page.get_by_label("Find a setting"))
        await person.write("1", page.get_by_role("spinbutton", name=HOUR_CAP))
        await expect(page.get_by_text("Everybody: about")).to_be_visible()
        # The clock rings what was asked for before it moves, and nothing that comes after.
        async with page.expect_response("**/v1/backtests"):
            await person.use(page.get_by_role("button", name="Try on 200 subjects"))
        await person.use(page.get_by_role("button", name="Advance the clock by 1 s"))
        await expect(page.get_by_text("The recorded policy reproduces all")).to_be_visible()
        await expect(page.get_by_role("table", name="Answers before and after")).to_contain_text("NOW")
        await take_picture(page, "lab", means)


@pytest.mark.skipif(not PICTURES, reason="pictures are taken by `make pictures`")
@pytest.mark.parametrize(
    ("name", "path", "how"),
    [
        ("now", "/console", {}),
        ("now-dark", "/console", {"scheme": "dark"}),
        ("now-narrow", "/console", {"width": 320, "height": 720}),
        ("health", "/console/health", {}),
    ],
)
async def test_a_page_for_the_documentation(
    name: str, path: str, how: dict[str, object], town: Served, visiting: Visiting
) -> None:
    async with visiting(town.address, **how) as visit:
        await take_picture(await visit.open(path), name)
