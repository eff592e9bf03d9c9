"""The engine: submit a command and get what it led to; ring alarms; carry out effects; close without losing anything.

A process has one engine on one store. `submit` works as soon as the engine is open. Alarms and effects are worked off
either by `start_workers`, in the background, or by `tick`, one bounded pass at a time, so that cron or a cloud
scheduler can drive betimes with no daemon at all. Any number of processes may do either on one store.

A command that was answered is durable. Killing the process at any instant loses nothing that was answered; closing it
also finishes what was accepted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import msgspec

from betimes.core.deciders import Command, Decider
from betimes.core.errors import BetimesError, Invalid, Overloaded
from betimes.core.instants import Instant
from betimes.core.policies import Body, Policy, PolicyBook
from betimes.core.segments import Recorded, check_note
from betimes.core.streams import StreamId
from betimes.engine.alarms import Alarms
from betimes.engine.clock_report import ClockReport, WatchesClock, clock_problems
from betimes.engine.codecs import Kinds
from betimes.engine.commit_queue import CommitQueue, WorkerParts
from betimes.engine.dispatcher import Dispatcher
from betimes.engine.effects import Executor, is_carrying_out
from betimes.engine.holds import HoldsInForce, HoldWatch, hold_in_force
from betimes.engine.jobs import WAKE, AnswerPart, Job, JointAnswer, Submission
from betimes.engine.orphans import OrphanWatch
from betimes.engine.policies import PoliciesInForce
from betimes.engine.policy_change import PolicyChangePass
from betimes.engine.reports import Observer, Report, Reporter, guard_reporter, log_report
from betimes.engine.send_recovery import SendRecovery
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Backlog, Store
from betimes.engine.tenants.decide import tenant_decider
from betimes.engine.tenants.model import DEPLOYMENT, RECONSIDER, Hold, SetPolicy, tenant_stream
from betimes.engine.tick_result import TickResult
from betimes.engine.transactions import DueRequest, Result, SweepPosition, Transactions

DEFAULT_SETTINGS = EngineSettings()


class Engine:
    """One process's way to a store. `name` must be unlike that of any other process, past or present."""

    def __init__(
        self,
        store: Store,
        deciders: Iterable[Decider[Any]],
        *,
        name: str,
        sections: Mapping[str, type[msgspec.Struct]] | None = None,
        policy: Body | None = None,
        executors: Mapping[str, Executor] | None = None,
        settings: EngineSettings = DEFAULT_SETTINGS,
        report: Reporter = log_report,
        observe: Observer | None = None,
    ) -> None:
        executors = dict(executors or {})
        _check_names(name, executors)
        report = guard_reporter(report)
        self.store = store
        self.book = PolicyBook(sections)
        deciders = tuple(deciders)
        self.kinds = Kinds([*deciders, tenant_decider(self.book, deciders)])
        self.settings = settings
        self._policy = policy
        self._report = report
        self._policies = PoliciesInForce(self.book)
        transactions = Transactions(store, self.kinds, self._policies, settings, name)
        # What is listed is cached, because commands to it follow; a known version needs no store.
        self.read_in, self.last_seen_version = transactions.read_in, transactions.last_seen_version
        self._queue = CommitQueue(store, transactions, self.kinds, settings, report)
        self._queue.observe = observe
        self.alarm_lag = self._queue.alarm_lag
        """How late the alarms were that this process rang."""
        parts = WorkerParts(store, self._queue, settings, report)
        self._hold_watch = HoldWatch(store, self.kinds, self._policies.holds, settings.poll_s, report)
        self._alarms = Alarms(parts, self.kinds.names)
        if any(decider.heeds for decider in deciders):
            executors[RECONSIDER] = PolicyChangePass(parts)
        self._calls = transactions.calls = Dispatcher(parts, executors)
        self._sends = SendRecovery(parts, self.kinds)
        self._orphans = OrphanWatch(store, settings, report)
        self._tasks: list[asyncio.Task[None]] = []
        self._ticks: set[asyncio.Future[None]] = set()
        self._draining = False
        """Closing, while the calls under way come to their end."""
        self._is_open = False

    # -- life

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def open(self) -> None:
        """Open the store and put the configured policy in force if it differs from what is."""
        if self._tasks:
            return
        await self.store.open()
        if isinstance(self.store, WatchesClock):
            self.store.watch_clock(self.settings.clock_step_max_s, self.settings.clock_hold_s)
        self._is_open = True
        self._queue.open()
        self._calls.open()
        # The queue runs first, because the policy below is put in force by a command.
        self._run(self._queue.run())
        try:
            # Before anything is decided or rung: what another process has put on hold must not fire here first.
            await self.refresh_holds()
            if self._policy is None:
                return
            self.book.effective(self._policy)  # what is refused here names every path; a refused command cannot
            await self.submit(Submission(stream=DEPLOYMENT, command=SetPolicy(dict(self._policy)), actor="config"))
        # Whoever could not open it does not close it.
        except BaseException:
            await self.close()
            raise

    def start_workers(self) -> None:
        """Ring alarms and carry out effects in the background, from now until the engine closes."""
        self._check_open()
        # The first task is the queue; any others are the workers.
        if len(self._tasks) > 1:
            return
        self._run(self._alarms.run())
        self._run(self._calls.run())
        self._run(self._sends.run())
        self._run(self._orphans.run())
        self._run(self._hold_watch.run())

    async def close(self) -> None:
        """Accept nothing more, finish what was accepted, stop, and close the store."""
        self._is_open = False
        if not self._tasks:
            return
        # The queue was started first and is stopped last: calls that come to their end are settled through it.
        queue, *workers = self._tasks
        await stop_tasks(workers)
        self._draining = True
        await self._calls.drain()
        self._draining = False
        if self._ticks:
            _, late = await asyncio.wait(self._ticks, timeout=self.settings.drain_s)
            if late:
                self._report(Report("drain_incomplete", f"{len(late)} passes"))
        try:
            async with asyncio.timeout(self.settings.drain_s):
                await self._queue.idle.wait()
        except TimeoutError:
            self._report(Report("drain_incomplete", f"{self._queue.count} jobs"))
        await stop_tasks([queue])
        self._queue.abandon()
        self._tasks.clear()
        try:
            await self.alarm_lag.write_rest(self.store, self._report)
        finally:
            await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _run(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def clock_report(self) -> tuple[ClockReport | None, list[str]]:
        """Return what the store says of its clock, if it watches one, and what is wrong with it."""
        if not isinstance(self.store, WatchesClock):
            return None, []
        report = await self.store.clock_report()
        return report, clock_problems(report, self.settings.clock_step_max_s)

    # -- commands

    async def submit(self, submission: Submission) -> Recorded:
        """Decide and commit a command; returns once it is durable, or raises what went wrong."""
        submission.check(self.kinds)
        return await self._take_in(submission)

    async def submit_many(self, submissions: Sequence[Submission]) -> list[Recorded | BetimesError]:
        """Decide and commit commands as if each came alone, those of a stream in order; errors stand in their place.

        They are queued and awaited together, which costs a fraction of as many calls of `submit`.
        """
        return await self.queue_many(submissions).wait()

    def queue_many(self, submissions: Sequence[Submission]) -> JointAnswer:
        """Queue commands as `submit_many` does, for whoever wants the answers even if it is cancelled meanwhile."""
        joint = JointAnswer(len(submissions))
        for place, submission in enumerate(submissions):
            try:
                submission.check(self.kinds)
                self._check_room(submission.stream.tenant)
            except BetimesError as error:
                joint.fill(place, error)
            else:
                self._queue.put(Job(submission, answer=AnswerPart(joint, place)))
        return joint

    async def wake(self, stream: StreamId, *, actor: str = "", correlation: str = "", note: str = "") -> Recorded:
        """Ring a stream's alarm if it is due, whether it is snoozed or not; raise what its wake fails with."""
        self.kinds.of(stream)
        asked = Submission(stream=stream, command=WAKE, actor=actor, correlation=correlation, note=note)
        check_note(WAKE, note)
        return await self._take_in(asked)

    def _take_in(self, submission: Submission) -> Awaitable[Recorded]:
        self._check_room(submission.stream.tenant)
        answer: asyncio.Future[Recorded] = asyncio.get_running_loop().create_future()
        self._queue.put(Job(submission, answer=answer))
        return answer

    async def submit_due(
        self,
        kinds: Sequence[str],
        command: Callable[[StreamId], Command],
        limit: int,
        *,
        tenant: str | None = None,
        until_at: Instant | None = None,
        actor: str = "",
        note: str = "",
        failed: Callable[[StreamId, BetimesError], None] | None = None,
        position: SweepPosition | None = None,
    ) -> list[Recorded]:
        """Decide a command for up to `limit` streams whose `due_at` has come; held ones are left to their holders.

        `failed` is told of each stream that could not be decided; it stays due. A caller who takes all that is due,
        call by call, gives the same `position` each time, so that what lies behind is not looked at again.
        """
        if note:
            check_note(WAKE, note)
        due = DueRequest(
            by="due",
            kinds=kinds,
            limit=limit,
            make=lambda stream: Job(Submission(stream=stream, command=command(stream), actor=actor, note=note)),
            until_at=until_at,
            tenant=tenant,
            position=position,
        )
        results = await self._take_due(due)
        for job, result in results:
            if failed and job.stream and isinstance(result, BetimesError):
                failed(job.stream, result)
        return [result for _, result in results if isinstance(result, Recorded)]

    async def _take_due(self, due: DueRequest) -> Sequence[tuple[Job, Result]]:
        self._check_room(due.tenant)
        return await self._queue.take_due(due)

    def _check_open(self) -> None:
        # While calls come to their end they may still submit what that takes.
        if not self._is_open and not (self._draining and is_carrying_out.get()):
            raise Overloaded("the engine is not open; nothing was accepted. Open it, or send this to another process")

    def _check_room(self, tenant: str | None) -> None:
        if not self._is_open:
            self._check_open()
        queue, settings = self._queue.waiting, self.settings
        if queue.size >= settings.queue_max:
            raise Overloaded(f"{queue.size:,} commands are waiting, which is the limit; try again in a moment")
        # No tenant can have more of them waiting than wait altogether, so its own are rarely counted.
        if queue.size < settings.queue_tenant_max or tenant is None:
            return
        if (waiting := queue.count(tenant)) >= settings.queue_tenant_max:
            raise Overloaded(
                f"{waiting:,} commands of {tenant!r} are waiting, which is its limit; try again in a moment"
            )

    async def policy_of(self, tenant: str) -> Policy:
        """Return the policy in force for a tenant now, for dry runs and lists; a decision reads its own."""
        return self._policies.effective(tenant, *await self.load_states(DEPLOYMENT, tenant_stream(tenant)))

    async def hold_of(self, tenant: str) -> Hold | None:
        """Return the hold in force for a tenant now."""
        [state] = await self.load_states(tenant_stream(tenant))
        return hold_in_force(state, await self.store.now())

    async def load_states(self, *streams: StreamId) -> list[Any]:
        """Return the state of each stream as of its last commit; `None` of one that has none."""
        rows = await self.store.load(list(streams))
        return [self.kinds.state_in(stream, row) if (row := rows.get(stream)) else None for stream in streams]

    @property
    def holds(self) -> HoldsInForce:
        """The holds of all tenants, as this process last saw them."""
        return self._policies.holds

    def is_held(self, tenant: str, kind: str) -> bool:
        """Return whether streams of this kind must not fire, as far as this process knows."""
        hold = self.holds.by_tenant.get(tenant)
        return hold is not None and kind in self.kinds.of_domains(hold.domains)

    async def refresh_holds(self) -> None:
        """Learn of the holds that other processes have set or ended."""
        await self._hold_watch.refresh()

    # -- passes

    async def tick(
        self,
        *,
        limit: int = 1_000,
        max_s: float = 10.0,
        tenant: str | None = None,
        kinds: tuple[str, ...] | None = None,
    ) -> TickResult:
        """One bounded pass over alarms (of kinds, if given), sends and effects; says what is still due.

        With a tenant it is about that tenant alone, in what it does and in what it says.
        """
        if limit < 1:
            raise Invalid("the limit of a tick must be at least 1", (("limit", "at least 1"),))
        self._check_open()
        with self._pass_under_way():
            await self.refresh_holds()
            return await self._tick(limit, max_s, tenant, kinds)

    @contextmanager
    def _pass_under_way(self) -> Iterator[None]:
        """Let `close` wait for a pass; it ends after the step it is at."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ticks.add(ended)
        try:
            yield
        finally:
            self._ticks.discard(ended)
            ended.set_result(None)

    async def _tick(self, limit: int, max_s: float, tenant: str | None, kinds: tuple[str, ...] | None) -> TickResult:
        loop = asyncio.get_running_loop()
        until = loop.time() + max_s
        fired: Counter[str] = Counter()
        effects: Counter[str] = Counter()
        sends = 0

        def is_over() -> bool:
            return not self._is_open or loop.time() >= until

        while not is_over() and (room := limit - fired.total() - effects.total() - sends) > 0:
            # In this order, because wakes leave sends and both leave calls: one round does what its own steps ask for.
            rung = await self._alarms.ring(min(room, self.settings.batch_max), kinds, tenant)
            room -= rung.total()
            sent = await self._sends.apply(room, tenant, is_over) if room else 0
            ended = await self._calls.once(min(room - sent, self.settings.calls_max), tenant)
            fired += rung
            effects += ended
            sends += sent
            if not (rung or sent or ended):
                break
        now = await self.store.now()
        asked = self.kinds.names if kinds is None else kinds
        next_due_at = await self.store.next_due("alarm", asked, self.executors, tenant=tenant)
        waiting = await self.store.waiting_sends(1, created_before=now + 1, tenant=tenant, kinds=self.kinds.names)
        complete = not waiting and (next_due_at is None or next_due_at > now)
        if tenant is None:
            await self._orphans.look(now)
        return TickResult(now, dict(fired), dict(effects), sends, complete, next_due_at)

    @property
    def queue_count(self) -> int:
        """Commands that wait in this process."""
        return self._queue.waiting.size

    @property
    def executors(self) -> tuple[str, ...]:
        """The names of the effects this process can carry out."""
        return self._calls.names

    async def backlog(self) -> Backlog:
        """Return what is owed and how late it is."""
        return await self.store.backlog(self.kinds.names)


def _check_names(name: str, executors: Mapping[str, Executor]) -> None:
    if not name:
        raise Invalid("give the engine a name that no other process has or ever had")
    for reserved in (SEND, RECONSIDER):
        if reserved in executors:
            raise Invalid(f"the executor name {reserved!r} is reserved; give it another")


async def stop_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until the last of them has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
