"""A run is a sequence of rounds, each from its own seed and in its own process group, until enough was done.

A round reports how much it did and what it found. One that raises, dies or hangs is a finding too, and nothing of it is
left behind: its whole group is killed. The process that starts rounds never has a thread or a connection, so that it
may fork.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tests.crash.scene import Place
from tests.crash.servers import postgres_place
from tests.patience import HANGS_S

FORK = get_context("fork")
PROGRESS_S = 10.0
FINDINGS_MAX = 10


class Order(msgspec.Struct, frozen=True):
    """What a round is to do."""

    seed: int
    store: str
    count: int
    folder: str
    """Its own, empty."""

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Yield a new database of the ordered store."""
        if self.store == "postgres":
            with postgres_place() as place:
                yield place
        else:
            yield Place(path=str(Path(self.folder, "betimes.db")))


class Round(msgspec.Struct):
    """What came of one."""

    count: int
    findings: list[str] = []
    notes: dict[str, int] = {}
    """What else was counted, such as answers."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table of runs."""

    units: str
    """What is counted, in the plural."""
    says: str
    play: Callable[[Order], Round]
    size: int
    """How many units a round has at most."""
    record: int
    """How many units docs/reliability.md has, or should have."""
    stores: tuple[str, ...] = ("sqlite", "postgres")
    seeds_each: int = 1
    """How many seeds a round uses up."""
    at_once: int = 1
    """How many rounds are under way, unless asked otherwise."""
    hangs_s: float = 2 * HANGS_S
    """When a round is given up."""


class Limits(msgspec.Struct, frozen=True):
    """When a run ends: with the first of these."""

    count: int | None = None
    minutes: float | None = None


class Tally(msgspec.Struct):
    """What all rounds of a run came to."""

    store: str
    count: int = 0
    rounds: int = 0
    findings: list[tuple[Order, str]] = []
    notes: Counter[str] = msgspec.field(default_factory=Counter)
    seconds: float = 0.0
    next_seed: int = 0
    is_interrupted: bool = False

    def add(self, order: Order, result: Round) -> None:
        self.count += result.count
        self.rounds += 1
        self.findings += [(order, finding) for finding in result.findings]
        self.notes.update(result.notes)

    def amount(self, units: str) -> str:
        return ", ".join([f"{self.count:,} {units}", *(f"{n:,} {what}" for what, n in self.notes.items() if n)])


class _UnderWay(msgspec.Struct, frozen=True):
    order: Order
    pid: int
    answer: Connection
    until_s: float
    folder: tempfile.TemporaryDirectory[str]


def soak(run: Run, store: str, limits: Limits, first: int, at_once: int, say: Callable[[Tally], None]) -> Tally:
    """Play rounds until a limit is reached, too much was found or Ctrl-C; `say` is told every few seconds."""
    gc.freeze()  # what was imported is shared by all that is forked
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that its rounds end with it
    started_s = said_s = time.monotonic()
    tally, under_way, ordered = Tally(store, next_seed=first), list[_UnderWay](), 0
    try:
        while True:
            late = limits.minutes is not None and time.monotonic() - started_s > limits.minutes * 60
            done = late or len(tally.findings) >= FINDINGS_MAX
            while not done and len(under_way) < at_once and (limits.count is None or ordered < limits.count):
                size = run.size if limits.count is None else min(run.size, limits.count - ordered)
                under_way.append(_start(run, store, tally.next_seed, size))
                tally.next_seed += run.seeds_each
                ordered += size
            if not under_way:
                return tally
            _collect(under_way, tally)
            tally.seconds = time.monotonic() - started_s
            if time.monotonic() - said_s > PROGRESS_S:
                said_s = time.monotonic()
                say(tally)
    except KeyboardInterrupt:  # what was done until here counts
        tally.is_interrupted = True
        return tally
    finally:
        for one in under_way:
            _end(one)


def _start(run: Run, store: str, seed: int, size: int) -> _UnderWay:
    folder = tempfile.TemporaryDirectory(prefix="betimes-soak-", ignore_cleanup_errors=True)
    order = Order(seed, store, size, folder.name)
    near, far = FORK.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        near.close()
        try:
            far.send_bytes(msgspec.json.encode(_play(run, order)))
        finally:  # whoever waits for it may be gone; nothing of the caller's is done here
            os._exit(0)
    far.close()
    return _UnderWay(order, pid, near, time.monotonic() + run.hangs_s, folder)


def _play(run: Run, order: Order) -> Round:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        return run.play(order)
    except BaseException:  # noqa: BLE001 — whatever it is, it is a finding
        return Round(0, [traceback.format_exc()])


def _collect(under_way: list[_UnderWay], tally: Tally) -> None:
    """Take what was answered within a second; give up what hangs."""
    ready = connection.wait([one.answer for one in under_way], timeout=1.0)
    for one in list(under_way):
        hangs = time.monotonic() > one.until_s
        if one.answer in ready or hangs:
            under_way.remove(one)
            tally.add(one.order, Round(0, ["hangs"]) if hangs else _answer(one))
            _end(one)


def _answer(one: _UnderWay) -> Round:
    try:
        return msgspec.json.decode(one.answer.recv_bytes(), type=Round)
    except EOFError:
        return Round(0, ["the process of the round died"])


def _end(one: _UnderWay) -> None:
    with suppress(ProcessLookupError):
        os.killpg(one.pid, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    one.answer.close()
    one.folder.cleanup()
