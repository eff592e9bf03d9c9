"""A change of preferences is heard at once by everything that waits, and costs no deferral."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from betimes.core.instants import HOUR, MINUTE, parse
from betimes.notifications.model import (
    Held,
    InboxState,
    Item,
    OptOut,
    Preferences,
    PreferencesSet,
    Released,
    SetPreferences,
    Suppressed,
)
from betimes.notifications.quiet_hours import QuietHours
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import NIGHT, NINE, inbox, note, preferences
from tests.notifications.people import people, request
from tests.stores.backends import Backend

MIDNIGHT = parse("2026-01-05T00:00:00Z")


def asleep(*texts: str, priority: Any = "HIGH") -> Scenario[InboxState]:
    """Notifications that wait for the end of the night."""
    scenario = inbox(preferences(quiet_hours=(NIGHT,)), jitter_s=0).at(MIDNIGHT)
    for text in texts:
        scenario.when(note(text=text, priority=priority), key=text).then_verdict("LATER", "QUIET_HOURS")
    return scenario


def waiting(scenario: Scenario[InboxState]) -> tuple[Item, ...]:
    assert scenario.state
    return scenario.state.waiting


def choose(**chosen: Any) -> SetPreferences:
    return SetPreferences(Preferences(**chosen))


def test_quiet_hours_switched_off_release_what_waited_for_them() -> None:
    scenario = asleep("one").when(choose()).then_alarm(MIDNIGHT)
    assert isinstance(scenario.decision.events[0], PreferencesSet)
    scenario.wakes().then_verdict("NOW", "QUIET_HOURS", "DEFAULT_PASS").then_alarm(None)


def test_longer_quiet_hours_move_it_and_shorter_ones_too() -> None:
    scenario = asleep("one").when(choose(quiet_hours=(QuietHours(22 * 60, 9 * 60),)))
    scenario.then_alarm(MIDNIGHT + 9 * HOUR)
    scenario.when(choose(quiet_hours=(QuietHours(22 * 60, 5 * 60),))).then_alarm(MIDNIGHT + 5 * HOUR)
    assert [(item.defer_count, item.reasons) for item in waiting(scenario)] == [(1, ("QUIET_HOURS",))]


def test_another_zone_moves_it() -> None:
    scenario = asleep("one").when(choose(quiet_hours=(NIGHT,), timezone="Europe/Berlin"))
    scenario.then_alarm(MIDNIGHT + 6 * HOUR)


def test_no_more_go_out_at_once_than_a_burst_may_and_the_others_wait_without_a_deferral() -> None:
    scenario = asleep(*(f"news number {number}" for number in range(5))).when(choose())
    moved = [event for event in scenario.decision.events if isinstance(event, Held)]
    assert [(len(event.items), event.until_at) for event in moved] == [(3, MIDNIGHT)]
    later = [item for item in waiting(scenario) if item.until_at > MIDNIGHT]
    assert {(item.until_at, item.defer_count, item.reasons) for item in later} == {
        (MIDNIGHT + 15 * MINUTE, 1, ("QUIET_HOURS", "FATIGUE_CAP_5M"))
    }
    out: list[str] = []
    for _ in range(3):
        scenario.wakes()
        out += [event.event_id for event in scenario.decision.events if isinstance(event, Released)]
    assert (out, scenario.now) == ([f"news number {number}" for number in range(3)], MIDNIGHT)
    scenario.then_alarm(MIDNIGHT + 15 * MINUTE)


def test_what_was_put_off_as_often_as_it_may_be_is_not_forced_out_in_the_night() -> None:
    scenario = asleep("one")
    [item] = waiting(scenario)
    twice = inbox(preferences(quiet_hours=(NIGHT,)), jitter_s=0).at(MIDNIGHT)
    twice.when(note(text="one"), key="one")
    assert twice.state
    twice.state = InboxState(preferences=twice.state.preferences, waiting=(replace(item, defer_count=2),))
    twice.when(choose(quiet_hours=(QuietHours(22 * 60, 9 * 60),))).then_alarm(MIDNIGHT + 9 * HOUR)
    assert [one.defer_count for one in waiting(twice)] == [2]


def test_an_opt_out_ends_what_waits() -> None:
    scenario = asleep("one").when(choose(quiet_hours=(NIGHT,), opt_out=OptOut(event_types=("MESSAGE",))))
    assert Suppressed(2, "one", ("QUIET_HOURS", "USER_OPT_OUT")) in scenario.decision.events
    scenario.then_alarm(None)


def test_a_change_that_makes_no_difference_moves_nothing() -> None:
    scenario = inbox(jitter_s=0).when(note("UPDATE", "MEDIUM"), key="a").then_verdict("LATER", "SCORE_DEFER")
    scenario.at(NINE + 10 * MINUTE).when(choose(addresses={"push": "device-1"}))
    assert len(scenario.decision.events) == 1
    scenario.then_alarm(NINE + 30 * MINUTE)


def test_a_digest_goes_by_its_new_windows_and_without_any_is_judged_singly() -> None:
    scenario = inbox(jitter_s=0).when(note("DIGEST", "MEDIUM"), key="a").then_alarm(NINE + 9 * HOUR)
    scenario.when(choose(digest_windows=("0 12 * * *",))).then_alarm(NINE + 3 * HOUR)
    scenario.when(choose(opt_out=OptOut(channels=("push",)), digest_windows=("0 12 * * *",)))
    scenario.then_alarm(NINE + 3 * HOUR)
    scenario.when(choose(digest_windows=())).then_alarm(NINE).wakes()
    assert isinstance(scenario.decision.events[0], Released)


async def test_whoever_wakes_the_person_up_is_heard_on_every_store(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        await p.service.set_preferences("ann", {"quiet_hours": [{"start": "08:00", "end": "12:00"}]})
        await p.service.send(request())
        await p.elsewhere.patch_preferences("ann", {"quiet_hours": []})
        await p.tick()
        assert [sent.channel for sent in p.outside.sent] == ["push"]
        found = await p.service.notification("e1")
        assert (found.status, found.reasons, found.defer_count) == ("delivered", ("QUIET_HOURS", "DEFAULT_PASS"), 1)
