"""Stores that do not keep to the shares of tenants, or to what they must pass over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from betimes.core.instants import Instant
from betimes.engine.store import DueTenants, Lease, OwedIndex
from betimes.stores.memory.transaction import MemoryTx
from tests.stores.broken import Broken


class GivesOneTenantTheSharesOfOthers(Broken):
    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        return await super().lease_calls(executors, limit, shares=shares and dict.fromkeys(shares, limit))


class ForgetsTheSharesOfWhatIsDue(Broken):
    def begin_due(self, *args: Any, **kwargs: Any) -> AbstractAsyncContextManager[MemoryTx]:  # type: ignore[override]
        return super().begin_due(*args, **kwargs | {"shares": None})


class NamesTenantsThatHaveNothingDue(Broken):
    async def due_tenants(self, index: OwedIndex, names: Sequence[str], *, after: str = "", limit: int) -> DueTenants:
        found = await super().due_tenants(index, names, after=after, limit=limit)
        return found._replace(tenants=tuple(sorted({*found.tenants, "later"})))


class TakesCallsThatAreHeld(Broken):
    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        held, self._held = self._held, frozenset()
        try:
            return await super().lease_calls(executors, limit, shares=shares)
        finally:
            self._held = held


class WaitsForWhatIsHeld(Broken):
    async def next_due(self, *args: Any, **kwargs: Any) -> Instant | None:
        held, self._held = self._held, frozenset()
        try:
            return await super().next_due(*args, **kwargs)
        finally:
            self._held = held


class HoldsForEver(Broken):
    def pass_over(self, held: Mapping[str, Sequence[str]]) -> None:
        if held:
            super().pass_over(held)


CAUGHT_SHARES: dict[type[Broken], str] = {
    GivesOneTenantTheSharesOfOthers: "of_each_tenant_its_share_is_taken_oldest_first",
    ForgetsTheSharesOfWhatIsDue: "of_each_tenant_its_share_is_taken_oldest_first",
    NamesTenantsThatHaveNothingDue: "tenants_that_have_something_due_are_told_by_name",
    TakesCallsThatAreHeld: "calls_and_sends_of_held_streams_are_not_taken",
    WaitsForWhatIsHeld: "nobody_waits_for_what_is_held",
    HoldsForEver: "what_is_held_no_more_is_due_again",
}
