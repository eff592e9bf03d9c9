"""Scores as scenarios: given a score, when somebody sweeps or acts, then … Ids are those of the seed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from betimes.core.deciders import Call, Effect, Send
from betimes.core.instants import MINUTE
from betimes.core.streams import StreamId
from betimes.runs.model import RequestRun
from betimes.scores.amounts import POINT, micro
from betimes.scores.model import (
    AdjustScore,
    CreateScore,
    Decayed,
    GameOver,
    Interact,
    Interacted,
    ScoreCreated,
    SweepScore,
    ThresholdCrossed,
)
from tests.scores.scene import GRACE_HOURS, SWEEP, T0, decay_of, hours, left, nobody, score

# -- grace


def test_a_chapter_1_user_inactive_for_20_hours_does_not_decay() -> None:
    """AC-FR001-001, AC-T2.2"""
    score().at(hours(20)).when(SWEEP).then_nothing().then_verdict("LATER", "GRACE", until=hours(24))


def test_a_chapter_1_user_inactive_for_25_hours_decays() -> None:
    """AC-FR001-002, AC-T2.2"""
    assert left(score().at(hours(25)).when(SWEEP)) == Decimal("49.2")


def test_a_chapter_5_user_inactive_for_90_hours_does_not_decay() -> None:
    """AC-FR001-003"""
    score(chapter=5).at(hours(90)).when(SWEEP).then_nothing().then_verdict("LATER", "GRACE")


@pytest.mark.parametrize("chapter", GRACE_HOURS)
def test_every_chapter_is_overdue_strictly_after_its_grace(chapter: int) -> None:
    """AC-T2.1, AC-T9.1"""
    end = hours(GRACE_HOURS[chapter])
    score(chapter=chapter).at(end).when(SWEEP).then_nothing().then_verdict("LATER", "GRACE")
    assert left(score(chapter=chapter).at(end + MINUTE).when(SWEEP)) < 50


# -- amounts


@pytest.mark.parametrize(
    ("chapter", "overdue", "expected"),
    [
        (1, 2, "1.6"),
        (1, 10, "8"),
        (1, 24, "15"),
        (1, 30, "19.8"),
        (2, 10, "6"),
        (2, 24, "12"),
        (3, 10, "4"),
        (3, 24, "9.6"),
        (4, 10, "3"),
        (4, 24, "7.2"),
        (5, 10, "2"),
        (5, 24, "4.8"),
    ],
)
def test_decay_for_various_overdue_durations(chapter: int, overdue: float, expected: str) -> None:
    """AC-FR002-001, AC-FR003-001, AC-T9.2"""
    scenario = score(chapter=chapter).at(hours(GRACE_HOURS[chapter] + overdue)).when(SWEEP)
    assert decay_of(scenario).amount == micro(Decimal(expected))
    assert 50 - left(scenario) == Decimal(expected)


def test_a_day_costs_at_most_the_daily_cap() -> None:
    """AC-FR003-002"""
    assert left(score().at(hours(24 + 23)).when(SWEEP)) == 35
    assert left(score().at(hours(24 + 24)).when(SWEEP)) == 35


def test_a_cycle_takes_at_most_its_cap_and_forgives_the_rest() -> None:
    """AC-T2.4, AC-T9.3"""
    scenario = score().at(hours(24 + 7 * 24)).when(SWEEP)
    decay = decay_of(scenario)
    assert (decay.amount, decay.forgiven) == (20 * POINT, 85 * POINT)
    assert scenario.decision.reply == "capped"
    scenario.at(hours(24 + 7 * 24 + 1)).when(SWEEP)
    assert left(scenario) == Decimal("29.2")


def test_the_cap_per_cycle_is_configurable() -> None:
    """AC-T2.4"""
    assert left(score(max_decay_per_cycle=5).at(hours(24 + 20)).when(SWEEP)) == 45


def test_the_decay_result_says_everything() -> None:
    """AC-T1.1, AC-T1.2, AC-T1.3: what a DecayResult is made of is on the event."""
    scenario = score().at(hours(26)).when(SWEEP)
    scenario.then(
        Decayed(1_600_000, 48_400_000, hours(24), hours(26), hours(24), 1, 800_000, hours(26) + MINUTE)
    ).then_alarm(None)


def test_a_decay_is_never_applied_twice() -> None:
    """AC-T6.4"""
    scenario = score().at(hours(26)).when(SWEEP)
    scenario.when(SWEEP).then_nothing().then_verdict("LATER", "NOTHING_OWED")
    scenario.when(SweepScore(hours(25))).then_nothing()
    scenario.at(hours(27)).when(SWEEP)
    assert (decay_of(scenario).from_at, decay_of(scenario).to_at) == (hours(26), hours(27))


def test_a_sweep_decays_up_to_its_own_instant_not_into_the_future() -> None:
    assert left(score().at(hours(30)).when(SweepScore(hours(26)))) == Decimal("48.4")
    assert left(score().at(hours(26)).when(SweepScore(hours(30)))) == Decimal("48.4")


def test_a_capped_day_is_not_swept_again_before_the_next() -> None:
    """Chapter 1 has lost its 15 points after 18.75 hours; the next loss begins with the next day."""
    scenario = score().at(hours(24 + 20)).when(SWEEP)
    assert scenario.state
    assert scenario.state.due_at == hours(24 + 24) + 4_500


# -- floor, thresholds, game over


def test_a_score_of_3_that_loses_5_is_at_0() -> None:
    """AC-FR005-001, AC-T2.5, AC-T4.1, AC-T9.4"""
    scenario = score(3).at(hours(24 + 6.25)).when(SWEEP)
    assert left(scenario) == 0
    assert decay_of(scenario).amount == 3 * POINT


def test_reaching_0_is_game_over_by_decay_once() -> None:
    """AC-FR007-001, AC-FR008-001, AC-T4.2, AC-T4.3, AC-T4.4"""
    scenario = score(3).at(hours(34)).when(SWEEP)
    assert scenario.decision.events[-1] == GameOver("decay", "game_over")
    assert scenario.decision.reply == "game_over"
    assert scenario.state
    assert (scenario.state.status, scenario.state.due_at) == ("game_over", None)
    scenario.at(hours(100)).when(SWEEP).then_nothing().then_verdict("NEVER", "PAUSED")


@pytest.mark.parametrize(
    ("points", "crossed"),
    [(50, ["warning"]), (Decimal("48.1"), ["warning"]), (40, []), (Decimal("40.1"), ["warning"]), (21, ["critical"])],
)
def test_thresholds_are_events_when_they_are_crossed_downward(points: float, crossed: list[str]) -> None:
    scenario = score(points).at(hours(24 + 12.5)).when(SWEEP)
    names = [event.name for event in scenario.decision.events if isinstance(event, ThresholdCrossed)]
    assert names == crossed


def test_one_fall_may_cross_several() -> None:
    scenario = score(41).at(hours(24 + 48)).when(AdjustScore("cheating", delta=-30 * POINT))
    names = [event.name for event in scenario.decision.events if isinstance(event, ThresholdCrossed)]
    assert names == ["warning", "critical"]


def hooks_of(*on: str) -> list[dict[str, Any]]:
    return [{"on": list(on), "target": {"kind": "handler", "name": "tell"}}]


def keys_and_bodies(effects: tuple[Effect, ...]) -> list[dict[str, Any]]:
    return [effect.payload["detail"] for effect in effects if isinstance(effect, Call)]


def test_a_threshold_can_cause_a_run_under_its_key() -> None:
    target = {"kind": "trigger", "trigger_type": "NUDGE"}
    scenario = score(hooks=[{"on": ["SCORE_THRESHOLD"], "target": target}]).at(hours(24 + 12.5)).when(SWEEP)
    [effect] = scenario.decision.effects
    assert isinstance(effect, Send)
    assert effect.to == StreamId("tenant", "account", "subject")
    assert effect.key == "score:subject:2:hook:0"
    assert isinstance(effect.command, RequestRun)


def test_hooks_are_told_what_happened() -> None:
    scenario = score(21, hooks=hooks_of("SCORE_THRESHOLD", "GAME_OVER")).at(hours(26)).when(SWEEP)
    assert keys_and_bodies(scenario.decision.effects) == [
        {
            "user_id": "subject",
            "score": 19.4,
            "segment_id": "score:subject:2",
            "threshold": "critical",
            "threshold_score": 20,
        }
    ]
    scenario.when(AdjustScore("gone", score=0))
    assert keys_and_bodies(scenario.decision.effects) == [
        {"user_id": "subject", "score": 0, "segment_id": "score:subject:3", "reason": "adjust"}
    ]


def test_occasions_of_one_fall_have_keys_of_their_own() -> None:
    target = {"kind": "trigger", "trigger_type": "NUDGE"}
    scenario = score(45, hooks=[{"on": ["SCORE_THRESHOLD", "GAME_OVER"], "target": target}])
    scenario.when(AdjustScore("gone", score=0))
    keys = [effect.key for effect in scenario.decision.effects if isinstance(effect, Send)]
    assert keys == ["score:subject:2:warning:hook:0", "score:subject:2:critical:hook:0", "score:subject:2:hook:0"]


# -- interactions


def test_an_interaction_restarts_grace() -> None:
    """AC-FR006-001, AC-FR006-002, AC-T3.1, AC-T3.2"""
    scenario = score().at(hours(26)).when(SWEEP).at(hours(27)).when(Interact("text"))
    assert scenario.state
    assert scenario.state.interacted_at == hours(27)
    before = left(scenario)
    scenario.at(hours(27 + 24)).when(SWEEP).then_nothing().then_verdict("LATER", "GRACE", until=hours(51))
    scenario.at(hours(27 + 25)).when(SWEEP)
    assert before - left(scenario) == Decimal("0.8")


@pytest.mark.parametrize("kind", ["text", "voice"])
def test_text_and_voice_count(kind: str) -> None:
    """AC-T3.3, AC-T3.4"""
    scenario = score().at(hours(5)).when(Interact(kind))
    scenario.then(Interacted(kind, hours(5), 50 * POINT, True, hours(5), hours(29) + 4_500))


def test_the_portal_does_not_reset_anything() -> None:
    """AC-FR006-003"""
    scenario = score().at(hours(20)).when(Interact("portal")).then(Interacted("portal", hours(20), 50 * POINT, False))
    assert left(scenario.at(hours(26)).when(SWEEP)) == Decimal("48.4")


def test_an_interaction_that_does_not_count_settles_what_is_owed_too() -> None:
    scenario = score().at(hours(26)).when(Interact("portal"))
    assert left(scenario) == Decimal("48.4")
    assert scenario.state
    assert (scenario.state.interacted_at, scenario.state.applied_at) == (T0, hours(26))
    assert left(scenario.at(hours(34)).when(SWEEP)) == Decimal("42"), "grace goes on as it was"


def test_a_score_that_owes_all_it_has_is_over_before_an_interaction_that_does_not_count() -> None:
    scenario = score(3).at(hours(30)).when(Interact("portal"))
    *_, over, happened = scenario.decision.events
    assert (over, happened) == (GameOver("decay", "game_over"), Interacted("portal", hours(30), 0, False))
    assert scenario.state
    assert (scenario.state.score, scenario.state.status) == (0, "game_over")


def test_an_interaction_settles_what_is_owed_up_to_it() -> None:
    scenario = score().at(hours(30)).when(Interact("text", hours(26)))
    assert left(scenario) == Decimal("48.4")
    assert scenario.state
    assert scenario.state.interacted_at == hours(26)


def test_what_was_swept_is_not_refunded() -> None:
    scenario = score().at(hours(30)).when(SWEEP).when(Interact("text", hours(20)))
    assert left(scenario) == Decimal("45.2")
    assert scenario.state
    assert (scenario.state.interacted_at, scenario.state.due_at) == (hours(20), hours(44) + 4_500)


def test_an_interaction_never_goes_backwards() -> None:
    scenario = score().at(hours(10)).when(Interact("text")).at(hours(12)).when(Interact("voice", hours(3)))
    assert scenario.state
    assert scenario.state.interacted_at == hours(10)


def test_an_interaction_from_before_creation_does_not_move_grace_back() -> None:
    scenario = nobody().when(CreateScore()).when(Interact("text", hours(-72))).when(SWEEP).then_nothing()
    assert scenario.state
    assert (scenario.state.interacted_at, scenario.state.due_at) == (T0, hours(24) + 4_500)


def test_an_interaction_from_the_future_or_of_no_known_kind_is_refused() -> None:
    score().when(Interact("text", T0 + 1)).then_refused("IN_THE_FUTURE")
    score().when(Interact("smoke")).then_refused("UNKNOWN_INTERACTION")


def test_an_interaction_makes_the_score_of_a_new_user() -> None:
    scenario = nobody().when(Interact("text"))
    due_at = hours(24) + 4_500
    scenario.then(
        ScoreCreated(50 * POINT, 1, "active", T0, due_at=due_at), Interacted("text", T0, 50 * POINT, True, T0, due_at)
    )


def test_a_user_who_never_interacted_counts_from_creation() -> None:
    scenario = nobody().when(CreateScore()).at(hours(25)).when(SWEEP)
    assert left(scenario) == Decimal("49.2")


def test_an_interaction_that_comes_after_the_score_has_run_out_does_not_save_it() -> None:
    scenario = score(3).at(hours(40)).when(Interact("text"))
    assert [type(event) for event in scenario.decision.events] == [Decayed, GameOver, Interacted]
    assert scenario.state
    assert (scenario.state.status, scenario.state.score) == ("game_over", 0)
