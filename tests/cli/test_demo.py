"""The town of the demo: it lives, answers over HTTP meanwhile, and ends by itself or when it is told to."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.cli.running import environment
from tests.cli.running_inside import command as betimes
from tests.patience import HANGS_S

ROOT = Path(__file__).parent.parent.parent
SMALL = ("--people", "20", "--days", "1", "--port", "0")


def test_somebody_calls_the_api_of_the_town_and_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "betimes", "demo", "--json", "--seconds", "60", *SMALL]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = (msgspec.json.decode(line) for line in process.stdout)
        assert next(told)["what"].startswith("the console is at http://127.0.0.1:")
        address = next(line["what"] for line in told if line["scene"].startswith("A town of"))
        url = address.split("its API is at ")[1].split(",")[0]
        body = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-991"}
        try:
            assert _posted(f"{url}/v1/triggers", body)["result"] == "ALLOW"
            said = betimes("status", "--url", url, folder=tmp_path)
            assert "processes 1 alive" in said.out, said.err
        finally:
            process.send_signal(signal.SIGINT)
        rest = list(told)
    assert process.returncode == 0
    assert rest[-1]["answer"] == "the same, byte for byte"
    assert list(tmp_path.iterdir()) == []


def _posted(url: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, msgspec.json.encode(body), headers)
    with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
        return msgspec.json.decode(answer.read())


def test_all_five_domains_are_at_work(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "betimes", "demo", "--json", "--seconds", "30", *SMALL]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = (msgspec.json.decode(line) for line in process.stdout)
        days = (line for line in told if line["scene"].startswith("A town of 20 people") and line["at"])
        lines = [*islice(days, 12)]
        assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
        process.send_signal(signal.SIGINT)
        summary = {line["what"] for line in told if line["scene"] == "The town's days in numbers"}
    assert process.returncode == 0
    assert {"automation", "intents", "notifications", "runs", "scores"} <= summary


def test_a_port_that_is_taken_does_not_stop_the_town(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("--seconds", "0.1", "--people", "2", "--days", "1", "--port", port)
        command = [sys.executable, "-m", "betimes", "demo", "--json", *words]
        ended = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    address = next(line for line in ended.stdout.splitlines() if "its API is at" in line)
    assert f":{port}," not in address


class Interrupted:
    """A demo that is sent SIGINT after so many lines and a little more, and what became of it."""

    def __init__(self, seed: int, folder: Path) -> None:
        random = Random(seed)
        words = ("--seconds", "6", "--people", "30", "--days", "1", "--port", "0")
        process = subprocess.Popen(
            [sys.executable, "-m", "betimes", "demo", "--json", *words],
            cwd=folder,
            env={**environment(), "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(random.choice((1, 5, 20, 38, 39, 40, 45, 60)))]
        time.sleep(random.random() * 0.3)  # any instant will do
        for _ in range(random.choice((1, 1, 2))):
            process.send_signal(signal.SIGINT)
        rest, self.errors = process.communicate(timeout=HANGS_S)
        self.code = process.returncode
        self.lines = [msgspec.json.decode(line) for line in [*told, *rest.splitlines()] if line]


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(10))
def test_ctrl_c_ends_the_demo_cleanly_at_any_moment(seed: int, tmp_path: Path) -> None:
    """In the town with what its days came to, before that with a line that says so; nothing is left either way."""
    ended = Interrupted(seed, tmp_path)
    assert ended.errors == ""
    in_town = any(line["scene"].startswith("A town of") for line in ended.lines)
    last = ended.lines[-1]
    if in_town:
        assert (ended.code, last["answer"]) == (0, "the same, byte for byte")
    else:
        assert (ended.code, last["what"]) == (130, "Stopped before its end.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.crash
def test_make_run_in_a_terminal_goes_to_its_end(tmp_path: Path) -> None:
    if not (ROOT / ".venv" / "bin" / "betimes").exists():
        pytest.skip("there is no .venv beside the tests; `make test` makes one")
    arguments = " ".join(("--seconds", "4", *SMALL))
    status, shown = _in_terminal(["make", "--no-print-directory", "run", f"ARGS={arguments}"])
    assert status == 0
    assert "its API is at http://127.0.0.1:" in shown
    assert "the same, byte for byte" in shown
    assert "serve --dev" in shown
    assert "\x1b[" in shown  # in colours


def _in_terminal(command: list[str]) -> tuple[int, str]:
    """Run a command with a terminal for its output, to its end."""
    ours, theirs = pty.openpty()
    variables: Any = {**environment(), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, cwd=ROOT, env=variables, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := _read(ours):
            shown += chunk
        return process.wait(HANGS_S), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    """What a terminal shows next; on Linux its end is an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
