"""What a type checker knows of `BlockingBetimes`: `make lint` reads the types asserted here, so that none is `Any`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import pytest

from betimes import BlockingBetimes, VirtualClock
from betimes.domain.paging import Page
from betimes.domain.service import Caller
from betimes.engine.tick_result import TickResult
from betimes.ledger.effects import EffectView
from betimes.runs.views import TriggerVerdict
from betimes.schedules.views import ScheduleView, ScheduleWritten
from betimes.scores.views import Score

TRIGGER = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
SCHEDULE = {"cron": "0 8 * * *", "target": {"kind": "handler", "name": "brief"}}


@pytest.fixture
def bt() -> Iterator[BlockingBetimes]:
    with BlockingBetimes("memory://", clock=VirtualClock()) as bt:
        yield bt


def test_answers_have_their_own_types(bt: BlockingBetimes) -> None:
    assert_type(bt.runs.trigger(TRIGGER), TriggerVerdict)
    assert_type(bt.schedules.put("brief", SCHEDULE), ScheduleWritten)
    assert_type(bt.schedules.list(), Page[ScheduleView])
    assert_type(bt.scores.list(), Page[Score])
    assert_type(bt.advance(by_s=60), TickResult)


def test_services_of_others_have_their_own_types(bt: BlockingBetimes) -> None:
    others = bt.for_caller(Caller("acme", "test"))
    assert_type(others.runs.trigger(TRIGGER), TriggerVerdict)
    assert_type(bt.effects_for(Caller("acme", "test")).effects({}), Page[EffectView])


def test_what_does_not_fit_is_seen_before_it_runs(bt: BlockingBetimes) -> None:
    """An ignored error that is none would be reported by `make lint`."""
    with pytest.raises(AttributeError):
        bt.runs.triger(TRIGGER)  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        bt.scores.get()  # type: ignore[call-arg]
