"""Digest windows: crons in the person's zone."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from itertools import islice, takewhile

import pytest
from cronsim import CronSim

from betimes.core.calendar import calendar_of
from betimes.core.instants import HOUR, MINUTE, SECOND, parse, render
from betimes.core.zones import zone as zone_of
from betimes.notifications.digests import next_window, problem_of

TWICE = ("0 8 * * *", "0 18 * * *")


@pytest.mark.parametrize(
    ("after", "zone", "opens"),
    [
        ("2026-01-05T07:59:59.999999Z", "UTC", "2026-01-05T08:00:00Z"),
        ("2026-01-05T08:00:00Z", "UTC", "2026-01-05T18:00:00Z"),
        ("2026-01-05T18:00:00.000001Z", "UTC", "2026-01-06T08:00:00Z"),
        ("2026-01-05T09:00:00Z", "America/New_York", "2026-01-05T13:00:00Z"),
        ("2026-03-29T00:00:00Z", "Europe/Berlin", "2026-03-29T06:00:00Z"),
    ],
)
def test_the_next_window_is_the_first_to_open_after_an_instant(after: str, zone: str, opens: str) -> None:
    at = next_window(TWICE, zone, parse(after))
    assert at is not None
    assert render(at) == opens


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe"])
def test_the_next_window_is_never_past_in_an_hour_that_comes_twice(zone: str) -> None:
    crons = ("15 1,2,3 * * *", "45 * * * *")
    start, end = parse("2026-02-14T12:00:00Z"), parse("2026-10-26T12:00:00Z")
    for change in ("2026-02-15T02:00:00Z", "2026-04-04T15:00:00Z", "2026-10-25T01:00:00Z"):
        for at in range(parse(change) - 3 * HOUR, parse(change) + 3 * HOUR, 5 * MINUTE):
            opens = next_window(crons, zone, at)
            assert opens is not None
            assert start < at < opens < end


def test_windows_open_when_a_schedule_of_the_same_cron_ticks() -> None:
    """Also in the hour that comes twice, where every quarter of it is one."""
    cron, zone = "*/15 2 25 10 *", "Europe/Berlin"
    at = start = parse("2026-10-25T00:00:00Z") - 1
    opened = []
    for _ in range(8):
        opens = next_window((cron,), zone, at)
        assert opens is not None
        opened.append(at := opens)
    assert opened == list(islice(calendar_of(cron, zone).after(start), 8))
    assert opened[-1] == parse("2026-10-25T01:45:00Z")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll"])
def test_windows_at_fixed_times_open_as_they_always_did(zone: str) -> None:
    """As cronsim alone reads them: what is stored keeps its meaning."""
    year = range(parse("2026-01-01T00:00:00Z"), parse("2027-01-01T00:00:00Z"), 7 * HOUR)
    for cron in ("30 8 * * *", "30 2 * * *", "0 0,12 * * *", "15 1 * * SUN"):
        ticks = CronSim(cron, datetime(2025, 12, 31, tzinfo=zone_of(zone)))
        known = [int(tick.timestamp()) * SECOND for tick in takewhile(lambda tick: tick.year < 2028, ticks)]
        for at in year:
            assert next_window((cron,), zone, at) == known[bisect_right(known, at)], (cron, render(at))


def test_without_crons_there_is_none() -> None:
    assert next_window((), "UTC", 0) is None


@pytest.mark.parametrize("cron", ["", "0 8 * *", "0 0 8 * * *", "61 8 * * *", "0 0 30 2 *", "hourly"])
def test_crons_that_never_open_or_cannot_be_read_are_refused(cron: str) -> None:
    assert problem_of(cron)


@pytest.mark.parametrize("cron", ["0 8 * * *", "*/15 9-17 * * mon-fri", "0 9 29 2 *", "@daily", "0 8 15W * ?"])
def test_the_others_are_fine(cron: str) -> None:
    assert problem_of(cron) == ""
