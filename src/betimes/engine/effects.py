"""One call: its executor is run under the lease, and how that ended is settled.

A call waits for a slot, is made, and is settled through the queue, in one commit with the `Settled` command to the
stream that asked to be told. A settlement whose fence is not the newest is refused: whoever was suspended past its
lease changes nothing.

At least once: a failed call is tried again with back-off, the same id every time, and kept as a dead letter at the end.
At most once: the lease is durable before the call starts, and when it runs out the call is `abandoned`, never repeated.
A lease is renewed while its call waits for a slot and while it works.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.core.bounds import check_json
from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall, Settled
from betimes.core.errors import BetimesError, Fenced, Invalid, StoreError
from betimes.core.instants import seconds
from betimes.core.jitter import spread
from betimes.engine.call_slots import CallPace, CallSlots
from betimes.engine.commit_queue import WorkerParts
from betimes.engine.effect_rows import UnreadablePayload
from betimes.engine.jobs import Ended, Job, Submission
from betimes.engine.lease_renewal import LeaseRenewal, RenewalTimers
from betimes.engine.reports import Report, storable_text
from betimes.engine.store import LEASE_RAN_OUT, Lease

Executor: TypeAlias = Callable[[EffectCall], Awaitable[Any]]
End: TypeAlias = Literal["done", "retrying", "failed", "dead", "abandoned", "fenced"]
ERROR_CHARS_MAX = 2_000
STOPPED = "the process that claimed the call stopped before making it"


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
"""Whether the running code belongs to a call: what it submits is accepted until the engine has drained its calls."""


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


class CallResult(msgspec.Struct, frozen=True):
    """How an attempt at a call ended."""

    end: End
    result: Any = None
    error: str = ""
    pauses_s: Sequence[float] = ()
    took_ms: int | None = None


class Caller:
    """Makes calls, as many at once as there are slots, and settles them."""

    def __init__(self, parts: WorkerParts, executors: Mapping[str, Executor]) -> None:
        self._store, self._queue, self._settings, self._report = parts
        self._executors = executors
        self.slots = CallSlots(self._settings.calls_max)
        self.pace = CallPace()
        self.timers = RenewalTimers()

    async def make(self, lease: Lease, ends_s: float) -> CallResult | None:
        """Make a call and return its result; `None` if another process may have it by now."""
        call, loop = lease.call, asyncio.get_running_loop()
        if loop.time() >= ends_s:
            return None  # this process slept; somebody else may have taken or abandoned it since
        # Leased only to be ended: its attempts are used up, or it must not be made twice.
        if lease.expired:
            return CallResult("abandoned" if call.at_most_once else "dead", error=LEASE_RAN_OUT)
        renewal = LeaseRenewal(self._store, call, self._report, self.timers)
        try:
            made = await self._attempt(call, renewal)
        except Fenced:
            return None
        finally:
            renewal.stop()
        if renewal.begun_s is None:
            return made
        return replace(made, took_ms=round((loop.time() - renewal.begun_s) * 1_000))

    async def _attempt(self, call: EffectCall, renewal: LeaseRenewal) -> CallResult:
        """Make a call and return how that ended; raise `Fenced` if its lease is lost."""
        try:
            return CallResult("done", await self._make_in_slot(call, renewal))
        except Fenced:
            raise
        except NotStarted as error:
            return CallResult("retrying", None, str(error), error.pauses_s)
        except GiveUp as error:
            return CallResult("failed" if call.at_most_once else "dead", None, str(error))
        except RetryAfter as error:
            return CallResult(_failure(call), None, str(error), error.pauses_s)
        except Exception as error:  # noqa: BLE001 — whatever a user's executor raises is recorded, not ours to handle
            return CallResult(_failure(call), None, _description(error))

    async def _make_in_slot(self, call: EffectCall, renewal: LeaseRenewal) -> Any:
        tenant, loop = call.id.tenant, asyncio.get_running_loop()
        if waiter := self.slots.take(tenant):
            try:
                await renewal.wait_for(waiter)
            except BaseException as error:
                self.slots.give_up(tenant, waiter)
                # Nothing was called yet, so it counts as no attempt.
                if isinstance(error, asyncio.CancelledError):
                    raise NotStarted(STOPPED, (0.0,)) from error
                raise
        renewal.begun_s = loop.time()
        try:
            return await self._run_executor(call, renewal)
        finally:
            self.slots.leave(tenant)
            self.pace.note_end(loop.time())

    async def _run_executor(self, call: EffectCall, renewal: LeaseRenewal) -> Any:
        loop = asyncio.get_running_loop()
        work = loop.create_task(_execute(self._executors[call.executor], call))
        # Its end is waited for instead of the task: to stop waiting must not stop work that may just have ended.
        is_over: asyncio.Future[None] = loop.create_future()
        work.add_done_callback(lambda _: None if is_over.done() else is_over.set_result(None))
        try:
            await renewal.wait_for(is_over)
            if work.cancelled():
                raise RuntimeError("the executor cancelled itself")
            return work.result()
        except asyncio.CancelledError:
            return await _interrupt_call(call, work)
        finally:
            # If the lease was lost the work still runs, and somebody else may make the call now.
            work.cancel()

    async def settle(self, call: EffectCall, made: CallResult) -> End:
        """Commit how a call ended; asked again until the store has it."""
        end = made.end
        if end in ("dead", "failed", "abandoned"):
            self._report(Report(f"call_{end}", call.id.handle, RuntimeError(made.error)))
        result = _recordable(made.result, self._settings.effect_chars_max)
        job = self._settling_job(call, made, result, storable_text(made.error, ERROR_CHARS_MAX))
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
            # The call is settled; what its stream could not be told now, a send of its own tells it.
            except BetimesError as fault:
                self._report(Report("settled_unheard", call.id.handle, fault))
            return end

    def _settling_job(self, call: EffectCall, made: CallResult, result: Any, error: str) -> Job:
        if made.end == "retrying":
            pause = retry_pause(made.pauses_s or self._settings.call_pauses_s, call.id, call.attempt)
            again = Ended(call.id, call.fence, "pending", pause, error, made.took_ms)
            return Job(None, cause=call.id.handle, ended=again)
        # Effects have no status for abandoned ones; the stream that asked is told the difference.
        status: Any = "failed" if made.end == "abandoned" else made.end
        ended = Ended(call.id, call.fence, status, None, error, made.took_ms, call.created_at)
        if call.report_to is None:
            return Job(None, cause=call.id.handle, ended=ended)
        told = Settled(call.id.handle, call.executor, made.end, call.attempt, result, error)  # type: ignore[arg-type]
        return Job(Submission(stream=call.report_to, command=told), cause=call.id.handle, ended=ended)


async def _interrupt_call(call: EffectCall, work: asyncio.Future[Any]) -> Any:
    """Stop work because the engine closes; a call that may be repeated is released at once."""
    work.cancel()
    await asyncio.wait({work})
    # It came to its end all the same, and that is what is recorded.
    if not work.cancelled():
        return work.result()
    if call.at_most_once:
        raise asyncio.CancelledError  # its lease runs out
    raise RetryAfter(RuntimeError("the process that made the call stopped"), (0.0,))


def _failure(call: EffectCall) -> End:
    if call.at_most_once:
        return "failed"
    return "retrying" if call.attempt < call.attempts_max else "dead"


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
