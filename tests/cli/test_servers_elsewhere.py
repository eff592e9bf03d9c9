"""Commands that read, asked of a server that runs: they say what they say of its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import msgspec
import pytest

from betimes import BlockingBetimes, VirtualClock
from betimes.app.routes import ROUTES
from betimes.core.errors import STATUS
from tests.cli.running import Server, serving
from tests.cli.running_inside import command as betimes

NOTE: dict[str, Any] = {
    "user_id": "ana",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Tom replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["in_app"],
}
READING = [
    ["why", "ana"],
    ["why", "told"],
    ["why", "sig-1"],
    ["day", "ana", "--date", "2026-11-17"],
    ["day", "acct+7@eu", "--date", "2026-11-17"],
    ["ledger", "--kind", "inbox", "--limit", "2", "--oldest-first"],
    ["ledger", "--limit", "200"],
    ["explain", "inbox:ana:2"],
    ["notification", "show", "told"],
    ["inbox", "show", "ana"],
    ["inbox", "preferences", "ana"],
    ["inbox", "messages", "ana", "--unread"],
    ["run", "list"],
    ["schedule", "list"],
    ["schedule", "show", "brief"],
    ["schedule", "ticks", "brief"],
    ["intent", "list", "--user", "ana"],
    ["score", "list"],
    ["hold"],
    ["policy", "show"],
    ["policy", "show", "runs"],
    ["policy", "history", "--tenant", "default"],
    ["key", "list"],
]
NOWHERE = "http://127.0.0.1:1"
ON_THE_DATABASE = [
    ["policy", "apply", "policy.json"],
    ["policy", "apply", "policy.json", "--tenant", "acme"],
    ["policy", "check", "policy.json"],
    ["policy", "check", "policy.json", "--tenant", "acme"],
    ["backtest", "--policy", "policy.json"],
    ["verify"],
    ["prune", "--history-days", "1"],
    ["export", "lake"],
    ["doctor", "--repair"],
    ["secrets", "reseal"],
    ["tally", "rebuild"],
    ["tally", "status"],
    ["sweep"],
    ["tick"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("elsewhere")
    clock = VirtualClock("2026-11-17T01:10:00Z")
    with BlockingBetimes(f"sqlite:///{found}/betimes.db", clock=clock) as bt:
        bt.notifications.set_preferences("ana", {"timezone": "Europe/Berlin"})
        bt.notifications.send({**NOTE, "event_id": "told"})
        bt.notifications.send({**NOTE, "event_id": "owed", "user_id": "bob", "channels": ["push"]})
        # Of these a page of the ledger is larger than what arrives at once.
        long = {"account_id": "acct-8", "trigger_type": "SIGNAL_ARRIVED", "payload": {"text": "x" * 20_000}}
        bt.runs.trigger_many([{**long, "idempotency_key": f"long-{number}"} for number in range(40)])
        bt.runs.trigger({"account_id": "acct+7@eu", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})
        bt.schedules.put("brief", {"cron": "0 8 * * *", "target": {"kind": "sweep"}, "enabled": False})
        for number in range(51):  # more than a page
            bt.mine.tenants.create_key({"name": f"key {number}", "scopes": ["runs:read"]})
        bt.advance(by_s=5)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving("serve", "--dev", "--port", "0", "--role", "api", folder=folder) as found:
        yield found


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_that_reads_says_the_same_of_a_server_as_of_its_database(
    folder: Path, server: Server, tmp_path: Path, words: list[str]
) -> None:
    here = betimes(*words, folder=folder)
    there = betimes(*words, "--url", server.url, folder=tmp_path)
    assert (there.code, here.code) == (0, 0), there.err + here.err
    assert _without_now(there.out) == _without_now(here.out)
    assert _without_now(betimes(*words, "--json", folder=tmp_path, BETIMES_URL=server.url).json) == _without_now(
        betimes(*words, "--json", folder=folder).json
    )


def _without_now(said: Any) -> Any:
    """Return an answer without the instant it was asked at."""
    if isinstance(said, str):
        return [line.partition(" ago")[0] if " ago" in line else line for line in said.splitlines()]
    return {name: value for name, value in said.items() if name not in ("now", "evaluated_at")}


def test_status_and_next_are_told_by_the_server(server: Server, tmp_path: Path) -> None:
    said = betimes("status", "--url", server.url, folder=tmp_path)
    assert (said.code, "1 alive" in said.out) == (0, True), said.err
    assert betimes("next", "--hours", "2", "--url", f"{server.url}/", folder=tmp_path).out.startswith("In the next 2 h")


def test_effects_are_listed_by_the_server(folder: Path, server: Server, tmp_path: Path) -> None:
    listed = betimes("effects", "list", "--json", folder=folder).json["items"]
    told = betimes("effects", "list", "--url", server.url, "--json", folder=tmp_path)
    assert told.code == 0, told.err
    assert {item["effect_id"] for item in told.json["items"]} == {item["effect_id"] for item in listed} != set()
    assert listed[0]["effect_id"] in betimes("effects", "list", "--url", server.url, folder=tmp_path).out
    refused = betimes("effects", "retry", listed[0]["effect_id"], "--url", server.url, folder=tmp_path)
    assert "over HTTP it is POST /v1/effects/{effect_id}/retry" in refused.err


def test_a_database_that_is_named_goes_before_a_server_in_the_environment(folder: Path, tmp_path: Path) -> None:
    place = f"sqlite:///{folder}/betimes.db"
    (tmp_path / "own.toml").write_text(f'db = "{place}"\n')
    for named in (["--db", place], ["--config", "own.toml"]):
        said = betimes("why", "told", *named, folder=tmp_path, BETIMES_URL=NOWHERE)
        assert said.code == 0, said.err
        both = betimes("why", "told", *named, "--url", NOWHERE, folder=tmp_path)
        assert (both.code, "not both" in both.err) == (STATUS["INVALID"][1], True)
    nobody = betimes("why", "told", folder=tmp_path, BETIMES_URL=NOWHERE)
    assert (nobody.code, f"no betimes answers at {NOWHERE}" in nobody.err) == (STATUS["STORE_UNAVAILABLE"][1], True)
    wrong = betimes("why", "told", "--url", "localhost:8080", folder=tmp_path)
    assert (wrong.code, "http://" in wrong.err) == (STATUS["INVALID"][1], True)


@pytest.mark.parametrize("words", ON_THE_DATABASE, ids=" ".join)
def test_a_command_on_the_database_is_refused_where_only_a_server_is_named(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "policy.json").write_text("{}")
    for refused in (
        betimes(*words, folder=tmp_path, BETIMES_URL=NOWHERE),
        betimes(*words, "--url", NOWHERE, "--api-key", "bt_none", folder=tmp_path),
    ):
        assert "works on the database itself" in refused.err
        assert refused.code == STATUS["INVALID"][1]
    assert not (tmp_path / "betimes.db").exists()


@pytest.mark.parametrize(
    ("words", "route"),
    [
        (["policy", "apply", "policy.json"], "PUT /v1/policy"),
        (["policy", "check", "policy.json"], "POST /v1/policy/check"),
        (["policy", "rollback"], "POST /v1/policy/rollback"),
        (["backtest", "--policy", "policy.json"], "POST /v1/backtests"),
        (["prune", "--history-days", "1"], "POST /v1/prune"),
        (["sweep"], "POST /v1/scores/sweep"),
        (["tick"], "POST /v1/tick"),
    ],
)
def test_the_route_that_does_the_same_is_named(tmp_path: Path, words: list[str], route: str) -> None:
    (tmp_path / "policy.json").write_text("{}")
    refused = betimes(*words, folder=tmp_path, BETIMES_URL=NOWHERE)
    assert f"over HTTP it is {route}" in refused.err
    assert any(route == f"{one.method} {one.path}" for one in ROUTES)


@pytest.mark.parametrize(
    "name", ["key create", "schedule put", "notification cancel", "policy rollback", "effects retry", "tick"]
)
def test_help_offers_a_server_only_to_commands_that_read(tmp_path: Path, name: str) -> None:
    assert "--url" not in betimes(*name.split(), "--help", folder=tmp_path).out
    assert "--url" in betimes("policy", "show", "--help", folder=tmp_path).out


def test_a_worker_is_refused_where_only_a_server_is_named(tmp_path: Path) -> None:
    # one that was not refused would find no configuration, and end
    refused = betimes("worker", folder=tmp_path, BETIMES_URL=NOWHERE, BETIMES_CONFIG="none.toml")
    assert (refused.code, "works on the database itself" in refused.err) == (STATUS["INVALID"][1], True), refused.err


def test_a_server_has_no_part_in_the_configuration(tmp_path: Path) -> None:
    refused = betimes("config", "--url", NOWHERE, folder=tmp_path)
    assert (refused.code, "leave --url out" in refused.err) == (STATUS["INVALID"][1], True), refused.err


def test_a_command_on_the_database_is_done_where_the_database_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")
    (tmp_path / "own.toml").write_text('db = "sqlite:///own.db"\n')
    (tmp_path / "shop.py").write_text('from betimes import Betimes\n\nbt = Betimes("sqlite:///own.db")\n')
    for words in (
        ["policy", "apply", "policy.json", "--config", "own.toml"],
        ["policy", "apply", "policy.json", "--tenant", "acme", "--config", "own.toml"],
        ["tick", "--app", "shop:bt"],
        ["verify", "--db", "sqlite:///own.db"],
        ["config"],
    ):
        done = betimes(*words, folder=tmp_path, BETIMES_URL=NOWHERE)
        assert done.code == 0, done.err


def test_a_command_that_writes_names_the_route_instead(server: Server, tmp_path: Path) -> None:
    refused = betimes("notification", "cancel", "told", "--url", server.url, folder=tmp_path)
    assert refused.code == STATUS["INVALID"][1]
    assert "only reads; over HTTP it is POST /v1/notifications/{event_id}/cancel" in refused.err
    unknown = betimes("why", "nobody", "--url", server.url, folder=tmp_path)
    assert (unknown.code, "an event id" in unknown.err) == (STATUS["NOT_FOUND"][1], True)
    missing = betimes("schedule", "show", "other", "--url", server.url, folder=tmp_path)
    assert missing.code == STATUS["NOT_FOUND"][1]
    long = betimes("run", "list", "--limit", "999", "--json", "--url", server.url, folder=tmp_path)
    assert (long.code, long.problem["errors"][0]["path"]) == (STATUS["INVALID"][1], "limit")


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html>", "answers, but not like a betimes server"),
        (200, b'{"items": 1}', "answers, but not like a betimes server"),
        (200, b'{"other": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", "answers, but not like a betimes server"),
        (502, b"<html>", "answers with 502, but not like a betimes server"),
        (502, b'{"other": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", "answers with 502, but not like a betimes server"),
        (422, b'{"code": "INVALID", "detail": "no such day", "errors": [{"message": "odd"}]}', "no such day"),
    ],
)
def test_an_answer_of_something_else_is_an_error_that_says_so(
    tmp_path: Path, status: int, body: bytes, told: str
) -> None:
    with _answering(status, body) as url:
        said = betimes("run", "list", "--url", url, folder=tmp_path)
    code = "INVALID" if status == 422 else "STORE_UNAVAILABLE"
    assert (said.code, told in said.err) == (STATUS[code][1], True), said.err


DAMAGES = {
    "UPDATE effect SET payload = '{' WHERE version = 4": "inbox:ana:4:0 cannot be shown",
    "UPDATE effect SET payload = '[7]', history = '{}' WHERE version = 4": "inbox:ana:4:0 cannot be shown",
    "UPDATE ledger SET verdict = '{' WHERE version = 3": "inbox:ana:2:0",
    "UPDATE ledger SET events = '{', command = '{' WHERE version = 3": "inbox:ana:2:0",
    "UPDATE ledger SET schema = 999 WHERE version = 3": "inbox:ana:2:0",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_row_that_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path, damage: str) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.notifications.set_preferences("ana", {"timezone": "Europe/Berlin"})
        for one in ("one", "two", "three"):
            bt.notifications.send({**NOTE, "event_id": one, "title": one, "message": one * 9, "channels": ["push"]})
    with apsw.Connection(str(tmp_path / "betimes.db")) as database:
        database.execute(damage)
    with serving("serve", "--dev", "--port", "0", "--role", "api", folder=tmp_path) as server:
        for where in ((), ("--url", server.url)):
            for words in (["why", "ana"], ["why", "three"], ["explain", "inbox:ana:4"], ["effects", "list"]):
                assert (said := betimes(*words, *where, folder=tmp_path)).code == 0, said.err
            assert DAMAGES[damage] in betimes("effects", "list", *where, folder=tmp_path).out
            in_json = betimes("explain", "inbox:ana:4", "--json", *where, folder=tmp_path).json
            assert [row["row"] for row in in_json["unreadable"]] == ["inbox:ana:4:0"] * ("effect" in damage)


BACKLOG: dict[str, Any] = {
    "now": "0001-01-01T00:00:00Z",
    "alarms_due": 0,
    "oldest_alarm_at": "2026-01-01T00:00:00Z",
    "snoozed": 0,
    "effects_pending": 0,
    "effects_failing": 0,
    "effects_dead": 0,
    "orphaned": {},
    "checks_overdue": 0,
    "oldest_check_at": None,
    "capped": False,
    "hold": None,
}


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_answer_that_cannot_be_shown_is_no_bug_of_the_command(tmp_path: Path, more: tuple[str, ...]) -> None:
    with _answering(200, msgspec.json.encode(BACKLOG)) as url:
        said = betimes("status", *more, "--url", url, folder=tmp_path)
    assert said.code == STATUS["STORE_UNAVAILABLE"][1], said.err
    assert "Traceback" not in said.err


@contextmanager
def _answering(status: int, body: bytes) -> Iterator[str]:
    """Answer every request so, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (NOWHERE, "nothing listens there; is it running (betimes serve), and is the address right?"),
        ("http://nobody.invalid", "the host nobody.invalid is not known; is the address right?"),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_in_plain_words(tmp_path: Path, address: str, says: str) -> None:
    said = betimes("run", "list", "--url", address, folder=tmp_path)
    assert said.err.endswith(f"no betimes answers at {address}: {says}\n")


def test_the_address_of_a_page_is_no_address_of_a_server(server: Server, tmp_path: Path) -> None:
    for page in ("/console", "/console/next", "/docs/", "/docs?x=1", "/console#why"):
        said = betimes("run", "list", "--url", server.url + page, folder=tmp_path)
        assert said.code == STATUS["INVALID"][1]
        assert f"give its address without a path: {server.url}\n" in said.err
    other = betimes("run", "list", "--url", f"{server.url}/other", folder=tmp_path)
    assert (other.code, f"Is the path in {server.url}/other right?" in other.err) == (STATUS["NOT_FOUND"][1], True)


def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for address in ("http://eyes:hush@127.0.0.1:1", "http://eyes:hush/hush@127.0.0.1:1"):
        refused = betimes("run", "list", "--url", address, folder=tmp_path)
        assert (refused.code, "--api-key" in refused.err) == (STATUS["INVALID"][1], True), refused.err
        assert "hush" not in refused.err + refused.out


def test_a_server_with_keys_is_shown_one(tmp_path: Path) -> None:
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", workers=False) as bt:
        secret = bt.mine.tenants.create_key({"name": "eyes", "scopes": ["runs:read"]}).secret
        bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})
    key = str(secret)
    with serving("serve", "--port", "0", folder=tmp_path) as server:
        unknown = betimes("why", "sig-1", "--url", server.url, folder=tmp_path)
        assert "the server needs a key; give one with --api-key or BETIMES_KEY" in unknown.err
        assert "Authorization" not in unknown.err
        ended = betimes("why", "sig-1", "--url", server.url, "--api-key", "bt_none", folder=tmp_path)
        assert "the key is unknown, expired or revoked" in ended.err
        known = betimes("why", "sig-1", "--url", server.url, folder=tmp_path, BETIMES_KEY=key)
        assert "acct-7 was allowed to run for a SIGNAL_ARRIVED (sig-1)" in known.out, known.err
        status = betimes("status", "--url", server.url, "--api-key", key, folder=tmp_path)
        assert "processes not known: the key lacks the scope admin" in status.out, status.err
        assert status.out.splitlines()[0].endswith(f"  {server.url}, tenant of the key")
        unreadable = betimes("inbox", "show", "ana", "--url", server.url, "--api-key", key, folder=tmp_path)
        assert unreadable.code == STATUS["MISSING_SCOPE"][1]
        for words in ("why", "ana"), ("day", "ana"):
            unseen = betimes(*words, "--url", server.url, "--api-key", key, folder=tmp_path)
            assert unseen.code == STATUS["NOT_FOUND"][1]
            assert "or it is there, and the key may not read it" in unseen.err
