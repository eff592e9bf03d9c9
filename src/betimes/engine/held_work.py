"""Held work of a rehearsal: what waits in a world until a hold of its tenant has ended.

As in the store, what comes from a stream that must not fire stays where it is: its alarm, its sends and the ends that
were assumed for its calls. Sends of one stream keep their order, so one that is made after the hold waits behind those
that were made in it. When the hold ends, by itself, by a command or because another takes its place, everything is
free again. What is recorded besides waits for its record, which says how late it was; if there is none, for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import takewhile
from typing import NamedTuple

from betimes.core.deciders import Send
from betimes.core.instants import MINUTE, Instant, earliest
from betimes.core.streams import EffectId, StreamId
from betimes.engine.batch import Batch
from betimes.engine.jobs import Job
from betimes.engine.tenants.model import TenantState

GRACE = MINUTE


class SentCommand(NamedTuple):
    """A command to another stream that was not delivered yet."""

    id: EffectId
    send: Send
    correlation: str


class WaitingWork:
    """The pending work of one stream."""

    __slots__ = ("ends", "free_at", "rings", "sends")

    def __init__(self) -> None:
        self.rings = False
        """Whether its alarm was due in the hold; by the end of that it may be another."""
        self.sends: dict[EffectId, SentCommand] = {}
        self.ends: list[Job] = []
        self.free_at: Instant | None = None
        """When its hold ended, if only the record of its first send is waited for."""


class HeldWork:
    """All that waits, by the stream it comes from, and the holds it waits for."""

    def __init__(self, batch: Batch, is_recorded: Callable[[EffectId, int], bool]) -> None:
        """`is_recorded` says of a send, so long after its hold, whether the record will tell when it was delivered."""
        self._batch = batch
        self._is_recorded = is_recorded
        self._waiting: dict[StreamId, WaitingWork] = {}
        self._looks: list[tuple[Instant, StreamId]] = []
        self._held: dict[str, TenantState] = {}
        """Tenants with a hold whose end has not been processed yet."""
        self._next_end_at: Instant | None = None

    # -- holds

    def note_tenant(self, tenant: str, state: TenantState | None, now: Instant) -> None:
        """Take in a tenant as it is from now on."""
        self._batch.note_hold(tenant, state)
        before = self._held.pop(tenant, None)
        if state and state.hold:
            self._held[tenant] = state
        if (before and before.hold) == (state and state.hold):
            return  # whatever else changed of it; nothing that waits need be looked at for that
        self._next_end_at = earliest(*(self._end_of(one) for one in self._held))
        for stream in self._waiting:
            if stream.tenant == tenant:
                heappush(self._looks, (now, stream))

    def _end_of(self, tenant: str) -> Instant | None:
        found = self._batch.holds.get(tenant)
        return found.hold.until_at if found and found.hold else None

    def pass_time(self, now: Instant) -> None:
        """End the holds whose time is over."""
        if self._next_end_at is None or now < self._next_end_at:
            return
        for tenant, state in self._held.items():
            self._batch.note_hold(tenant, state)
        self._next_end_at = earliest(*(self._end_of(one) for one in self._held))

    def until_at(self, stream: StreamId) -> Instant:
        """Return when the hold that keeps a stream from firing ends; 0 if there is none."""
        found = self._batch.holds.get(stream.tenant) if self._batch.holds else None
        return found.hold.until_at if found and found.hold and stream.kind in found.kinds else 0

    # -- what waits

    def keep_alarm(self, stream: StreamId) -> bool:
        """Keep an alarm until the hold of its stream ends, if it has one; was it kept?"""
        if not self.until_at(stream):
            return False
        self._work_of(stream).rings = True
        return True

    def keep_send(self, sent: SentCommand) -> bool:
        """Keep a send that is held or recorded, or behind those of its source that wait; was it kept?"""
        source = sent.id.source
        if source not in self._waiting and not self.until_at(source) and not self._is_recorded(sent.id, 0):
            return False
        self._work_of(source).sends[sent.id] = sent
        return True

    def keep_ends(self, source: StreamId, ends: Iterable[Job]) -> bool:
        """Keep what follows from a call that nobody makes before a hold ends; was it kept?"""
        if not self.until_at(source):
            return False
        self._work_of(source).ends.extend(ends)
        return True

    def _work_of(self, stream: StreamId) -> WaitingWork:
        work = self._waiting.get(stream)
        if work is None:
            work = self._waiting[stream] = WaitingWork()
            heappush(self._looks, (self.until_at(stream), stream))
        return work

    def waits_for(self, id: EffectId) -> bool:
        """Return whether a send was held and is not delivered yet."""
        work = self._waiting.get(id.source) if self._waiting else None
        return work is not None and id in work.sends

    def take_send(self, id: EffectId, *, with_earlier: bool) -> list[SentCommand]:
        """Take a send out whose record has come, and those its source made before it if asked for."""
        work = self._waiting.get(id.source)
        if work is None or id not in work.sends:
            return []
        earlier = tuple(takewhile(id.__ne__, work.sends)) if with_earlier else ()
        taken = [work.sends.pop(one) for one in (*earlier, id)]
        if not (work.sends or work.ends or work.rings):
            del self._waiting[id.source]
        return taken

    # -- what is free again

    def next_look_at(self, until_at: Instant) -> Instant | None:
        """Return when something may be free, if by this instant."""
        return self._looks[0][0] if self._looks and self._looks[0][0] <= until_at else None

    def take_free(self, now: Instant) -> Iterable[tuple[StreamId, WaitingWork]]:
        """Yield the streams whose hold has ended, with what of theirs waited."""
        while self._looks and self._looks[0][0] <= now:
            stream = heappop(self._looks)[1]
            work = self._waiting.get(stream)
            if work is None:
                continue
            if until_at := self.until_at(stream):
                # Held again meanwhile: the wait for the record starts anew when this hold ends.
                work.free_at = None
                heappush(self._looks, (until_at, stream))
            else:
                yield stream, self._free(stream, work, now)

    def _free(self, stream: StreamId, work: WaitingWork, now: Instant) -> WaitingWork:
        """Return what need not wait any more; sends that are recorded wait for that."""
        free = WaitingWork()
        free.rings, free.ends, work.rings, work.ends = work.rings, work.ends, False, []
        waited = now - (now if work.free_at is None else work.free_at)
        if work.sends and self._is_recorded(next(iter(work.sends)), waited):
            if work.free_at is None:
                work.free_at = now
                heappush(self._looks, (now + GRACE, stream))
        else:
            free.sends = work.sends
            del self._waiting[stream]
        return free
