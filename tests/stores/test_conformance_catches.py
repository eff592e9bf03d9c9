"""The suite is worth something: every store broken on purpose is caught by the check that is about it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from betimes.core.errors import StoreError
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory import transaction
from betimes.testing.conformance import CHECKS, ROW_LOCK_CHECKS, Pair, Traits, checks_for, run
from tests.stores.broken import CAUGHT_BY as CAUGHT_OTHERWISE
from tests.stores.broken import CAUGHT_BY_WALKS, Broken
from tests.stores.broken_presuming import CAUGHT_PRESUMING
from tests.stores.broken_sends import CAUGHT_SENDS
from tests.stores.broken_shares import CAUGHT_SHARES

CAUGHT_BY = CAUGHT_OTHERWISE | CAUGHT_PRESUMING | CAUGHT_SENDS | CAUGHT_SHARES

NAMED = {check.__name__: check for check in CHECKS + ROW_LOCK_CHECKS}
WALKS = [check for name, check in NAMED.items() if name.endswith("walk_agrees_with_the_model")]


def pair_of(kind: type[Broken]) -> Pair:
    clock, database = VirtualClock(), kind.Database()
    return Pair(kind(clock, database), kind(clock, database), clock)


@pytest.mark.parametrize("kind", CAUGHT_BY, ids=lambda kind: kind.__name__)
async def test_a_broken_store_is_caught(kind: type[Broken], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT_S", 0.01)
    with pytest.raises((AssertionError, StoreError)):
        await run(NAMED[CAUGHT_BY[kind]], pair_of(kind))


@pytest.mark.parametrize("name", sorted(set(CAUGHT_BY.values())))
async def test_the_check_passes_when_nothing_is_broken(name: str) -> None:
    await run(NAMED[name], pair_of(Broken))


@pytest.mark.parametrize("kind", CAUGHT_BY_WALKS, ids=lambda kind: kind.__name__)
async def test_a_random_walk_catches_it_too(kind: type[Broken], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT_S", 0.01)
    with pytest.raises((AssertionError, StoreError)):
        await all_walks(kind)


async def all_walks(kind: type[Broken]) -> None:
    for check in WALKS:
        await run(check, pair_of(kind))


def test_no_two_checks_have_the_same_name() -> None:
    assert len(NAMED) == len(CHECKS) + len(ROW_LOCK_CHECKS)


def test_a_store_that_locks_its_database_is_spared_the_row_locks() -> None:
    assert checks_for(Traits(locks_rows=False)) == CHECKS
    assert checks_for(Traits(locks_rows=True)) == CHECKS + ROW_LOCK_CHECKS


def test_the_suite_needs_no_test_framework() -> None:
    suite, frameworks = "betimes.testing.conformance", {"pytest", "_pytest", "hypothesis"}
    code = f"import sys, {suite}; sys.exit(bool({frameworks} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
