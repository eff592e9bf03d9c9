"""Walks nobody has taken before: the seeds are Hypothesis' choice, and a failing walk is shrunk to few steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.engine.virtual_clock import VirtualClock
from betimes.testing.conformance import walk
from tests.stores.backends import BACKENDS, Backend

EXAMPLES = {"memory": 30}
EXAMPLES_ELSEWHERE = 4


@pytest.mark.long
@pytest.mark.parametrize("backend", [pytest.param(b, id=b.id, marks=b.marks) for b in BACKENDS])
def test_a_store_agrees_with_the_model_on_any_walk(backend: Backend) -> None:
    @settings(max_examples=EXAMPLES.get(backend.id, EXAMPLES_ELSEWHERE), database=None)
    @given(seed=st.integers(0, 2**32), steps=st.integers(1, 120))
    def any_walk(seed: int, steps: int) -> None:
        asyncio.run(walked(backend, seed, steps))

    any_walk()


async def walked(backend: Backend, seed: int, steps: int) -> None:
    with TemporaryDirectory() as folder:
        clock = VirtualClock()
        async with backend.pair(clock, Path(folder)) as pair:
            await walk(pair, seed=seed, steps=steps)
