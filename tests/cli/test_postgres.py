"""The command line and both roles on PostgreSQL, as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import serving
from tests.cli.running_inside import command
from tests.postgres import own_server

pytestmark = pytest.mark.postgres

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "payload": {}}


def test_two_servers_and_a_worker_share_a_database(tmp_path: Path) -> None:
    """What one server answered, the other knows; all of them end well."""
    db = str(own_server().get_uri())
    made = command("key", "create", "--tenant", "acme", "--scope", "runs:write", "--json", "--db", db, folder=tmp_path)
    assert made.code == 0, made.err
    key = {"authorization": f"Bearer {made.json['secret']}"}
    api = ("serve", "--role", "api", "--port", "0")
    with (
        serving(*api, folder=tmp_path, BETIMES_DB=db) as one,
        serving(*api, folder=tmp_path, BETIMES_DB=db) as other,
        serving("worker", folder=tmp_path, BETIMES_DB=db) as worker,
    ):
        body = {**TRIGGER, "idempotency_key": "sig-1"}
        assert one.ask("POST", "/v1/triggers", body, **key).json["result"] == "ALLOW"
        assert other.ask("POST", "/v1/triggers", body, **key).json["reason"] == "DUPLICATE_IDEMPOTENCY_KEY"
        assert (one.stop(), other.stop(), worker.stop()) == (0, 0, 0)
    assert command("verify", "--json", "--db", db, folder=tmp_path).json["sound"]
