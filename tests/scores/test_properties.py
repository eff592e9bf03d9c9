"""What must hold for a score whatever happens to it, and in whatever rhythm it is swept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given as given_values
from hypothesis import strategies as st

from betimes.core.deciders import Decision
from betimes.core.instants import DAY, MINUTE
from betimes.scores.amounts import POINT, micro
from betimes.scores.model import AdjustScore, Decayed, GameOver, Interact, Reply, ScoreState, SetStatus
from betimes.scores.policy import CHAPTERS
from betimes.testing.scenarios import Scenario
from tests.scores.scene import GRACE_HOURS, SWEEP, hours, left, score

# -- what must hold whatever happens

steps = st.tuples(
    st.integers(0, 3 * DAY),
    st.one_of(
        st.just(SWEEP),
        st.builds(Interact, st.sampled_from(("text", "portal"))),
        st.builds(
            SetStatus,
            st.sampled_from(("active", "boss_fight", "won")),
            chapter=st.sampled_from((None, 1, 2, 5)),
            timeout_s=st.sampled_from((None, None, 3600)),
        ),
        st.builds(AdjustScore, st.just("why"), delta=st.integers(-30 * POINT, 30 * POINT)),
    ),
)


@given_values(st.lists(steps, max_size=25))
def test_whatever_happens_the_reply_is_the_state_and_no_period_overlaps(history: list[tuple[int, Any]]) -> None:
    scenario = score(90)
    decays: list[Decayed] = []
    floor_since_over = False
    for pause, command in history:
        scenario.at(scenario.now + pause).when(command)
        assert scenario.state
        assert 0 <= scenario.state.score <= 100 * POINT
        if not isinstance(scenario.outcome, Decision):
            continue
        if isinstance(scenario.outcome.reply, Reply):
            assert scenario.outcome.reply.state == scenario.state
        for event in scenario.outcome.events:
            if isinstance(event, Decayed):
                assert not decays or event.from_at >= decays[-1].to_at
                assert event.from_at < event.to_at <= scenario.now
                assert event.from_at >= event.grace_ends_at
                assert 0 < event.amount <= 20 * POINT
                decays.append(event)
            if isinstance(event, GameOver):
                assert scenario.state.score == 0
                assert not floor_since_over, "game over twice without having come back"
        floor_since_over = scenario.state.score == 0


@given_values(
    st.lists(st.integers(1, 600), min_size=1, max_size=60), st.sampled_from((1, 2, 3, 4, 5)), st.integers(1, 100)
)
def test_sweeping_in_any_rhythm_gives_the_same_score_when_no_cap_per_cycle_binds(
    minutes: list[int], chapter: int, points: int
) -> None:
    often, once = score(points, chapter, max_decay_per_cycle=100), score(points, chapter, max_decay_per_cycle=100)
    for pause in minutes:
        often.at(often.now + pause * MINUTE).when(SWEEP)
    once.at(often.now).when(SWEEP)
    assert left(often) == left(once)


@given_values(st.lists(st.integers(1, 2 * DAY), min_size=1, max_size=40), st.sampled_from((1, 2, 3, 4, 5)))
def test_no_day_counted_from_the_grace_end_costs_more_than_its_cap(pauses: list[int], chapter: int) -> None:
    scenario = score(100, chapter)
    per_day: dict[int, int] = {}
    cap = micro(next(stage.daily_cap for stage in CHAPTERS if stage.name == chapter))
    for pause in pauses:
        at = scenario.now
        end = hours(GRACE_HOURS[chapter])
        for edge in range(end, at + pause, DAY):  # swept at the edges too, so that each cycle lies in one day
            if at < edge:
                scenario.at(edge).when(SWEEP)
                _book(scenario, per_day, end)
        scenario.at(at + pause).when(SWEEP)
        _book(scenario, per_day, end)
    assert all(lost <= cap for lost in per_day.values())


def _book(scenario: Scenario[ScoreState], per_day: dict[int, int], end: int) -> None:
    for event in scenario.decision.events:
        if isinstance(event, Decayed):
            day = (event.to_at - 1 - end) // DAY
            per_day[day] = per_day.get(day, 0) + event.amount


def test_sweeping_60_times_in_the_hour_equals_sweeping_once() -> None:
    often, once = score(), score()
    for minute in range(60):
        often.at(hours(30) + minute * MINUTE).when(SWEEP)
    assert left(often.at(hours(31)).when(SWEEP)) == left(once.at(hours(31)).when(SWEEP)) == Decimal("44.4")
