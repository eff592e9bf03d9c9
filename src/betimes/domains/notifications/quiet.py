"""Quiet hours: windows of wall-clock time in a person's zone, tested on instants.

Each local date's window is one `[start, end)` of instants, its weekday that of its start; it may cross midnight.
"""

from __future__ import annotations

import msgspec

from betimes.core.instants import Instant
from betimes.domains.notifications.local import local_day, wall, weekday

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_LINKS_MAX = 64
"""Windows that adjoin one another, followed from one to the next."""


class QuietHours(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every day (0 is Monday, by the start) from a minute of the day to another, the next day's if that is earlier."""

    start: int
    end: int
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)


def quiet_until(windows: tuple[QuietHours, ...], zone: str, at: Instant) -> Instant | None:
    """When the quiet that this instant lies in ends, adjoining windows included; `None` if it lies in none."""
    end: Instant | None = None
    for _ in range(_LINKS_MAX):
        further = _window_end(windows, zone, at if end is None else end)
        if further is None:
            return end
        end = further
    return end


def _window_end(windows: tuple[QuietHours, ...], zone: str, at: Instant) -> Instant | None:
    """The latest end of the windows this instant lies in."""
    if not windows:
        return None
    today = local_day(zone, at)
    ends = [
        end
        for window in windows
        for day in (today - 1, today)
        if weekday(day) in window.days
        if wall(zone, day, window.start) <= at < (end := wall(zone, day + (window.end < window.start), window.end))
    ]
    return max(ends, default=None)


def problems_of(windows: tuple[QuietHours, ...]) -> list[tuple[str, str]]:
    """What is wrong with them, by path."""
    found = []
    for place, window in enumerate(windows):
        path = f"quiet_hours[{place}]"
        if not (0 <= window.start < DAY_MINUTES and 0 <= window.end < DAY_MINUTES):
            found.append((path, "times are 00:00 to 23:59"))
        elif window.start == window.end:
            found.append((path, "start and end are the same; leave a minute between them"))
        if not window.days or not set(window.days) <= set(range(7)):
            found.append((f"{path}.days", "at least one of mon tue wed thu fri sat sun"))
    if not found and _always(windows):
        found.append(("quiet_hours", "these windows leave no moment of the week in which anything could be delivered"))
    return found


def _always(windows: tuple[QuietHours, ...]) -> bool:
    quiet = bytearray(WEEK_MINUTES)
    for window in windows:
        length = (window.end - window.start) % DAY_MINUTES
        for day in window.days:
            for minute in range(day * DAY_MINUTES + window.start, day * DAY_MINUTES + window.start + length):
                quiet[minute % WEEK_MINUTES] = 1
    return all(quiet)
