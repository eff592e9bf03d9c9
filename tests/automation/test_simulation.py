"""Histories of schedules and sensors under faults, each held against every invariant; and planted bugs that show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Settled
from betimes.schedules.decide import SCHEDULE
from betimes.schedules.model import TicksSkipped
from betimes.sensors.decide import SENSOR
from betimes.testing.simulator import simulate
from betimes.testing.simulator.runner import demand_sound
from tests.automation.simulated import AUTOMATION

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("first", range(0, 60, 30))
def test_every_history_is_sound(first: int) -> None:
    demand_sound(range(first, first + 30), AUTOMATION)


@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_gives_the_same_bytes_every_time(seed: int) -> None:
    assert simulate(seed, AUTOMATION) == simulate(seed, AUTOMATION)


def forgets_where_it_was(view: Any, command: Any, policy: Any, now: Any) -> Any:
    state = replace(view.state, through_at=None) if view.state else None
    return SCHEDULE.decide(replace(view, state=state), command, policy, now)


def lets_what_it_skips_vanish(view: Any, command: Any, policy: Any, now: Any) -> Any:
    decision = SCHEDULE.decide(view, command, policy, now)
    if not isinstance(decision, Decision):
        return decision
    return replace(decision, events=tuple(e for e in decision.events if not isinstance(e, TicksSkipped)))


def fires_from_before_a_change(view: Any, command: Any, policy: Any, now: Any) -> Any:
    state = view.state
    if state:
        state = replace(state, changed_at=state.created_at - 20_000_000, created_at=state.created_at - 20_000_000)
    return SCHEDULE.decide(replace(view, state=state), command, policy, now)


def accepts_what_is_stale(view: Any, command: Any, policy: Any, now: Any) -> Any:
    state = view.state
    if state and isinstance(command, Settled) and state.in_flight:
        out = replace(state.in_flight, expected_state_version=state.state_version, effect=command.effect)
        state = replace(state, in_flight=out)
    return SENSOR.decide(replace(view, state=state), command, policy, now)


def _buggy(decider: Decider[Any], decide: Callable[..., Any]) -> Any:
    known = [replace(one, decide=decide) if one.kind == decider.kind else one for one in AUTOMATION.deciders]
    return replace(AUTOMATION, deciders=tuple(known))


@pytest.mark.parametrize(
    ("decider", "bug"),
    [
        (SCHEDULE, forgets_where_it_was),
        (SCHEDULE, lets_what_it_skips_vanish),
        (SCHEDULE, fires_from_before_a_change),
        (SENSOR, accepts_what_is_stale),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found_out(decider: Decider[Any], bug: Callable[..., Any]) -> None:
    assert any(simulate(seed, _buggy(decider, bug)).findings for seed in range(60))
