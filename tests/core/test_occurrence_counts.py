"""Counts of occurrences by steps are those that walking through all of them gives."""

from __future__ import annotations

import random

import pytest

from betimes.core.calendar import calendar_of
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant
from betimes.core.occurrence_counts import StepCounts, StepGrid, count_steps
from betimes.core.occurrences import Excluding, Interval, Occurrences, Several

PLENTY = 10**9
MARCH: Instant = 1_774_656_000 * SECOND  # 2026-03-28T00:00:00Z, a day before the clocks of Europe jump
OCTOBER: Instant = 1_792_800_000 * SECOND  # 2026-10-24T00:00:00Z
CRONS = (
    "*/5 * * * *",
    "* * * * *",
    "30 2 * * *",
    "0 3 * * *",
    "15,45 1-3 * * MON-FRI",
    "0 0 1 * *",
    "*/7 0 2 * * *",
    "@hourly",
    "0 12 29 2 *",
)


def walk(occurrences: Occurrences, grid: StepGrid, first_at: Instant, last_at: Instant) -> list[int]:
    counts = [0] * grid.size
    for at in occurrences.after(max(first_at, grid.since_at) - 1):
        if at >= min(last_at, grid.until_at):
            break
        counts[grid.number_of(at)] += 1
    return counts


@pytest.mark.parametrize("cron", CRONS)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"])
@pytest.mark.parametrize("since_at", [MARCH, OCTOBER])
def test_a_calendar_is_counted_as_it_is_walked(cron: str, zone: str, since_at: Instant) -> None:
    draw = random.Random(f"{cron} {zone} {since_at}")
    for gap in (None, "run_after", "skip"):
        for overlap in (None, "first", "last", "both"):
            begin = since_at + draw.randrange(0, DAY, 17)
            grid = StepGrid(begin, begin + draw.randrange(HOUR, 4 * DAY), draw.choice((MINUTE, 15 * MINUTE, HOUR, DAY)))
            first_at, last_at = draw.choice(((0, 2**61), (begin + HOUR // 3, begin + 50 * HOUR)))
            calendar = calendar_of(cron, zone, gap, overlap)
            counted = count_steps(calendar, grid, first_at, last_at, PLENTY)
            assert counted.counts == walk(calendar, grid, first_at, last_at), (gap, overlap, grid)
            assert not counted.is_estimated


@pytest.mark.parametrize("seconds", [1, 7, 60, 3_600, 100_000])
@pytest.mark.parametrize("anchor_at", [0, MARCH + 90 * MINUTE + SECOND, MARCH + 10 * DAY])
def test_an_interval_is_counted_as_it_is_walked(seconds: int, anchor_at: Instant) -> None:
    interval = Interval(seconds, anchor_at)
    grid = StepGrid(MARCH + 5, MARCH + 5 * HOUR, 15 * MINUTE)
    counted = count_steps(interval, grid, 0, 2**61, 1)
    assert counted == StepCounts(walk(interval, grid, 0, 2**61), False, 0)


@pytest.mark.parametrize(
    "occurrences",
    [
        Several((calendar_of("*/10 * * * *", "UTC"), calendar_of("*/15 * * * *", "UTC"))),
        Excluding(calendar_of("*/10 * * * *", "Europe/Berlin"), "Europe/Berlin", frozenset(), frozenset({5, 6})),
    ],
)
def test_what_is_combined_is_walked_within_its_bound(occurrences: Occurrences) -> None:
    grid = StepGrid(MARCH, MARCH + 5 * DAY, HOUR)
    counted = count_steps(occurrences, grid, 0, 2**61, PLENTY)
    assert counted.counts == walk(occurrences, grid, 0, 2**61)
    assert counted.work == sum(counted.counts)


def test_what_lies_behind_the_bound_is_estimated_and_does_not_stop() -> None:
    grid = StepGrid(MARCH, MARCH + 100 * DAY, DAY)
    calendar = calendar_of("*/5 * * * *", "UTC")
    counted = count_steps(calendar, grid, 0, 2**61, 10)
    assert (counted.is_estimated, counted.work) == (True, 10)
    assert counted.counts == [288] * 100
    several = count_steps(Several((calendar, calendar_of("0 0 * * *", "UTC"))), grid, 0, MARCH + 50 * DAY, 288)
    assert several.is_estimated
    assert several.counts == [288] * 50 + [0] * 50
