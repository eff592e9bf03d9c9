"""Commands that end, as real processes: what they answer, and what they exit with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shlex import split as split_words
from typing import Any

import apsw
import msgspec
import pytest

from betimes import BlockingBetimes
from betimes.core.errors import STATUS
from tests.cli.running import environment
from tests.cli.running_inside import command as betimes
from tests.patience import HANGS_S

SCHEDULE = {"cron": "0 8 * * *", "timezone": "Europe/Berlin", "target": {"kind": "handler", "name": "brief"}}


def test_a_schedule_is_put_shown_ticked_and_deleted(tmp_path: Path) -> None:
    body = msgspec.json.encode(SCHEDULE).decode()
    put = betimes("schedule", "put", "brief", "-", "--json", folder=tmp_path, stdin=body)
    assert put.json["next_tick_at"]
    listed = betimes("schedule", "list", "--json", folder=tmp_path)
    assert [item["schedule_id"] for item in listed.json["items"]] == ["brief"]
    assert "brief" in betimes("schedule", "list", folder=tmp_path).out
    assert betimes("schedule", "trigger", "brief", "--json", folder=tmp_path).json["status"] == "fired"
    assert betimes("schedule", "ticks", "brief", "--json", folder=tmp_path).json["items"][0]["cause"] == "manual"
    assert betimes("schedule", "disable", "brief", "--json", folder=tmp_path).json["status"] == "paused"
    assert betimes("schedule", "delete", "brief", "--json", folder=tmp_path).json["status"] == "deleted"
    gone = betimes("schedule", "show", "brief", "--json", folder=tmp_path)
    assert (gone.code, gone.problem["code"]) == (STATUS["NOT_FOUND"][1], "NOT_FOUND")


def test_a_preview_takes_all_that_a_schedule_takes(tmp_path: Path) -> None:
    def local_times(*arguments: str) -> list[str]:
        shown = betimes("schedule", "preview", *arguments, "--start", "2026-12-23T12:00:00Z", "--json", folder=tmp_path)
        return [item["local"][5:16] for item in shown.json["items"]]

    crons = local_times("0 8 * * *", "@weekly", "--exclude", "2026-12-25", "--exclude", "sat", "--count", "3")
    assert crons == ["12-24T08:00", "12-27T00:00", "12-27T08:00"]
    assert local_times("--every", "12h", "--timezone", "Asia/Tokyo", "--count", "1") == ["12-23T21:00"]
    assert local_times("--every", "1d", "--anchor", "2026-12-01T05:00:00Z", "--count", "1") == ["12-24T05:00"]
    wrong = {"duration": ("--every", "soon"), "exclude.weekdays": ("x", "--exclude", "someday"), "cron": ()}
    for named, arguments in wrong.items():
        refused = betimes("schedule", "preview", *arguments, "--json", folder=tmp_path)
        assert (refused.code, named in str(refused.problem)) == (STATUS["INVALID"][1], True)


def test_an_invalid_definition_names_every_field(tmp_path: Path) -> None:
    body = '{"cron": "0 8 * * *", "timezone": "Mars/Base", "colour": 1}'
    refused = betimes("schedule", "put", "brief", "-", "--json", folder=tmp_path, stdin=body)
    assert refused.code == STATUS["INVALID"][1]
    assert {error["path"] for error in refused.problem["errors"]} >= {"target", "colour"}


def test_a_trigger_that_waits_is_shown_and_cancelled(tmp_path: Path) -> None:
    keys = []
    for name, type in (("one", "SIGNAL_ARRIVED"), ("two", "POSTURE_CHANGE")):
        target = {"kind": "trigger", "trigger_type": type, "account_id": "acct"}
        body = msgspec.json.encode({"cron": "0 8 1 1 *", "target": target}).decode()
        betimes("schedule", "put", name, "-", "--json", folder=tmp_path, stdin=body)
        keys.append(betimes("schedule", "trigger", name, "--json", folder=tmp_path).json["run_key"])
        betimes("tick", "--json", folder=tmp_path)
    shown = betimes("trigger", "show", keys[1], "--json", folder=tmp_path)
    assert (shown.json["status"], shown.json["verdict"]["reason"]) == ("deferred", "COOLDOWN")
    assert betimes("trigger", "cancel", keys[1], "--json", folder=tmp_path).json["status"] == "skipped"
    again = betimes("trigger", "cancel", keys[1], "--json", folder=tmp_path)
    assert (again.code, again.problem["code"]) == (STATUS["REFUSED"][1], "NOT_WAITING")


def test_a_notification_is_shown_with_its_trace_as_json(tmp_path: Path) -> None:
    note = {"event_id": "e", "user_id": "ana", "event_type": "REMINDER", "title": "t", "message": "m", "source": "s"}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", workers=False) as bt:
        bt.notifications.send({**note, "channels": ["push"]})
    assert betimes("notification", "show", "e", "--json", folder=tmp_path).json["trace"]


def test_tenants_do_not_see_each_other(tmp_path: Path) -> None:
    theirs = {**SCHEDULE, "target": {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "a"}}
    body = msgspec.json.encode(theirs).decode()
    betimes("schedule", "put", "brief", "-", "--tenant", "acme", folder=tmp_path, stdin=body)
    assert betimes("schedule", "list", "--json", folder=tmp_path).json["items"] == []
    assert betimes("schedule", "list", "--json", folder=tmp_path, BETIMES_TENANT="acme").json["items"]


def test_a_cursor_is_put_elsewhere_from_the_state_that_was_read(tmp_path: Path) -> None:
    poll = {"sensor_type": "poll", "target": SCHEDULE["target"], "evaluator": {"kind": "handler", "name": "shop"}}
    betimes("sensor", "put", "shop", "-", folder=tmp_path, stdin=msgspec.json.encode(poll).decode())
    moved = betimes("sensor", "cursor", "shop", '"o-7"', "--state-version", "1", "--json", folder=tmp_path)
    assert (moved.json["cursor"], moved.json["state_version"]) == ("o-7", 2)
    stale = betimes("sensor", "cursor", "shop", '"o-8"', "--state-version", "1", "--json", folder=tmp_path)
    assert stale.problem["code"] == "VERSION_MISMATCH"
    bare = betimes("sensor", "cursor", "shop", "o-7", "--state-version", "2", "--json", folder=tmp_path)
    assert (bare.code, "in quotes" in bare.problem["detail"]) == (STATUS["INVALID"][1], True)
    assert betimes("sensor", "cursor", "shop", "--state-version", "2", "--json", folder=tmp_path).json["cursor"] is None


def test_sensors_and_intents_have_their_commands(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('sensor_type = "push"\n[target]\nkind = "handler"\nname = "brief"\n')
    assert betimes("sensor", "put", "shop", "shop.toml", "--json", folder=tmp_path).json["status"] == "active"
    assert betimes("sensor", "list", "--json", folder=tmp_path).json["items"][0]["sensor_id"] == "shop"
    (tmp_path / "wish.yaml").write_text(
        "user_id: ana\ntrigger_type: cron\nschedule: {cron: '0 8 * * *'}\naction_type: notify\naction_context: hello\n"
    )
    assert betimes("intent", "check", "wish.yaml", "--json", folder=tmp_path).json["next_checks"]
    assert betimes("intent", "put", "wish", "wish.yaml", "--json", folder=tmp_path).json["enabled"]
    assert betimes("intent", "list", "--user", "ana", "--json", folder=tmp_path).json["items"][0]["intent_id"] == "wish"
    (tmp_path / "bad.json").write_text('{"user_id": "ana", "trigger_type": "cron"}')
    refused = betimes("intent", "check", "bad.json", "--json", folder=tmp_path)
    assert (refused.code, refused.json["valid"]) == (STATUS["INVALID"][1], False)


def test_tick_says_what_is_still_due(tmp_path: Path) -> None:
    """With nothing to carry the call out, the tick is there and its effect waits."""
    body = msgspec.json.encode({**SCHEDULE, "cron": "* * * * * *"}).decode()
    betimes("schedule", "put", "often", "-", folder=tmp_path, stdin=body)
    while not (told := betimes("tick", "--json", folder=tmp_path).json)["fired"]:
        assert told["next_due_at"]
    assert told["fired"] == {"schedule": 1}
    assert told["next_due_at"]
    assert set(told["effects"]) >= {"done", "retrying", "dead"}
    assert "Next:" in betimes("tick", folder=tmp_path).out


def test_a_policy_is_checked_applied_and_shown(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text("[scores]\nstart = 40\n")
    (tmp_path / "bad.toml").write_text("[scores]\nstart = -1\n[weather]\n")
    refused = betimes("policy", "check", "bad.toml", "--json", folder=tmp_path)
    assert (refused.code, refused.json["valid"]) == (STATUS["INVALID"][1], False)
    assert {error["path"] for error in refused.json["errors"]} >= {"weather"}
    checked = betimes("policy", "check", "good.toml", "--json", folder=tmp_path).json
    assert [(change["path"], change["to"]) for change in checked["changes"]] == [("scores.start", "40")]
    assert betimes("policy", "apply", "bad.toml", folder=tmp_path).code == STATUS["INVALID"][1]
    applied = betimes("policy", "apply", "good.toml", "--json", folder=tmp_path).json
    assert applied["fingerprint"] == checked["fingerprint"]
    shown = betimes("policy", "show", "scores", folder=tmp_path).json
    assert (shown["fingerprint"], shown["effective"]["scores"]["start"]) == (checked["fingerprint"], "40")
    own = betimes("policy", "apply", "good.toml", "--tenant", "acme", "--json", folder=tmp_path)
    assert own.json["tenant"] == "acme"


def test_changes_of_a_policy_are_listed_and_rolled_back(tmp_path: Path) -> None:
    for seconds in (600, 900):
        (tmp_path / "p.toml").write_text(f"[intents]\nclaim_lease_s = {seconds}\n")
        assert betimes("policy", "apply", "p.toml", "--tenant", "acme", folder=tmp_path).code == 0
    back = betimes("policy", "rollback", "--note", "too long", "--tenant", "acme", "--json", folder=tmp_path)
    assert (back.json["version"], back.json["overrides"]) == (3, {"intents": {"claim_lease_s": 600}})
    listed = betimes("policy", "history", "--tenant", "acme", folder=tmp_path)
    assert "too long" in listed.out
    assert "intents.claim_lease_s: 600 → 900" in listed.out
    told = betimes("policy", "history", "--tenant", "acme", "--json", folder=tmp_path).json
    assert [one["restores"] for one in told["items"]] == [1, None, None]
    assert betimes("policy", "rollback", "--tenant", "acme", folder=tmp_path).code == 0
    refused = betimes("policy", "rollback", "--tenant", "acme", folder=tmp_path)
    assert (refused.code, "left to roll back" in refused.err) == (STATUS["REFUSED"][1], True)
    assert betimes("policy", "history", folder=tmp_path).out.strip() == "No policy was set for the deployment."
    none = betimes("policy", "history", "--tenant", "other", folder=tmp_path).out
    assert none.strip() == "No overrides were set."


def test_without_a_tenant_every_command_on_policies_means_the_deployments(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[intents]\nclaim_lease_s = 600\n")
    assert betimes("policy", "apply", "p.toml", "--tenant", "default", folder=tmp_path).code == 0
    (tmp_path / "p.toml").write_text("[scores]\nstart = 40\n")
    applied = betimes("policy", "apply", "p.toml", folder=tmp_path).out
    assert 'scores.start: "50" → "40"' in applied
    assert applied.endswith("To undo it: betimes policy rollback --to-version 0\n")
    listed = betimes("policy", "history", "--json", folder=tmp_path).json["items"]
    assert [one["overrides"] for one in listed] == [{"scores": {"start": 40}}]
    again = betimes("policy", "apply", "p.toml", folder=tmp_path).out
    assert "in force already" in again
    back = betimes("policy", "rollback", "--json", folder=tmp_path).json
    assert (back["tenant"], back["version"], back["overrides"]) == ("*", 2, {})
    shown = betimes("policy", "show", folder=tmp_path).json["effective"]
    assert (shown["scores"]["start"], shown["intents"]["claim_lease_s"]) == ("50", 600)


def test_the_command_that_undoes_a_policy_works_as_it_is_printed(tmp_path: Path) -> None:
    words = ("policy", "apply", "p.toml", "--tenant", "acme", "--db", "sqlite:///other one.db", "--json")
    (tmp_path / "p.toml").write_text("[scores]\nstart = 40\n")
    assert betimes(*words, folder=tmp_path).json["version"] == 1
    (tmp_path / "p.toml").write_text("[scores]\nstart = 60\n")
    applied = betimes(*words, folder=tmp_path).json
    assert [(change["from"], change["to"]) for change in applied["changes"]] == [("40", "60")]
    name, *undo = split_words(applied["undo"])
    assert name == "betimes"
    assert betimes(*undo, "--json", folder=tmp_path).json["overrides"] == {"scores": {"start": 40}}
    missing = betimes("policy", "rollback", "--to-version", "99", "--tenant", "acme", *undo[-2:], folder=tmp_path)
    assert (missing.code, "betimes policy history" in missing.err) == (STATUS["NOT_FOUND"][1], True)


def test_verify_names_what_was_changed(tmp_path: Path) -> None:
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=msgspec.json.encode(SCHEDULE).decode())
    assert betimes("verify", folder=tmp_path).code == 0
    with apsw.Connection(str(tmp_path / "betimes.db")) as database:
        database.execute("UPDATE stream SET alarm_at = alarm_at + 1 WHERE kind = 'schedule'")
    found = betimes("verify", "--json", folder=tmp_path)
    assert found.code == STATUS["MALFORMED_ROW"][1]
    assert "alarm_at" in found.json["findings"][0]["what"]
    status = betimes("status", folder=tmp_path)
    assert "by cli, all tenants: 1 finding" in status.out
    assert "not as the ledger says; run `betimes verify`" in status.out


def test_a_verification_is_put_on_record_unless_that_is_not_wanted(tmp_path: Path) -> None:
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=msgspec.json.encode(SCHEDULE).decode())
    first = betimes("verify", "--no-record", "--json", folder=tmp_path).json
    assert betimes("status", "--json", folder=tmp_path).json["verifications"] == []
    status = betimes("status", folder=tmp_path).out
    assert "never, according to the ledger" in status
    assert "rang      nothing (last 24 hours)" in status
    again = betimes("verify", "--json", folder=tmp_path).json
    assert again["head"] == first["head"], "without a record nothing was written, and one comes behind what it is about"
    longer = betimes("verify", "--head", again["head"], "--tenant", "default", folder=tmp_path)
    assert longer.code == STATUS["INVALID"][1]
    assert betimes("verify", "--head", again["head"], folder=tmp_path).code == 0
    assert "by cli, all tenants: sound" in betimes("status", folder=tmp_path).out
    betimes("verify", "--tenant", "default", "--kind", "schedule", folder=tmp_path)
    last, whole = betimes("status", "--json", folder=tmp_path).json["verifications"]
    assert (last["everything"], last["kind"], last["segment_id"]) == (False, "schedule", "operation:verification:1")
    assert (whole["everything"], whole["kind"], whole["sound"]) == (True, None, True)


def test_history_is_exported_and_pruned(tmp_path: Path) -> None:
    body = msgspec.json.encode(SCHEDULE).decode()
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=body)
    betimes("schedule", "disable", "brief", folder=tmp_path)
    exported = betimes("export", "lake", "--json", folder=tmp_path).json
    assert exported["segments"] >= 2
    assert list((tmp_path / "lake").rglob("*.parquet"))
    assert betimes("prune", "--history-days", "0", "--json", folder=tmp_path).json["segments"] >= 2
    assert betimes("verify", folder=tmp_path).code == 0


def test_a_dead_letter_is_listed_retried_and_discarded(tmp_path: Path) -> None:
    """A channel nobody configured gives up at once."""
    (tmp_path / "shop.py").write_text(BROKEN)
    betimes("schedule", "put", "brief", "-", folder=tmp_path, stdin=msgspec.json.encode(SCHEDULE).decode())
    betimes("schedule", "trigger", "brief", folder=tmp_path)
    assert betimes("tick", "--app", "shop:bt", "--json", folder=tmp_path).json["effects"]["dead"] == 1
    (letter,) = betimes("effects", "list", "--status", "dead", "--json", folder=tmp_path).json["items"]
    assert "on purpose" in letter["last_error"]
    retried = betimes("effects", "retry", letter["effect_id"], "--json", folder=tmp_path)
    assert retried.json["status"] == "pending"
    assert betimes("effects", "discard", letter["effect_id"], folder=tmp_path).code == STATUS["REFUSED"][1]
    betimes("tick", "--app", "shop:bt", folder=tmp_path)
    assert betimes("effects", "discard", letter["effect_id"], "--json", folder=tmp_path).code == 0
    assert betimes("effects", "list", "--json", folder=tmp_path).json["items"] == []


BROKEN = """
from betimes import Betimes, GiveUp

bt = Betimes("sqlite:///betimes.db")


@bt.handler("brief")
def brief(payload):
    raise GiveUp("on purpose")
"""


def test_a_bad_file_names_every_path_and_ends_with_the_code_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "betimes.toml").write_text("[server]\nport = 99999\ncolour = 1\n[policy.runs]\nnope = 1\n")
    for words in (("config",), ("serve",), ("tick",)):
        refused = betimes(*words, "--json", folder=tmp_path)
        assert refused.code == STATUS["INVALID"][1]
        paths = {error["path"] for error in refused.problem["errors"]}
        assert paths == {"server.port", "server.colour", "policy.runs.nope"}
    people = betimes("config", folder=tmp_path).err
    assert all(path in people for path in ("server.port", "server.colour", "policy.runs.nope"))


def test_the_configuration_is_shown_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "betimes.toml").write_text(
        'db = "postgresql://ann:hunter2@db/betimes"\n'
        '[channels.push]\nkind = "apprise"\nurls = ["tgram://hunter2/chat"]\n'
        '[channels.crm]\nkind = "webhook"\nurl = "https://crm.example:8443/hook?token=hunter2"\n'
    )
    shown = betimes("config", folder=tmp_path)
    assert shown.json["channels"]["push"]["urls"] == ["tgram://…"]
    assert shown.json["channels"]["crm"]["url"] == "https://crm.example:8443/…"
    assert "hunter2" not in shown.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("key", "create", "--tenant", "acme", "--scope", "nope"), STATUS["INVALID"][1]),
        (("key", "create", "--tenant", "a b", "--scope", "admin"), STATUS["INVALID"][1]),
        (("explain", "nonsense"), STATUS["INVALID"][1]),
        (("explain", "run:none:1"), STATUS["NOT_FOUND"][1]),
        (("tick", "--db", "oracle://x"), STATUS["INVALID"][1]),
        (("tick", "--config", "missing.toml"), STATUS["NOT_FOUND"][1]),
        (("tick", "--app", "no_such_module:bt"), STATUS["NOT_FOUND"][1]),
        (("serve", "--dev", "--host", "0.0.0.0"), STATUS["INVALID"][1]),
        (("serve", "--virtual-clock", "yesterday"), STATUS["INVALID"][1]),
        (("serve", "--virtual-clock", "2026-01-01T00:00:00Z", "--role", "worker"), STATUS["INVALID"][1]),
        (("effects", "list", "--limit", "0"), STATUS["INVALID"][1]),
        (("schedule", "list", "--status", "asleep"), 2),
        (("schedule", "ticks", "brief", "--status", "asleep"), 2),
        (("sensor", "list", "--status", "asleep"), 2),
        (("no-such-command",), 2),
        (("tick", "--no-such-option"), 2),
    ],
)
def test_every_refusal_has_its_exit_code(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    refused = betimes(*words, folder=tmp_path)
    assert (refused.code, refused.out) == (code, "")
    assert refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain", "n4"), "it looks like kind:id:version; try betimes why n4"),
        (("day", "ana", "--date", "tomorrow"), "'tomorrow' is not a date; write it like 2026-11-17"),
    ],
)
def test_a_word_that_is_not_understood_is_refused_with_the_next_step(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    refused = betimes(*words, folder=tmp_path)
    assert (refused.code, says in refused.err) == (STATUS["INVALID"][1], True), refused.err


def test_a_preview_takes_the_short_name_of_its_zone_too(tmp_path: Path) -> None:
    asked = ("schedule", "preview", "0 8 * * *", "--start", "2026-01-01T00:00:00Z", "--count", "1")
    for option in ("--timezone", "--tz"):
        assert "2026-01-02T08:00:00+09:00" in betimes(*asked, option, "Asia/Tokyo", folder=tmp_path).out


@pytest.mark.parametrize(("missing", "words"), [("cyclopts", ["--help"]), ("uvicorn", ["serve", "--dev"])])
def test_a_missing_extra_is_named_with_its_command(tmp_path: Path, missing: str, words: list[str]) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from betimes.__main__ import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert ended.returncode == STATUS["EXTRA_NOT_INSTALLED"][1]
    assert missing in ended.stderr
    assert "pip install 'betimes[server]'" in ended.stderr


def test_the_demo_tells_of_every_domain_and_leaves_nothing(tmp_path: Path) -> None:
    told = [
        msgspec.json.decode(line)
        for line in betimes("demo", "--json", "--seconds", "0", folder=tmp_path).out.splitlines()
    ]
    answers: dict[str, list[Any]] = {}
    for line in told:
        answers.setdefault(line["scene"].partition(":")[0], []).append(line["answer"])
    assert answers["Runs"] == ["ALLOW", "SKIP", "DEFER", "SKIP", "succeeded", "succeeded"]
    assert answers["Notifications"][:5] == ["LATER", "NEVER", "LATER", "LATER", "NOW"]
    assert answers["Schedules"] == ["fired"] * 4
    assert answers["Intents"] == ["condition_not_met", "success", "success"]
    assert answers["Scores"][-2:] == ["game over", "decay_game_over"]
    assert told[-1]["answer"] == "the same, byte for byte"
    people = betimes("demo", "--seconds", "0", folder=tmp_path)
    assert " serve --dev " in people.out
    assert list(tmp_path.iterdir()) == []
