"""`serve` as real processes: over a socket, with keys, apart in roles, and to the end of what was accepted."""

from __future__ import annotations

import http.client
import signal
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.running import Server, serving
from tests.cli.running_inside import command
from tests.patience import HANGS_S

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1", "payload": {}}


def test_dev_serves_without_keys_and_by_tenant(tmp_path: Path) -> None:
    with serving("serve", "--dev", "--port", "0", folder=tmp_path) as server:
        assert server.told["dev"]
        assert server.ask("POST", "/v1/triggers", TRIGGER).json["result"] == "ALLOW"
        assert server.ask("POST", "/v1/triggers", TRIGGER).json["reason"] == "DUPLICATE_IDEMPOTENCY_KEY"
        assert server.ask("POST", "/v1/triggers", TRIGGER, x_tenant="other").json["result"] == "ALLOW"
        assert server.stop() == 0
    assert command("verify", "--json", folder=tmp_path).json["sound"]


def test_dev_refuses_pages_of_other_sites(tmp_path: Path) -> None:
    with serving("serve", "--dev", "--port", "0", "--db", "memory://", folder=tmp_path) as server:
        assert server.ask("GET", "/v1/runs", host="rebound.example").status == 403
        assert server.ask("POST", "/v1/triggers", TRIGGER, origin="https://other.example").status == 403
        assert server.ask("GET", "/v1/runs", origin="http://localhost:3000").status == 200


def test_a_key_made_by_the_command_line_opens_what_its_scopes_say(tmp_path: Path) -> None:
    made = command("key", "create", "--tenant", "acme", "--scope", "runs:write", "--json", folder=tmp_path)
    assert made.code == 0
    key = {"authorization": f"Bearer {made.json['secret']}"}
    with serving("serve", "--port", "0", folder=tmp_path) as server:
        assert server.ask("POST", "/v1/triggers", TRIGGER).status == 401
        assert server.ask("POST", "/v1/triggers", TRIGGER, x_tenant="acme").status == 401
        assert server.ask("POST", "/v1/triggers", TRIGGER, **key).json["result"] == "ALLOW"
        assert server.ask("GET", "/v1/runs", **key).json["code"] == "MISSING_SCOPE"
        revoked = command("key", "revoke", made.json["key_id"], "--tenant", "acme", "--json", folder=tmp_path)
        assert revoked.json["revoked_at"]
        assert server.ask("POST", "/v1/triggers", TRIGGER, **key).status == 401


def test_a_request_under_way_is_answered_before_the_process_ends(tmp_path: Path) -> None:
    """The body arrives only after the signal: what was begun is finished, what is new is not accepted."""
    body = msgspec.json.encode(TRIGGER)
    with serving("serve", "--dev", "--port", "0", folder=tmp_path) as server:
        under_way = http.client.HTTPConnection("127.0.0.1", server.told["port"], timeout=HANGS_S)
        under_way.putrequest("POST", "/v1/triggers")
        under_way.putheader("content-type", "application/json")
        under_way.putheader("content-length", str(len(body)))
        under_way.endheaders(body[:10])
        assert server.ask("GET", "/v1/runs").status == 200  # the first request is with the server by now
        server.signal(signal.SIGTERM)
        _wait_until_refused(server)
        under_way.send(body[10:])
        answer = under_way.getresponse()
        assert (answer.status, msgspec.json.decode(answer.read())["result"]) == (200, "ALLOW")
        under_way.close()
        assert server.process.wait(HANGS_S) == 0
    why = command("explain", "account:acct-7:1", "--json", folder=tmp_path).json
    assert (why["verdict"]["outcome"], why["verdict"]["reasons"]) == ("ALLOW", ["WITHIN_LIMITS"])


def _wait_until_refused(server: Server) -> None:
    """Until nobody listens any more."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", server.told["port"]), timeout=HANGS_S).close()
        except OSError:
            return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_ends_it_well(tmp_path: Path, number: signal.Signals) -> None:
    with serving("serve", "--dev", "--port", "0", "--db", "memory://", folder=tmp_path) as server:
        server.signal(number)
        assert server.process.wait(HANGS_S) == 0


def test_an_open_stream_of_verdicts_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    """It would be waited for an hour otherwise."""
    words = ("serve", "--dev", "--port", "0", "--db", "memory://")
    with serving(*words, folder=tmp_path, BETIMES_ENGINE__DRAIN_S="3600") as server:
        reader = http.client.HTTPConnection("127.0.0.1", server.told["port"], timeout=HANGS_S)
        reader.request("GET", "/v1/verdicts/stream")
        assert reader.getresponse().status == 200
        assert server.stop() == 0
        reader.close()


def test_two_roles_share_one_file(tmp_path: Path) -> None:
    """The API writes, the worker carries out; neither does the other's work."""
    (tmp_path / "shop.py").write_text(SHOP)
    with serving("serve", "--dev", "--port", "0", "--role", "api", folder=tmp_path) as api:
        assert api.ask("PUT", "/v1/registry", REGISTRY).status == 200
        assert api.ask("POST", "/v1/triggers", TRIGGER).json["result"] == "ALLOW"
        (run,) = api.ask("GET", "/v1/runs").json["items"]
        assert run["status"] == "allowed"
        with serving("worker", "--app", "shop:bt", folder=tmp_path) as worker:
            assert worker.told["event"] == "working"
            while (done := api.ask("GET", f"/v1/runs/{run['run_id']}").json)["status"] != "succeeded":
                assert done["status"] in ("allowed", "started")
            assert done["result"] == {"thought": "sig-1"}
            assert worker.stop() == 0
        assert api.stop() == 0


SHOP = """
from betimes import Betimes

bt = Betimes("sqlite:///betimes.db")


@bt.handler("think")
def think(payload):
    return {"thought": payload["idempotency_key"]}
"""
REGISTRY: dict[str, Any] = {
    "entries": [
        {
            "trigger_type": "SIGNAL_ARRIVED",
            "debounce_seconds": 60,
            "cooldown_seconds": 300,
            "max_per_account_per_hour": 12,
            "handler": {"kind": "python", "name": "think"},
        }
    ]
}


def test_a_hangup_puts_the_policy_of_the_file_in_force(tmp_path: Path) -> None:
    """Without a restart; a policy that cannot work is reported and leaves the old one."""
    file = tmp_path / "betimes.toml"
    file.write_text("[policy.scores]\nstart = 40\n")
    with serving("serve", "--dev", "--port", "0", folder=tmp_path) as server:
        before = _fingerprint(tmp_path)
        file.write_text("[policy.scores]\nstart = 30\n")
        server.signal(signal.SIGHUP)
        server.errors_until(lambda line: "is in force" in line)
        after = _fingerprint(tmp_path)
        assert after != before
        file.write_text("[policy.scores]\nstart = -1\n")
        server.signal(signal.SIGHUP)
        said = server.errors_until(lambda line: "policy_not_reloaded" in line)
        assert "policy.scores" in said
        assert _fingerprint(tmp_path) == after
        verdict = server.ask("POST", "/v1/triggers", TRIGGER).json
        assert (
            command("explain", verdict["segment_id"], "--json", folder=tmp_path, BETIMES_CONFIG="/dev/null").json[
                "policy"
            ]
            == after
        )


def _fingerprint(folder: Path) -> str:
    shown = command("policy", "show", "scores", "--tenant", "default", folder=folder, BETIMES_CONFIG="/dev/null")
    return str(shown.json["fingerprint"])


def test_virtual_time_stands_still_and_is_moved_over_http(tmp_path: Path) -> None:
    words = ("serve", "--dev", "--port", "0", "--virtual-clock", "2026-01-01T00:00:00Z")
    with serving(*words, folder=tmp_path) as server:
        assert (server.told["virtual"], server.told["db"]) == (True, "memory://")
        verdict = server.ask("POST", "/v1/triggers", TRIGGER).json
        assert verdict["evaluated_at"] == "2026-01-01T00:00:00Z"
        later = server.ask("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"}).json
        assert later["reason"] == "DEBOUNCED"
        target = {"advance_to": "2026-01-31T00:00:00Z"}
        while not (moved := server.ask("POST", "/v1/clock", target).json)["complete"]:
            pass
        assert moved["now"] == "2026-01-31T00:00:00Z"
        again = server.ask("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-3"}).json
        assert (again["result"], again["evaluated_at"]) == ("ALLOW", "2026-01-31T00:00:00Z")
        refused = server.ask("POST", "/v1/clock", {"advance_to": "2026-01-30T00:00:00Z"}).json
        assert "the clock is at 2026-01-31T00:00:00Z and cannot go back" in refused["detail"]
    assert list(tmp_path.iterdir()) == []


def test_virtual_time_keeps_off_the_database_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "betimes.toml").write_text(f'db = "sqlite:///{tmp_path}/real.db"\n')
    words = ("serve", "--dev", "--port", "0", "--virtual-clock", "2026-01-01T00:00:00Z")
    with serving(*words, folder=tmp_path) as server:
        assert server.told["db"] == "memory://"
    assert [path.name for path in tmp_path.iterdir()] == ["betimes.toml"]


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = command("serve", "--dev", "--port", port, "--json", folder=tmp_path)
        said = " ".join(command("serve", "--dev", "--port", port, folder=tmp_path).err.split())
    assert refused.code == 65
    assert refused.problem["errors"][0]["path"] == "server.port"
    assert f"127.0.0.1:{port}: Address already in use. Choose another --port, or 0 for any free one" in said
