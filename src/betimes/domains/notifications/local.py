"""Wall-clock times in a zone as instants.

A time that does not exist on its day is the next instant that does; one that exists twice is the first. Days are
counted from 1970-01-01 in local dates, and times of day are minutes.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache, lru_cache
from importlib.resources import files

from whenever import Date, Time, ZonedDateTime
from whenever import Instant as Moment

from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant

_EPOCH_DAY = date(1970, 1, 1)
_THURSDAY = 3


def is_zone(name: str) -> bool:
    """Whether it is a zone's name, as it is spelt everywhere: libraries differ on case and on names of this machine."""
    return name in _zone_names()


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


def local_us(zone: str, at: Instant) -> int:
    """What a clock on the wall shows, as microseconds since its own 1970-01-01T00:00."""
    return at + int(_zoned(at, zone).offset.total("seconds")) * SECOND


def local_day(zone: str, at: Instant) -> int:
    return local_us(zone, at) // DAY


def weekday(day: int) -> int:
    """0 is Monday."""
    return (day + _THURSDAY) % 7


@lru_cache(maxsize=1 << 16)
def wall(zone: str, day: int, minute: int) -> Instant:
    """The first instant at which the wall shows this time of this day, or a later one if it never does."""
    wanted = _date(day).at(Time(minute // 60, minute % 60))
    found = wanted.assume_tz(zone, disambiguation="earlier")
    if found.to_plain() == wanted:
        return found.timestamp(unit="microsecond")
    low, high = (wanted.assume_tz(zone, disambiguation=which).timestamp() for which in ("earlier", "later"))
    shown = day * DAY + minute * MINUTE
    while high - low > 1:  # the wall jumps over it at a whole second in between
        middle = (low + high) // 2
        low, high = (low, middle) if local_us(zone, middle * SECOND) >= shown else (middle, high)
    return high * SECOND


def next_hour(zone: str, at: Instant) -> Instant:
    """The next instant after this one at which a full hour begins on the wall."""
    then = at
    while True:
        then += HOUR - local_us(zone, then) % HOUR
        if local_us(zone, then) % HOUR == 0:
            return then


def next_day(zone: str, at: Instant, minute: int) -> Instant:
    """This time of the following local day."""
    return wall(zone, local_day(zone, at) + 1, minute)


def shown(zone: str, at: Instant) -> str:
    """`07:00`, as the wall shows it."""
    minute = local_us(zone, at) % DAY // MINUTE
    return f"{minute // 60:02}:{minute % 60:02}"


def _zoned(at: Instant, zone: str) -> ZonedDateTime:
    return Moment.from_timestamp(at, unit="microsecond").to_tz(zone)


def _date(day: int) -> Date:
    then = _EPOCH_DAY + timedelta(days=day)
    return Date(then.year, then.month, then.day)
