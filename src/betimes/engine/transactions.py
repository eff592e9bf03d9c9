"""One transaction: lock what the jobs need, decide them, commit, and know for certain whether it arrived.

**Unknown outcomes.** When the answer to a commit is lost, the batch was still one transaction, so one of its segments
tells for all: its stream is locked again, which waits for the lost transaction to end, and the turn id at the version
it would have written is compared. Arrived: what was decided stands. Not arrived: the same jobs are decided again.

**Presuming.** Jobs whose streams are all cached need not ask a store that is far away: they are decided by what is
cached, and the commit locks and compares. Answers count only if that commit has compared them; a refusal, a key that
was not used, or anything that moved, and all of the batch is asked for and decided like any other. Where others write
the same streams that would be in vain most times, so after each time in a row twice as many batches ask first.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from typing import Protocol, TypeAlias

import msgspec

from betimes.core.errors import BetimesError, Conflict, Duplicate, StoreError, Unavailable, Unknown
from betimes.core.instants import Instant
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.batch import Batch
from betimes.engine.codecs import NO_ENTRY, Cached, Kinds, StateCache
from betimes.engine.jobs import Job, note_streams
from betimes.engine.policies import PoliciesInForce
from betimes.engine.settings import EngineSettings
from betimes.engine.store import (
    NOT_CACHED,
    DueIndex,
    Lease,
    LockRequest,
    Presumes,
    Reached,
    Row,
    Store,
    StreamRow,
    Tx,
)
from betimes.engine.tenant_turns import PassTurns
from betimes.engine.tenants.model import DEPLOYMENT, tenant_stream

Result: TypeAlias = Recorded | BetimesError | None
"""What became of a job: recorded, failed, or `None`: held, to be done in a later batch."""
PASS_BATCHES = 4
PASS_MAX = 1_024
"""A pass over due streams is as long as so many batches and has so many streams at most, or is one batch."""
ASKED_MAX = 1_024
"""So many batches in a row ask first at most."""


class CallTaker(Protocol):
    """Whoever makes the calls that commits leave, and may take them in the very commit."""

    def lease_new(self, batch: Batch, asked_s: float) -> list[tuple[Lease, float]]:
        """Mark calls of a batch as leased; return each lease with the loop's time before which it cannot end."""

    def begin_new(self, leases: list[tuple[Lease, float]]) -> None:
        """Begin what was leased: it is committed."""


class SweepPosition:
    """The position of a sweep that takes all that is due, batch by batch."""

    __slots__ = ("reached",)

    def __init__(self) -> None:
        self.reached: Reached | None = None
        """The last that was taken; `None` at the start, and after the end, where it begins anew."""


class DueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for streams that are due, and the job to do for each."""

    by: DueIndex
    kinds: Sequence[str]
    limit: int
    make: Callable[[StreamId], Job]
    until_at: Instant | None = None
    tenant: str | None = None
    position: SweepPosition | None = None
    """The position to start from, and the one it ends at; only with `due`."""


def longest_pass(batch_max: int) -> int:
    """Return how many streams a pass may have: it is decided in one go, and who comes meanwhile waits."""
    return max(batch_max, min(PASS_BATCHES * batch_max, PASS_MAX))


class Transactions:
    """Turns jobs into transactions on one store."""

    def __init__(
        self, store: Store, kinds: Kinds, policies: PoliciesInForce, settings: EngineSettings, name: str
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._policies = policies
        self._settings = settings
        self._name = name
        # With the name, which no other process ever has, it makes turn ids that tell whose commit arrived.
        self._turns = count(1)
        self._cache = StateCache(settings.cache_chars_max)
        self._pass_turns = PassTurns(store)
        self._presumes = store if isinstance(store, Presumes) else None
        self._asks_first = 0
        """So many batches ask before one is presumed again."""
        self._asked_next = settings.asked_after_conflict
        self.on_commit: Callable[[Batch], None] = lambda batch: None
        """Told of every transaction that is known to have been committed."""
        self.calls: CallTaker | None = None

    async def attempt(self, jobs: list[Job]) -> list[Result]:
        """Decide and commit the jobs in one transaction. Raises only store errors."""
        ask = self._ask(jobs)
        begin = self._presume(self._presumes, ask) if self._presumes else None
        if begin is not None:
            results = await self._attempt_optimistically(begin, jobs)
            if results is not None:
                return results
            ask = self._ask(jobs)
        for _ in range(self._settings.attempts_on_conflict_max):
            results = await self._commit(self._store.begin(ask), jobs)
            if results is not None:
                return results
        raise Unknown("the connection was lost during every commit, and none was written; ask again under the same key")

    def _presume(self, store: Presumes, ask: LockRequest) -> AbstractAsyncContextManager[Tx] | None:
        """Return a transaction that need not ask, where there is one and others were not at work lately."""
        if self._asks_first:
            self._asks_first -= 1
            return None
        return store.presume(ask)

    async def _attempt_optimistically(
        self, begin: AbstractAsyncContextManager[Tx], jobs: list[Job]
    ) -> list[Result] | None:
        """Decide jobs from the cache and let the commit compare versions; `None` if they must be locked first."""
        try:
            results = await self._commit(begin, jobs, presumed=True)
        except Conflict:
            # Somebody else writes these streams: presuming again would most likely be in vain too.
            self._asks_first = self._asked_next
            self._asked_next = min(2 * self._asked_next, ASKED_MAX)
        except (Duplicate, Unavailable):
            pass  # nothing was written: asking tells what became of the key, and whether the store is there
        else:
            self._asked_next = self._settings.asked_after_conflict
            return results
        return None

    async def attempt_due(self, due: DueRequest, jobs: list[Job]) -> list[Result]:
        """Decide and commit jobs for streams that are due; `jobs` is filled with the job of each."""
        results = await self._commit(self._pick(due, jobs), jobs, due)
        return await self.attempt(jobs) if results is None else results

    def forget(self, stream: StreamId) -> None:
        self._cache.drop(stream)

    def read_in(self, row: StreamRow) -> Cached:
        """Return a listed stream decoded, as new as it is known here, and keep it; raise what cannot be read."""
        entry = self._cache.get(row.stream)
        if entry is None or entry.version < row.version:
            entry = Cached.of_row(self._kinds.of(row.stream), row.stream, row)
            self._cache.put(row.stream, entry)
        return entry

    def last_seen_version(self, stream: StreamId) -> int | None:
        """Return the newest version of a stream that this process has written or read; `None` if it forgot."""
        entry = self._cache.get(stream)
        return entry.version if entry else None

    # -- what a batch asks for

    def _ask(self, jobs: Sequence[Job]) -> LockRequest:
        locks: dict[StreamId, int] = {}
        waits: set[StreamId] = set()
        cached = self._cache.get
        for job in jobs:
            for stream in self._streams_needed(job):
                locks[stream] = cached(stream, NO_ENTRY).version
            if job.held_count > 0:  # passed over once because somebody held its rows; now they are waited for
                waits.update(job.streams)
        keys = [job.key for job in jobs if job.key]
        sends = [job.send for job in jobs if job.send]
        return LockRequest(locks, self._reads(jobs, locks), keys, sends, waits)

    def _streams_needed(self, job: Job) -> tuple[StreamId, ...]:
        """Return the streams a job will need by the policy last seen; note them on the job with that policy."""
        if job.stream is None:
            return ()
        try:
            note_streams(self._kinds, job, self._policies.guess(job.tenant))
        except BetimesError:
            job.policy, job.reads = None, ()  # its caller is told when the job is taken
            return ()
        return job.streams

    def _reads(self, jobs: Sequence[Job], locks: dict[StreamId, int]) -> dict[StreamId, int]:
        """Return what is looked at without a lock: policies, and whatever the jobs' deciders share with others."""
        tenants = {job.tenant for job in jobs if job.stream}
        wanted = [DEPLOYMENT, *map(tenant_stream, sorted(tenants))] if tenants else []
        wanted += sorted({name for job in jobs for name in job.reads})
        return {stream: self._cache.get(stream, NO_ENTRY).version for stream in wanted if stream not in locks}

    @asynccontextmanager
    async def _pick(self, due: DueRequest, jobs: list[Job]) -> AsyncIterator[Tx]:
        limit = min(due.limit, longest_pass(self._settings.batch_max))
        position = due.position
        after = position.reached if position else None
        shares = None
        if due.tenant is None:
            held = bool(self._policies.holds.by_tenant)
            limit, shares = await self._pass_turns.plan(due.by, due.kinds, limit, some_are_held=held)
        begin = self._store.begin_due(
            due.by,
            due.kinds,
            limit,
            # In shares each tenant is picked from its own beginning; one place in the order of all means nothing there.
            after=after if shares is None else None,
            until_at=due.until_at,
            tenant=due.tenant,
            shares=shares,
        )
        async with begin as tx:
            picked = list(tx.rows.items())
            # A pass that is not full has taken all there was, so the next need not share between tenants.
            if due.tenant is None and shares is None:
                self._pass_turns.note(due.by, is_full=len(picked) == limit)
            if position and shares is None:
                position.reached = self._place_reached(*picked[-1]) if len(picked) == limit else None
            jobs += [due.make(stream) for stream, _ in picked]
            if jobs:
                ask = self._ask(jobs)
                more = {stream: version for stream, version in ask.locks.items() if stream not in tx.rows}
                await tx.extend(LockRequest(more, ask.reads, ask.keys))
            yield tx

    def _place_reached(self, stream: StreamId, row: Row) -> Reached | None:
        """The position of a picked stream, to continue from; `None` if it cannot be read when it was due."""
        kind = self._kinds.of(stream)
        try:
            state = kind.state(stream, row.schema, row.state)
            at = None if state is None else kind.decider.index(state).due_at
        except Exception:  # noqa: BLE001 — deciding it tells what is wrong with it
            return None
        return None if at is None else Reached(at, stream)

    # -- deciding and committing

    async def _commit(
        self,
        begin: AbstractAsyncContextManager[Tx],
        jobs: list[Job],
        due: DueRequest | None = None,
        presumed: bool = False,
    ) -> list[Result] | None:
        """Decide and commit; `None` if nothing was written and it must be done again.

        That is so when a commit was cut off and did not arrive, and when what was presumed is not compared by it.
        """
        results: list[Result] = []
        batch: Batch | None = None
        leases: list[tuple[Lease, float]] = []
        asked_s = asyncio.get_running_loop().time()  # before the store tells the time from which leases count
        try:
            async with begin as tx:
                batch = Batch(
                    tx, kinds=self._kinds, cache=self._cache, policies=self._policies, settings=self._settings
                )
                if more := batch.still_needed(jobs):
                    await tx.extend(LockRequest({stream: self._cache.get(stream, NO_ENTRY).version for stream in more}))
                # No await from here to the commit: nothing may move under the decisions of a batch.
                results = [self._take(batch, job) for job in jobs]
                has_changes = batch.seal()
                if presumed and not _are_compared(batch, jobs, results):
                    return None
                if self.calls and not presumed:
                    leases = self.calls.lease_new(batch, asked_s)
                if has_changes:
                    await tx.commit(batch.changes)
        except Unknown:
            if batch is None or not await self._has_arrived(batch):
                return None
        except Conflict:
            if not presumed:  # what was presumed is compared when it is asked for now
                self._forget_conflicting(batch, jobs)
            raise
        # The store's own errors say that nothing was written; only others leave that open.
        except StoreError:
            raise
        except Exception:
            if batch is None or not await self._has_arrived(batch):
                raise  # nothing promises that a commit that failed unexpectedly wrote nothing, so it is looked up
        batch.keep(swept=due.kinds if due and due.by == "due" else ())
        self.on_commit(batch)
        if self.calls and leases:
            self.calls.begin_new(leases)
        return results

    def _take(self, batch: Batch, job: Job) -> Result:
        try:
            return batch.take(job, f"{self._name}-{next(self._turns):x}")
        except BetimesError as error:
            batch.give_up(job, error)
            return error

    def _forget_conflicting(self, batch: Batch | None, jobs: list[Job]) -> None:
        """Drop what was cached, which is old; lock what the decision took for new, so that its decider sees it."""
        if batch is None:
            return
        # The store does not say which stream moved, so none of them is trusted.
        for write in batch.changes.streams:
            self._cache.drop(write.stream)
        # Alone it is clear whose conflict it was; a batch is first done again turn by turn.
        if len(jobs) == 1:
            jobs[0].also_locks = (*jobs[0].also_locks, *batch.created_streams())

    async def _has_arrived(self, batch: Batch) -> bool:
        """Return whether a batch whose answer was lost is in the store; raise `Unknown` if that takes too long."""
        if not batch.changes.segments:
            return False
        probe, settings = batch.changes.segments[0], self._settings
        # Its row is waited for: a commit that is still under way holds it, so what is read once it is free is final.
        ask = LockRequest({probe.stream: NOT_CACHED}, waits={probe.stream})
        try:
            async with asyncio.timeout(settings.unknown_resolve_s):
                while True:
                    try:
                        async with self._store.begin(ask) as tx:
                            return await tx.turn_at(probe.stream, probe.version) == probe.turn
                    except StoreError:
                        await asyncio.sleep(settings.retry_store_min_s)
        except TimeoutError as error:
            raise Unknown(
                f"whether {probe.handle} was written could not be found out within {settings.unknown_resolve_s:g} s; "
                "ask again under the same key"
            ) from error


def _are_compared(batch: Batch, jobs: Sequence[Job], results: Sequence[Result]) -> bool:
    """Return whether the commit compares all that was presumed: that the jobs are new, and their answers."""
    used = {write.key for write in batch.changes.keys}
    return bool(batch.changes.streams) and all(
        isinstance(result, Recorded) and (job.key is None or job.key in used)
        for job, result in zip(jobs, results, strict=True)
    )


@contextmanager
def pause_collector() -> Iterator[None]:
    """Let Python's cyclic collector rest as long as a batch lasts.

    All that a batch makes is kept until its commit, holds no cycles and is freed right after it, so looking through it
    again and again meanwhile would be in vain: that is a tenth of what a verdict costs.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
