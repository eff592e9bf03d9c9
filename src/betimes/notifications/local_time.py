"""Wall-clock times in a zone as instants.

A time that does not exist on its day is the next instant that does; one that exists twice is the first. Days are
counted from 1970-01-01 in local dates, and times of day are minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

import msgspec

from betimes.core.instants import DAY, HOUR, LAST, MINUTE, SECOND, Instant
from betimes.core.zones import first_shown, offset_at

TimeOfDay = Annotated[
    str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="a time of day from 00:00 to 23:59")
]
_EPOCH_DAY = datetime(1970, 1, 1)  # noqa: DTZ001 — shown by a wall, in whatever zone
_THURSDAY = 3
_LAST_DAY = LAST // DAY - 1
"""The calendar names every minute of it in every zone; days go on after it, all alike."""


def local_us(zone: str, at: Instant) -> int:
    """Return local wall-clock time as microseconds since its own 1970-01-01T00:00."""
    return at + offset_at(zone, at // SECOND) * SECOND


def local_day(zone: str, at: Instant) -> int:
    return local_us(zone, at) // DAY


def weekday(day: int) -> int:
    """Return the weekday of a day; 0 is Monday."""
    return (day + _THURSDAY) % 7


@lru_cache(maxsize=1 << 16)
def wall(zone: str, day: int, minute: int) -> Instant:
    """Return the first instant at which local time is this minute of this day, or the next that exists."""
    if day > _LAST_DAY:
        return wall(zone, _LAST_DAY, minute) + (day - _LAST_DAY) * DAY
    return first_shown(zone, _EPOCH_DAY + timedelta(days=day, minutes=minute))


def next_hour(zone: str, at: Instant) -> Instant:
    """Return the next instant after this one at which a full hour of local time begins."""
    then = at
    while True:
        then += HOUR - local_us(zone, then) % HOUR
        if local_us(zone, then) % HOUR == 0:
            return then


def next_day(zone: str, at: Instant, minute: int) -> Instant:
    """Return this minute of the following local day."""
    return wall(zone, local_day(zone, at) + 1, minute)


def wall_clock_text(zone: str, at: Instant) -> str:
    """Return local time as text: `07:00`."""
    return clock_text(local_us(zone, at) % DAY // MINUTE)


def clock_text(minute: int) -> str:
    """Return a minute of the day as text: `07:00`."""
    return f"{minute // 60:02}:{minute % 60:02}"


def minute_of_day(clock: str) -> int:
    """Return the minute of the day that a text such as `07:00` means."""
    return int(clock[:2]) * 60 + int(clock[3:])
