"""A worker: one engine in a process of its own, which can be killed, stopped and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from betimes.core.deciders import EffectCall
from betimes.core.errors import BetimesError, StoreError
from betimes.core.instants import Instant, seconds
from betimes.core.segments import Recorded
from betimes.engine.effects import Executor, GiveUp
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report
from betimes.testing.simulator.connection import Connection
from betimes.testing.simulator.loop import Process
from betimes.testing.simulator.server import IDLE_TIMEOUT_S

if TYPE_CHECKING:
    from betimes.testing.simulator.world import World

Answer = TypeVar("Answer")
RELEASE_S_MAX = 2.0
"""How long a server may take to notice that a client is gone."""


class Lost(Exception):
    """A client has no answer: the worker died, or the client did not wait."""


class Attempt(msgspec.Struct):
    """One request to one worker, and what the worker's engine answered, heard or not."""

    number: int
    submission: Submission
    worker: str
    place: int = 0
    """Its place among everything this worker accepted."""
    outcome: Recorded | BaseException | None = None
    asked_seq: int = 0
    answered_seq: int = 0
    """How far the ledger went when it was asked and when it was answered."""


class CallMade(msgspec.Struct):
    """One start of an executor."""

    call: EffectCall
    worker: str
    started_at: Instant
    end: str = "cut off"
    """`done`, `raised`, `gave up`, or `cut off` when its worker died or lost the lease."""


class Worker:
    """One life of one process; a new one takes over under a new name."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.process = Process(name)
        self.is_running = False
        """It was started, and has neither died nor been closed."""
        self.has_closed = False
        self.stops = 0
        self.reports: list[Report] = []
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._world = world
        self._skew_us = 0
        self._places = 0
        self.step_clock()
        self.connection = Connection(world.server, name, self.clock, self.die, self.say)
        self.engine = self._engine()

    def clock(self) -> Instant:
        return self._world.now() + self._skew_us

    def step_clock(self) -> None:
        skew_s = self._world.server.faults.skew_s
        self._skew_us = seconds(self._world.random.uniform(-skew_s, skew_s))

    def say(self, what: str) -> None:
        self._world.say(f"{self.name}: {what}")

    def report(self, report: Report) -> None:
        self.reports.append(report)
        self.say(f"reports {report.what}: {report.name}: {report.error}")

    def _engine(self) -> Engine:
        world, workload = self._world, self._world.workload
        return Engine(
            self.connection,
            [world.flaky(decider) for decider in workload.deciders],
            name=self.name,
            sections=workload.sections,
            policy=world.policy,
            executors={name: self._executor(work) for name, work in workload.executors.items()},
            settings=world.settings,
            report=self.report,
        )

    # -- life

    def start(self) -> None:
        self.is_running = True
        self._world.loop.spawn(self.process, self._run())

    async def _run(self) -> None:
        try:
            await self.engine.open()
        except StoreError:
            await self.connection.die()
        self.engine.start_workers()

    def die(self) -> None:
        """As by SIGKILL: nothing of it runs any more, and the server finds out sooner or later."""
        if not self.is_running:
            return
        self.say("dies")
        self.is_running = False
        if not self.process.is_stopped:
            self._world.loop.stop_process(self.process)
        self._hang_up()
        server = self._world.server
        for tx in self.connection.transactions():
            server.later(self._world.random.random() * RELEASE_S_MAX, partial(server.end, tx))
        self._world.worker_ended()

    def stop_for(self, duration_s: float) -> None:
        """As by SIGSTOP and SIGCONT."""
        if not self.is_running or self.process.is_stopped:
            return
        self.say(f"is stopped for {duration_s:.3f} s")
        self.stops += 1
        self._world.loop.stop_process(self.process)
        stop, server = self.stops, self._world.server
        server.later(IDLE_TIMEOUT_S, lambda: self._end_idle(stop))
        server.later(duration_s, self.go_on)

    def _end_idle(self, stop: int) -> None:
        if self.process.is_stopped and self.stops == stop:
            for tx in self.connection.transactions():
                self._world.server.end(tx)

    def go_on(self) -> None:
        if self.is_running and self.process.is_stopped:
            self.say("goes on")
            self._world.loop.continue_process(self.process)

    async def close(self) -> None:
        """As for a new release: finish what was accepted, then end."""
        self.say("closes")
        await self.engine.close()
        await asyncio.sleep(0.001)
        if self._pending and "drain_incomplete" not in [report.what for report in self.reports]:
            self._world.findings.append(f"{self.name} closed and left {len(self._pending)} requests unanswered")
        self.is_running, self.has_closed = False, True
        self._hang_up()
        self._world.loop.stop_process(self.process)
        self._world.worker_ended()

    def _hang_up(self) -> None:
        for answer in self._pending:
            if not answer.done():
                answer.set_exception(Lost(f"{self.name} is gone"))
        self._pending.clear()

    # -- requests

    def request(self, work: Callable[[Engine], Awaitable[Answer]]) -> asyncio.Future[Answer]:
        """Have the worker do something; the answer is `Lost` if it dies first."""
        answer: asyncio.Future[Answer] = self._world.loop.create_future()
        self._pending[answer] = None
        self._world.loop.spawn(self.process, self._serve(work, answer))
        return answer

    async def _serve(self, work: Callable[[Engine], Awaitable[Answer]], answer: asyncio.Future[Answer]) -> None:
        try:
            result = await work(self.engine)
        except BetimesError as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)
        self._pending.pop(answer, None)

    async def submit(self, attempt: Attempt) -> Recorded:
        """Ask for one command; the attempt keeps what the engine answered, whoever is left to hear it."""

        async def work(engine: Engine) -> Recorded:
            self._places += 1
            attempt.place = self._places
            attempt.asked_seq = self._world.server.database.seq
            try:
                recorded = await engine.submit(attempt.submission)
            except BetimesError as error:
                attempt.outcome = error
                raise
            finally:
                attempt.answered_seq = self._world.server.database.seq
            attempt.outcome = recorded
            return recorded

        return await self.request(work)

    # -- calls

    def _executor(self, work: Executor) -> Executor:
        async def carry_out(call: EffectCall) -> Any:
            made = CallMade(call, self.name, self._world.now())
            self._world.calls.append(made)
            await asyncio.sleep(self._duration_s(call))
            if self._world.server.happens(self._world.server.faults.fail):
                made.end = "gave up" if self._world.random.random() < 0.1 else "raised"
                raise GiveUp("no use") if made.end == "gave up" else RuntimeError("not today")
            result = await work(call)
            made.end = "done"
            return result

        return carry_out

    def _duration_s(self, call: EffectCall) -> float:
        random, faults = self._world.random, self._world.server.faults
        if self._world.server.happens(faults.sluggish):
            return random.uniform(0.5, 2.5) * call.lease_s
        return random.random() ** 3 * 2
