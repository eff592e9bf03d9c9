"""The world of one run: a server, workers that come and go, clients that ask, and everything that was seen.

A run has two parts. While the clients act, faults of every drawn kind happen. When the last client is done nothing goes
wrong any more, and the workers must bring everything that is owed to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command, Decider
from betimes.core.errors import BetimesError, Fault, KeyConflict, Overloaded, Refused, StoreError, Unknown
from betimes.core.instants import Instant, parse, render, seconds
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.settings import EngineSettings
from betimes.testing.simulator.faults import Faults
from betimes.testing.simulator.invariants import INJECTED
from betimes.testing.simulator.loop import SeededLoop
from betimes.testing.simulator.server import Server
from betimes.testing.simulator.worker import Attempt, CallMade, Lost, Worker
from betimes.testing.simulator.workload import Workload

START_AT = parse("2026-01-05T09:00:00Z")
TRIES_MAX = 40
WORKERS_MAX = 3


class World:
    """Everything of one run; a workload's clients and oracle are given it."""

    fresh_key_after_unknown = False
    """A mistake that a client can make."""

    def __init__(self, seed: int, workload: Workload, *, verbose: bool = False) -> None:
        self.seed = seed
        self.workload = workload
        self.random = Random(f"{seed}/world")
        self.loop = SeededLoop(Random(f"{seed}/order"))
        self.server = Server(self.loop, Random(f"{seed}/faults"), Faults.drawn(self.random))
        self.faults = self.server.faults
        self.settings = _settings(self.random)
        self.policy = workload.policy(self.random)
        self.workers: list[Worker] = []
        self.attempts: list[Attempt] = []
        self.swept: list[Recorded] = []
        self.calls: list[CallMade] = []
        self.findings: list[str] = []
        """What was seen to be wrong during the run."""
        self.trace: list[str] = []
        self._verbose = verbose
        self._is_healing = False
        self._worker_count = self.random.randint(1, WORKERS_MAX)

    # -- the run

    async def play(self) -> None:
        """Both parts of the run."""
        for _ in range(self._worker_count):
            self.start_worker()
        disturbing = self.loop.create_task(self._disturb())
        await asyncio.gather(*self.workload.clients(self))
        disturbing.cancel()
        await self._heal()
        await self._settle()

    async def _disturb(self) -> None:
        while True:
            await asyncio.sleep(1)
            for worker in [worker for worker in self.workers if worker.is_running]:
                self._disturb_one(worker)

    def _disturb_one(self, worker: Worker) -> None:
        faults, happens = self.server.faults, self.server.happens
        if happens(faults.kill):
            worker.die()
        elif happens(faults.stop):
            worker.stop_for(self.random.choice((0.2, 2.0, 10.0, 100.0)) * self.random.uniform(0.5, 1.5))
        elif happens(faults.close) and not worker.process.is_stopped:
            self.loop.spawn(worker.process, worker.close())
        elif faults.skew_s and happens(0.1):
            worker.step_clock()

    async def _heal(self) -> None:
        self.say("nothing goes wrong from here on")
        self._is_healing = True
        self.server.heal()
        for worker in self.workers:
            worker.go_on()
        running = [worker for worker in self.workers if worker.is_running]
        for worker in running[1:]:
            self.loop.spawn(worker.process, worker.close())
        if not running:
            self.start_worker()

    async def _settle(self) -> None:
        until_s = self.loop.time() + self.workload.settle_s
        while not self.workload.is_settled(self):
            if self.loop.time() > until_s:
                self.findings.append(f"not settled {self.workload.settle_s:g} s after the last fault")
                return
            await asyncio.sleep(self._next_look_s())
            if not any(worker.is_running for worker in self.workers):
                self.start_worker()

    def _next_look_s(self) -> float:
        alarms = [row.alarm_at for row in self.server.database.rows.values() if row.alarm_at is not None]
        if self.effects_open() or not alarms:
            return self.settings.poll_s
        return max((min(alarms) - self.now()) / 1_000_000 + 0.1, self.settings.poll_s)

    # -- time, workers

    def now(self) -> Instant:
        """The true time; a worker's clock may be off."""
        return START_AT + seconds(self.loop.time())

    def say(self, what: str) -> None:
        if self._verbose:
            self.trace.append(f"{render(self.now())[11:]} {what}")

    def start_worker(self) -> None:
        worker = Worker(self, f"w{len(self.workers)}")
        self.workers.append(worker)
        worker.start()

    def worker_ended(self) -> None:
        if not self._is_healing:
            self.server.later(self.random.uniform(0.1, 5), self.start_worker)

    def flaky(self, decider: Decider[Any]) -> Decider[Any]:
        return flaky(decider, self.workload.fails_on, self)

    def effects_open(self) -> bool:
        return any(effect.status in ("pending", "leased") for effect in self.server.database.effects.values())

    # -- what clients do

    async def pause(self, mean_s: float) -> None:
        await asyncio.sleep(self.random.expovariate(1 / mean_s))

    def some_worker(self) -> Worker:
        running = [worker for worker in self.workers if worker.is_running]
        if not running:
            raise Lost("no worker is running")
        return self.random.choice(running)

    async def ask(self, submission: Submission, worker: Worker | None = None) -> Recorded:
        """Send a command to a worker; raises what it answered, or `Lost`."""
        worker = worker or self.some_worker()
        number = len(self.attempts)
        attempt = Attempt(number, replace(submission, correlation=f"a{number}"), worker.name)
        self.attempts.append(attempt)
        self.say(f"a{number} to {worker.name}: {submission.command} for {submission.stream}, key {submission.key}")
        try:
            async with asyncio.timeout(self._patience_s()):
                recorded = await worker.submit(attempt)
        except TimeoutError:
            raise Lost("the client did not wait") from None
        self.say(f"a{number} answered: {recorded.segment_id}{' again' if recorded.replayed else ''}")
        return recorded

    async def sweep(self, kinds: Sequence[str], command: Callable[[StreamId], Command]) -> None:
        """Have a worker decide a command for streams that are due by their index."""
        try:
            self.swept += await self.some_worker().request(lambda engine: engine.submit_due(kinds, command, 10))
        except (StoreError, Overloaded, Lost) as error:
            self.say(f"a sweep failed: {error!r}")

    async def tick(self) -> None:
        """Have a worker make one bounded pass over what is due, as a cron job would."""
        try:
            await self.some_worker().request(lambda engine: engine.tick(limit=20))
        except (StoreError, Overloaded, Lost) as error:
            self.say(f"a tick failed: {error!r}")

    def _patience_s(self) -> float:
        return self.random.random() if self.server.happens(self.server.faults.hang_up) else 30.0

    async def insist(self, submission: Submission) -> Recorded | None:
        """Ask until there is an answer, always under the same key; without one, never again after a lost answer."""
        for _ in range(TRIES_MAX):
            try:
                return await self.ask(submission)
            except (Refused, KeyConflict):
                return None
            except (Unknown, Lost):
                if submission.key is None:
                    return None
                if self.fresh_key_after_unknown:
                    submission = replace(submission, key=f"{submission.key}+")
            except Fault:
                pass
            except BetimesError as error:
                self.say(f"again after {error!r}")
            await self.pause(1.0)
        return None


def flaky(decider: Decider[Any], fails_on: tuple[type[Any], ...], world: World) -> Decider[Any]:
    """The decider with a bug that shows now and then."""

    def decide(view: Any, command: Any, policy: Any, now: Instant) -> Any:
        if isinstance(command, fails_on) and world.server.happens(world.server.faults.flaky):
            raise RuntimeError(INJECTED)
        return decider.decide(view, command, policy, now)

    return replace(decider, decide=decide)


def _settings(random: Random) -> EngineSettings:
    """Small bounds, so that they are met."""
    return EngineSettings(
        batch_max=random.choice((1, 2, 8, 256)),
        cache_chars_max=random.choice((0, 1_000, 1_000_000)),
        asked_after_conflict=random.choice((0, 1, 16)),
        unknown_resolve_s=random.choice((0.5, 5.0, 30.0)),
        poll_s=random.choice((10.0, 60.0)),
        send_recovery_s=random.choice((10.0, 60.0)),
        snooze_max_s=30.0,
        call_pauses_s=(1.0, 5.0, 30.0, 60.0),
    )
