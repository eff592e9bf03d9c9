"""The commit queue: everything a process has to commit, worked off batch by batch.

A batch is whatever is waiting, up to a bound: while one batch commits, the next fills, and an idle process starts at
once.
Tenants take turns in it, so that one that floods the process delays its own commands first.
Batches of jobs and passes over due streams take turns, so that a catch-up of many alarms delays a command by one pass
at most; claims that come at the same time share a pass (`pass_queue`). The ends of calls have a queue of their own and
a part of each batch: many that end at once delay neither commands, alarms that are due, nor calls still to be taken.

**What each failure leads to.**

- *One job fails* (refused, a bug in its decider, a bound): its caller is told; its neighbours commit.
- *Rows held elsewhere*: their jobs stay at the head of the queue and wait for those rows the next time.
- *Conflict, Duplicate, Fenced*: the store refused the batch for one turn's sake and wrote nothing. The batch is done
  again turn by turn; a turn that keeps meeting conflicts is given up and its caller told.
- *Unavailable*: nothing was written. Callers are told at once and may try again; what nobody waits for stays queued,
  and the queue pauses, longer each time, until the store is back.
- *Anything unexpected*: reported, and the batch is done again turn by turn, so that only the culprit fails.
- *Unknown*: found out by `transactions`; if it cannot be, callers are told to ask again under the same key.
- *A wake that fails* is reported and its alarm snoozed beside the state: neither lost, nor in the way, nor a loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from betimes.core.deciders import Wake
from betimes.core.errors import (
    BetimesError,
    Conflict,
    Duplicate,
    Fault,
    Fenced,
    Overloaded,
    StoreError,
    Unavailable,
    Unknown,
    UnknownKind,
    WakeFailed,
)
from betimes.core.instants import Instant
from betimes.core.segments import Recorded
from betimes.core.streams import EffectId, StreamId
from betimes.engine.alarm_lag import AlarmLagCounters
from betimes.engine.batch import Batch
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import FairQueue, Job
from betimes.engine.pass_queue import DuePass, PassQueue, SharedPass
from betimes.engine.reports import Observer, Report, Reporter
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Store
from betimes.engine.transactions import DueRequest, Result, Transactions, pause_collector
from betimes.engine.wake_failures import WakeFailures

HELD_MAX = 20
"""How often a job may find its streams locked before it fails."""
HELD_INTERNAL_MAX = 3
"""The same for jobs without a caller; the next pass over the store finds them again."""
COLLECTOR_RESTS_FROM = 16
"""Jobs of a batch that Python's collector leaves alone; a smaller one makes too little to be worth it."""
PART_OF_ENDS = 4
"""The ends of calls have a quarter of every batch, whatever else waits."""
ENDS_WAIT_MAX = 4_096
"""How many ends have only their part while alarms or calls wait; with more, leases might run out before them."""
_log = logging.getLogger("betimes")


class CommitQueue:
    """Queue, batches and passes of one process."""

    def __init__(
        self, store: Store, transactions: Transactions, kinds: Kinds, settings: EngineSettings, report: Reporter
    ) -> None:
        self._transactions = transactions
        self._kinds = kinds
        self._settings = settings
        self._report = report
        self.waiting = FairQueue()
        # Nobody comes between two batches to settle a call, so no part of one is kept free for other tenants.
        self._ends = FairQueue(part_of_batch=1)
        """Ends of calls, which have a part of each batch: however many there are, no command waits for them."""
        self._passes = PassQueue()
        self._sends: dict[EffectId, Job] = {}
        self._had_callers = False
        """Whether a caller waited for the last batch."""
        self._under_way: Sequence[Job] = ()
        self._pass_under_way: SharedPass | None = None
        self._wake_failures = WakeFailures(store, settings, report)
        self._pause_s = 0.0
        self._work = asyncio.Event()
        self.idle = asyncio.Event()
        """Set while nothing is queued or under way."""
        self.idle.set()
        self.calls_waiting = asyncio.Event()
        """Set when a commit left effects to carry out."""
        self.leaves_calls = False
        """Whether the dispatcher has seen more calls to make than it could take."""
        self.alarm_set: Callable[[Instant], None] = lambda at: None
        """Told of the earliest alarm of every commit."""
        self.observe: Observer | None = None
        self.alarm_lag = AlarmLagCounters()
        transactions.on_commit = self._hand_on
        self._has_stopped = False

    def open(self) -> None:
        """Accept jobs, from now until it is abandoned."""
        self._has_stopped = False

    def put(self, job: Job) -> None:
        """Queue a job; once the queue has stopped, fail it at once."""
        if self._has_stopped:
            self._end(job, _closed_error())
            return
        (self._ends if job.ended else self.waiting).append(job)
        self._work.set()
        self.idle.clear()

    def put_send(self, id: EffectId, job: Job) -> Job:
        """Queue a send, unless it is under way already; return the job that applies it."""
        if under_way := self._sends.get(id):
            return under_way
        self._sends[id] = job
        self.put(job)
        return job

    async def take_due(self, due: DueRequest) -> list[tuple[Job, Result]]:
        """Work off streams that are due, when it is a pass's turn; what became of each."""
        if self._has_stopped:
            raise _closed_error()
        request = DuePass(due)
        self._passes.append(request)
        self._work.set()
        self.idle.clear()
        return await request.answer

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._work.wait()
            # Kept until the commit, so that whoever waits for one of them is answered if the engine closes.
            self._under_way = self._next_batch()
            if self._under_way:
                await self._batch(list(self._under_way))
                self._under_way = ()
            # One pass for each batch: neither a flood of commands nor a backlog of alarms keeps the other waiting.
            if self._passes:
                self._pass_under_way = self._passes.take(self._settings.batch_max)
                await self._pass(self._pass_under_way)
                self._pass_under_way = None
            if not self.waiting.size and not self._ends.size and not self._passes:
                self._work.clear()
                self.idle.set()
            else:
                await asyncio.sleep(0)  # a store may do all of a batch without waiting: others have their turn too

    def _next_batch(self) -> list[Job]:
        """Take ends of calls and commands: a quarter of the batch for ends, and what the others leave free."""
        most = self._settings.batch_max
        part = most // PART_OF_ENDS
        commands = self.waiting.take(most - min(self._ends.size, part))
        self._had_callers = any(job.answer for job in commands)
        free = min(most - len(commands), part) if self._ends_may_wait() else most - len(commands)
        # A batch that is too small for parts has one end on top, or one of the two would wait for ever.
        return self._ends.take(max(free, 1)) + commands if self._ends.size else commands

    def _ends_may_wait(self) -> bool:
        """Return whether alarms are due or calls are left in the store: nobody waits for an end, as a rule."""
        is_backlog = bool(self._passes) and self._passes[0].due.by == "alarm"
        return (is_backlog or self.leaves_calls) and self._ends.size < ENDS_WAIT_MAX

    @property
    def has_callers(self) -> bool:
        """Whether a caller waits for a command, or waited for the last batch and may submit again."""
        return self._had_callers or any(job.answer for job in self.waiting)

    @property
    def count(self) -> int:
        """How many jobs wait, ends of calls included."""
        return self.waiting.size + self._ends.size

    def abandon(self) -> None:
        """Answer everybody who is still waiting; for when the queue has stopped."""
        self._has_stopped = True
        for job in self._under_way:
            message = f"{job.name}: the engine closed while it was being written; ask again under the same key"
            self._end(job, Unknown(message))
        for job in (*self._ends, *self.waiting):
            self._end(job, _closed_error())
        if self._pass_under_way:
            self._pass_under_way.fail(Unknown("the engine closed during this pass; what it did is in the ledger"))
        for request in self._passes:
            request.fail(_closed_error())
        self._under_way, self._pass_under_way = (), None
        self._ends.clear()
        self.waiting.clear()
        self._passes.clear()

    def _end(self, job: Job, outcome: Recorded | BaseException) -> None:
        """End a job: the only way out of the queue, so that no send is remembered as under way that is not."""
        if job.send:
            self._sends.pop(job.send, None)
        job.end(outcome)

    # -- batches and passes

    async def _batch(self, jobs: list[Job]) -> None:
        # Only sends have an order of their own to keep; other batches are spared the sort.
        if self._sends:
            jobs = _in_the_order_sent(jobs)
        try:
            with pause_collector() if len(jobs) >= COLLECTOR_RESTS_FROM else nullcontext():
                results = await self._transactions.attempt(jobs)
        except Unavailable as error:
            await self._unavailable(jobs, error)
            return
        except Unknown as error:
            # It may have been committed, so doing it again could decide twice; their keys tell callers what happened.
            results = [error] * len(jobs)
        except Exception as error:  # noqa: BLE001 — whatever one job brought about must not reach the others
            self._report_unexpected(error)
            results = await self._turn_by_turn(jobs)
        self._pause_s = 0.0
        await self._conclude(jobs, results)

    async def _turn_by_turn(self, jobs: list[Job]) -> list[Result]:
        """Commit each job in a transaction of its own; jobs behind one that is held wait with it.

        That is every later job of its stream, and those that look at one it may still write.
        """
        held: set[StreamId | None] = set()
        unsettled: set[StreamId] = set()
        results: list[Result] = []
        for job in jobs:
            waits = job.stream in held or not unsettled.isdisjoint(job.reads)
            result = None if waits else await self._alone(job)
            if result is None:
                held.add(job.stream)
                unsettled.update(job.streams)
            results.append(result)
        return results

    async def _alone(self, job: Job) -> Result:
        last: BetimesError = Conflict(f"{job.name} met a conflict")
        for _ in range(self._settings.attempts_on_conflict_max):
            try:
                return (await self._transactions.attempt([job]))[0]
            except (Conflict, Duplicate) as error:
                last = error
                if job.stream:
                    self._transactions.forget(job.stream)  # what is cached is what led into the conflict
            except BetimesError as error:
                return error
            except Exception as error:  # noqa: BLE001 — the queue goes on, whatever a store or a row does
                return Fault(f"{job.name} failed unexpectedly: {error!r}")
        return last

    def _report_unexpected(self, error: Exception) -> None:
        """Report errors that a store is not expected to raise: they are bugs."""
        if not isinstance(error, Conflict | Duplicate | Fenced):
            self._report(Report("batch_failed", type(error).__name__, error))

    async def _pass(self, request: SharedPass) -> None:
        jobs: list[Job] = []
        try:
            with pause_collector():
                results = await self._transactions.attempt_due(request.due, jobs)
        except (Unavailable, Unknown) as error:
            request.fail(error)
            return
        except Exception as error:  # noqa: BLE001 — as for a batch
            self._report_unexpected(error)
            if not jobs:
                await self._pass_apart(request, error)
                return
            results = await self._turn_by_turn(jobs)
        # A claim or a sweep leaves a held stream to its holder; an alarm must ring, so it is queued again.
        await self._conclude(jobs, results, keep_held=request.due.by == "alarm")
        request.answer(list(zip(jobs, results, strict=True)))

    async def _pass_apart(self, request: SharedPass, error: Exception) -> None:
        """Do passes one by one that failed together before there was any job; fail the one that fails alone."""
        if not (passes := request.apart()):
            request.fail(error if isinstance(error, BetimesError) else Fault(f"a pass failed: {error!r}"))
        for each in passes:
            await self._pass(each)

    # -- after a commit

    def _hand_on(self, batch: Batch) -> None:
        """Queue the commands to other streams that a commit left; tell the dispatcher and the alarms of the rest."""
        try:
            if self.observe:
                self.observe(batch.written)
        except Exception:  # noqa: BLE001 — whoever counts must not be in the way
            _log.exception("a commit observer failed")
        if batch.rung:
            self.alarm_lag.count(batch.rung)
        for effect in batch.changes.effects:
            if effect.is_leased:
                continue  # begun by whoever took it
            if effect.executor != SEND:
                self.calls_waiting.set()
            elif effect.to and (job := self.send_job(effect.id, effect.to, effect.payload)):
                self.put_send(effect.id, job)
        alarms = [write.alarm_at for write in batch.changes.streams if write.alarm_at is not None]
        if alarms:
            self.alarm_set(min(alarms))

    def send_job(self, id: EffectId, to: StreamId, payload: str) -> Job | None:
        """The job that applies a send, if this process knows the kind of its target."""
        try:
            return Job.of_send(id, to, payload, self._kinds)
        except UnknownKind:
            return None

    async def _conclude(self, jobs: Sequence[Job], results: Sequence[Result], *, keep_held: bool = True) -> None:
        """Tell everybody what became of their jobs; queue those that are held again, unless their pass leaves them."""
        held: list[Job] = []
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Recorded):
                self._end(job, result)
                if self._wake_failures.counts and job.stream:
                    self._wake_failures.forget(job.stream)
            elif result is None:
                if keep_held:
                    self._hold(job, held)
            else:
                await self._end_failed(job, result)
        if held:
            self._put_back(held)

    def _put_back(self, jobs: Sequence[Job]) -> None:
        self._ends.put_back(job for job in jobs if job.ended)
        self.waiting.put_back(job for job in jobs if not job.ended)

    def _hold(self, job: Job, held: list[Job]) -> None:
        job.held_count += 1
        # A send is found again by recovery, even if somebody waits for this attempt.
        if job.held_count <= (HELD_INTERNAL_MAX if job.is_internal or job.send else HELD_MAX):
            held.append(job)
        else:
            message = f"{job.name}: other processes kept its streams locked; try again"
            self._end(job, Unavailable(message))

    async def _end_failed(self, job: Job, error: BetimesError) -> None:
        self._end(job, error)
        if isinstance(error, StoreError | WakeFailed):
            return  # told by whoever asked, or by the wake itself
        if job.send:
            self._report(Report("send_failed", job.send.handle, error))
        elif job.stream and isinstance(job.submission.command, Wake):
            self._report(Report("wake_failed", str(job.stream), error))
            await self._wake_failures.snooze(job.stream, error)
        elif job.is_internal:
            self._report(Report("job_failed", job.name, error))

    async def _unavailable(self, jobs: list[Job], error: Unavailable) -> None:
        for job in jobs:
            if not job.is_internal:
                self._end(job, error)
        # Whoever waits was told and may come again; a send or an alarm has nobody to ask again for it.
        self._put_back([job for job in jobs if job.is_internal])
        self._pause_s = min(max(self._pause_s * 2, self._settings.retry_store_min_s), self._settings.retry_store_max_s)
        await asyncio.sleep(self._pause_s)


def _closed_error() -> Overloaded:
    return Overloaded("the engine closed before this was done; nothing was written. Send it to another process")


def _in_the_order_sent(jobs: list[Job]) -> list[Job]:
    """Sends in their places but in their own order: one that is found again queues behind those sent after it."""
    sends = sorted((job.send, place) for place, job in enumerate(jobs) if job.send)
    if len(sends) < 2:
        return jobs
    ordered = iter(sends)
    return [jobs[next(ordered)[1]] if job.send else job for job in jobs]


class WorkerParts(NamedTuple):
    """The parts of an engine that its workers share."""

    store: Store
    queue: CommitQueue
    settings: EngineSettings
    report: Reporter
