"""A server killed under load keeps its word: what it answered is there, once; what it did not can be asked again."""

from __future__ import annotations

import threading
import time
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPException
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.cli.running import Server, betimes, serving
from tests.patience import HANGS_S

pytestmark = pytest.mark.crash

CALLERS = 8
ANSWERS = 150
LEFT = (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError)


class Caller(threading.Thread):
    """Sends one notification after the other until the server is gone, and remembers what it was answered."""

    def __init__(self, server: Server, number: int, enough: threading.Event) -> None:
        super().__init__()
        self._server = server
        self._number = number
        self._enough = enough
        self.sent = 0
        self.answers: dict[str, Any] = {}
        self.refusals: list[Any] = []

    def run(self) -> None:
        while True:
            body = notification(self._number, self.sent)
            self.sent += 1
            try:
                reply = self._server.ask("POST", "/v1/notifications", body)
            except LEFT:
                return
            if reply.status == 200:
                self.answers[body["event_id"]] = reply.json
            else:
                self.refusals.append(reply.body)
            if len(self.answers) >= ANSWERS // CALLERS:
                self._enough.set()


def notification(caller: int, number: int) -> dict[str, Any]:
    return {
        "event_id": f"e-{caller}-{number}",
        "user_id": f"u{(caller + number) % 5}",
        "event_type": "MESSAGE",
        "title": "Hello",
        "message": f"Text {caller} {number}",
        "source": "test",
        "channels": ["in_app"],
        "priority_hint": "HIGH",
    }


def test_a_server_killed_under_load_keeps_its_word(tmp_path: Path) -> None:
    words = ("serve", "--dev", "--port", "0", "--db", "sqlite:///kept.db")
    with serving(*words, folder=tmp_path) as server:
        enough = threading.Event()
        callers = [Caller(server, number, enough) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        assert enough.wait(HANGS_S)
        server.process.send_signal(SIGKILL)
        for caller in callers:
            caller.join()
    assert [refusal for caller in callers for refusal in caller.refusals] == []
    with serving(*words, folder=tmp_path) as server:
        for number, caller in enumerate(callers):
            for event_id, answer in caller.answers.items():
                known = server.ask("GET", f"/v1/notifications/{event_id}").json
                assert (known["event_id"], known["judgements"][0]["segment_id"]) == (event_id, answer["segment_id"])
            unanswered = notification(number, caller.sent - 1)
            first = server.ask("POST", "/v1/notifications", unanswered)
            again = server.ask("POST", "/v1/notifications", unanswered)
            assert (first.status, again.status) == (200, 200)
            assert first.json["segment_id"] == again.json["segment_id"]
    assert betimes("verify", "--db", "sqlite:///kept.db", folder=tmp_path).code == 0


def test_a_hold_outlives_the_servers_that_were_killed_under_it(tmp_path: Path) -> None:
    """Another tenant's message, sent after ours and heard first, shows that the servers were at work meanwhile."""
    words = ("serve", "--dev", "--port", "0", "--db", "sqlite:///held.db")
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for number in range(3):
        with serving(*words, folder=tmp_path) as server:
            if number == 0:
                put = server.ask("PUT", "/v1/hold", {"until": until, "reason": "killed servers"})
                assert put.status == 200, put.body
            assert server.ask("GET", "/v1/hold").json["held"]
            assert server.ask("POST", "/v1/notifications", notification(1, number)).json["outcome"] == "NOW"
            other = {**notification(1, number), "user_id": "bob"}
            assert server.ask("POST", "/v1/notifications", other, x_tenant="other").status == 200
            wait_until(partial(hears, server, number + 1))
            assert [inbox(server, f"u{user}") for user in range(5)] == [[]] * 5
            server.process.send_signal(SIGKILL)
    said = betimes("status", "--db", "sqlite:///held.db", folder=tmp_path)
    assert "killed servers" in said.out
    ended = betimes("hold", "--end", "--reason", "all is well", "--db", "sqlite:///held.db", folder=tmp_path)
    assert ended.out == "Nothing is held.\n"
    with serving(*words, folder=tmp_path) as server:
        wait_until(lambda: sum(len(inbox(server, f"u{user}")) for user in range(5)) == 3)
    assert betimes("verify", "--db", "sqlite:///held.db", folder=tmp_path).code == 0


def inbox(server: Server, user: str, tenant: str = "default") -> list[Any]:
    items: list[Any] = server.ask("GET", f"/v1/users/{user}/inbox", x_tenant=tenant).json["items"]
    return items


def hears(server: Server, count: int) -> bool:
    return len(inbox(server, "bob", "other")) == count


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again until it is so."""
    ends_s = time.monotonic() + HANGS_S
    while not is_so():
        assert time.monotonic() < ends_s
