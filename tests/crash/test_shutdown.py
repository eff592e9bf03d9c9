"""SIGTERM: everything that was accepted is answered, then the process ends well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.engine.store import EffectQuery
from tests.crash.fleet import Fleet
from tests.crash.journal import Answered, Asked, Failed, Journals
from tests.crash.reconcile import reconcile
from tests.crash.scene import Place, Rules
from tests.crash.workload import Workload

pytestmark = pytest.mark.crash

RULES = Rules(lease_s=60)
"""A lease this long would be seen: nobody could take the call over within the test."""
BUSY = Workload(seed=9, at_once=40, tenants=1, gates=300)


async def test_a_terminated_process_answers_everything_it_accepted(place: Place, tmp_path: Path) -> None:
    async with Fleet(place, tmp_path) as fleet:
        children = await fleet.start_ready(2, rules=RULES, load=BUSY, call_s=0.05)
        await asyncio.gather(*(child.says("answered", 100) for child in children))
        await fleet.drain()
    journals = Journals(tmp_path)
    asked = {line.key for line in journals.of(Asked)}
    failed = journals.of(Failed)
    assert {line.code for line in failed} <= {"OVERLOADED", "REFUSED"}
    assert asked - {line.key for line in journals.of(Answered)} <= {line.key for line in failed}
    await nothing_is_left_leased(place)
    await reconcile(place, tmp_path, RULES)


async def nothing_is_left_leased(place: Place) -> None:
    """A call that was taken was also seen to its end."""
    store = place.store()
    await store.open()
    try:
        assert await store.effects(EffectQuery(status="leased")) == []
    finally:
        await store.close()
