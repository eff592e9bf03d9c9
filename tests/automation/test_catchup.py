"""Whatever was missed, for whatever reason: every occurrence is fired or skipped, once, and none is early."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from betimes.core.errors import PolicyInvalid
from betimes.core.instants import HOUR, MINUTE, SECOND, Instant, parse
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.domain.targets import HandlerTarget
from betimes.schedules.catchup import CatchupPlan, Timetable
from betimes.schedules.model import ScheduleDefinition
from betimes.schedules.recurrence import Dst, Exclude
from betimes.sensors.policy import AutomationPolicy

STREAM = StreamId("acme", "schedule", "s")
DEFINITIONS = st.builds(
    ScheduleDefinition,
    cron=st.sampled_from(["*/5 * * * *", "17 * * * *", "30 2 * * *", "0 */6 * * *", "*/30 * * * * *"]),
    target=st.just(HandlerTarget("brief")),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    max_catchup_ticks=st.integers(1, 20),
    catchup_window_minutes=st.sampled_from([1, 60, 1_440]),
    catchup_keep=st.sampled_from(["newest", "oldest"]),
    jitter_seconds=st.sampled_from([0, 20, 3_600]),
    ends_at=st.one_of(st.none(), st.integers(parse("2026-03-28T00:00:00Z"), parse("2026-03-30T00:00:00Z"))),
)
PAUSES = st.lists(st.one_of(st.integers(1, 10 * MINUTE), st.integers(HOUR, 30 * HOUR)), min_size=1, max_size=8)


@settings(max_examples=60)
@given(DEFINITIONS, PAUSES)
def test_every_occurrence_is_fired_or_skipped_once(definition: ScheduleDefinition, pauses: list[int]) -> None:
    timetable = Timetable.of(STREAM, definition, 1)
    floor = start = now = parse("2026-03-27T20:00:00Z")
    covered: list[Instant] = []
    for pause in pauses:
        now += pause
        plan = timetable.plan(floor, now)
        covered += plan_covers(timetable, plan)
        assert len(plan.fire) <= definition.max_catchup_ticks
        assert list(plan.fire) == sorted(plan.fire)
        dues = [upcoming.due_at for at in plan.fire if (upcoming := timetable.upcoming(at - 1))]
        assert all(now - definition.catchup_window_minutes * MINUTE < due_at <= now for due_at in dues)
        assert plan.next is None or plan.next.due_at > now
        floor = max(floor, plan.through_at or 0)
    waiting = timetable.upcoming(floor)
    expected = [
        at for at in timetable.calendar.between(start, now) if not definition.ends_at or at < definition.ends_at
    ]
    owed = [waiting.tick_at] if waiting and waiting.tick_at <= now else []
    assert covered + owed == expected


def plan_covers(timetable: Timetable, plan: CatchupPlan) -> list[Instant]:
    found = [*plan.fire]
    for skipped in plan.skipped:
        inside = list(timetable.calendar.between(skipped.first - 1, skipped.last))
        assert (inside[0], inside[-1], len(inside)) == (skipped.first, skipped.last, skipped.count)
        found += inside
    return sorted(found)


@pytest.mark.parametrize(
    "change",
    [
        {"cron": "*/6 * * * *"},
        {"timezone": "Europe/Berlin"},
        {"dst": Dst(gap="skip")},
        {"exclude": Exclude(weekdays=("SUN",))},
        {"starts_at": SECOND},
        {"ends_at": SECOND},
        {"max_catchup_ticks": 2},
        {"catchup_window_minutes": 7},
        {"catchup_keep": "oldest"},
        {"jitter_seconds": 1},
    ],
)
def test_only_schedules_that_tick_alike_have_equal_timetables(change: dict[str, Any]) -> None:
    definition, other = ScheduleDefinition(cron="*/5 * * * *", target=HandlerTarget("x")), STREAM._replace(id="other")
    base, changed = Timetable.of(STREAM, definition, 1), replace(definition, **change)
    assert Timetable.of(other, replace(definition, payload={"a": 1}), 1) == base
    assert Timetable.of(STREAM, definition, 2) != base, "what it skips names the version"
    assert Timetable.of(STREAM, changed, 1) != base
    assert (Timetable.of(STREAM, changed, 1) == Timetable.of(other, changed, 1)) == (not changed.jitter_seconds)


def test_a_plan_does_not_depend_on_how_often_it_is_made() -> None:
    timetable = Timetable.of(STREAM, ScheduleDefinition(cron="*/5 * * * *", target=HandlerTarget("x")), 1)
    start = parse("2026-01-05T09:00:00Z")
    assert timetable.plan(start, start + 7 * MINUTE) == timetable.plan(start, start + 7 * MINUTE)
    assert timetable.plan(start, start + 5 * MINUTE - 1) == CatchupPlan(next=timetable.upcoming(start))
    assert timetable.plan(start, start + 5 * MINUTE).fire == (start + 5 * MINUTE,)
    assert timetable.plan(start + 5 * MINUTE, start + 5 * MINUTE + SECOND).fire == ()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"backoff_min_s": 0}, "automation.backoff_min_s"),
        ({"backoff_max_s": 604_801}, "automation.backoff_max_s"),
        ({"backoff_min_s": 60, "backoff_max_s": 5}, "automation"),
        ({"secret_overlap_s": -1}, "automation.secret_overlap_s"),
        ({"evaluator_attempts_max": 0}, "automation.evaluator_attempts_max"),
        ({"surprise": 1}, "automation.surprise"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        PolicyBook({"automation": AutomationPolicy}).effective({"automation": body})
    assert [found for found, _ in refused.value.problems] == [path]
