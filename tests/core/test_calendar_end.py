"""At the end of the calendar nothing fails: zones keep their last offset, and what would come later never comes."""

from __future__ import annotations

from itertools import islice

import pytest

from betimes.core.calendar import calendar_of
from betimes.core.instants import DAY, HOUR, LAST, SECOND, Instant, render
from betimes.core.occurrences import Excluding, Interval, Several
from betimes.notifications.digests import next_window
from betimes.notifications.local_time import next_day, next_hour, wall
from betimes.notifications.quiet_hours import QuietHours, awake_span, quiet_until

ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin", "Australia/Lord_Howe")
ENDS = (LAST, LAST - 1, LAST - HOUR, LAST - DAY, LAST - 2 * DAY, LAST - 9 * DAY, LAST - 40 * DAY)
CRONS = ("* * * * * *", "59 59 23 31 12 *", "0 0 1 1 *", "*/15 2 * * *", "0 0 29 2 *", "0 0 LW * *")
NIGHT = (QuietHours(22 * 60, 7 * 60), QuietHours(0, 24 * 60, (5, 6)))


@pytest.mark.parametrize("zone", ZONES)
def test_crons_end_with_the_calendar(zone: str) -> None:
    for cron in CRONS:
        calendar = calendar_of(cron, zone)
        for at in ENDS:
            found = list(islice(calendar.after(at), 3))
            assert all(at < tick <= LAST for tick in found)
            assert [tick for tick in islice(calendar.before(at), 3) if tick >= at] == []
        assert list(islice(calendar.after(LAST), 1)) == []
    assert list(islice(calendar_of("0 12 * * *", zone).after(LAST - 2 * DAY), 1))


@pytest.mark.parametrize("zone", ZONES)
def test_intervals_and_excluded_days_end_with_the_calendar(zone: str) -> None:
    interval = Interval(60, 0)
    several = Several((interval, calendar_of("* * * * *", zone)))
    excluding = Excluding(several, zone, frozenset(), frozenset({4}))
    for at in ENDS:
        for occurrences in (interval, several, excluding):
            assert all(at < tick <= LAST for tick in islice(occurrences.after(at), 3_000))
            assert all(tick < at for tick in islice(occurrences.before(at), 3))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("at", ENDS, ids=render)
def test_walls_go_on_after_the_end(zone: str, at: Instant) -> None:
    assert next_day(zone, at, 24 * 60) > at
    assert at < next_hour(zone, at) <= at + 2 * HOUR
    assert wall(zone, at // DAY + 400, 60) - wall(zone, at // DAY + 399, 60) == DAY
    until = quiet_until(NIGHT, zone, at)
    assert until is None or at < until < at + 4 * DAY
    assert 0 <= awake_span(NIGHT, zone, at, 10 * DAY) <= 10 * DAY
    opens = next_window(("0 18 * * *",), zone, at)
    assert opens is None or at < opens <= LAST + SECOND
