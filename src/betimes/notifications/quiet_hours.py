"""Quiet hours: windows of wall-clock time in a person's zone, tested on instants.

Each local date's window is one `[start, end)` of instants, its weekday that of its start; it may cross midnight.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from betimes.core.instants import DAY, Instant
from betimes.notifications.local_time import wall, weekday

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_DAYS_AROUND = 9
"""Local days on either side of a day of UTC whose windows can have to do with it."""


class QuietHours(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Every day (0 is Monday, by the start) from a minute of the day to another, the next day's if that is earlier.

    An end of 24:00 is the midnight the day ends with, so 00:00 to 24:00 is the whole day.
    """

    start: int
    end: int
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)


def quiet_until(windows: tuple[QuietHours, ...], zone: str, at: Instant) -> Instant | None:
    """Return when the quiet hours around this instant end, adjoining windows included; `None` if it is not quiet."""
    for start, end in _spans(windows, zone, at // DAY) if windows else ():
        if start <= at < end:
            return end
    return None


def awake_span(windows: tuple[QuietHours, ...], zone: str, at: Instant, most: int) -> int:
    """Return how long it stays awake from an instant that is not quiet, `most` at the most."""
    for day in range(at // DAY, (at + most) // DAY + 1) if windows else ():
        for start, _ in _spans(windows, zone, day):
            if at <= start < at + most:
                return start - at
    return most


@lru_cache(maxsize=1 << 14)
def _spans(windows: tuple[QuietHours, ...], zone: str, day: int) -> tuple[tuple[Instant, Instant], ...]:
    """Return the quiet stretches that touch a day of UTC, each one whole.

    No stretch is as long as a week and no zone is two days off, so the days around are enough.
    """
    each = sorted(
        (wall(zone, local, window.start), wall(zone, local + (window.end < window.start), window.end))
        for window in windows
        for local in range(day - _DAYS_AROUND, day + _DAYS_AROUND + 1)
        if weekday(local) in window.days
    )
    joined: list[tuple[Instant, Instant]] = []
    for start, end in each:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    # A window inside an hour that the clocks skip begins and ends at the same instant: it is dropped.
    return tuple((start, end) for start, end in joined if start < end and start < (day + 1) * DAY and end > day * DAY)


def problems_of(windows: tuple[QuietHours, ...]) -> list[tuple[str, str]]:
    """Return what is wrong with the windows, by path."""
    found = []
    for place, window in enumerate(windows):
        path = f"quiet_hours[{place}]"
        if not (0 <= window.start < DAY_MINUTES and 0 <= window.end <= DAY_MINUTES):
            found.append((path, "times are 00:00 to 23:59, and 24:00 for an end"))
        elif window.start == window.end:
            found.append((path, "start and end are the same; a whole day is 00:00 to 24:00"))
        if not window.days or not set(window.days) <= set(range(7)):
            found.append((f"{path}.days", "at least one of mon tue wed thu fri sat sun"))
    if not found and _covers_week(windows):
        found.append(("quiet_hours", "these windows cover the whole week; leave some time for deliveries"))
    return found


def _covers_week(windows: tuple[QuietHours, ...]) -> bool:
    quiet = 0
    for window in windows:
        length = window.end - window.start + (DAY_MINUTES if window.end < window.start else 0)
        for day in window.days:
            # A bit for each minute of the week; what runs on past Sunday's midnight is folded back to Monday below.
            quiet |= ((1 << length) - 1) << (day * DAY_MINUTES + window.start)
    week = (1 << WEEK_MINUTES) - 1
    return (quiet & week) | (quiet >> WEEK_MINUTES) == week
