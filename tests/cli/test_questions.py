"""Questions at a terminal: how it stands, why, what a day was like, what comes next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from betimes import BlockingBetimes, ChannelMessage, GiveUp, VirtualClock
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
    assert "no process is running: start betimes serve or worker" in said.out
    told = betimes("status", "--json", folder=folder).json
    # By the real clock: ana's message and the schedule, and a day after the recording the start of the run too.
    assert told["backlog"]["alarms_due"] in (2, 3)
    assert told["late_s"] > 0
    assert told["problems"]


def test_a_status_is_not_watched_faster_than_a_person_sees(folder: Path) -> None:
    refused = betimes("status", "--watch", "--every-s", "0.01", folder=folder)
    assert refused.code == STATUS["INVALID"][1]


@pytest.mark.parametrize("name", ["first", "inbox:ana:2"])
def test_why_takes_an_event_or_a_segment_and_names_every_rule(folder: Path, name: str) -> None:
    said = betimes("why", name, folder=folder)
    assert said.out.startswith("On Tuesday 17 November 2026 at 02:10 (Europe/Berlin time), ")
    assert ", ana was not sent a MESSAGE (first) yet. Quiet" in said.out
    assert "Quiet hours last until 07:00 in Europe/Berlin. [LATER, QUIET_HOURS, inbox:ana:2]" in said.out
    assert re.search("It (will|was to) be judged again at 07:0", said.out)  # by the real clock
    assert "→ Quiet hours last until 07:00 in Europe/Berlin. [quiet_hours]" in said.out
    assert "· Not checked any more. [cooldown, channel_cap, digest, score]" in said.out
    assert "The answer would have been different if" in said.out


def test_why_takes_a_person_and_explains_the_last_answer_that_was_not_yes(folder: Path) -> None:
    said = betimes("why", "ana", folder=folder)
    first, *_, last = said.out.splitlines()
    assert first.startswith("On Tuesday 17 November 2026 at 02:10 (Europe/Berlin time), ")
    repeats = "It repeats an earlier one, exactly (entry 2 of the person's history)."
    assert f", ana was not sent a MESSAGE (again). {repeats}" in first
    assert first.endswith("[NEVER, DEDUP_EXACT, inbox:ana:3]")
    assert "Other decisions about ana, newest first:" in said.out
    assert last.startswith(
        "  2026-11-17 02:10:00  ana was not sent a MESSAGE (first) yet. Quiet hours last until 07:00"
    )
    told = betimes("why", "ana", "--json", folder=folder).json
    assert told["found_as"] == "person"
    assert told["explanation"]["segment_id"] == "inbox:ana:3"


def test_why_takes_an_account_or_the_key_of_a_trigger(folder: Path) -> None:
    for name in ("acct-7", "sig-1"):
        said = betimes("why", name, folder=folder).out
        assert said.startswith("On Tuesday 17 November 2026 at 01:10 UTC")
        assert ", acct-7 was allowed to run for a SIGNAL_ARRIVED (sig-1)" in said
        assert "It is within all limits. [ALLOW, WITHIN_LIMITS, account:acct-7:1]" in said


def test_why_takes_the_id_of_a_schedule_a_sensor_or_an_intent(tmp_path: Path) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    once = {"user_id": "bob", "trigger_type": "once", "schedule": {"trigger_at": "2026-11-17T02:00:00Z"}}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.schedules.put("brief", {"cron": "0 2 * * *", "target": {"kind": "sweep"}})
        bt.sensors.put("crm", {"sensor_type": "push", "target": {"kind": "sweep"}})
        bt.intents.put("call", {**once, "action_type": "notify", "action_context": "call your mother"})
        bt.sensors.message("crm", {"message_id": "m1"})
        bt.advance(to="2026-11-17T03:00:00Z")
    for name, words in (
        ("brief", "02:00 UTC, the schedule brief fired, and its handler sweep succeeded."),
        ("crm", "01:10 UTC, the sensor crm asked for runs, and its handler sweep succeeded."),
        ("call", "02:00 UTC, the intent call fired."),
    ):
        said = betimes("why", name, folder=tmp_path)
        assert said.code == 0, said.err
        undated = re.sub(", [^,]* ago,", ",", said.out)
        assert undated.startswith(f"On Tuesday 17 November 2026 at {words}")
    assert betimes("why", "brief", "--json", folder=tmp_path).json["found_as"] == "schedule"
    unknown = betimes("day", "nobody", folder=tmp_path)
    assert (unknown.code, "--account" in unknown.err) == (STATUS["NOT_FOUND"][1], True)
    assert betimes("day", "bob", "--date", "2026-10-01", folder=tmp_path).code == 0


def test_why_says_what_can_be_asked_for(folder: Path) -> None:
    assert (unknown := betimes("why", "nobody", folder=folder)).code == STATUS["NOT_FOUND"][1]
    assert "an event id, an idempotency key, a person" in unknown.err
    assert "The tenant 'default' was searched; name another with --tenant" in unknown.err


def test_a_day_is_shown_in_the_hours_of_the_person(folder: Path) -> None:
    said = betimes("day", "ana", "--date", "2026-11-17", folder=folder)
    assert said.out.startswith("ana on Tuesday 2026-11-17 in Europe/Berlin (UTC+01:00)")
    assert "00:00:00–07:00:00 quiet hours" in said.out
    lines = [line.split()[:4] for line in said.out.splitlines() if line.startswith("02:10:00")]
    assert lines == [["02:10:00", "MESSAGE", "first", "LATER"], ["02:10:00", "MESSAGE", "again", "NEVER"]]
    assert "waits" in said.out


def test_a_day_of_a_person_has_the_runs_of_the_account_of_that_name(tmp_path: Path) -> None:
    trigger = {"account_id": "ana", "trigger_type": "SIGNAL_ARRIVED"}
    clock = VirtualClock("2026-11-17T01:10:00.123456Z")
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.notifications.set_preferences("ana", QUIET)
        bt.notifications.send({**NOTE, "event_id": "first"})
        bt.runs.trigger({**trigger, "idempotency_key": "one"})
        bt.advance(by_s=90)
        bt.runs.trigger({**trigger, "idempotency_key": "two"})
    said = betimes("day", "ana", "--date", "2026-11-17", folder=tmp_path).out
    assert said.splitlines()[0].endswith("in Europe/Berlin (UTC+01:00), with the account of that name")
    lines = [line.split()[:4] for line in said.splitlines() if line.startswith("02:1")]
    assert ["02:10:00", "MESSAGE", "first", "LATER"] in lines
    assert ["02:10:00", "SIGNAL_ARRIVED", "one", "ALLOW"] in lines
    assert "ana ran at 02:10; its cooldown of 5 minutes ends at 02:15. It is judged again at 02:15" in said
    alone = betimes("day", "ana", "--account", "--date", "2026-11-17", folder=tmp_path).out
    assert "MESSAGE" not in alone
    told = betimes("day", "ana", "--date", "2026-11-17", "--json", folder=tmp_path).json
    assert {item["kind"] for item in told["items"]} == {"inbox", "account"}


def test_a_day_of_an_account_is_shown_where_no_person_has_its_name(folder: Path) -> None:
    said = betimes("day", "acct-7", "--date", "2026-11-17", folder=folder)
    told, *day = said.out.splitlines()
    assert told == "There is no person acct-7. This is the day of the account, as with --account:"
    assert day == betimes("day", "acct-7", "--account", "--date", "2026-11-17", folder=folder).out.splitlines()
    assert any("sig-1" in line and "ALLOW" in line for line in day)
    told = betimes("day", "acct-7", "--date", "2026-11-17", "--json", folder=folder).json
    assert [item["segment_id"] for item in told["items"]] == ["account:acct-7:1"]
    quiet = betimes("day", "ana", "--account", "--date", "2026-11-17", folder=folder).out
    assert "There is no person" not in quiet


def test_a_day_of_an_account_tells_its_cooldown_from_the_debounce_of_a_type(tmp_path: Path) -> None:
    def read_bands() -> list[str]:
        said = betimes("day", "acct-7", "--account", "--date", "2026-11-17", folder=tmp_path).out
        return [line.strip() for line in said.splitlines() if line.startswith("  ")]

    url, clock = f"sqlite:///{tmp_path}/betimes.db", VirtualClock("2026-11-17T10:00:00Z")
    with BlockingBetimes(url, clock=clock, workers=False) as bt:
        bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "one"})
    assert read_bands() == ["10:00:00–10:05:00 cooldown", "10:00:00–10:01:00 debounce (SIGNAL_ARRIVED)"]
    bt = BlockingBetimes(url, clock=VirtualClock("2026-11-17T11:00:00Z"), workers=False)
    bt.run("SLOW", debounce_seconds=5, debounce_mode="trailing", cooldown_seconds=600)(print)
    with bt:
        bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SLOW", "idempotency_key": "two"})
        bt.advance(by_s=5)
    assert read_bands()[2:] == [
        "11:00:05–11:05:05 cooldown (SIGNAL_ARRIVED, LIFECYCLE_STATE_CHANGE, POSTURE_CHANGE and 3 more)",
        "11:00:05–11:10:05 cooldown (SLOW)",
    ]


def test_a_day_in_which_the_clock_changes_has_its_own_length(folder: Path) -> None:
    told = betimes("day", "ana", "--date", "2026-10-25", "--json", folder=folder).json
    assert (told["since"], told["until"]) == ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
    said = betimes("day", "ana", "--date", "2026-10-25", folder=folder).out
    assert "(UTC+02:00 and then UTC+01:00)" in said.splitlines()[0]


def test_next_lists_what_waits_soonest_first(folder: Path) -> None:
    said = betimes("next", "--hours", "48", folder=folder)
    rows = [line for line in said.out.splitlines() if "(late)" in line]
    assert "inbox" in rows[0]
    assert "QUIET_HOURS" in rows[0]
    only = betimes("next", "--reason", "QUIET_HOURS", "--json", folder=folder).json
    assert [item["key"] for item in only["items"]] == ["first"]


def test_next_goes_on_where_its_last_page_ended(folder: Path) -> None:
    first = betimes("next", "--hours", "48", "--limit", "1", "--json", folder=folder).json
    rest = betimes("next", "--cursor", first["next_cursor"], "--json", folder=folder).json
    everything = betimes("next", "--hours", "48", "--json", folder=folder).json
    assert [*first["items"], *rest["items"]] == everything["items"]
    refused = betimes("next", "--cursor", "nonsense", folder=folder)
    assert (refused.code, "start without" in refused.err) == (STATUS["INVALID"][1], True)


def test_times_are_told_in_the_zone_that_is_asked_for(folder: Path) -> None:
    said = betimes("next", "--zone", "Europe/Berlin", folder=folder).out
    assert "2026-11-17T08:00:00+01:00 (late)  schedule  brief" in said
    assert "+05:30  tenant default" in betimes("status", "--zone", "Asia/Kolkata", folder=folder).out
    for command in ("next", "status"):
        refused = betimes(command, "--zone", "EST5", folder=folder)
        assert (refused.code, "name a place" in refused.err) == (STATUS["INVALID"][1], True)


def test_why_merges_all_that_has_a_name_though_it_was_long_ago(tmp_path: Path) -> None:
    clock = VirtualClock("2020-03-27T09:00:00Z")
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.notifications.set_preferences("ana", QUIET)
        bt.runs.trigger({"account_id": "ana", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "one"})
        bt.advance(to="2020-03-27T09:40:00Z")
        bt.notifications.send({**NOTE, "event_id": "told"})
        bt.advance(to="2020-03-27T09:41:00Z")
        bt.notifications.send({**NOTE, "event_id": "same"})
    told = betimes("why", "ana", "--json", folder=tmp_path).json
    assert [event["segment_id"] for event in told["recent"]] == ["inbox:ana:4", "inbox:ana:2", "account:ana:1"]
    assert (told["found_as"], told["explanation"]["verdict"]["outcome"]) == ("person", "NEVER")
    assert (told["timezone"], told["explanation"]["rules"][3]["outcome"]) == ("Europe/Berlin", "bound")
    said = betimes("why", "ana", folder=tmp_path).out
    assert said.startswith("On Friday 27 March 2020 at 10:41 (Europe/Berlin time), ana was not sent a MESSAGE (same).")
    assert (
        "It will not be judged again. If sent again, it would pass at 10:40 on Saturday 28 March 2020 at the earliest"
        in said
    )
    assert "  2020-03-27 10:00:00  ana was allowed to run for a SIGNAL_ARRIVED (one)." in said


def test_why_explains_what_was_decided_first_when_the_same_was_asked_for_again(tmp_path: Path) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    asked = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.runs.trigger(asked)
        bt.advance(by_s=7)
        bt.runs.trigger(asked)
    first, again, *rest = betimes("why", "acct-7", folder=tmp_path).out.splitlines()
    assert first.startswith("On Tuesday 17 November 2026 at 01:10 ")
    assert ", acct-7 was allowed to run for a SIGNAL_ARRIVED (sig-1)" in first
    assert again.startswith(
        "It was asked for again at 01:10:07. The same was asked for before; nothing was done again. ["
    )
    assert not any("account:acct-7:2" in line for line in rest)
    told = betimes("why", "acct-7", "--json", folder=tmp_path).json
    assert told["explanation"]["segment_id"] == "account:acct-7:1"
    assert told["repeated_by"]["segment_id"] == "account:acct-7:2"


def test_why_says_whether_what_was_sent_arrived(tmp_path: Path) -> None:
    raised: dict[str, Exception] = {"bad": GiveUp("no such device."), "slow": ConnectionError("busy")}
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T10:00:00Z"))

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        if error := raised.get(message.user_id):
            raise error

    with bt:
        for user in ("good", "bad", "slow"):
            bt.notifications.send({**NOTE, "event_id": f"n-{user}", "user_id": user})
        bt.advance(by_s=1)
    for user, became in (
        ("good", "and it was delivered. No rule prevents it. [NOW, "),
        ("bad", "but it could not be delivered by push: no such device. No rule prevents it. [NOW, "),
        (
            "slow",
            "but it is not delivered yet: push has failed once, with ConnectionError('busy'); ",
        ),
    ):
        for name in (user, f"n-{user}"):
            first = betimes("why", name, folder=tmp_path).out.splitlines()[0]
            assert first.startswith("On Tuesday 17 November 2026 at 10:00 UTC, ")
            assert f", {user} was sent a MESSAGE (n-{user}), {became}" in first
    assert "1 dead letter: see" in betimes("status", folder=tmp_path).out
    assert betimes("next", folder=tmp_path).out.endswith(
        "1 call to the outside is pending: `betimes effects list --status pending` says when each is tried next.\n"
    )
    [result] = betimes("why", "bad", "--json", folder=tmp_path).json["results"]
    assert (result["key"], result["status"], result["error"]) == ("n-bad", "failed", "no such device.")


def test_why_says_whether_what_waited_arrived_in_the_end(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T01:10:00Z"))

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        raise GiveUp("no such device")

    with bt:
        bt.notifications.set_preferences("ana", QUIET)
        bt.notifications.send({**NOTE, "event_id": "first"})
        bt.advance(to="2026-11-17T09:00:00Z")
    first, again, *_ = betimes("why", "first", folder=tmp_path).out.splitlines()
    assert first.startswith("On Tuesday 17 November 2026 at 02:10 (Europe/Berlin time), ")
    assert ", ana was not sent a MESSAGE (first) yet. Quiet" in first
    assert "delivered" not in first
    assert again.startswith("It was judged again: at 07:0")
    assert " ana was sent a MESSAGE (first), but it could not be delivered by push: no such device. " in again


def test_why_says_how_the_run_went(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T10:00:00Z"))

    @bt.run("SIGNAL_ARRIVED")
    def handle(run: dict[str, Any]) -> None:
        if run["account_id"] == "boom":
            raise ValueError("no money")

    with bt:
        for account in ("fine", "boom"):
            key = f"k-{account}"
            bt.runs.trigger({"account_id": account, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})
        bt.advance(by_s=600)
    for account, became in (
        ("fine", "and the run succeeded. It is within all limits. [ALLOW, "),
        ("boom", "but the run failed: ValueError('no money'). It is within all limits. [ALLOW, "),
    ):
        for name in (account, f"k-{account}"):
            first = betimes("why", name, folder=tmp_path).out.splitlines()[0]
            assert first.startswith("On Tuesday ")
            assert f", {account} was allowed to run for a SIGNAL_ARRIVED (k-{account}), {became}" in first


def test_why_says_that_a_run_has_not_started(folder: Path) -> None:
    assert ", and the run has not started yet. It is within" in betimes("why", "sig-1", folder=folder).out


def test_why_says_which_of_several_channels_failed(tmp_path: Path) -> None:
    bt = BlockingBetimes(
        f"sqlite:///{tmp_path}/betimes.db",
        clock=VirtualClock("2026-11-17T10:00:00Z"),
        policy={"notifications": {"event_types": {"MESSAGE": {"deliver": "all"}}}},
    )

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        raise GiveUp("no such device")

    with bt:
        bt.notifications.send({**NOTE, "event_id": "both", "channels": ["in_app", "push"]})
        bt.advance(by_s=1)
    said = betimes("why", "both", folder=tmp_path).out
    assert ", and it was delivered, but not by push: no such device. No rule prevents it." in said
    [result] = betimes("why", "both", "--json", folder=tmp_path).json["results"]
    assert (result["status"], result["channel"]) == ("partly_delivered", "push")


def test_why_of_a_person_explains_an_older_no_before_what_arrived_by_one_channel(tmp_path: Path) -> None:
    bt = BlockingBetimes(
        f"sqlite:///{tmp_path}/betimes.db",
        clock=VirtualClock("2026-11-17T10:00:00Z"),
        policy={"notifications": {"event_types": {"MESSAGE": {"deliver": "all"}}}},
    )

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        raise OSError("no network")  # it is tried again

    with bt:
        for event_id in ("first", "same"):  # the second one is a duplicate
            bt.notifications.send({**NOTE, "event_id": event_id, "channels": ["in_app"]})
        bt.advance(by_s=3_600)
        bt.notifications.send({**NOTE, "event_id": "both", "message": "both", "channels": ["in_app", "push"]})
        bt.advance(by_s=1)
    [result] = betimes("why", "both", "--json", folder=tmp_path).json["results"]
    assert (result["status"], result["channel"], result["error"] is None) == ("partly_delivered", "push", False)
    assert "MESSAGE (same)" in betimes("why", "ana", folder=tmp_path).out.splitlines()[0]


def test_why_of_a_person_explains_a_newer_delivery_that_failed_before_an_older_no(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T10:00:00Z"))

    @bt.channel("push")
    def push(message: ChannelMessage) -> None:
        if message.message == "lost":
            raise GiveUp("no such device")

    with bt:
        for event_id in ("told", "same"):  # the second one is a duplicate
            bt.notifications.send({**NOTE, "event_id": event_id})
        bt.advance(by_s=3_600)
        for event_id in ("lost", "well"):
            bt.notifications.send({**NOTE, "event_id": event_id, "message": event_id})
            bt.advance(by_s=3_600)
    said = betimes("why", "ana", folder=tmp_path).out
    assert said.startswith("On Tuesday 17 November 2026 at 11:00 UTC, ")
    assert "ana was sent a MESSAGE (lost)" in said
    assert "but it could not be delivered by push: no such device." in said
