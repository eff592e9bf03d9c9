"""Pauses, stages, creation and adjustments as scenarios. Ids are those of the seed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from betimes.core.deciders import Refusal, Settled
from betimes.scores.amounts import POINT
from betimes.scores.model import (
    AdjustScore,
    CreateScore,
    Decayed,
    GameOver,
    Interact,
    Rescheduled,
    ScoreAdjusted,
    SetStatus,
    StatusChanged,
)
from tests.scores.scene import SWEEP, T0, hours, left, nobody, score

CALM = nobody(stages=[{"name": "calm", "grace_hours": 1, "rate": 1, "daily_cap": 5}]).policy
"""It has none of the chapters."""

# -- pauses


@pytest.mark.parametrize("status", ["boss_fight", "game_over", "won"])
def test_paused_scores_do_not_decay(status: str) -> None:
    """AC-FR009-001, AC-T5.2, AC-T7.1, AC-T7.2, AC-T9.5"""
    scenario = score(status=status).at(hours(1000)).when(SWEEP).then_nothing().then_verdict("NEVER", "PAUSED")
    assert scenario.state
    assert scenario.state.due_at is None


@pytest.mark.parametrize("reason", ["boss_pass", "boss_fail"])
def test_after_a_boss_fight_grace_starts_fresh_and_nothing_is_caught_up(reason: str) -> None:
    """AC-FR009-002, AC-FR009-003, AC-T7.3, AC-T7.4"""
    scenario = score().at(hours(10)).when(SetStatus("boss_fight")).at(hours(500)).when(SetStatus("active", reason))
    assert scenario.state
    assert scenario.state.interacted_at == hours(500)
    scenario.at(hours(524)).when(SWEEP).then_nothing()
    assert left(scenario) == 50
    assert left(scenario.at(hours(525)).when(SWEEP)) == Decimal("49.2")


def test_a_pause_first_settles_what_is_owed() -> None:
    scenario = score().at(hours(26)).when(SetStatus("boss_fight"))
    assert left(scenario) == Decimal("48.4")


def test_a_pause_may_time_out_at_its_own_instant_however_late_the_alarm() -> None:
    scenario = score().at(hours(1)).when(SetStatus("boss_fight", timeout_s=3600)).then_alarm(hours(2))
    scenario.at(hours(10)).when(SWEEP)
    assert scenario.state
    assert (scenario.state.status, scenario.state.interacted_at) == ("active", hours(2))
    scenario.then_alarm(None)
    assert left(scenario.at(hours(27)).when(SWEEP)) == Decimal("49.2")


def test_a_time_out_wakes_the_score() -> None:
    scenario = score().at(hours(1)).when(SetStatus("boss_fight", timeout_s=3600)).wakes()
    scenario.then(StatusChanged("active", 1, 50 * POINT, "timeout", hours(2), due_at=hours(26) + 4_500))


def test_only_a_pause_can_time_out() -> None:
    score().when(SetStatus("active", timeout_s=60)).then_refused("NOT_A_PAUSE")


def test_a_change_of_chapter_first_applies_what_is_owed_at_the_old_rate() -> None:
    scenario = score().at(hours(26)).when(SetStatus("active", chapter=2))
    assert left(scenario) == Decimal("48.4")
    scenario.at(hours(36)).when(SWEEP).then_nothing()
    assert left(scenario.at(hours(46)).when(SWEEP)) == Decimal("42.4")


def test_time_in_the_grace_of_the_old_chapter_is_not_charged_at_the_new_rate() -> None:
    scenario = score(chapter=2).at(hours(30)).when(SetStatus("active", chapter=1)).when(SWEEP).then_nothing()
    assert left(scenario.at(hours(31)).when(SWEEP)) == Decimal("49.2")


def test_time_beyond_the_daily_cap_of_the_old_chapter_is_not_charged_at_the_new_rate() -> None:
    scenario = score().at(hours(43)).when(SWEEP).at(hours(47)).when(SetStatus("active", chapter=2))
    scenario.when(SWEEP).then_nothing()
    assert left(scenario.at(hours(48)).when(SWEEP)) == Decimal("34.4")


def test_a_score_at_0_cannot_be_made_active() -> None:
    scenario = score(3).at(hours(40)).when(SWEEP)
    scenario.when(SetStatus("active")).then_refused("AT_FLOOR")
    scenario.when(SetStatus("boss_fight", timeout_s=60)).then_refused("AT_FLOOR")
    scenario.when(AdjustScore("second chance", score=10 * POINT)).when(SetStatus("active"))
    assert scenario.state
    assert (scenario.state.status, scenario.state.score) == ("active", 10 * POINT)


@pytest.mark.parametrize("timeout_s", [None, 60])
def test_a_score_that_owes_all_it_has_is_game_over_before_a_pause_is_judged(timeout_s: int | None) -> None:
    scenario = score(3).at(hours(40)).when(SetStatus("boss_fight", timeout_s=timeout_s)).then_refused("AT_FLOOR")
    assert scenario.state
    assert (scenario.state.status, scenario.state.score) == ("game_over", 0)
    assert scenario.version == 2
    scenario.when(SWEEP).then_nothing()
    scenario.when(SetStatus("won")).then_refused("AT_FLOOR")


def test_any_refused_command_leaves_a_score_that_fell_to_0_over() -> None:
    for command in (SetStatus("asleep"), CreateScore(), Interact("shout"), Interact("text", hours(41))):
        scenario = score(3).at(hours(40)).when(command)
        assert isinstance(scenario.outcome, Refusal)
        assert scenario.state
        assert (scenario.state.status, scenario.state.score) == ("game_over", 0), command


def test_an_interaction_before_the_fall_still_saves_the_score() -> None:
    scenario = score(3).at(hours(40)).when(Interact("shout", hours(25)))
    scenario.then_refused("UNKNOWN_INTERACTION")
    assert left(scenario.when(Interact("text", hours(25)))) == Decimal("2.2")


def test_a_score_that_owes_all_it_has_may_be_set_to_game_over() -> None:
    scenario = score(3).at(hours(40)).when(SetStatus("game_over"))
    assert [type(event) for event in scenario.decision.events] == [Decayed, GameOver, StatusChanged]
    scenario.when(SetStatus("game_over", timeout_s=60)).then_refused("AT_FLOOR")


def test_a_pause_set_again_without_a_time_out_keeps_the_running_one() -> None:
    scenario = score().at(hours(1)).when(SetStatus("boss_fight", timeout_s=3600))
    scenario.at(hours(1.5)).when(SetStatus("boss_fight", "still fighting")).then_alarm(hours(2))
    scenario.when(SetStatus("boss_fight", timeout_s=7200)).then_alarm(hours(3.5))
    scenario.when(SetStatus("won")).then_alarm(None)


def test_the_policy_may_end_a_pause_that_nobody_timed() -> None:
    scenario = score(pause_timeouts_s={"boss_fight": 3600}).when(SetStatus("boss_fight")).then_alarm(hours(1))
    scenario.at(hours(0.5)).when(SetStatus("boss_fight")).then_alarm(hours(1))
    scenario.when(SetStatus("won")).then_alarm(None)
    scenario.when(SetStatus("boss_fight", timeout_s=60)).then_alarm(hours(0.5) + 60 * 1_000_000)
    scenario.wakes()
    assert scenario.state
    assert scenario.state.status == "active"


def test_statuses_and_stages_the_policy_does_not_know_are_refused() -> None:
    score().when(SetStatus("asleep")).then_refused("UNKNOWN_STATUS")
    score().when(SetStatus("active", chapter=9)).then_refused("UNKNOWN_STAGE")


# -- creation and adjustment


def test_a_score_is_made_once_and_not_at_the_floor() -> None:
    score().when(CreateScore()).then_refused("ALREADY_EXISTS")
    fresh = nobody()
    fresh.when(CreateScore(score=0)).then_refused("AT_FLOOR")
    fresh.when(CreateScore(created_at=T0 + 1)).then_refused("IN_THE_FUTURE")
    fresh.when(CreateScore(interacted_at=T0 + 1)).then_refused("IN_THE_FUTURE")
    fresh.when(CreateScore(applied_at=T0 + 1)).then_refused("IN_THE_FUTURE")
    fresh.when(CreateScore(status="asleep")).then_refused("UNKNOWN_STATUS")
    fresh.when(CreateScore(chapter=9)).then_refused("UNKNOWN_STAGE")
    fresh.when(CreateScore(score=0, status="game_over")).then_alarm(None)


def test_nothing_but_an_interaction_makes_a_score() -> None:
    fresh = nobody()
    for command in (SWEEP, SetStatus("active"), AdjustScore("why", delta=1)):
        fresh.when(command).then_refused("NOT_FOUND")
    score().when(Settled("score:subject:1:0", "handler:tell", "done")).then_nothing()


def test_an_adjustment_is_held_within_its_bounds() -> None:
    scenario = score(90).when(AdjustScore("gift", delta=20 * POINT))
    scenario.then(ScoreAdjusted(90 * POINT, 100 * POINT, "gift", hours(24) + 4_500))
    scenario.when(AdjustScore("reset", score=50 * POINT))
    assert left(scenario) == 50
    scenario.when(AdjustScore("both", score=1, delta=1)).then_refused("NOT_ONE_AMOUNT")
    scenario.when(AdjustScore("neither")).then_refused("NOT_ONE_AMOUNT")


def test_an_adjustment_settles_first_and_0_is_game_over() -> None:
    scenario = score().at(hours(26)).when(AdjustScore("found out", delta=-60 * POINT))
    decayed, adjusted, *crossed, over = scenario.decision.events
    assert isinstance(decayed, Decayed)
    assert adjusted == ScoreAdjusted(48_400_000, 0, "found out")
    assert len(crossed) == 2
    assert over == GameOver("adjust", "game_over")
    scenario.when(AdjustScore("again", score=0)).then(ScoreAdjusted(0, 0, "again"))


# -- changed policies


def test_a_score_that_is_not_due_any_more_is_put_back() -> None:
    scenario = score(chapter=1)
    longer = nobody(stages=[{"name": 1, "grace_hours": 48, "rate": 1, "daily_cap": 5}])
    scenario.policy = longer.policy
    scenario.at(hours(30)).when(SWEEP).then(Rescheduled(hours(48) + 3_600)).then_verdict("LATER", "GRACE")
    assert scenario.decision.reply == "skipped"


def test_time_before_a_change_of_chapter_is_not_charged_when_a_policy_shortens_the_grace_of_the_new_one() -> None:
    scenario = score(chapter=1).at(hours(20)).when(SetStatus("active", chapter=2))
    scenario.policy = nobody(stages=[{"name": 2, "grace_hours": 0, "rate": 1, "daily_cap": 100}]).policy
    assert left(scenario.at(hours(21)).when(SWEEP)) == Decimal("49")


def test_a_score_whose_stage_is_gone_fails_until_it_is_moved() -> None:
    scenario = score(chapter=5)
    scenario.policy = CALM
    with pytest.raises(ValueError, match="no stage 5"):
        scenario.at(hours(200)).when(SWEEP)
    scenario.when(SetStatus("active", chapter="calm"))
    assert scenario.state
    assert scenario.state.chapter == "calm"


@pytest.mark.parametrize("command", [Interact("text"), AdjustScore("why", delta=POINT)])
def test_what_must_settle_first_is_refused_when_the_stage_is_gone(command: Any) -> None:
    scenario = score(chapter=5)
    scenario.policy = CALM
    scenario.at(hours(200)).when(command).then_refused("UNKNOWN_STAGE")


def test_a_pause_times_out_though_the_stage_is_gone_and_the_score_can_be_moved() -> None:
    scenario = score(chapter=5).when(SetStatus("boss_fight", timeout_s=3600))
    scenario.policy = CALM
    scenario.wakes().then(StatusChanged("active", 5, 50 * POINT, "timeout", hours(1), due_at=hours(1)))
    scenario.when(SetStatus("active", chapter="calm"))
    assert scenario.state
    assert scenario.state.chapter == "calm"


def test_a_score_at_0_is_never_due_also_when_its_status_is_not_a_pause_any_more() -> None:
    scenario = score(3).at(hours(40)).when(SWEEP)
    scenario.policy = nobody(paused_statuses=["over"], game_over_status="over").policy
    scenario.when(Interact("text"))
    assert scenario.state
    assert scenario.state.due_at is None


def test_a_reply_is_the_state_also_when_a_pause_that_times_out_is_not_one_any_more() -> None:
    scenario = score().when(SetStatus("boss_fight", timeout_s=200 * 3600))
    scenario.policy = nobody(active_statuses=["active", "boss_fight"], paused_statuses=["game_over"]).policy
    scenario.at(hours(30)).when(Interact("text"))
    assert scenario.decision.reply.state == scenario.state
    assert scenario.state
    assert scenario.state.paused_until_at == hours(200)
