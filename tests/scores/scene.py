"""A score to play with: who owns it, when, and what is left of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from betimes.core.instants import HOUR, parse
from betimes.domain.hooks import Hooks
from betimes.scores.amounts import POINT, micro
from betimes.scores.decide import SCORE
from betimes.scores.model import CreateScore, Decayed, ScoreState, SweepScore
from betimes.scores.policy import CHAPTERS, ScoresPolicy
from betimes.testing.scenarios import Scenario, given

T0 = parse("2026-01-05T00:00:00Z")
SECTIONS: dict[str, type[msgspec.Struct]] = {"scores": ScoresPolicy, "hooks": Hooks}
SWEEP = SweepScore()
GRACE_HOURS = {stage.name: int(stage.grace_hours) for stage in CHAPTERS}


def score(
    points: float = 50, chapter: int = 1, status: str = "active", *, hooks: Any = (), **policy: Any
) -> Scenario[ScoreState]:
    """A user with that many points who last did something at T0."""
    scenario = given(SCORE, sections=SECTIONS, policy={"scores": policy, "hooks": list(hooks)})
    scenario.at(T0).when(CreateScore(micro(Decimal(str(points))), chapter, status, T0, T0))
    return scenario


def left(scenario: Scenario[ScoreState]) -> Decimal:
    assert scenario.state
    return Decimal(scenario.state.score) / POINT


def decay_of(scenario: Scenario[ScoreState]) -> Decayed:
    [decay] = [event for event in scenario.decision.events if isinstance(event, Decayed)]
    return decay


def hours(count: float) -> int:
    return T0 + int(count * HOUR)


def nobody(**policy: Any) -> Scenario[ScoreState]:
    """A user without a score."""
    return given(SCORE, sections=SECTIONS, policy={"scores": policy}).at(T0)
