"""The ends of calls in a world where they may not have been made.

The recorded end of a call belongs to the recorded world. Another world that makes the same call (to the same executor,
for the same stream, at the same instant; of a run, whenever) is told the same. One that makes a call which was never
made is told at once that it is done: that is the fallback, and it is counted. A call that was recorded without an end
has none anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from betimes.backtest.domain_rules import assumed_result, start_of
from betimes.core.deciders import Call, Settled
from betimes.core.instants import DAY, Instant
from betimes.core.streams import EffectId, StreamId
from betimes.engine.jobs import Job, Submission
from betimes.engine.tenants.model import HOLD_MAX

Identity: TypeAlias = tuple[str, StreamId, Instant | None]
KEPT = HOLD_MAX + 7 * DAY
"""A call whose end is not recorded within this time is not waited for any more; a hold may keep it from beginning."""
WORKER = "backtest"


def identity_of(call: Call, report_to: StreamId, at: Instant) -> Identity:
    """Return what a call of another world must agree with to be the same call."""
    return (call.executor, report_to, None if start_of(call, report_to) else at)


class RecordedCalls:
    """The calls of the recorded world that have not ended yet."""

    def __init__(self) -> None:
        self._by_handle: dict[tuple[str, str], Identity] = {}
        self._open: dict[Identity, int] = {}
        self._oldest: deque[tuple[Instant, tuple[str, str]]] = deque()

    def note_call(self, id: EffectId, call: Call, at: Instant) -> Iterable[Job]:
        """Remember that the recorded world made a call."""
        if call.report_to is not None:
            handle, identity = (id.tenant, id.handle), identity_of(call, call.report_to, at)
            self._by_handle[handle] = identity
            # Counted, because a stream may make the same call more than once at an instant.
            self._open[identity] = self._open.get(identity, 0) + 1
            self._oldest.append((at, handle))
            # Calls are noted as time goes on, so the oldest stand first.
            while self._oldest[0][0] < at - KEPT:
                self.end_call(*self._oldest.popleft()[1])
        return ()

    def is_open(self, identity: Identity) -> bool:
        return identity in self._open

    def identity(self, tenant: str, handle: str) -> Identity | None:
        return self._by_handle.get((tenant, handle))

    def end_call(self, tenant: str, handle: str) -> None:
        """Forget a call that has ended."""
        identity = self._by_handle.pop((tenant, handle), None)
        if identity is None:
            return
        self._open[identity] -= 1
        if not self._open[identity]:
            del self._open[identity]


class OtherCalls:
    """The calls of another world that wait for a recorded end."""

    def __init__(self, recorded: RecordedCalls, fell_back: Callable[[str], None]) -> None:
        self._recorded = recorded
        self._fell_back = fell_back
        self._waiting: dict[Identity, deque[EffectId]] = {}
        self._oldest: deque[tuple[Instant, Identity]] = deque()

    def note_call(self, id: EffectId, call: Call, at: Instant) -> Iterable[Job]:
        """Wait for the recorded end, or return the commands that take the call as done."""
        if call.report_to is None:
            return ()
        identity = identity_of(call, call.report_to, at)
        # The control comes to every instant first, so a call that it makes too is known by now.
        if self._recorded.is_open(identity):
            self._waiting.setdefault(identity, deque()).append(id)
            self._oldest.append((at, identity))
            while self._oldest[0][0] < at - KEPT:
                self.take(self._oldest.popleft()[1])
            return ()
        self._fell_back(call.executor)
        return self._as_done(id, call, call.report_to)

    def _as_done(self, id: EffectId, call: Call, report_to: StreamId) -> list[Job]:
        settled = Settled(id.handle, call.executor, "done", 1, assumed_result(call.executor))
        done = Job(Submission(stream=report_to, command=settled), cause=id.handle)
        # A run has to begin before it can end, as its worker would have said.
        start = start_of(call, report_to)
        if start is None:
            return [done]
        return [Job(Submission(stream=report_to, command=start(id.handle, WORKER), actor=WORKER)), done]

    def waiting_call(self, identity: Identity) -> EffectId | None:
        ids = self._waiting.get(identity)
        return ids[0] if ids else None

    def take(self, identity: Identity) -> EffectId | None:
        ids = self._waiting.get(identity)
        if not ids:
            return None
        id = ids.popleft()
        if not ids:
            del self._waiting[identity]
        return id


def with_effect(settled: Settled, id: EffectId) -> Settled:
    """Return the same end for the call by another name."""
    return replace(settled, effect=id.handle)
