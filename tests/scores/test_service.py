"""Scores as callers meet them: the contract's answers, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.checks import check_value
from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, KeyConflict, NotFound, Refused
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.scores.service import Adjustment, Interaction, NewScore, Scores, StatusChange
from betimes.scores.views import WrittenScore
from tests.scores.worlds import scores_world
from tests.stores.backends import Backend

NOW = datetime(2026, 2, 1, tzinfo=UTC)
JSON = msgspec.json.Encoder(decimal_format="number")


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def overdue(user: str, hours: float, **more: Any) -> NewScore:
    """A chapter 1 score so many hours after its grace ended."""
    return NewScore(user_id=user, created_at=ago(1000), last_interaction_at=ago(24 + hours), **more)


async def test_a_score_is_shown_as_the_contract_says(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (_w, scores):
        await scores.create(overdue("u-3", 2, score=Decimal(50)))
        shown = msgspec.json.decode(JSON.encode(await scores.get("u-3")))
    assert shown == {
        "user_id": "u-3",
        "score": 50,
        "effective_score": 48.4,
        "chapter": 1,
        "game_status": "active",
        "last_interaction_at": "2026-01-30T22:00:00Z",
        "grace_ends_at": "2026-01-31T22:00:00Z",
        "last_decay_applied_at": None,
        "hours_overdue": 2,
        "days_overdue": 0.083333,
        "paused_until": None,
        "forecast": {
            "thresholds": [
                {"name": "warning", "score": 40, "at": "2026-02-01T10:30:00Z"},
                {"name": "critical", "score": 20, "at": "2026-02-02T16:45:00Z"},
            ],
            "zero_at": "2026-02-04T04:15:00Z",
        },
        "created_at": "2025-12-21T08:00:00Z",
        "updated_at": "2026-02-01T00:00:00Z",
    }


async def test_an_interaction_answers_with_what_it_settled(backend: Backend, tmp_path: Path) -> None:
    """AC-FR006-001, AC-T1.1, AC-T1.2, AC-T1.3, AC-T3.2"""
    async with scores_world(backend, tmp_path) as (_w, scores):
        await scores.create(overdue("ann", 2))
        answer = await scores.interact("ann", Interaction(type="text"), key="k1")
        again = await scores.interact("ann", Interaction(type="text"), key="k1")
        assert again == answer
        with pytest.raises(KeyConflict):
            await scores.interact("ann", Interaction(type="voice"), key="k1")
        assert (answer.counted, answer.created, answer.score) == (True, False, Decimal("48.4"))
        assert answer.last_interaction_at == NOW
        assert msgspec.json.decode(JSON.encode(answer.decay)) == {
            "user_id": "ann",
            "decay_amount": 1.6,
            "score_before": 50,
            "score_after": 48.4,
            "hours_overdue": 2,
            "days_overdue": 0.083333,
            "chapter": 1,
            "decay_rate": 0.8,
            "timestamp": "2026-02-01T00:00:00Z",
            "period": {"from": "2026-01-31T22:00:00Z", "to": "2026-02-01T00:00:00Z"},
            "segment_id": "score:ann:2",
        }
        new = await scores.interact("new", Interaction(type="portal"))
        assert (new.counted, new.created, new.decay, new.score) == (False, True, None, Decimal(50))


async def test_a_recorded_answer_stays_what_it_was_when_the_policy_changes(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        first = await scores.create(overdue("ann", 2), key="k")
        changed = SetPolicy({"scores": {"thresholds": [], "max_decay_per_cycle": 1}})
        await w.submit(changed, tenant_stream("acme"))
        assert await scores.create(overdue("ann", 2), key="k") == first
        assert (await scores.get("ann")).effective_score == 49


async def test_a_recorded_answer_is_given_again_when_the_policy_does_not_know_its_words_any_more(
    backend: Backend, tmp_path: Path
) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        first = await scores.interact("ann", Interaction(type="voice"), key="k")
        paused = StatusChange(game_status="won", timeout_seconds=60)
        second = await scores.set_status("ann", paused, key="s")
        section = {"interactions": ["text"], "paused_statuses": ["game_over"]}
        await w.submit(SetPolicy({"scores": section}), tenant_stream("acme"))
        assert await scores.interact("ann", Interaction(type="voice"), key="k") == first
        assert await scores.set_status("ann", paused, key="s") == second
        with pytest.raises(Invalid) as unknown:
            await scores.interact("ann", Interaction(type="voice"), key="another")
        assert [path for path, _ in unknown.value.problems] == ["type"]


async def test_a_score_whose_stage_is_gone_is_shown_as_one_that_does_not_fade(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create(overdue("ann", 10, chapter=5))
        stages = [{"name": 1, "grace_hours": 24, "rate": 0.8, "daily_cap": 15}]
        await w.submit(SetPolicy({"scores": {"stages": stages}}), tenant_stream("acme"))
        shown = await scores.get("ann")
        assert (shown.chapter, shown.effective_score, shown.forecast) == (5, Decimal(50), None)
        assert shown.hours_overdue == 0
        assert (await scores.list()).items == [shown]
        assert not (await scores.interact("ann", Interaction(type="portal"))).counted


async def test_what_would_happen_after_the_year_9999_is_forecast_as_never(backend: Backend, tmp_path: Path) -> None:
    stages = [{"name": 1, "grace_hours": 24, "rate": 0.8, "daily_cap": "0.00001"}]
    async with scores_world(backend, tmp_path, body={"scores": {"stages": stages}}) as (_w, scores):
        forecast = (await scores.create(NewScore(user_id="ann"))).forecast
        assert forecast
        warning, critical = forecast.thresholds
        assert warning.at
        assert (warning.at.year, critical.at, forecast.zero_at) == (4763, None, None)


async def test_statuses_pause_and_time_out(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create(NewScore(user_id="ann"))
        paused = await scores.set_status("ann", StatusChange(game_status="boss_fight", timeout_seconds=3600))
        assert (paused.game_status, paused.forecast) == ("boss_fight", None)
        assert paused.paused_until == NOW + timedelta(hours=1)
        w.clock.advance(2 * 3600)
        shown = await scores.get("ann")
        assert (shown.game_status, shown.paused_until) == ("active", None)
        await w.engine.tick()
        assert (await scores.get("ann")).last_interaction_at == NOW + timedelta(hours=1)
        assert [entry.event_type for entry in (await scores.history("ann")).items] == ["status", "status", "created"]


async def test_adjusting_answers_with_both_scores(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (_w, scores):
        await scores.create(NewScore(user_id="ann"))
        answer = await scores.adjust("ann", Adjustment(delta=Decimal("-12.5"), reason="late"), key="a")
        assert answer == await scores.adjust("ann", Adjustment(delta=Decimal("-12.5"), reason="late"), key="a")
        assert (answer.score_before, answer.score_after, answer.reason) == (Decimal(50), Decimal("37.5"), "late")
        assert answer.segment_id == "score:ann:2"
        assert (await scores.adjust("ann", Adjustment(score=Decimal(0), reason="gone"))).score_after == 0
        assert (await scores.get("ann")).game_status == "game_over"
        with pytest.raises(Refused) as caught:
            await scores.set_status("ann", StatusChange(game_status="active"))
        assert caught.value.reason == "AT_FLOOR"


async def test_a_pause_refused_at_the_floor_leaves_the_score_over_and_its_key_free(
    backend: Backend, tmp_path: Path
) -> None:
    heard: list[str] = []

    async def tell(call: EffectCall) -> None:
        heard.append(call.payload["detail"]["reason"])

    hook = {"on": ["GAME_OVER"], "target": {"kind": "handler", "name": "tell"}}
    world = scores_world(backend, tmp_path, body={"hooks": [hook]}, executors={"handler:tell": tell})
    async with world as (w, scores):
        await scores.create(overdue("ann", 10, score=Decimal(3)))
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                await scores.set_status("ann", StatusChange(game_status="boss_fight"), key="k")
            assert caught.value.reason == "AT_FLOOR"
        shown = await scores.get("ann")
        assert (shown.game_status, shown.score) == ("game_over", Decimal(0))
        assert [entry.event_type for entry in (await scores.history("ann")).items] == ["decay_game_over", "created"]
        await w.engine.tick()
        assert heard == ["decay"]
        assert (await scores.sweep()).processed == 0
        assert (await scores.adjust("ann", Adjustment(delta=Decimal(5), reason="mercy"), key="k")).score_after == 5
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_what_is_not_there_or_not_allowed_is_named(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (_w, scores):
        with pytest.raises(NotFound):
            await scores.get("nobody")
        with pytest.raises(NotFound):
            await scores.history("nobody")
        with pytest.raises(NotFound):
            await scores.adjust("nobody", Adjustment(score=Decimal(1), reason="why"))
        await scores.create(NewScore(user_id="ann"))
        with pytest.raises(Refused) as refused:
            await scores.create(NewScore(user_id="ann"))
        assert refused.value.reason == "ALREADY_EXISTS"
        with pytest.raises(Invalid) as unknown:
            await scores.create(NewScore(user_id="bob", chapter=9, game_status="asleep"))
        assert [path for path, _ in unknown.value.problems] == ["chapter", "game_status"]
        with pytest.raises(Invalid) as late:
            await scores.interact("ann", Interaction(type="text", timestamp=NOW + timedelta(seconds=1)))
        assert [path for path, _ in late.value.problems] == ["timestamp"]
        with pytest.raises(Invalid) as no_pause:
            await scores.set_status("ann", StatusChange(game_status="active", timeout_seconds=5))
        assert [path for path, _ in no_pause.value.problems] == ["timeout_seconds"]


@pytest.mark.parametrize(
    ("kind", "body", "paths"),
    [
        (NewScore, {"user_id": "a b", "score": 101}, ["user_id", "score"]),
        (NewScore, {"user_id": "a", "score": 1.1234567}, ["score"]),
        (NewScore, {"user_id": "a", "created_at": "2026-01-01T00:00:00", "level": 1}, ["created_at", "level"]),
        (Adjustment, {"reason": "", "delta": 1, "score": 1}, ["reason", "delta"]),
        (Adjustment, {"reason": "x", "delta": 1, "score": 1}, ["delta"]),
        (
            StatusChange,
            {"game_status": "won", "reason": "x" * 201, "timeout_seconds": 0},
            ["reason", "timeout_seconds"],
        ),
        (Interaction, {}, ["type"]),
    ],
)
def test_a_request_is_checked_whole(kind: Any, body: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        check_value(body, kind)
    assert [path for path, _ in caught.value.problems] == paths


async def test_lists_filter_and_go_on_from_their_cursor(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"o{n}", 5, chapter=1 + n % 2) for n in range(6)])
        await scores.create_many([NewScore(user_id=f"f{n}", game_status="won") for n in range(3)])
        await Scores(w.engine, Caller("bolt")).create(NewScore(user_id="other"))
        first = await scores.list(limit=4)
        second = await scores.list(limit=200, cursor=first.next_cursor)
        ids = [score.user_id for score in [*first.items, *second.items]]
        assert ids == sorted([f"o{n}" for n in range(6)] + [f"f{n}" for n in range(3)])[::-1], "all made at once"
        assert second.next_cursor is None
        assert [score.user_id for score in (await scores.list(game_status="won")).items] == ["f2", "f1", "f0"]
        assert [score.user_id for score in (await scores.list(overdue=True)).items] == ["o4", "o2", "o0"]
        assert [score.user_id for score in (await scores.list(chapter="2")).items] == ["o5", "o3", "o1"]
        with pytest.raises(Invalid):
            await scores.list(game_status="won", cursor=first.next_cursor)


async def test_the_history_says_what_happened_newest_first(backend: Backend, tmp_path: Path) -> None:
    """AC-T6.1, AC-T6.2, AC-T6.3"""
    async with scores_world(backend, tmp_path) as (_w, scores):
        await scores.create(overdue("ann", 2, score=Decimal(41)))
        await scores.sweep()
        await scores.interact("ann", Interaction(type="text"))
        await scores.adjust("ann", Adjustment(score=Decimal(10), reason="late"))
        history = (await scores.history("ann")).items
        assert [entry.event_type for entry in history] == ["adjust", "interaction", "decay", "created"]
        decay = history[2]
        assert (decay.score_before, decay.score_after) == (Decimal(41), Decimal("39.4"))
        details = decay.event_details
        assert details["decay_amount"] == Decimal("1.6")
        assert details["days_overdue"] == Decimal("0.083333")
        assert (details["chapter"], details["decay_rate"]) == (1, Decimal("0.8"))
        assert details["thresholds_crossed"] == ["warning"]
        assert history[0].event_details["thresholds_crossed"] == ["critical"]
        assert [entry.segment_id for entry in history] == [f"score:ann:{n}" for n in (4, 3, 2, 1)]
        pages, cursor = [], None
        while True:
            page = await scores.history("ann", limit=1, cursor=cursor)
            pages += page.items
            if (cursor := page.next_cursor) is None:
                break
        assert pages == history
        assert [e.event_type for e in (await scores.history("ann", event_type="decay")).items] == ["decay"]


async def test_a_game_over_by_decay_is_in_the_history_as_such(backend: Backend, tmp_path: Path) -> None:
    """AC-T4.4, AC-FR008-001"""
    async with scores_world(backend, tmp_path) as (_w, scores):
        await scores.create(overdue("ann", 10, score=Decimal(3)))
        assert (await scores.sweep()).game_overs == 1
        entry = (await scores.history("ann")).items[0]
        assert (entry.event_type, entry.event_details["reason"]) == ("decay_game_over", "decay")
        assert entry.score_after == 0
        assert (await scores.history("ann", event_type="decay_game_over")).items == [entry]


async def test_a_bulk_import_answers_each_in_its_place(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create(NewScore(user_id="u7"))
        answers = await scores.create_many([NewScore(user_id=f"u{n}") for n in range(600)])
        assert isinstance(answers[7], Refused)
        made = [answer for answer in answers if isinstance(answer, WrittenScore)]
        assert [score.user_id for score in made] == [f"u{n}" for n in range(600) if n != 7]
        assert (await verify(w.store, w.engine.kinds)).is_sound
