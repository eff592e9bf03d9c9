"""What the command line tells of the ledger and of effects: the fields of the API, and no secrets."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes import BlockingBetimes
from betimes.core.errors import STATUS
from tests.cli.running_inside import command as betimes

SENSOR = {
    "sensor_type": "push",
    "auth": "signature",
    "target": {"kind": "trigger", "account_id": "a", "trigger_type": "SIGNAL_ARRIVED"},
}
TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}
SCHEDULE = {"cron": "0 8 * * *", "target": {"kind": "webhook", "url": "https://hooks.example.org/in?token=hush"}}
NOTE: dict[str, Any] = {
    "event_id": "e1",
    "user_id": "ana",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Tom replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["push"],
}


def _triggered(folder: Path) -> None:
    with BlockingBetimes(f"sqlite:///{folder}/betimes.db", workers=False) as bt:
        bt.runs.trigger(TRIGGER)


@pytest.mark.parametrize("segment_id", ["sensor:shop:1", "tenant:default:1"])
def test_explaining_a_segment_shows_none_of_its_secrets(tmp_path: Path, segment_id: str) -> None:
    body = msgspec.json.encode(SENSOR).decode()
    sensor = betimes("sensor", "put", "shop", "-", "--json", folder=tmp_path, stdin=body).json
    key = betimes("key", "create", "--scope", "admin", "--json", folder=tmp_path).json
    why = betimes("explain", segment_id, "--json", folder=tmp_path)
    assert why.json["segment_id"] == segment_id
    assert sensor["secret"] not in why.out
    assert key["secret"].rpartition("_")[2] not in why.out
    hidden = {"secret", "secret_digest"} & why.json["command"].keys()
    assert [why.json["command"][name] for name in hidden] == ["***"]


def test_an_explanation_has_the_fields_of_the_api(tmp_path: Path) -> None:
    _triggered(tmp_path)
    why = betimes("explain", "account:acct-7:1", "--json", folder=tmp_path).json
    assert list(why) == [
        "segment_id",
        "domain",
        "kind",
        "id",
        "version",
        "at",
        "key",
        "command",
        "events",
        "verdict",
        "policy",
        "actor",
        "correlation_id",
        "note",
        "trace",
        "rules",
        "summary",
        "timezone",
        "policy_in_force",
        "caused_by",
        "caused",
        "effects",
        "unreadable",
        "later",
        "judged",
        "judgements",
    ]
    assert why["verdict"]["outcome"] == "ALLOW"
    assert datetime.fromisoformat(why["events"][0]["at"]) == datetime.fromisoformat(why["at"])


def test_an_explanation_for_people_speaks_of_runs_as_the_answer_did_and_of_nothing_as_nothing(tmp_path: Path) -> None:
    _triggered(tmp_path)
    told = betimes("explain", "account:acct-7:1", folder=tmp_path).out
    assert told.startswith("ALLOW because of WITHIN_LIMITS, at ")
    assert "debounce: there was no run of this type before" in told
    assert "None" not in told


def test_effects_are_listed_with_the_fields_of_the_api_and_without_secrets(tmp_path: Path) -> None:
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=msgspec.json.encode(SCHEDULE).decode())
    betimes("schedule", "trigger", "brief", folder=tmp_path)
    listed = betimes("effects", "list", "--json", folder=tmp_path)
    (effect,) = listed.json["items"]
    assert (effect["effect_kind"], effect["domain"], effect["tenant"]) == ("webhook", "automation", "default")
    assert effect["segment_id"].startswith(f"{effect['stream']['kind']}:{effect['stream']['id']}:")
    assert "hush" not in listed.out


def test_only_a_dead_letter_is_retried(tmp_path: Path) -> None:
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", workers=False) as bt:
        bt.notifications.send(NOTE)
    (effect,) = betimes("effects", "list", "--executor", "deliver:push", "--json", folder=tmp_path).json["items"]
    refused = betimes("effects", "retry", effect["effect_id"], "--json", folder=tmp_path)
    assert (refused.code, refused.problem["code"]) == (STATUS["REFUSED"][1], "NOT_RETRYABLE")
    unknown = betimes("effects", "retry", "inbox:nobody:1:0", "--json", folder=tmp_path)
    assert (unknown.code, unknown.problem["code"]) == (STATUS["NOT_FOUND"][1], "NOT_FOUND")


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("explain", "run:none:1"),
        ("prune",),
        ("export", "lake"),
        ("effects", "list"),
        ("backtest", "--sweep", "runs.daily_run_budget=1"),
    ],
)
def test_what_reads_a_database_does_not_make_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = betimes(*words, "--db", "sqlite:///coppy.db", "--json", folder=tmp_path)
    assert (refused.code, refused.problem["code"]) == (STATUS["NOT_FOUND"][1], "NOT_FOUND")
    assert "coppy.db" in refused.problem["detail"]
    assert list(tmp_path.iterdir()) == []


def test_a_kind_that_there_is_not_is_not_said_to_be_sound(tmp_path: Path) -> None:
    _triggered(tmp_path)
    assert betimes("verify", "--kind", "account", "--json", folder=tmp_path).json["streams"] == 1
    refused = betimes("verify", "--kind", "acount", "--json", folder=tmp_path)
    assert (refused.code, refused.problem["errors"][0]["path"]) == (STATUS["INVALID"][1], "kind")
    assert "account" in refused.problem["errors"][0]["message"]


def test_why_something_was_done_is_told_by_ledger_explain_and_why(tmp_path: Path) -> None:
    body = '{"cron": "0 8 * * *", "target": {"kind": "handler", "name": "brief"}}'
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=body)
    paused = betimes("schedule", "disable", "brief", "--note", "the printer is down", "--json", folder=tmp_path)
    assert (paused.code, paused.json["status"]) == (0, "paused")
    segment_id = paused.json["segment_id"]
    noted = "Noted by cli: the printer is down"
    assert betimes("explain", segment_id, folder=tmp_path).out.splitlines()[1] == noted
    assert noted in betimes("why", segment_id, folder=tmp_path).out
    listed = betimes("ledger", "--kind", "schedule", "--json", folder=tmp_path).json["items"]
    assert [one["note"] for one in listed] == ["the printer is down", ""]
    assert "the printer is down" in " ".join(betimes("ledger", "--kind", "schedule", folder=tmp_path).out.split())
    long = betimes("schedule", "enable", "brief", "--note", "n" * 501, "--json", folder=tmp_path)
    assert (long.code, long.problem["errors"][0]["path"]) == (STATUS["INVALID"][1], "note")
