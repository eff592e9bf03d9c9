"""Questions at a terminal about what is long ago, and about days on which much happened."""

from __future__ import annotations

from pathlib import Path

from betimes import BlockingBetimes, VirtualClock
from betimes.core.errors import STATUS
from tests.cli.running_inside import command as betimes
from tests.cli.test_questions import NOTE


def test_why_finds_events_and_triggers_whose_keys_have_expired(tmp_path: Path) -> None:
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2020-03-27T09:00:00Z")) as bt:
        bt.notifications.send({**NOTE, "event_id": "told"})
        bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})
    for name, segment in (("told", "inbox:ana:1"), ("sig-1", "account:acct-7:1")):
        found = betimes("why", name, "--json", folder=tmp_path).json
        assert (found["found_as"], found["explanation"]["segment_id"]) == ("key", segment)
    expired = betimes("trigger", "show", "sig-1", folder=tmp_path)
    assert expired.code == STATUS["NOT_FOUND"][1]
    assert "the key of the trigger 'sig-1' of acct-7 has expired" in expired.err
    assert "betimes why account:acct-7:1" in expired.err


def test_a_day_folds_checks_that_came_to_the_same_and_keeps_what_the_person_was_told(tmp_path: Path) -> None:
    price = {"user_id": "ana", "trigger_type": "price", "action_type": "notify", "action_context": "It is cheap."}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-16T00:00:00Z")) as bt:
        for intent in ("nvda", "amd"):
            bt.intents.put(intent, {**price, "condition": {"expression": f"{intent.upper()} < 130"}})
        for minute in range(0, 60, 5):
            bt.advance(to=f"2026-11-16T01:{minute:02}:00Z")
            if minute == 30:
                bt.notifications.send({**NOTE, "event_id": "told"})
            for intent in ("nvda", "amd"):
                bt.intents.fire(intent, {"status": "condition_not_met"})
    asked = ("day", "ana", "--date", "2026-11-16")
    rows = [line.split()[:6] for line in betimes(*asked, folder=tmp_path).out.splitlines() if line.startswith("01:")]
    assert rows == [
        ["01:00:00–01:25:00", "intent", "nvda", "6", "×", "condition_not_met"],
        ["01:00:00–01:25:00", "intent", "amd", "6", "×", "condition_not_met"],
        ["01:30:00", "MESSAGE", "told", "NOW", "No", "rule"],
        ["01:30:00–01:55:00", "intent", "nvda", "6", "×", "condition_not_met"],
        ["01:30:00–01:55:00", "intent", "amd", "6", "×", "condition_not_met"],
    ]
    assert len(betimes(*asked, "--json", folder=tmp_path).json["items"]) == 25, "programs are told each"
