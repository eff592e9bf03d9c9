"""Histories of authors, workers and failing processes, each held against every invariant; and bugs that are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.intents.decide import INTENT
from betimes.intents.model import ClaimExpired, ClaimIntent, ClaimReleased, FireCooled, FireIntent, IntentFired
from betimes.intents.owners import OWNER
from betimes.notifications.decide import DECIDERS as NOTIFICATIONS
from betimes.testing.simulator.runner import demand_sound, simulate
from tests.intents.simulated import INTENTS

SEEDS, CHUNK = 80, 40
NOTICED_WITHIN = 60

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_history_is_sound(first: int) -> None:
    demand_sound(range(first, first + CHUNK), INTENTS)


def forgets_fences(view: Any, command: Any, policy: Any, now: int) -> Any:
    """A fire with any token is let through."""
    if isinstance(command, FireIntent) and view.state and view.state.claim:
        command = replace(command, claim_token=view.state.claim.token)
    return INTENT.decide(view, command, policy, now)


def forgets_cooldowns(view: Any, command: Any, policy: Any, now: int) -> Any:
    decision = INTENT.decide(view, command, policy, now)
    if isinstance(decision, Decision) and decision.events and isinstance(decision.events[0], FireCooled):
        return replace(decision, events=(IntentFired(command.status, now, now),))
    return decision


def claims_what_is_claimed(view: Any, command: Any, policy: Any, now: int) -> Any:
    if isinstance(command, ClaimIntent) and view.state and view.state.claim:
        view = replace(view, state=replace(view.state, claim=None))
    return INTENT.decide(view, command, policy, now)


def forgives_lost_claims(view: Any, command: Any, policy: Any, now: int) -> Any:
    decision = INTENT.decide(view, command, policy, now)
    lost = isinstance(decision, Decision) and any(isinstance(e, ClaimExpired) for e in decision.events)
    return replace(decision, events=(ClaimReleased(now),), effects=()) if lost else decision


def counts_nobody(view: Any, command: Any, policy: Any, now: int) -> Any:
    return INTENT.decide(replace(view, others={}), command, policy, now)


@pytest.mark.parametrize(
    "bug", [forgets_fences, forgets_cooldowns, claims_what_is_claimed, forgives_lost_claims, counts_nobody]
)
def test_a_planted_bug_is_noticed(bug: Any) -> None:
    broken = replace(INTENTS, deciders=(replace(INTENT, decide=bug), OWNER, *NOTIFICATIONS))
    assert any(not simulate(seed, broken).is_sound for seed in range(NOTICED_WITHIN))
