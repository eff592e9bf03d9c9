"""Processes forked from one that has imported everything, so that a new one is at work within milliseconds.

What a process says goes into a file. Whoever starts them is not asynchronous, and waits for answers in these files and
for processes to end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from betimes.core.deciders import EffectCall
from betimes.engine.settings import EngineSettings
from tests.crash.journal import Failed, Journals
from tests.crash.perils import Peril
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules, engine_on
from tests.crash.worker import Orders, Worker
from tests.crash.workload import Workload
from tests.patience import HANGS_S
from tests.soak.rounds import FORK, Round

POLL_S = 0.02
TRY_AGAIN = ("STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "OVERLOADED")
EXPECTED = (*TRY_AGAIN, "REFUSED")
"""What a command may be answered when something outside fails, and at a gate that is shut."""
SETTINGS = EngineSettings(unknown_resolve_s=1.0, drain_s=HANGS_S)


async def _greet(_: EffectCall) -> None:
    """Never called."""


class Member:
    """One process."""

    def __init__(self, orders: Orders, prepare: Callable[[], None]) -> None:
        self.name = orders.name
        self.log = Path(orders.folder, f"{orders.name}.log")
        self.log.touch()
        self._process: ForkProcess = FORK.Process(target=_work, args=(orders, self.log, prepare))
        self._process.start()
        self._said = self.log.open("rb", buffering=0)
        self._answer_count = 0

    def count_answers(self) -> int:
        """Return how many answers it was given so far."""
        self._answer_count += self._said.read().count(b"answered\n")
        return self._answer_count

    def wait_until_ready(self) -> None:
        """Wait until it obeys signals, or has ended."""
        while b"ready\n" not in self.log.read_bytes() and not self.has_ended:
            time.sleep(POLL_S)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int | None:
        self._process.join(HANGS_S)
        return self._process.exitcode


def _work(orders: Orders, log: Path, prepare: Callable[[], None]) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    prepare()
    asyncio.run(Worker(orders).run())


class Crew:
    """The processes of a round; `prepare` is called first in each."""

    def __init__(
        self, place: Place, folder: str, rules: Rules, load: Workload, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self.place = place
        self.folder = folder
        self.rules = rules
        self.members: list[Member] = []
        self.findings: list[str] = []
        self.killed_count = 0
        self._orders = Orders(name="", place=place, folder=folder, rules=rules, load=load, settings=SETTINGS)
        self._prepare = prepare
        self._numbers = count(1)
        self._past_answers = 0
        engine_on(place.store(), rules, "none", _greet, lambda _: None)  # types are looked at once, before all forks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.send(signal.SIGKILL)
            member.wait()

    def start(self, number: int = 1, peril: Peril | None = None) -> None:
        for _ in range(number):
            name = f"w{next(self._numbers)}"
            self.members.append(Member(replace(self._orders, name=name, peril=peril), self._prepare))

    def kill(self, place: int) -> None:
        member = self.members[place]
        member.send(signal.SIGKILL)
        self._bury(member)

    def bury_dead(self) -> int:
        """Remove those that ended by themselves, and return how many."""
        dead = [member for member in self.members if member.has_ended]
        for member in dead:
            self._bury(member)
        return len(dead)

    def _bury(self, member: Member) -> None:
        code = member.wait()
        self.members.remove(member)
        self._past_answers += member.count_answers()
        if code == -signal.SIGKILL:
            self.killed_count += 1
        else:
            self.findings.append(f"{member.name} ended with {code}: {member.log.read_text()[-2_000:]}")

    def count_answers(self) -> int:
        return self._past_answers + sum(member.count_answers() for member in self.members)

    def wait_for_answers(self, number: int) -> None:
        """Wait until that many more answers were given, or nobody is left to give them."""
        enough, until_s = self.count_answers() + number, time.monotonic() + HANGS_S
        while self.count_answers() < enough and not all(member.has_ended for member in self.members):
            assert time.monotonic() < until_s, "nobody was answered any more"
            time.sleep(POLL_S)

    def drain(self) -> None:
        """End everybody in good order."""
        for member in self.members:
            member.send(signal.SIGCONT)
            member.wait_until_ready()
            member.send(signal.SIGTERM)
        for member in list(self.members):
            if member.wait() == 0:
                self.members.remove(member)
            else:
                self._bury(member)

    def reconciled(self, count: int) -> Round:
        """Return the round, after everything that was asked and answered was held against the ledger."""
        try:
            outcome = asyncio.run(reconcile(self.place, Path(self.folder), self.rules))
        except AssertionError as error:
            return Round(count, [*self.findings, str(error)])
        failures = Counter(line.code for line in Journals(Path(self.folder)).of(Failed))
        unexpected = [f"{count} × {code}" for code, count in failures.items() if code not in EXPECTED]
        notes = {
            "answers": outcome.answered,
            "left without an answer": outcome.unanswered,
            "told to try again": sum(failures[code] for code in TRY_AGAIN),
        }
        return Round(count, [*self.findings, *unexpected], notes)
