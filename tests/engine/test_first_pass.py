"""A process that has just started knows everything it needs within its first transaction."""

from __future__ import annotations

from pathlib import Path

from tests.engine.worlds import world
from tests.stores.backends import Backend


async def test_the_first_pass_of_a_fresh_process_rings_and_counts(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"tenant_per_hour": 9}) as w:
        await w.knock("ann")
        await w.knock("bob")
        w.clock.advance(60)
        assert (await w.other.tick()).fired == {"gate": 1}
