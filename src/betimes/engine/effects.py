"""The dispatcher: what must happen outside after a commit, carried out under a lease.

An effect is a row written by the commit that asked for it. A process takes those whose executor it has, each with a
fence that grows with every lease. It carries them out and settles each through the queue, in one commit with the
`Settled` command to the stream that asked to be told. A settlement whose fence is not the newest is refused: whoever
was suspended past its lease changes nothing.

At least once: a failed call is tried again with back-off, the same id every time, and kept as a dead letter at the end.
At most once: the lease is durable before the call starts, and when it runs out the call is `abandoned`, never repeated.
A lease is renewed while its call works.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from betimes.core.bounds import check_json
from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall, Settled
from betimes.core.errors import BetimesError, Fenced, Invalid, StoreError
from betimes.core.instants import seconds
from betimes.core.jitter import spread
from betimes.engine.commit_queue import CommitQueue
from betimes.engine.effect_rows import UnreadablePayload
from betimes.engine.jobs import Ended, Job, Submission
from betimes.engine.reports import Report, Reporter, storable_text
from betimes.engine.settings import EngineSettings
from betimes.engine.store import LEASE_RAN_OUT, Lease, Store
from betimes.engine.tenant_turns import TenantRotation, call_shares

Executor: TypeAlias = Callable[[EffectCall], Awaitable[Any]]
End: TypeAlias = Literal["done", "retrying", "failed", "dead", "abandoned", "fenced"]
ERROR_CHARS_MAX = 2_000
GIVE_BACK_S = 5.0
"""How long closing waits for calls that were cancelled to be given back."""


class GiveUp(Exception):
    """Raised by an executor to say that trying again is no use: the call is a dead letter at once."""


class NotStarted(Exception):
    """Raised by an executor that has not begun: the call is given back and made later, also one for at most once.

    So may one whose work left no trace, when it is cancelled because its engine closes. `pauses_s` is its own retry
    policy.
    """

    def __init__(self, message: str, pauses_s: Sequence[float] = ()) -> None:
        super().__init__(message)
        self.pauses_s = pauses_s


is_carrying_out: ContextVar[bool] = ContextVar("is_carrying_out", default=False)
"""Whether the code that runs now is a call's: what it submits is accepted until the engine has drained its calls."""


class RetryAfter(Exception):
    """Raised by an executor whose call failed and has a retry policy of its own: the pauses after each attempt."""

    def __init__(self, error: Exception, pauses_s: Sequence[float]) -> None:
        super().__init__(repr(error))
        self.pauses_s = pauses_s


class BoundedExecutor:
    """An executor of which a process runs only so many calls at once; the others wait in the store, not in a slot."""

    def __init__(self, executor: Executor, calls_max: int) -> None:
        self._executor = executor
        self.calls_max = calls_max

    def __call__(self, call: EffectCall) -> Awaitable[Any]:
        return self._executor(call)


class ExecutorGroup:
    """Executors whose calls are taken together, and the rotation of tenants that have any."""

    def __init__(self, store: Store, names: tuple[str, ...], calls_max: int) -> None:
        self.names = names
        self.calls_max = calls_max
        self.rotation = TenantRotation(store, "call")


class LeaseRenewal:
    """Renews the lease of a call while its work lasts, and tells when the lease is lost.

    Most calls end long before a third of their lease has passed, so until then there is only a timer, no task.
    """

    def __init__(self, store: Store, call: EffectCall, report: Reporter) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._call = call
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._timer = loop.call_later(call.lease_s / 3, self._begin)
        self.lost: asyncio.Future[Fenced] = loop.create_future()
        """Done when somebody else may have the call."""

    def stop(self) -> None:
        self._timer.cancel()
        if self._task:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        while True:
            try:
                await self._store.renew_lease(self._call.id, self._call.fence)
            except Fenced as lost:
                self.lost.set_result(lost)
                return
            except Exception as error:  # noqa: BLE001 — whatever it was, without its lease the call is made twice
                self._report(Report("renew_failed", self._call.id.handle, error))
            await asyncio.sleep(self._call.lease_s / 3)


class Dispatcher:
    """Carries out the effects whose executors this process has."""

    def __init__(
        self,
        store: Store,
        queue: CommitQueue,
        executors: Mapping[str, Executor],
        settings: EngineSettings,
        report: Reporter,
    ) -> None:
        self._store = store
        self._queue = queue
        self._executors = dict(executors)
        self._settings = settings
        self._report = report
        self._running: dict[asyncio.Task[End], EffectCall] = {}
        self._groups = [*self._group_executors()]
        self._taking: set[asyncio.Task[list[asyncio.Task[End]]]] = set()
        self._is_draining = self._has_drained = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._executors))

    def _group_executors(self) -> Iterator[ExecutorGroup]:
        bounds = {name: one.calls_max for name, one in self._executors.items() if isinstance(one, BoundedExecutor)}
        if others := tuple(name for name in self.names if name not in bounds):
            yield ExecutorGroup(self._store, others, self._settings.calls_max)
        for name, calls_max in bounds.items():
            yield ExecutorGroup(self._store, (name,), calls_max)

    def open(self) -> None:
        """Take calls, from now until drained."""
        self._is_draining = self._has_drained = False

    async def run(self) -> None:
        """Carry out effects until cancelled, at most `calls_max` at once; tenants share them."""
        while True:
            self._queue.calls_waiting.clear()
            try:
                has_taken = await self._take(self._settings.calls_max)
            except Exception as error:  # noqa: BLE001 — the loop goes on, whatever a store does
                self._report(Report("calls_failed", "store", error))
                has_taken = []
            if not has_taken:
                await self._rest()

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
        for group in self._groups:
            if self._is_draining:
                break
            # A bounded executor's calls are left in the store when its slots are full, where others can take them.
            under_way = sum(call.executor in group.names for call in self._running.values())
            room = min(limit - len(found), group.calls_max - under_way)
            if shares := await self._shares(group, room, tenant):
                asked_s = asyncio.get_running_loop().time()  # before asking, so that the lease cannot end sooner
                leases = await self._store.lease_calls(group.names, room, shares=shares)
                found += [(lease, asked_s + lease.call.lease_s) for lease in leases]
        return found

    async def _shares(self, group: ExecutorGroup, room: int, tenant: str | None) -> dict[str, int]:
        """Return how many calls to take of which tenants, by what each has under way here; of one alone, if given."""
        while room > 0 and (free := self._settings.calls_max - len(self._running)) > 0:
            tenants = await group.rotation.next(group.names, room) if tenant is None else (tenant,)
            held = Counter(call.id.tenant for call in self._running.values())
            shares = call_shares(tenants, held, free, room)
            if shares or tenant is not None or group.rotation.is_at_start:
                return shares
        return {}

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
        task.add_done_callback(self._forget_call)
        return task

    def _forget_call(self, task: asyncio.Task[End]) -> None:
        self._running.pop(task, None)
        self._queue.calls_waiting.set()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._settings.poll_s):
                await self._queue.calls_waiting.wait()
        except TimeoutError:
            return

    # -- one call

    async def _carry_out(self, lease: Lease, ends_s: float) -> End:
        call, begun_s = lease.call, asyncio.get_running_loop().time()
        if begun_s >= ends_s:
            return "fenced"  # this process slept; somebody else may have taken or abandoned it since
        if lease.expired:
            return await self._settle(call, "abandoned" if call.at_most_once else "dead", None, error=LEASE_RAN_OUT)
        try:
            result = await self._make_call(call)
        except Fenced:
            return "fenced"
        except NotStarted as error:
            return await self._settle(call, "retrying", begun_s, error=str(error), pauses_s=error.pauses_s)
        except GiveUp as error:
            return await self._settle(call, "failed" if call.at_most_once else "dead", begun_s, error=str(error))
        except RetryAfter as error:
            return await self._settle(call, self._failure(call), begun_s, error=str(error), pauses_s=error.pauses_s)
        except Exception as error:  # noqa: BLE001 — whatever a user's executor raises is recorded, not ours to handle
            return await self._settle(call, self._failure(call), begun_s, error=_description(error))
        return await self._settle(call, "done", begun_s, result=result)

    async def _make_call(self, call: EffectCall) -> Any:
        """Run a call's executor, its lease renewed meanwhile; raise `Fenced` if the lease is lost."""
        work = asyncio.ensure_future(_execute(self._executors[call.executor], call))
        renewal = LeaseRenewal(self._store, call, self._report)
        try:
            await asyncio.wait((work, renewal.lost), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise renewal.lost.result()
            if work.cancelled():
                raise RuntimeError("the executor was cancelled from within")
            return work.result()
        except asyncio.CancelledError:
            return await self._interrupt_call(call, work)
        finally:
            work.cancel()
            renewal.stop()

    async def _interrupt_call(self, call: EffectCall, work: asyncio.Future[Any]) -> Any:
        """Stop work because the engine closes; a call that may be made again is to be given back at once."""
        work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            return work.result()
        if call.at_most_once:
            raise asyncio.CancelledError  # its lease runs out
        raise RetryAfter(RuntimeError("the process that made the call stopped"), (0.0,))

    def _failure(self, call: EffectCall) -> End:
        if call.at_most_once:
            return "failed"
        return "retrying" if call.attempt < call.attempts_max else "dead"

    async def _settle(
        self,
        call: EffectCall,
        end: End,
        begun_s: float | None,
        *,
        result: Any = None,
        error: str = "",
        pauses_s: Sequence[float] = (),
    ) -> End:
        took_ms = None if begun_s is None else round((asyncio.get_running_loop().time() - begun_s) * 1_000)
        if end in ("dead", "failed", "abandoned"):
            self._report(Report(f"call_{end}", call.id.handle, RuntimeError(error)))
        result, error = _recordable(result, self._settings.effect_chars_max), storable_text(error, ERROR_CHARS_MAX)
        job = self._settling_job(call, end, result, error, took_ms, pauses_s or self._settings.call_pauses_s)
        while True:
            job.answer = answer = asyncio.get_running_loop().create_future()
            self._queue.put(job)
            try:
                await answer
            except Fenced:
                return "fenced"
            except StoreError:
                await asyncio.sleep(self._settings.retry_store_min_s)
                continue
            except BetimesError as fault:
                self._report(Report("settled_unheard", call.id.handle, fault))
            return end

    def _settling_job(
        self, call: EffectCall, end: End, result: Any, error: str, took_ms: int | None, pauses_s: Sequence[float]
    ) -> Job:
        if end == "retrying":
            pause = retry_pause(pauses_s, call.id, call.attempt)
            again = Ended(call.id, call.fence, "pending", pause, error, took_ms)
            return Job(None, cause=call.id.handle, ended=again)
        status: Literal["done", "failed", "dead"] = "failed" if end == "abandoned" else end  # type: ignore[assignment]
        ended = Ended(call.id, call.fence, status, None, error, took_ms, call.created_at)
        if call.report_to is None:
            return Job(None, cause=call.id.handle, ended=ended)
        told = Settled(call.id.handle, call.executor, end, call.attempt, result, error)  # type: ignore[arg-type]
        return Job(Submission(stream=call.report_to, command=told), cause=call.id.handle, ended=ended)


def retry_pause(pauses_s: Sequence[float], names: Iterable[str | int], attempt: int) -> int:
    """Return the pause after an attempt in microseconds, up to a fifth longer by a hash of the names.

    Attempts past the last pause repeat it.
    """
    base = seconds(pauses_s[min(attempt, len(pauses_s)) - 1])
    return base + spread(base // 5, *names, attempt)


async def _execute(executor: Executor, call: EffectCall) -> Any:
    if isinstance(call.payload, UnreadablePayload):
        raise GiveUp(f"the payload of {call.id.handle} cannot be read: {call.payload.why}")
    is_carrying_out.set(True)  # the task's own: nobody else sees it
    result: Any = executor(call)
    return await result if inspect.isawaitable(result) else result


def _description(error: Exception) -> str:
    """Say what was raised; of our own store only the code, because its message names where the database is."""
    return f"{error.code}: the store failed, see the log" if isinstance(error, StoreError) else repr(error)


def _recordable(result: Any, chars_max: int) -> Any:
    """The result, if it can be recorded; else what it looks like. The call has happened either way."""
    try:
        text = encode(check_json(result))
    except (TypeError, ValueError, RecursionError, Invalid):
        return storable_text(_look(result), ERROR_CHARS_MAX)
    return result if len(text) <= chars_max else {"cut": text[:ERROR_CHARS_MAX]}


def _look(result: Any) -> str:
    try:
        return repr(result)
    except Exception as error:  # noqa: BLE001 — a user's class, or a number too long to be printed
        return f"<{type(result).__name__} that cannot be shown: {type(error).__name__}>"
