"""Processes under a test's command: started, listened to, killed, and none left behind.

Nothing here sleeps: a test waits for lines that processes say, for them to stop, and for them to end.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from tests.crash.scene import Place
from tests.crash.worker import Orders
from tests.patience import HANGS_S

ROOT = Path(__file__).parent.parent.parent


class Child:
    """One process and what it has said so far."""

    def __init__(self, name: str, process: Process, news: asyncio.Condition) -> None:
        self.name = name
        self.said: Counter[str] = Counter()
        self._process = process
        self._news = news
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self._process.stdout
        async for line in self._process.stdout:
            async with self._news:
                self.said[line.decode().strip()] += 1
                self._news.notify_all()

    async def says(self, word: str, times: int = 1, *, within_s: float = HANGS_S) -> None:
        """Wait until it has said a word so often, counted from its start."""

        def said() -> bool:
            ended = self._listening.done() and self.said[word] < times
            assert not ended, f"{self.name} ended before it said {word!r}: {dict(self.said)}"
            return self.said[word] >= times

        try:
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(said)
        except TimeoutError:
            raise AssertionError(f"{self.name} did not say {word!r} in {within_s} s: {dict(self.said)}") from None

    async def says_more(self, word: str, times: int = 1, *, within_s: float = HANGS_S) -> None:
        """Wait until it has said a word so often from now on."""
        await self.says(word, self.said[word] + times, within_s=within_s)

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def failures(self) -> set[str]:
        """The codes of everything it was refused."""
        return {word.removeprefix("failed ") for word in self.said if word.startswith("failed ")}

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def limit_files(self, length: int | None) -> None:
        """Let no file of its grow beyond a number of bytes, or any again."""
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (hard if length is None else length, hard))

    async def stopped(self) -> None:
        """Wait until every thread of it stands still."""
        await asyncio.to_thread(os.waitid, os.P_PID, self._process.pid, os.WSTOPPED)

    async def ended(self, *, within_s: float = HANGS_S) -> int:
        """Wait for its end; the exit code, or the signal's number below zero."""
        async with asyncio.timeout(within_s):
            await self._listening
            return await self._process.wait()

    def kill(self) -> None:
        if not self.has_ended:
            self._process.kill()

    async def killed(self) -> None:
        self.kill()
        await self.ended()

    async def drained(self, *, within_s: float = HANGS_S) -> None:
        """Ask it to end, and expect that it does so in good order."""
        self.send(signal.SIGTERM)
        code = await self.ended(within_s=within_s)
        assert code == 0, f"{self.name} ended with {code}"


class Fleet:
    """All processes of a test, on one database, with their journals in one folder."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        self.folder = folder
        self.children: list[Child] = []
        self._news = asyncio.Condition()
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self.children:
            child.kill()
        await asyncio.gather(*(child.ended() for child in self.children))

    async def start(self, **orders: Any) -> Child:
        """Start a process; its name is unlike any other's on this database."""
        name = f"w{next(self._numbers)}"
        told = replace(Orders(name=name, place=self.place, folder=str(self.folder)), **orders)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.crash.worker", msgspec.json.encode(told).decode(), cwd=ROOT, stdout=PIPE
        )
        child = Child(told.name, process, self._news)
        self.children.append(child)
        return child

    async def start_ready(self, number: int = 1, **orders: Any) -> list[Child]:
        """Start processes together and wait until all are ready."""
        children = await asyncio.gather(*(self.start(**orders) for _ in range(number)))
        await asyncio.gather(*(child.says("ready") for child in children))
        return list(children)

    def total(self, word: str) -> int:
        return sum(child.said[word] for child in self.children)

    async def says_more(self, word: str, times: int, *, within_s: float = HANGS_S) -> None:
        """Wait until all processes together have said a word so often from now on."""
        enough = self.total(word) + times
        try:
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(lambda: self.total(word) >= enough)
        except TimeoutError:
            said = {child.name: dict(child.said) for child in self.children}
            raise AssertionError(f"{word!r} was not said {times} times more in {within_s} s: {said}") from None

    async def drain(self) -> None:
        """End those that still run, in good order."""
        await asyncio.gather(*(child.drained() for child in self.children if not child.has_ended))
