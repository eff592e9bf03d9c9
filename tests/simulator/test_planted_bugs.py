"""The test of the tests: every planted bug is noticed within a bounded number of seeds."""

import pytest

from betimes.testing.simulator.bugs import BUGS
from betimes.testing.simulator.runner import first_noticed, simulate

SEEDS_MAX = 200

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    outcome = first_noticed(name, range(SEEDS_MAX))
    assert outcome is not None, f"{SEEDS_MAX} seeds did not notice: {BUGS[name].what}"
    print(f"{name}: seed {outcome.seed}: {outcome.findings[0]}")


def test_nothing_is_left_of_a_planted_bug() -> None:
    noticed = first_noticed("turn_time_goes_back", range(SEEDS_MAX))
    assert noticed
    assert simulate(noticed.seed).is_sound


def test_a_finding_comes_with_the_line_that_runs_it_again() -> None:
    outcome = first_noticed("key_not_unique", range(SEEDS_MAX))
    assert outcome
    rerun = f"python -m betimes.testing.simulator --seed {outcome.seed} --bug key_not_unique --verbose"
    assert rerun in str(outcome)
