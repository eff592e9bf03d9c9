"""Histories of scores under faults: killed sweepers, lost commits, wrong clocks. And that the oracle would notice."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.scores.decide import SCORE
from betimes.scores.model import Decayed
from betimes.testing.simulator import simulate
from betimes.testing.simulator.runner import demand_sound
from tests.scores.simulated import SCORES

pytestmark = pytest.mark.simulator
CHUNK = 50


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_every_history_of_scores_is_sound(first: int) -> None:
    demand_sound(range(first, first + CHUNK), SCORES)


def spoilt(change: Any) -> Any:
    """The workload with a decider that changes every decay."""

    def decide(view: Any, command: Any, policy: Any, now: Any) -> Any:
        decision = SCORE.decide(view, command, policy, now)
        if not isinstance(decision, Decision):
            return decision
        events = tuple(change(e) if isinstance(e, Decayed) and e.score else e for e in decision.events)
        return replace(decision, events=events)

    return replace(SCORES, deciders=(replace(SCORE, decide=decide),))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: replace(e, amount=e.amount + 1, score=e.score - 1),
        lambda e: replace(e, from_at=e.from_at - 60_000_000),
        lambda e: replace(e, score=e.score + e.amount),
    ],
    ids=["too much", "a period twice", "nothing taken"],
)
def test_the_oracle_notices_a_decay_that_is_wrong(change: Any) -> None:
    assert any(not simulate(seed, spoilt(change)).is_sound for seed in range(20))
