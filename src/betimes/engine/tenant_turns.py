"""Turns: tenants that have something due are served in rounds, however much one of them has waiting.

Whoever takes what is due oldest first serves one tenant's backlog before anything that came due after it. So when more
is due than can be taken at once, tenants take turns: a rotation goes through their names, looks at a bounded number of
them at a time, and says which have something due. What it costs depends on how many tenants wait for anything, never on
how much is due. Each process has rotations of its own; what others hold is skipped by the store.

**Passes over due streams** alternate while there is a backlog: one takes the oldest, whoever's they are, so that
nothing waits for ever; the next takes of each tenant its share.

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


class TenantRotation:
    """Goes through the tenants that wait for something, by name, and begins anew after the last."""

    def __init__(self, store: Store, index: OwedIndex) -> None:
        self._store = store
        self._index = index
        self._after = ""

    @property
    def is_at_start(self) -> bool:
        """Whether the tenants that were named last were the last of a round."""
        return not self._after

    async def next(self, names: Sequence[str], limit: int) -> tuple[str, ...]:
        """Return up to `limit` tenants that have something due, of the next few; where none is left, of the first."""
        found = await self._store.due_tenants(self._index, names, after=self._after, limit=LOOKED_AT_MAX)
        if self._after and not found.tenants and not found.reached:
            found = await self._store.due_tenants(self._index, names, limit=LOOKED_AT_MAX)
        tenants = found.tenants[:limit]
        self._after = tenants[-1] if len(found.tenants) > limit else found.reached
        return tenants


class PassTurns:
    """Says for each pass over due streams whether it takes the oldest, or of each tenant its share."""

    def __init__(self, store: Store) -> None:
        self._rotations = {index: TenantRotation(store, index) for index in ("alarm", "due")}
        self._is_backlogged: dict[DueIndex, bool] = {}

    async def shares(self, index: DueIndex, kinds: Sequence[str], limit: int) -> dict[str, int] | None:
        """Return how many streams to take of which tenants; `None` for the oldest of all."""
        if not self._is_backlogged.get(index):
            return None
        self._is_backlogged[index] = False
        rotation = self._rotations[index]
        is_whole = rotation.is_at_start
        tenants = await rotation.next(kinds, limit)
        if not tenants or (len(tenants) == 1 and is_whole and rotation.is_at_start):
            return None  # nobody else waits
        return dict.fromkeys(tenants, limit // len(tenants))

    def note(self, index: DueIndex, *, is_full: bool) -> None:
        """Note whether a pass over the oldest took as many as it could."""
        self._is_backlogged[index] = is_full


def call_shares(tenants: Iterable[str], held: Mapping[str, int], free: int, limit: int) -> dict[str, int]:
    """Return how many calls to take of each tenant, given what each has under way and how many slots are free."""
    counts = {tenant: held.get(tenant, 0) for tenant in tenants}
    shares: dict[str, int] = {}
    for left in range(free, max(free - limit, 0), -1):
        tenant = min(counts, key=counts.__getitem__, default=None)
        if tenant is None or counts[tenant] >= SHARE_OF_FREE * left:
            break
        counts[tenant] += 1
        shares[tenant] = shares.get(tenant, 0) + 1
    return shares
