"""Hundreds of histories under faults, each held against every invariant.

A failing seed is named with the line that runs it again. `make soak` goes on with others for as long as it is asked.
"""

import os
import subprocess
import sys

import pytest

from betimes.testing.simulator.runner import demand_sound, simulate

SEEDS = 300
CHUNK = 50

pytestmark = pytest.mark.simulator


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_history_is_sound(first: int) -> None:
    demand_sound(range(first, first + CHUNK))


@pytest.mark.parametrize("seed", [3, 14, 159, 265, 358])
def test_a_seed_gives_the_same_ledger_every_time(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert first.digest
    assert first == second


def test_a_seed_gives_the_same_ledger_in_every_process() -> None:
    code = "from betimes.testing.simulator import simulate; print(*(simulate(seed).digest for seed in range(12)))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2", "3")
    }
    assert len(digests) == 1
