"""Renewals begin when a third of their lease has passed, with one timer for all leases of one length."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from betimes.engine.lease_renewal import LeaseRenewal, RenewalTimers

AT_ONCE, LONG = 0, 3_600


class Renewals:
    """Renewals that only say that they have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.timers = RenewalTimers()

    def add(self, name: str, lease_s: int) -> LeaseRenewal:
        renewals = self

        class Renewal:
            def begin(self) -> None:
                renewals.begun.append(name)

        renewal = cast(LeaseRenewal, cast(Any, Renewal()))
        self.timers.add(renewal, lease_s)
        return renewal


def timers_armed() -> int:
    return len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]


async def let_due_timers_ring() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_leases_of_one_length_share_a_timer() -> None:
    before, renewals = timers_armed(), Renewals()
    for name in "abc":
        renewals.add(name, LONG)
    renewals.add("d", 2 * LONG)
    assert timers_armed() == before + 2
    await let_due_timers_ring()
    assert renewals.begun == []


async def test_what_is_due_begins_in_its_order_and_what_ended_does_not() -> None:
    renewals = Renewals()
    _, ended, _ = (renewals.add(name, AT_ONCE) for name in "abc")
    renewals.timers.discard(ended, AT_ONCE)
    await let_due_timers_ring()
    assert renewals.begun == ["a", "c"]
    renewals.timers.discard(ended, AT_ONCE)
    renewals.add("d", AT_ONCE)
    await let_due_timers_ring()
    assert renewals.begun == ["a", "c", "d"], "a timer that found nothing left is armed anew"
