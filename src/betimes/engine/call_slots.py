"""Slots of the calls a process makes at once, and how many more it may hold ready.

Leasing and settling are commits, and a commit of many calls costs little more than one of a few. So a process leases
more calls than it makes at once: as many more as ended within the last second or so. Where calls are short the next
ones are at hand; where they are long nearly all are left in the store, for any process that has a slot free.

Slots are shared as `tenant_turns` says: to the tenant that has the fewest, as long as it has fewer than `SHARE_OF_FREE`
times what is free. So calls of one tenant that are held ready, or become slow, do not stand in the way of another's.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from betimes.engine.tenant_turns import SHARE_OF_FREE

LATELY_S = 1.0
AHEAD_MAX = 8_192
"""Calls that are held ready at most, however many ended lately."""


class CallSlots:
    """Gives slots to calls, and has those wait that find none."""

    def __init__(self, calls_max: int) -> None:
        self.free = calls_max
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, tenant: str) -> asyncio.Future[None] | None:
        """Take a slot and return `None`; if there is none for this tenant now, return what is done once it has one."""
        # A tenant's calls get their slots in order, so none overtakes one that waits already.
        if tenant not in self._waiting and self._has_one_for(tenant):
            self._give(tenant)
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        return waiter

    def leave(self, tenant: str) -> None:
        """Release a slot; the call that has waited longest, of the tenant with the fewest slots, gets it."""
        self.free += 1
        self._busy[tenant] -= 1
        # A counter keeps its zeros, and tenants come and go.
        if not self._busy[tenant]:
            del self._busy[tenant]
        while self._waiting:
            tenant = min(self._waiting, key=self._busy.__getitem__)
            # If the tenant that has the fewest may have no more, nobody may.
            if not self._has_one_for(tenant):
                return
            self._hand_to_first(tenant)

    def give_up(self, tenant: str, waiter: asyncio.Future[None]) -> None:
        """Wait no longer; a slot that came meanwhile is given back."""
        # It could not be cancelled because it was handed its slot just before; one that failed has none.
        if not waiter.cancel() and not waiter.cancelled() and waiter.exception() is None:
            self.leave(tenant)

    def _has_one_for(self, tenant: str) -> bool:
        return self._busy[tenant] < SHARE_OF_FREE * self.free

    def _give(self, tenant: str) -> None:
        self.free -= 1
        self._busy[tenant] += 1

    def _hand_to_first(self, tenant: str) -> None:
        """Give a slot to the first of a tenant that still waits, if any does."""
        waiters = self._waiting[tenant]
        waiter = waiters.popleft()
        if not waiters:
            del self._waiting[tenant]
        # Whoever gave up stays in the queue until here.
        if not waiter.done():
            self._give(tenant)
            waiter.set_result(None)


class CallPace:
    """Counts the calls that ended lately."""

    def __init__(self) -> None:
        self._since_s = float("-inf")
        self._count = self._count_before = 0

    def note_end(self, now_s: float) -> None:
        self._move_on(now_s)
        self._count += 1

    def ahead_max(self, now_s: float) -> int:
        """Return how many calls may be held ready."""
        self._move_on(now_s)
        return min(self._count + self._count_before, AHEAD_MAX)

    def _move_on(self, now_s: float) -> None:
        passed_s = now_s - self._since_s
        if passed_s >= LATELY_S:
            # The last full second counts too, or the sum would fall to 0 whenever a new one begins.
            self._count_before = self._count if passed_s < 2 * LATELY_S else 0
            self._count, self._since_s = 0, now_s
