"""The store conformance suite: what every store must do, as named checks that run against any of them.

Write a store, open two connections to one fresh database, and run every check that fits it:

    @pytest.mark.parametrize("check", checks_for(Traits(locks_rows=True)), ids=lambda check: check.__name__)
    def test_my_store_conforms(check: Check) -> None:
        asyncio.run(conforms(check))

    async def conforms(check: Check) -> None:
        clock = VirtualClock()
        async with my_two_connections(clock) as (one, two):
            await run(check, Pair(one, two, clock))

Every public coroutine function of a theme's module is a check. Those of `row_locks` are for stores that lock rows;
a store that locks its whole database (a second transaction waits for the first) leaves them out. Each check needs a
database that nothing has been written to. A failed check raises `AssertionError` with what was expected and found.
"""

from __future__ import annotations

import inspect
from importlib import import_module

from betimes.testing.conformance.pairs import Check, Pair, Traits, run
from betimes.testing.conformance.random_walk import walk

__all__ = ["CHECKS", "ROW_LOCK_CHECKS", "Check", "Pair", "Traits", "checks_for", "run", "walk"]


THEMES = (
    "streams",
    "columns",
    "locks",
    "keys",
    "atomicity",
    "optimistic_commit",
    "sends",
    "calls",
    "attempts",
    "due",
    "shares",
    "holds",
    "ledger",
    "listing",
    "upkeep",
    "walks",
    "read_model",
)


def _checks_of(*themes: str) -> tuple[Check, ...]:
    modules = [import_module(f"{__name__}.{theme}") for theme in themes]
    return tuple(
        function
        for module in modules
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    )


CHECKS = _checks_of(*THEMES)
ROW_LOCK_CHECKS = _checks_of("row_locks")


def checks_for(traits: Traits) -> tuple[Check, ...]:
    """The checks a store with these traits must pass."""
    return CHECKS + ROW_LOCK_CHECKS if traits.locks_rows else CHECKS
