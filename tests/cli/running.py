"""Real processes of the command line: commands that end, and servers that are told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from tests.patience import HANGS_S


class Done:
    """A command that has ended."""

    def __init__(self, ended: subprocess.CompletedProcess[str]) -> None:
        self.code = ended.returncode
        self.out = ended.stdout
        self.err = ended.stderr

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def problem(self) -> Any:
        return msgspec.json.decode(self.err)


def environment(**more: str) -> dict[str, str]:
    """The environment of this process, without settings of betimes."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BETIMES_")} | more


def betimes(*words: str, folder: Path, stdin: str | None = None, **more: str) -> Done:
    """Run `betimes` in a folder, to its end."""
    command = [sys.executable, "-m", "betimes", *words]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment(**more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    return Done(ended)


class Answer:
    """What a server said."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Server:
    """A process that stays, and has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self.process = process
        self.told = told

    @property
    def url(self) -> str:
        return str(self.told["url"])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Over a real socket."""
        sent = {"content-type": "application/json"} | {key.replace("_", "-"): text for key, text in headers.items()}
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(self.url + path, data=data, headers=sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.read())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(HANGS_S)

    def errors_until(self, found: Callable[[str], bool]) -> str:
        """Read its log until a line is there."""
        stream: IO[str] | None = self.process.stderr
        assert stream is not None
        for line in stream:
            if found(line):
                return line
        raise AssertionError("the process ended without saying it")


@contextmanager
def serving(*words: str, folder: Path, **more: str) -> Iterator[Server]:
    """A server or worker that runs until the block is left."""
    command = [sys.executable, "-m", "betimes", *words, "--json"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Server(process, msgspec.json.decode(line))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(HANGS_S)
        process.stdout.close()
        process.stderr.close()
