"""Digest windows: crons in the person's zone."""

from __future__ import annotations

import pytest

from betimes.core.instants import HOUR, MINUTE, parse, render
from betimes.domains.notifications.digests import next_window, problem_of

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


def test_without_crons_there_is_none() -> None:
    assert next_window((), "UTC", 0) is None


@pytest.mark.parametrize("cron", ["", "0 8 * *", "0 0 8 * * *", "61 8 * * *", "0 0 30 2 *", "hourly"])
def test_crons_that_never_open_or_cannot_be_read_are_refused(cron: str) -> None:
    assert problem_of(cron)


@pytest.mark.parametrize("cron", ["0 8 * * *", "*/15 9-17 * * mon-fri", "0 9 29 2 *"])
def test_the_others_are_fine(cron: str) -> None:
    assert problem_of(cron) == ""
