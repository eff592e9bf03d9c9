"""Commands by the real clock beside a server whose time stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from betimes.core.errors import STATUS
from tests.cli.running import serving
from tests.cli.running_inside import command
from tests.postgres import own_server

SCHEDULE = {"cron": "0 8 * * *", "target": {"kind": "sweep"}}


@pytest.mark.parametrize(
    "place",
    [
        lambda folder: f"sqlite:///{folder}/betimes.db",
        pytest.param(lambda _: str(own_server().get_uri()), marks=pytest.mark.postgres),
    ],
    ids=["sqlite", "postgres"],
)
def test_no_pass_rings_by_the_real_clock_what_waits_for_a_virtual_one(
    tmp_path: Path, place: Callable[[Path], str]
) -> None:
    db = place(tmp_path)
    words = ("serve", "--dev", "--port", "0", "--virtual-clock", "2026-01-01T00:00:00Z", "--db", db)
    with serving(*words, folder=tmp_path) as server:
        assert server.ask("PUT", "/v1/schedules/brief-of-a-virtual-day", SCHEDULE).status in (200, 201)
        while not any(row["alive"] for row in server.ask("GET", "/v1/processes").json["items"]):
            pass
        for one in ("tick", "sweep"):
            refused = command(one, "--db", db, folder=tmp_path)
            assert refused.code == STATUS["INVALID"][1]
            assert "move its clock with POST /v1/clock" in refused.err
        ticks = server.ask("GET", "/v1/schedules/brief-of-a-virtual-day/ticks").json["items"]
        assert ticks == []
        assert server.ask("DELETE", "/v1/schedules/brief-of-a-virtual-day").status in (200, 204)
        assert server.stop() == 0
    done = command("tick", "--db", db, folder=tmp_path)
    assert done.code == 0, done.err
