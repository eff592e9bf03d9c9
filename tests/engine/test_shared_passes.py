"""Claims that are made at once share a transaction, and each gets what it would have got alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from betimes.core.deciders import Command
from betimes.core.errors import BetimesError
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.settings import EngineSettings
from betimes.testing.sample import Shut
from tests.engine.worlds import World, world
from tests.stores.backends import BACKENDS, Backend


async def due_gates(w: World, count: int, tenant: str = "acme") -> None:
    """Make so many gates that are due, each a second after the one before."""
    for n in range(count):
        await w.knock("ann", StreamId(tenant, "gate", f"g{n}"))
        w.clock.advance(1)


def shut(stream: StreamId) -> Command:
    return Shut()


def ids(taken: Sequence[Recorded]) -> list[str]:
    return [recorded.stream.id for recorded in taken]


def count_picks(w: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the limit of every transaction that picks what is due from now on."""
    begin_due, picks = w.store.begin_due, list[int]()

    def counted(index: Any, kinds: Any, limit: int, **bounds: Any) -> Any:
        picks.append(limit)
        return begin_due(index, kinds, limit, **bounds)

    monkeypatch.setattr(w.store, "begin_due", counted)
    return picks


async def test_claims_at_once_share_a_transaction_and_none_gets_what_another_got(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(backend, tmp_path) as w:
        await due_gates(w, 5)
        picks = count_picks(w, monkeypatch)
        claims = [w.engine.submit_due(["gate"], shut, limit, tenant="acme", actor=f"w{limit}") for limit in (2, 1, 4)]
        first, second, third = await asyncio.gather(*claims)
        assert (ids(first), ids(second), ids(third)) == (["g0", "g1"], ["g2"], ["g3", "g4"])
        assert picks == [7]
        history = await w.store.history(StreamId("acme", "gate", "g2"), 0, 10)
        assert history[1][-1].actor == "w1", "each is claimed in the name of whoever gets it"


async def test_claims_of_different_tenants_do_not_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(BACKENDS[0], tmp_path) as w:
        for tenant in ("acme", "bolt"):
            await due_gates(w, 2, tenant)
        picks = count_picks(w, monkeypatch)
        claims = [w.engine.submit_due(["gate"], shut, 2, tenant=tenant) for tenant in ("acme", "bolt", "bolt")]
        taken = await asyncio.gather(*claims)
        assert [{one.stream.tenant for one in part} for part in taken] == [{"acme"}, {"bolt"}, set()]
        assert picks == [2, 4]


async def test_shared_claims_are_no_longer_than_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(BACKENDS[0], tmp_path, settings=EngineSettings(batch_max=5)) as w:
        await due_gates(w, 8)
        picks = count_picks(w, monkeypatch)
        first, second, *_ = await asyncio.gather(
            *(w.engine.submit_due(["gate"], shut, 2, tenant="acme") for _ in range(4))
        )
        assert (ids(first), ids(second)) == (["g0", "g1"], ["g2", "g3"])
        assert picks == [4, 4]


async def test_a_claim_that_cannot_be_made_fails_nobody_elses(tmp_path: Path) -> None:
    def broken(stream: StreamId) -> Command:
        raise LookupError("no command for that")

    async with world(BACKENDS[0], tmp_path) as w:
        await due_gates(w, 3)
        claims = [w.engine.submit_due(["gate"], command, 2, tenant="acme") for command in (shut, broken, shut)]
        first, failed, last = await asyncio.gather(*claims, return_exceptions=True)
        assert isinstance(failed, BetimesError)
        assert not isinstance(first, BaseException)
        assert ids(first) == ["g0", "g1"]
        assert last == [], "these stay due, and are shut already"
