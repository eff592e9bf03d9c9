"""Turns: tenants that have something due are served in rounds, however much one of them has waiting.

Taking what is due oldest first would serve one tenant's backlog before anything that came due after it. So when more
is due than can be taken at once, tenants take turns: a rotation goes through their names, looks at a bounded number of
them at a time, and says which have something due. The cost depends on how many tenants wait for anything, never on
how much is due. Each process has rotations of its own; what others hold is skipped by the store.

**Passes over due streams** take turns too while there is a backlog: some take the oldest of each tenant, then the next
of each, and one in between takes the oldest of all, so that nothing waits for ever. Alarms go without that one where
every pass reaches every tenant: it would only make them wait for the loudest. Where several tenants have alarms, passes
over alarms are shorter, because whoever comes due meanwhile waits for the pass.

**Calls** are given slots one by one, to the tenant that has the fewest, as long as it has fewer than `SHARE_OF_FREE`
times what stays free. So one tenant alone fills three quarters of the slots, many fill nearly all, and whoever comes
new finds one free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from betimes.engine.store import DueIndex, OwedIndex, Store

LOOKED_AT_MAX = 256
"""Tenants looked at in one question to the store."""
SHARE_OF_FREE = 3
PART_OF_PASS = 8
PART_MIN = 16
"""A pass over alarms among several tenants: an eighth of a batch, and at least so many streams."""


IN_TURN_MAX = 3
"""Passes in shares between two over the oldest of all."""
FILL: Mapping[DueIndex, int] = {"alarm": 2, "due": 1}
"""Shares given for each place in a pass. Twice as many fill a pass over alarms where some tenants have little due; in a
sweep, where all may have much, the oldest would take them, and those are mostly of whoever has most."""


class TenantRotation:
    """Goes through the tenants that wait for something, by name, and begins anew after the last."""

    def __init__(self, store: Store, index: OwedIndex) -> None:
        self._store = store
        self._index = index
        self._after = ""
        self.has_several = True
        """Whether several tenants were found to wait for something, due or not; it is taken to be so at first."""

    @property
    def is_at_start(self) -> bool:
        """Return whether the tenants that were named last were the last of a round."""
        return not self._after

    async def next(self, names: Sequence[str], limit: int) -> tuple[str, ...]:
        """Return up to `limit` tenants that have something due, of the next few; where none is left, of the first."""
        found = await self._store.due_tenants(self._index, names, after=self._after, limit=LOOKED_AT_MAX)
        # A round that ends with nobody begins anew at once, or this pass would be told that nothing is due.
        if self._after and not found.tenants and not found.reached:
            found = await self._store.due_tenants(self._index, names, limit=LOOKED_AT_MAX)
        self.has_several = found.looked_at > 1 or bool(self._after)
        tenants = found.tenants[:limit]
        # Those that found no room are the first of the next question; else it goes on behind all that were looked at.
        self._after = tenants[-1] if len(found.tenants) > limit else found.reached
        return tenants


class PassTurns:
    """Says for each pass over due streams whether it takes the oldest, or of each tenant its share."""

    def __init__(self, store: Store) -> None:
        self._rotations = {index: TenantRotation(store, index) for index in ("alarm", "due")}
        self._looks_next: dict[DueIndex, bool] = {"alarm": True, "due": True}
        """Whether the next pass looks for other tenants. A process may start with a backlog, so it begins with it."""
        self._in_turn_count: dict[DueIndex, int] = {"alarm": 0, "due": 0}
        """Passes in shares since the last over the oldest of all."""
        self._reached_all: dict[DueIndex, bool] = {"alarm": False, "due": False}
        """Whether the last pass in shares had something for every tenant that waits."""

    async def plan(
        self, index: DueIndex, kinds: Sequence[str], limit: int, *, some_are_held: bool = False
    ) -> tuple[int, dict[str, int] | None]:
        """Return how many streams to take, and how many of which tenants; `None` for the oldest of all.

        The oldest of all may be held, as many as there are. So while anything is, only tenants that have something due
        besides are asked for it.
        """
        if some_are_held:
            return await self._plan_past_held(index, kinds, limit)
        rotation = self._rotations[index]
        if not self._looks_next[index] or self._is_turn_of_oldest(index):
            self._in_turn_count[index] = 0
            return self._length(index, limit), None
        begins_round = rotation.is_at_start
        tenants = await rotation.next(kinds, self._length(index, limit))
        # Asked again: only now is it known whether several tenants wait.
        length = self._length(index, limit)
        is_whole = self._reached_all[index] = begins_round and rotation.is_at_start
        if not tenants or (len(tenants) == 1 and is_whole):
            self._in_turn_count[index] = 0
            return length, None  # nobody else waits
        self._in_turn_count[index] += 1
        return length, dict.fromkeys(tenants, max(FILL[index] * length // len(tenants), 1))

    async def _plan_past_held(self, index: DueIndex, kinds: Sequence[str], limit: int) -> tuple[int, dict[str, int]]:
        rotation, length = self._rotations[index], self._length(index, limit)
        self._looks_next[index] = True
        tenants = await rotation.next(kinds, length)
        # One round at the most: the rotation comes back to its start.
        while not tenants and not rotation.is_at_start:
            tenants = await rotation.next(kinds, length)
        return length, dict.fromkeys(tenants, max(FILL[index] * length // max(len(tenants), 1), 1))

    def _is_turn_of_oldest(self, index: DueIndex) -> bool:
        if index == "alarm" and self._reached_all[index]:
            return False
        return self._in_turn_count[index] >= IN_TURN_MAX

    def _length(self, index: DueIndex, limit: int) -> int:
        if index == "alarm" and self._rotations[index].has_several:
            return min(limit, max(limit // PART_OF_PASS, PART_MIN))
        return limit

    def note(self, index: DueIndex, *, is_full: bool) -> None:
        """Note whether a pass over the oldest took as many as it could."""
        self._looks_next[index] = is_full or index == "due"


def call_shares(tenants: Iterable[str], held: Mapping[str, int], free: int, limit: int) -> dict[str, int]:
    """Return how many calls to take of each tenant, given what each has under way and how many slots are free."""
    counts = {tenant: held.get(tenant, 0) for tenant in tenants}
    shares: dict[str, int] = {}
    for left in range(free, max(free - limit, 0), -1):
        tenant = min(counts, key=counts.__getitem__, default=None)
        # A tenant alone thus ends with three quarters of the slots, and leaves the rest free for whoever comes.
        if tenant is None or counts[tenant] >= SHARE_OF_FREE * left:
            break
        counts[tenant] += 1
        shares[tenant] = shares.get(tenant, 0) + 1
    return shares
