"""A server killed under load keeps its word: what it answered is there, once; what it did not can be asked again."""

from __future__ import annotations

import threading
import urllib.error
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
