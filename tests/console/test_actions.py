"""Whatever an operator does: looked at first, accessible, under a key, with a note, and a link to what it has left.

Each action is carried out once, by the dialog that all share; what can be taken back is taken back.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from playwright.async_api import Page, expect

from betimes.app.betimes import Betimes
from betimes.core.deciders import Wake
from betimes.engine.virtual_clock import VirtualClock
from tests.console.conftest import Visiting
from tests.console.dialogs import check_dialog, is_write
from tests.console.visits import Visit
from tests.console.workshop import Workshop, workshop

pytestmark = pytest.mark.browser
Do = Callable[[Page], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Act:
    """An action, as somebody does it."""

    at: str
    """Its page."""
    title: str
    """Of its dialog."""
    open: Do
    """Press what opens it, and fill in what it asks before."""
    leaves: str
    """How its segment begins."""
    says: str = ""
    """What the dialog shows first."""
    button: str = ""
    """The words that confirm it, if not the title."""
    has_version: bool = False
    undo: str = ""
    """The title of what takes it back."""
    confirms_undo: bool = False
    """Whether taking it back is dangerous, and confirmed."""
    word: str = ""
    """What must be typed to confirm."""


def press(name: str | re.Pattern[str], *, exact: bool = False) -> Do:
    return lambda page: page.get_by_role("button", name=name, exact=exact).first.click()


# -- one action


async def carry_out(visit: Visit, bt: Betimes, act: Act) -> None:
    """Open the dialog of an action, look at it, and do it."""
    await visit.follow(f"/console{act.at}")
    await act.open(visit.page)
    await confirm(visit, bt, act)
    if act.undo and act.confirms_undo:
        await visit.page.get_by_role("button", name="Undo…").click()
        await confirm(visit, bt, replace(act, title=act.undo, says="cannot be taken back", button="", word=""))
    elif act.undo:
        await take_back(visit, bt, act)
    await visit.page.get_by_role("dialog").get_by_role("link", name="Recorded as ").first.click()
    await expect(visit.page.get_by_role("dialog")).to_have_count(0)
    facts = visit.page.get_by_role("main").get_by_role("definition")
    note = note_of(act.undo if act.confirms_undo else act.title)
    await expect(facts.filter(has_text=note).first).to_be_visible()


async def take_back(visit: Visit, bt: Betimes, act: Act) -> None:
    """Take back what was done with one click on its result; that is an action too, under a key of its own."""
    dialog = visit.page.get_by_role("dialog", name=act.title, exact=True)
    async with visit.page.expect_request(is_write) as asked:
        await dialog.get_by_role("button", name="Undo", exact=True).click()
    headers = await (await asked.value).all_headers()
    assert headers["idempotency-key"].startswith("console-")
    link = dialog.get_by_role("status").filter(has_text=f"Undone: {act.undo}.").get_by_role("link").last
    await expect(link).to_be_focused()
    segment = await bt.ledger.explain((await link.inner_text()).removeprefix("Recorded as "))
    assert segment.actor == "dev"
    assert segment.note.startswith(f"Undo of {act.leaves}")


async def confirm(visit: Visit, bt: Betimes, act: Act) -> None:
    page, note = visit.page, note_of(act.title)
    dialog = page.get_by_role("dialog", name=act.title, exact=True)
    does_it = dialog.get_by_role("button", name=act.button or act.title, exact=True)
    if act.word:
        await dialog.get_by_label(f"Type {act.word} to confirm").fill(act.word)
    await expect(does_it).to_be_enabled()
    await expect(dialog).to_contain_text(act.says)
    await check_dialog(page)
    await dialog.get_by_label("Note, for the ledger (optional)").fill(note)
    async with page.expect_request(is_write) as asked:
        await does_it.click()
    headers = await (await asked.value).all_headers()
    assert headers["idempotency-key"].startswith("console-")
    assert unquote(headers["betimes-note"]) == note
    assert ("if-match" in headers) == act.has_version
    link = dialog.get_by_role("link", name=f"Recorded as {act.leaves}")
    await expect(link).to_be_visible()
    await check_dialog(page)
    segment = await bt.ledger.explain((await link.inner_text()).removeprefix("Recorded as "))
    assert (segment.actor, segment.note) == ("dev", note)


def note_of(title: str) -> str:
    return f"{title} – 5 € „zu viel\N{LEFT DOUBLE QUOTATION MARK}"


# -- what is asked before


async def backfill(page: Page) -> None:
    await page.get_by_role("button", name="Backfill").click()
    await check_dialog(page)
    await page.get_by_label("From (Europe/Berlin)").fill("2026-03-20T00:00")
    await page.get_by_label("To, not included (Europe/Berlin)").fill("2026-03-22T00:00")
    await page.get_by_role("button", name="Preview").click()


async def reset_cursor(page: Page) -> None:
    await page.get_by_role("button", name="Reset the cursor").click()
    await check_dialog(page)
    await page.get_by_label("Cursor, as JSON").fill('{"looked": 0}')
    await page.get_by_role("button", name="Preview").click()


async def hold(page: Page) -> None:
    await page.get_by_role("button", name="Hold…").click()
    await page.get_by_role("textbox", name="Reason").fill("a wrong template")
    await expect(page.get_by_text("Due meanwhile")).to_be_visible()
    await check_dialog(page)
    await page.get_by_role("button", name="See what it would do").click()


async def incident(page: Page) -> None:
    await page.get_by_role("button", name="Open an incident…").click()
    await check_dialog(page)
    await page.get_by_role("textbox", name="Reason").fill("database move")
    await page.get_by_role("button", name="See what it would do").click()


async def ban(page: Page) -> None:
    await page.get_by_role("button", name="Ban…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Reason")).to_have_accessible_description(re.compile("stands on their page"))
    await expect(dialog.get_by_label("Note, for the ledger")).to_have_accessible_description(re.compile("ledger"))
    await dialog.get_by_label("Reason").fill("spam")


def select(*ids: str, then: str) -> Do:
    async def tick_and_press(page: Page) -> None:
        for id in ids:
            await page.get_by_role("checkbox", name=f"Select {id}").check()
        await page.get_by_role("button", name=then).click()

    return tick_and_press


# -- the actions

REPORT = "/schedules/hourly-report"
DEAD = "schedule:hourly-report:2:0"
AUTOMATION = (
    Act(
        at=REPORT,
        title="Pause hourly-report",
        open=press("Pause"),
        leaves="schedule:hourly-report:",
        says="The next that would not",
        has_version=True,
        undo="Resume hourly-report",
    ),
    Act(
        at=REPORT,
        title="Tick hourly-report now",
        open=press("Tick now"),
        leaves="schedule:hourly-report:",
        says="would ask for the run",
        has_version=True,
    ),
    Act(
        at=REPORT,
        title="Backfill hourly-report",
        open=backfill,
        leaves="backfill:bf_",
        says="ticks in the range",
        has_version=True,
    ),
    Act(
        at="/schedules",
        title="Pause 2 schedules",
        open=select("brief", "pulse", then="Pause selected"),
        leaves="operation:schedules:",
        says="The next that would not fire",
        undo="Resume 2 schedules",
    ),
    Act(
        at="/sensors/inventory",
        title="Pause inventory",
        open=press("Pause"),
        leaves="sensor:inventory:",
        has_version=True,
        undo="Resume inventory",
    ),
    Act(
        at="/sensors/inventory",
        title="Evaluate inventory now",
        open=press("Evaluate now"),
        leaves="sensor:inventory:",
        says="nothing of it was kept",
    ),
    Act(
        at="/sensors/inventory",
        title="Reset the cursor of inventory",
        open=reset_cursor,
        leaves="sensor:inventory:",
        says='→ {"looked":0}',
    ),
    Act(
        at="/schedules/night-watch",
        title="Delete night-watch",
        open=press("Delete"),
        leaves="schedule:night-watch:",
        says="never fires again",
        has_version=True,
        word="night-watch",
    ),
)
WORK = (
    Act(
        at="/intents/nvda-ana",
        title="Pause nvda-ana",
        open=press("Pause"),
        leaves="intent:nvda-ana:",
        has_version=True,
        undo="Resume nvda-ana",
    ),
    Act(
        at="/runs",
        title="Cancel second",
        open=press("Cancel second"),
        leaves="account:acct-9:",
        says="was promised another look",
    ),
    Act(
        at=f"/effects/{DEAD.replace(':', '%3A')}",
        title=f"Retry {DEAD}",
        open=press("Retry"),
        leaves="operation:effects:",
        says="1 dead letter would be tried again",
    ),
    Act(
        at="/effects?status=dead",
        title="Discard 1 effect",
        open=select("schedule:hourly-report:3:0", then="Discard selected"),
        leaves="operation:effects:",
        says="1 dead letter would be removed for good",
    ),
    Act(
        at="/effects?status=dead",
        title="Retry 2 dead letters",
        open=press(re.compile("^Retry 2 of handler:report")),
        leaves="operation:effects:",
        says="the oldest from",
    ),
    Act(
        at="/people/ana",
        title="Send now first",
        open=press("Send now: first"),
        leaves="inbox:ana:",
        says="Promised",
    ),
    Act(at="/people/ana", title="Cancel second", open=press("Cancel: second"), leaves="inbox:ana:", says="Promised"),
    Act(
        at="/people/ana",
        title="Ban ana",
        open=ban,
        leaves="inbox:ana:",
        says="They are told nothing",
        undo="Lift the ban of ana",
    ),
)
ADMIN = (
    Act(
        at="/admin",
        title="Open the incident",
        open=incident,
        leaves="incident:",
        says="known persons affected",
        undo="Close the incident of everybody",
    ),
    Act(
        at="/admin",
        title="Roll back",
        open=press("Roll back…", exact=True),
        leaves="tenant:default:",
        says="claim_lease_s",
        has_version=True,
        word="default",
    ),
    Act(
        at="/health",
        title="Ring schedule pulse",
        open=press("Ring now: schedule pulse"),
        leaves="schedule:pulse:",
        says="Its last wake failed",
    ),
    Act(
        at="/admin",
        title="Hold everything",
        open=hold,
        leaves="tenant:default:",
        says="a wrong template",
        undo="End the hold",
        confirms_undo=True,
    ),
)


async def test_what_is_done_to_schedules_and_sensors(visiting: Visiting) -> None:
    async with workshop(hours=3) as shop, visiting(shop.address) as visit:
        await visit.open("/console/health")
        for act in AUTOMATION:
            await carry_out(visit, shop.bt, act)
        active = {one.schedule_id for one in (await shop.bt.schedules.list(status="active")).items}
        assert active == {"hourly-report", "brief", "pulse"}, "what was paused goes on, by itself or with others"


async def test_what_is_done_to_what_waits_and_to_what_is_stuck(visiting: Visiting) -> None:
    async with workshop(hours=5) as shop, visiting(shop.address) as visit:
        await _let_wait(shop.bt)
        await visit.open("/console/health")
        for act in WORK:
            await carry_out(visit, shop.bt, act)
        assert (await shop.bt.intents.get("nvda-ana")).enabled
        assert (await shop.bt.notifications.notification_state("ana")).banned is False


async def test_what_administrators_do(visiting: Visiting, monkeypatch: pytest.MonkeyPatch) -> None:
    async with workshop(hours=1) as shop, visiting(shop.address) as visit:
        for lease_s in (600, 900):
            await shop.bt.mine.tenants.set_policy({"overrides": {"intents": {"claim_lease_s": lease_s}}})
        await _snooze_pulse(shop, monkeypatch)
        await visit.open("/console/health")
        for act in ADMIN:
            await carry_out(visit, shop.bt, act)
        assert (await shop.bt.mine.tenants.hold()).held is False
        assert (await shop.bt.notifications.incidents()).items == []


async def _let_wait(bt: Betimes) -> None:
    """Leave two notifications and a trigger that wait."""
    quiet = {"quiet_hours": [{"start": "00:00", "end": "23:30"}]}
    await bt.notifications.set_preferences("ana", quiet)
    for name in ("first", "second"):
        await bt.notifications.send(
            {
                "event_id": name,
                "user_id": "ana",
                "event_type": "PROMO",
                "priority_hint": "LOW",
                "title": f"the {name}",
                "message": f"of {name} today",
                "source": "desk",
                "channels": ["push"],
            }
        )
    for key in ("earlier", "second"):
        await bt.runs.trigger({"account_id": "acct-9", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})
        await bt.advance(by_s=100)


async def _snooze_pulse(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the wake of a schedule fail once; it would succeed by now."""
    kind = shop.bt.engine.kinds.by_name["schedule"]
    decider, clock = kind.decider, shop.bt.clock

    def fail(view: Any, command: Any, policy: Any, now: int) -> Any:
        if isinstance(command, Wake) and view.stream.id == "pulse":
            raise RuntimeError("out of ink")
        return decider.decide(view, command, policy, now)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "decider", msgspec.structs.replace(decider, decide=fail))
        assert isinstance(clock, VirtualClock)
        clock.advance(1800)
        await shop.bt.tick()
