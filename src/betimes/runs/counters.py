"""Counters: runs and actions of a UTC day, and those that a tenant's accounts share.

`quota` is a stream of its own, locked with an account whenever a limit of the tenant is set, and written by accounts
alone.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from betimes.core.instants import DAY, Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.core.windows import Window


def quota_stream(tenant: str) -> StreamId:
    return StreamId(tenant, "quota", "runs")


class DayCount(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A count that starts again every UTC day."""

    day: int = 0
    count: int = 0

    def on(self, now: Instant) -> int:
        """Return the count of this day."""
        return self.count if self.day == now // DAY else 0

    def plus(self, count: int, at: Instant) -> DayCount:
        """Return the count with more in it; a late report for a day that is over counts for nothing."""
        day = at // DAY
        if day < self.day:
            return self
        return DayCount(day, (self.count if day == self.day else 0) + count)


class SlotTaken(StoredMessage):
    """A run of this type was allowed somewhere in the tenant."""

    trigger_type: str
    at: Instant
    capped: bool = True
    """Whether the type has a cap for the tenant, so that its window must be kept."""
    slot_at: Instant | None = None
    """The slot it was promised, at which its window counts it; without one, it counts from when it was allowed."""


class SlotPromised(StoredMessage):
    """A trigger of this type will be judged again at this instant, and a slot is kept for it."""

    trigger_type: str
    slot_at: Instant
    at: Instant


class SlotReturned(StoredMessage):
    """The trigger the slot was kept for has been judged."""

    trigger_type: str
    slot_at: Instant
    at: Instant


class QuotaState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    taken_by_type: dict[str, Window] = {}
    promised_by_type: dict[str, Window] = {}
    allowed_today: DayCount = DayCount()


QuotaEvents: TypeAlias = SlotTaken | SlotPromised | SlotReturned
