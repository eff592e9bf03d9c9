"""The dispatcher: takes what must happen outside after a commit, each call under a lease.

An effect is a row written by the commit that asked for it. A process takes those whose executor it has, each with a
fence that grows with every lease; `effects` makes and settles them.

A call that has several attempts is leased by the very commit that makes it, if this process has room for it: then no
other commit comes before it is made. All others are taken from the store when there is a slot for them.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from betimes.core.deciders import EffectCall
from betimes.core.instants import SECOND
from betimes.engine.batch import Batch
from betimes.engine.call_slots import AHEAD_MAX
from betimes.engine.commit_queue import WorkerParts
from betimes.engine.effect_rows import payload_in
from betimes.engine.effects import STOPPED, BoundedExecutor, Caller, End, Executor
from betimes.engine.jobs import Ended, Job
from betimes.engine.lease_renewal import RenewalTimers
from betimes.engine.reports import Report
from betimes.engine.store import EffectWrite, Lease, Store
from betimes.engine.tenant_turns import SHARE_OF_FREE, TenantRotation, call_shares

NEW_LEASE_MIN_S = 10
"""A call with a shorter lease is not leased by the commit that makes it: the lease might end before the commit."""
GIVE_BACK_S = 5.0
"""How long closing waits for calls that were cancelled to be given back."""


class ExecutorGroup:
    """Executors whose calls are taken together, and the rotation of tenants that have any."""

    def __init__(self, store: Store, names: tuple[str, ...], calls_max: int, *, is_bounded: bool = False) -> None:
        self.names = names
        self.calls_max = calls_max
        self.is_bounded = is_bounded
        self.rotation = TenantRotation(store, "call")


class Dispatcher:
    """Carries out the effects whose executors this process has."""

    def __init__(self, parts: WorkerParts, executors: Mapping[str, Executor]) -> None:
        self._store, self._queue, self._settings, self._report = parts
        self._executors = dict(executors)
        self._caller = Caller(parts, self._executors)
        self._running: dict[asyncio.Task[End], EffectCall] = {}
        """Calls that are leased: they wait for a slot, are made, or are being settled."""
        self._open: Counter[str] = Counter()
        """How many of them of each tenant wait for a slot or are made."""
        self._groups = [*self._group_executors()]
        self._bounds = {group.names[0]: group.calls_max for group in self._groups if group.is_bounded}
        self._taking: set[asyncio.Task[list[asyncio.Task[End]]]] = set()
        self._takes_new = False
        self._has_left_some = True
        """Whether calls may be waiting in the store for a free slot."""
        self._is_draining = self._has_drained = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._executors))

    def _group_executors(self) -> Iterator[ExecutorGroup]:
        bounds = {name: one.calls_max for name, one in self._executors.items() if isinstance(one, BoundedExecutor)}
        if others := tuple(name for name in self.names if name not in bounds):
            yield ExecutorGroup(self._store, others, self._settings.calls_max)
        for name, calls_max in bounds.items():
            yield ExecutorGroup(self._store, (name,), calls_max, is_bounded=True)

    def open(self) -> None:
        """Take calls, from now until drained."""
        self._is_draining = self._has_drained = False
        self._open.clear()  # a task that was cancelled before it began has not left it
        self._caller.timers = RenewalTimers()  # those of an event loop that has ended never ring

    async def run(self) -> None:
        """Carry out effects until cancelled, at most `calls_max` at once; tenants share them."""
        self._takes_new = True
        try:
            while True:
                # Cleared before the look: a commit that comes while the store is asked sets it again.
                self._queue.calls_waiting.clear()
                if not await self._take_or_report():
                    await self._rest()
        finally:
            self._takes_new = False

    async def _take_or_report(self) -> list[asyncio.Task[End]]:
        try:
            return await self._take(self._settings.calls_max)
        except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
            self._report(Report("calls_failed", "store", error))
            return []

    async def once(self, limit: int, tenant: str | None = None) -> Counter[str]:
        """Take what is due now (of a tenant, if given), up to `limit`, and see it to its end."""
        ends: Counter[str] = Counter()
        while limit > 0 and (calls := await self._take(limit, tenant)):
            limit -= len(calls)
            await asyncio.wait(calls)
            ends.update(call.result() for call in calls if not call.cancelled())
        return ends

    async def drain(self) -> None:
        """Take no more calls, and wait for those under way or being taken: while leased, nobody else can make them.

        Those that take too long are cancelled and given back, so that another process need not wait for their leases
        to run out. One for at most once is given back only if its executor says that it may be made again.
        """
        self._is_draining = True
        if self._taking:
            await asyncio.wait(self._taking, timeout=self._settings.drain_s)
        if self._running:
            await asyncio.wait(self._running, timeout=self._settings.drain_s)
        # Cancelled once, a call may still give itself back; cancelled twice, it is left to its lease.
        for patience_s in (GIVE_BACK_S, None):
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait([*self._running], timeout=patience_s)
        self._has_drained = True

    async def _leases(self, limit: int, tenant: str | None = None) -> list[tuple[Lease, float]]:
        """Lease calls to make, each with the loop's time before which its lease cannot end."""
        found: list[tuple[Lease, float]] = []
        self._has_left_some = False
        for group in self._groups:
            if self._is_draining:
                break
            # A bounded executor's calls are left in the store when its slots are full, where others can take them.
            under_way = sum(call.executor in group.names for call in self._running.values()) if group.is_bounded else 0
            room = min(limit - len(found), group.calls_max - under_way)
            shares = await self._shares(group, room, tenant)
            if shares:
                asked_s = asyncio.get_running_loop().time()  # before asking, so that the lease cannot end sooner
                leases = await self._store.lease_calls(group.names, room, shares=shares)
                found += [(lease, asked_s + lease.call.lease_s) for lease in leases]
                # As many as were asked for: there may be more of them.
                self._has_left_some |= len(leases) >= min(room, sum(shares.values()))
            # The rotation has not come round; tenants it did not reach may have calls too.
            self._has_left_some |= not group.rotation.is_at_start
        self._queue.leaves_calls = self._has_left_some
        return found

    async def _shares(self, group: ExecutorGroup, room: int, tenant: str | None) -> dict[str, int]:
        """Return how many calls to take of which tenants, by what each has under way here; of one alone, if given."""
        while room > 0 and (free := self._free_slots()) > 0:
            tenants = await group.rotation.next(group.names, room) if tenant is None else (tenant,)
            shares = call_shares(tenants, self._open, free, room)
            if shares or tenant is not None or group.rotation.is_at_start:
                self._has_left_some |= bool(tenants) and not shares
                return shares
        # There was no slot or no room, so nobody has looked whether anything waits.
        self._has_left_some = True
        return {}

    def _free_slots(self) -> int:
        """Return how many calls may be taken from the store: those that have slots, whatever others hold ready."""
        return min(self._caller.slots.free, self._room())

    def _free_ahead(self, ahead_max: int) -> int:
        """Return how many new calls may be leased: those that have slots, and so many more."""
        return min(self._settings.calls_max + ahead_max - self._open.total(), self._room())

    def _room(self) -> int:
        """Return how many more calls fit into memory, with those that are being settled."""
        return self._settings.calls_max + AHEAD_MAX - len(self._running)

    async def _take(self, limit: int, tenant: str | None = None) -> list[asyncio.Task[End]]:
        """Lease calls and begin them; `drain` waits for that even if whoever asked for them is cancelled."""
        if self._is_draining:
            return []
        taking = asyncio.create_task(self._begin_due(limit, tenant))
        self._taking.add(taking)
        taking.add_done_callback(self._forget_taking)
        return await asyncio.shield(taking)

    async def _begin_due(self, limit: int, tenant: str | None) -> list[asyncio.Task[End]]:
        leases = await self._leases(limit, tenant)
        if self._has_drained:
            return []  # nobody is left to settle them; another process takes them when their leases have run out
        return [self._begin(*lease) for lease in leases]

    def _forget_taking(self, taking: asyncio.Task[list[asyncio.Task[End]]]) -> None:
        self._taking.discard(taking)
        if not taking.cancelled():
            taking.exception()  # seen: after a cancellation nobody is left to look, and asyncio would complain

    def _begin(self, lease: Lease, ends_s: float) -> asyncio.Task[End]:
        """Start a call; `drain` waits for it, whoever took it."""
        task = asyncio.create_task(self._carry_out(lease, ends_s))
        self._running[task] = lease.call
        self._open[lease.call.id.tenant] += 1
        task.add_done_callback(self._forget_call)
        return task

    async def _carry_out(self, lease: Lease, ends_s: float) -> End:
        call = lease.call
        try:
            made = await self._caller.make(lease, ends_s)
        finally:
            # Before it is settled: its part of the slots is for the call, not for the commit of its end.
            self._open[call.id.tenant] -= 1
            if not self._open[call.id.tenant]:
                del self._open[call.id.tenant]
            self._look_for_more()
        return await self._caller.settle(call, made) if made else "fenced"

    def _forget_call(self, task: asyncio.Task[End]) -> None:
        self._running.pop(task, None)
        self._look_for_more()

    def _look_for_more(self) -> None:
        if self._has_left_some:
            self._queue.calls_waiting.set()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._settings.poll_s):
                await self._queue.calls_waiting.wait()
        except TimeoutError:
            return

    # -- calls leased by the commit that makes them

    def lease_new(self, batch: Batch, asked_s: float) -> list[tuple[Lease, float]]:
        """Mark calls that a batch makes as leased by this process, as far as it has room; begin them once committed.

        Not those with a single attempt, as all for at most once have: were the process to end right after the commit,
        that attempt would count as made, and nobody would ever make it.
        """
        effects, leases = batch.changes.effects, list[tuple[Lease, float]]()
        if not self._takes_new or self._is_draining:
            return leases
        ours = [place for place, write in enumerate(effects) if self._is_ours_at_once(write)]
        if not ours:
            return leases
        free, held = self._free_ahead(self._caller.pace.ahead_max(asked_s)), self._open.copy()
        under_way = Counter(call.executor for call in self._running.values())
        for place in ours:
            write = effects[place]
            tenant, name = write.id.tenant, write.executor
            # No tenant takes all that is free, and no executor more than its bound: the rest stays in the store.
            if held[tenant] >= SHARE_OF_FREE * free or under_way[name] >= self._bounds.get(name, sys.maxsize):
                continue
            if not batch.is_held(write.id.source):
                effects[place], lease = _lease_at_birth(write)
                leases.append((lease, asked_s + write.lease_s))
                held[tenant] += 1
                under_way[name] += 1
                free -= 1
        return leases

    def _is_ours_at_once(self, write: EffectWrite) -> bool:
        return (
            write.executor in self._executors
            and write.attempts_max > 1
            and write.next_attempt_at <= write.created_at
            and write.lease_s >= NEW_LEASE_MIN_S
        )

    def begin_new(self, leases: Iterable[tuple[Lease, float]]) -> None:
        """Begin calls that a commit has leased; if all others have been drained meanwhile, give them back."""
        for lease, ends_s in leases:
            if self._has_drained:
                pending = Ended(lease.call.id, lease.call.fence, "pending", 0, STOPPED)
                self._queue.put(Job(None, cause=lease.call.id.handle, ended=pending))
            else:
                self._begin(lease, ends_s)


def _lease_at_birth(write: EffectWrite) -> tuple[EffectWrite, Lease]:
    """Return an effect as it is written with its first lease, and that lease."""
    call = EffectCall(
        write.id,
        write.executor,
        payload_in(write.payload),
        1,
        write.created_at,
        1,
        write.lease_s,
        write.at_most_once,
        write.attempts_max,
        write.to,
    )
    ends_at = write.created_at + write.lease_s * SECOND
    return replace(write, next_attempt_at=ends_at, is_leased=True), Lease(call, False)
