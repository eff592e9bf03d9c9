"""Holds in force: which kinds of streams of which tenants must not fire, as this process knows it.

What counts is the state of the stream `tenant`, and a batch reads it in its own transaction: it wakes nothing that is
held, grants no claim on it and applies none of its sends, however late this process learns of the hold. What is known
here besides serves everything that looks for work without deciding: the store is told to pass over what is held, so
that it is neither found nor waited for. A process knows its own holds at once and those of others within `poll_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from betimes.core.errors import StoreError
from betimes.core.instants import Instant, render
from betimes.engine.codecs import Kinds
from betimes.engine.queries import StreamQuery
from betimes.engine.reports import Report, Reporter
from betimes.engine.store import PAGE_MAX, Store
from betimes.engine.tenants.model import HELD, Hold, TenantState

_FAR_AT: Final = 2**62


class TenantHold(NamedTuple):
    """A tenant's holds by kind of stream: what must not fire now, and what could not until lately."""

    hold: Hold | None
    kinds: frozenset[str]
    """Those that must not fire."""
    released: Mapping[str, Instant]
    """By kind, when its last hold ended."""

    def describe(self) -> str:
        return f"held until {render(self.hold.until_at)}: {self.hold.reason}" if self.hold else "not held"


def hold_in_force(state: TenantState | None, now: Instant) -> Hold | None:
    """Return the hold of a tenant, unless its time is over."""
    return state.hold if state and state.hold and state.hold.until_at > now else None


def tenant_hold(kinds: Kinds, state: TenantState, now: Instant) -> TenantHold:
    """Return what a tenant's holds mean for its kinds of streams."""
    hold = hold_in_force(state, now)
    held = frozenset(kinds.of_domains(hold.domains)) if hold else frozenset[str]()
    released = {kind: at for domain, at in state.released.items() for kind in kinds.of_domains((domain,))}
    if state.hold and not hold:  # its time is over, and nobody has rung that yet
        released |= dict.fromkeys(kinds.of_domains(state.hold.domains), state.hold.until_at)
    return TenantHold(hold, held, released)


class HoldsInForce:
    """The holds of all tenants, as they were last seen."""

    def __init__(self) -> None:
        self.by_tenant: Mapping[str, Hold] = {}
        self._versions: dict[str, int] = {}
        """Of the tenants with a hold, as it was seen: an older look must not undo a newer one."""
        self.change_count = 0
        self.tell: Callable[[Mapping[str, Hold]], None] = lambda holds: None
        """Told of every change."""

    def note(self, tenant: str, hold: Hold | None, version: int) -> None:
        """Remember what was seen of a tenant, unless something newer was."""
        if self.by_tenant.get(tenant) != hold and version >= self._versions.get(tenant, 0):
            # Versions are kept of tenants with a hold alone, or they would pile up with every hold there ever was.
            self._versions = {name: seen for name, seen in self._versions.items() if name in self.by_tenant}
            self._versions[tenant] = version
            others = {name: known for name, known in self.by_tenant.items() if name != tenant}
            self.put({**others, tenant: hold} if hold else others)

    def put(self, holds: Mapping[str, Hold]) -> None:
        self.change_count += 1
        self.by_tenant = holds
        self.tell(holds)


class HoldWatch:
    """Learns of the holds that other processes set or end, and tells the store what to pass over."""

    def __init__(self, store: Store, kinds: Kinds, holds: HoldsInForce, every_s: float, report: Reporter) -> None:
        self._store = store
        self._kinds = kinds
        self._holds = holds
        self._every_s = every_s
        self._report = report
        holds.tell = self._tell_store

    def _tell_store(self, holds: Mapping[str, Hold]) -> None:
        self._store.pass_over({tenant: self._kinds.of_domains(hold.domains) for tenant, hold in holds.items()})

    async def refresh(self) -> None:
        """Read the holds of all tenants; what a commit has shown meanwhile is newer, and stays."""
        # Taken before reading: whatever changes during the read is newer than what it finds.
        before = self._holds.change_count
        found = await self._read()
        if before == self._holds.change_count and found != self._holds.by_tenant:
            self._holds.put(found)

    async def _read(self) -> dict[str, Hold]:
        found: dict[str, Hold] = {}
        now = await self._store.now()
        query = StreamQuery(kind="tenant", among=(HELD,), due_before=_FAR_AT, limit=PAGE_MAX)
        while rows := await self._store.streams(query):
            for row in rows:
                state = self._kinds.state_in(row.stream, row)
                if hold := hold_in_force(state, now):
                    found[row.stream.tenant] = hold
            if len(rows) < PAGE_MAX:
                break
            query = replace(query, after=rows[-1].stream, after_due_at=rows[-1].due_at)
        return found

    async def run(self) -> None:
        """Look every so often until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.refresh()
            except StoreError as error:
                self._report(Report("holds_not_read", "store", error))
