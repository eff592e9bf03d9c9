"""Hundreds of histories of runs under faults, each held against every invariant; and planted bugs that show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.runs.decide import ACCOUNT
from betimes.runs.model import RunDeferred
from betimes.testing.simulator import simulate
from betimes.testing.simulator.runner import demand_sound
from tests.runs.simulated import RUNS

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_every_history_is_sound(first: int) -> None:
    demand_sound(range(first, first + 40), RUNS)


@pytest.mark.parametrize("seed", [3, 14, 159])
def test_a_seed_gives_the_same_bytes_every_time(seed: int) -> None:
    assert simulate(seed, RUNS) == simulate(seed, RUNS)


def forgets_the_cooldown(view: Any, command: Any, policy: Any, now: Any) -> Any:
    state = replace(view.state, last_allowed_at=None) if view.state else None
    return ACCOUNT.decide(replace(view, state=state), command, policy, now)


def forgets_its_windows(view: Any, command: Any, policy: Any, now: Any) -> Any:
    state = replace(view.state, allowed_by_type={}) if view.state else None
    return ACCOUNT.decide(replace(view, state=state), command, policy, now)


def forgets_the_tenant(view: Any, command: Any, policy: Any, now: Any) -> Any:
    return ACCOUNT.decide(replace(view, others={}), command, policy, now)


def loses_what_it_defers(view: Any, command: Any, policy: Any, now: Any) -> Any:
    decision = ACCOUNT.decide(view, command, policy, now)
    if isinstance(decision, Decision) and any(isinstance(event, RunDeferred) for event in decision.events):
        return replace(decision, events=tuple(replace_due(event) for event in decision.events))
    return decision


def replace_due(event: Any) -> Any:
    """A deferral under a key nobody knows."""
    return replace(event, due=replace(event.due, key="lost")) if isinstance(event, RunDeferred) else event


@pytest.mark.parametrize("bug", [forgets_the_cooldown, forgets_its_windows, forgets_the_tenant, loses_what_it_defers])
def test_a_planted_bug_is_found_out(bug: Callable[..., Any]) -> None:
    buggy = replace(RUNS, deciders=(replace(ACCOUNT, decide=bug), *RUNS.deciders[1:]))
    assert any(simulate(seed, buggy).findings for seed in range(60))
