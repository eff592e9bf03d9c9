"""Histories of senders, people and failing processes, each held against every invariant; and bugs that are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.notifications.decide import INBOX
from betimes.notifications.model import InboxState, Notify, Preferences
from betimes.testing.simulator.runner import demand_sound, simulate
from tests.notifications.simulated import NOTIFYING

SEEDS, CHUNK = 80, 40
NOTICED_WITHIN = 60

pytestmark = pytest.mark.simulator


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_history_is_sound(first: int) -> None:
    demand_sound(range(first, first + CHUNK), NOTIFYING)


def forgets_what_was_seen(view: Any, command: Any, policy: Any, now: int) -> Any:
    if view.state and isinstance(command, Notify):
        view = replace(view, state=replace(view.state, seen=(), prints=()))
    return INBOX.decide(view, command, policy, now)


def does_not_count(view: Any, command: Any, policy: Any, now: int) -> Any:
    state = view.state or InboxState()
    return INBOX.decide(replace(view, state=replace(state, delivered=())), command, policy, now)


def disturbs_at_night(view: Any, command: Any, policy: Any, now: int) -> Any:
    state = view.state or InboxState()
    awake = replace(state, preferences=Preferences())
    return INBOX.decide(replace(view, state=awake), command, policy, now)


def loses_what_waits(state: Any, event: Any) -> Any:
    after = INBOX.fold(state, event)
    return replace(after, waiting=after.waiting[:1]) if after and len(after.waiting) > 1 else after


def gives_up_at_the_first_channel(view: Any, command: Any, policy: Any, now: int) -> Any:
    if view.state:
        alone = tuple(replace(one, rest=()) for one in view.state.delivering)
        view = replace(view, state=replace(view.state, delivering=alone))
    return INBOX.decide(view, command, policy, now)


def forgets_the_feed(view: Any, command: Any, policy: Any, now: int) -> Any:
    decision = INBOX.decide(view, command, policy, now)
    if isinstance(decision, Decision):
        kept = tuple(one for one in decision.effects if getattr(getattr(one, "to", None), "kind", "") != "feed")
        decision = replace(decision, effects=kept)
    return decision


@pytest.mark.parametrize(
    "bug",
    [
        {"decide": forgets_what_was_seen},
        {"decide": does_not_count},
        {"decide": disturbs_at_night},
        {"fold": loses_what_waits},
        {"decide": gives_up_at_the_first_channel},
        {"decide": forgets_the_feed},
    ],
    ids=lambda bug: next(iter(bug.values())).__name__,
)
def test_a_planted_bug_is_noticed(bug: dict[str, Any]) -> None:
    broken = replace(NOTIFYING, deciders=(replace(INBOX, **bug), *NOTIFYING.deciders[1:]))
    assert any(not simulate(seed, broken).is_sound for seed in range(NOTICED_WITHIN))
