"""Questions at a terminal: how it stands, why, what a day was like, what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes import BlockingBetimes, VirtualClock
from betimes.core.errors import STATUS
from tests.cli.running_inside import command as betimes

NOTE: dict[str, Any] = {
    "user_id": "ana",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "message": "See you at nine?",
    "title": "Tom replied",
    "source": "chat",
    "channels": ["push"],
}
QUIET = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the database of a night in Berlin."""
    found = tmp_path_factory.mktemp("night")
    clock = VirtualClock("2026-11-17T01:10:00Z")
    with BlockingBetimes(f"sqlite:///{found}/betimes.db", clock=clock, workers=False) as bt:
        bt.notifications.set_preferences("ana", QUIET)
        for event_id in ("first", "again"):
            bt.notifications.send({**NOTE, "event_id": event_id})
        bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})
        bt.schedules.put("brief", {"cron": "0 8 * * *", "timezone": "Europe/Berlin", "target": {"kind": "sweep"}})
    return found


def test_the_status_says_what_is_late_and_that_nobody_works(folder: Path) -> None:
    said = betimes("status", folder=folder)
    assert said.code == 0, said.err
    assert "tenant default" in said.out
    assert "no process works: start betimes serve or worker" in said.out
    told = betimes("status", "--json", folder=folder).json
    assert told["backlog"]["alarms_due"] == 2
    assert told["late_s"] > 0
    assert told["problems"]


def test_a_status_is_not_watched_faster_than_a_person_sees(folder: Path) -> None:
    refused = betimes("status", "--watch", "--every-s", "0.01", folder=folder)
    assert refused.code == STATUS["INVALID"][1]


@pytest.mark.parametrize("name", ["first", "inbox:ana:2"])
def test_why_takes_an_event_or_a_segment_and_names_every_rule(folder: Path, name: str) -> None:
    said = betimes("why", name, folder=folder)
    assert said.out.startswith("first of ana: LATER. Quiet until 07:00 in Europe/Berlin. It is looked at again at")
    assert "→ quiet_hours: quiet until 07:00 in Europe/Berlin" in said.out
    assert "· digest: not looked at" in said.out
    assert "It would have been otherwise if" in said.out


def test_why_takes_a_person_and_explains_the_last_answer_that_was_not_yes(folder: Path) -> None:
    said = betimes("why", "ana", folder=folder)
    first, second = [line for line in said.out.splitlines() if "notifications:" in line]
    assert "NEVER" in first
    assert "LATER" in second
    assert "again of ana: NEVER." in said.out
    told = betimes("why", "ana", "--json", folder=folder).json
    assert told["found_as"] == "person"
    assert told["explanation"]["segment_id"] == "inbox:ana:3"


def test_why_takes_an_account_or_the_key_of_a_trigger(folder: Path) -> None:
    assert "ALLOW. acct-7 may run; no limit binds." in betimes("why", "acct-7", folder=folder).out
    assert betimes("why", "sig-1", folder=folder).out.startswith("sig-1 of acct-7: ALLOW.")


def test_why_takes_the_id_of_a_schedule_a_sensor_or_an_intent(tmp_path: Path) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    once = {"user_id": "bob", "trigger_type": "once", "schedule": {"trigger_at": "2026-11-17T02:00:00Z"}}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.schedules.put("brief", {"cron": "0 2 * * *", "target": {"kind": "sweep"}})
        bt.sensors.put("crm", {"sensor_type": "push", "target": {"kind": "sweep"}})
        bt.intents.put("call", {**once, "action_type": "notify", "action_context": "call your mother"})
        bt.sensors.message("crm", {"message_id": "m1"})
        bt.advance(to="2026-11-17T03:00:00Z")
    for name, word in (("brief", "fired"), ("crm", "triggered"), ("call", "success")):
        said = betimes("why", name, folder=tmp_path)
        assert said.code == 0, said.err
        assert f"The last decisions about {name}, newest first:" in said.out
        assert f": {word}. " in said.out
    assert betimes("why", "brief", "--json", folder=tmp_path).json["found_as"] == "schedule"
    unknown = betimes("day", "nobody", folder=tmp_path)
    assert (unknown.code, "--account" in unknown.err) == (STATUS["NOT_FOUND"][1], True)
    assert betimes("day", "bob", "--date", "2026-10-01", folder=tmp_path).code == 0


def test_why_says_what_can_be_asked_for(folder: Path) -> None:
    unknown = betimes("why", "nobody", folder=folder)
    assert unknown.code == STATUS["NOT_FOUND"][1]
    assert "an event id, an idempotency key, a person" in unknown.err


def test_a_day_is_shown_in_the_hours_of_the_person(folder: Path) -> None:
    said = betimes("day", "ana", "--date", "2026-11-17", folder=folder)
    assert said.out.startswith("ana on Tuesday 2026-11-17 in Europe/Berlin (UTC+01:00)")
    assert "00:00:00–07:00:00 quiet hours" in said.out
    lines = [line.split()[:4] for line in said.out.splitlines() if line.startswith("02:10:00")]
    assert lines == [["02:10:00", "MESSAGE", "first", "LATER"], ["02:10:00", "MESSAGE", "again", "NEVER"]]
    assert "waits" in said.out


def test_a_day_in_which_the_clock_changes_has_its_own_length(folder: Path) -> None:
    told = betimes("day", "ana", "--date", "2026-10-25", "--json", folder=folder).json
    assert (told["since"], told["until"]) == ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")


def test_next_lists_what_waits_soonest_first(folder: Path) -> None:
    said = betimes("next", "--hours", "48", folder=folder)
    rows = [line for line in said.out.splitlines() if "(late)" in line]
    assert "inbox" in rows[0]
    assert "QUIET_HOURS" in rows[0]
    only = betimes("next", "--reason", "QUIET_HOURS", "--json", folder=folder).json
    assert [item["key"] for item in only["items"]] == ["first"]
