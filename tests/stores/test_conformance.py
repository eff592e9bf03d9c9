"""Every store passes every check of the public conformance suite that fits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.conformance import Check, checks_for, run
from tests.stores.backends import BACKENDS, Backend

CASES = [
    pytest.param(backend, check, id=f"{backend.id}-{check.__name__}", marks=backend.marks)
    for backend in BACKENDS
    for check in checks_for(backend.traits)
]


@pytest.mark.parametrize(("backend", "check"), CASES)
async def test_a_store_conforms(backend: Backend, check: Check, tmp_path: Path) -> None:
    async with backend.pair(VirtualClock(), tmp_path) as pair:
        await run(check, pair)
