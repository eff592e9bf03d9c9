"""An expression read a second time, by sets and a clock on the wall that is looked at minute by minute.

It shares nothing with the calendar: no library, no arithmetic on offsets, no search. Five fields only.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from betimes.core.zones import zone

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
Day = Callable[[date], bool]


def _number(text: str, names: Sequence[str]) -> int:
    return names.index(text) if text in names else int(text)


def _values(field: str, low: int, high: int, names: Sequence[str] = ()) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            ends = span.split("-")
            first = _number(ends[0], names)
            last = _number(ends[-1], names) if len(ends) > 1 or not step else high
        ordered = list(range(first, last + 1)) if first <= last else [*range(first, high + 1), *range(low, last + 1)]
        found |= set(ordered[:: int(step or 1)])
    return found


def _month_day(term: str) -> Day:
    if term == "L":
        return lambda day: day.day == monthrange(day.year, day.month)[1]
    if term == "LW":
        return lambda day: (
            day.weekday() < 5
            and all(
                (later := day + timedelta(days=ahead)).month != day.month or later.weekday() > 4
                for ahead in range(1, 4)
            )
        )
    if term.endswith("W"):
        return lambda day: day.weekday() < 5 and day == _nearest(day, int(term[:-1]))
    return lambda day: day.day in _values(term, 1, 31)


def _nearest(day: date, wanted: int) -> date | None:
    month = [date(day.year, day.month, number + 1) for number in range(monthrange(day.year, day.month)[1])]
    if wanted > len(month):
        return None
    working = [each for each in month if each.weekday() < 5]
    return min(working, key=lambda each: abs(each.day - wanted))


def _week_day(term: str) -> Day:
    name, _, nth = term.partition("#")
    if nth:
        number = _number(name, WEEKDAYS) % 7
        return lambda day: day.isoweekday() % 7 == number and (day.day - 1) // 7 + 1 == int(nth)
    if term.endswith("L"):
        number = int(term[:-1]) % 7
        return lambda day: day.isoweekday() % 7 == number and (day + timedelta(days=7)).month != day.month
    return lambda day: day.isoweekday() % 7 in {value % 7 for value in _values(term, 0, 6, WEEKDAYS)}


class Expression:
    def __init__(self, cron: str) -> None:
        minute, hour, day, month, weekday = cron.split()
        self.minutes, self.hours, self.months = (
            _values(minute, 0, 59),
            _values(hour, 0, 23),
            _values(month, 1, 12, MONTHS),
        )
        self.month_days = [_month_day(term) for term in day.split(",")]
        self.week_days = [_week_day(term) for term in weekday.split(",")]
        self.needs_both = day[0] in "*?" or weekday[0] in "*?"
        self.is_fixed = minute[0] != "*" and hour[0] != "*"

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.matches_day(wall.date())

    def matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = any(matches(day) for matches in self.month_days)
        by_week = any(matches(day) for matches in self.week_days)
        return by_month and by_week if self.needs_both else by_month or by_week


@lru_cache(maxsize=4)  # a year is half a million minutes
def walls(name: str, start: int, end: int) -> dict[date, dict[datetime, list[int]]]:
    """Return each day's minutes as the clock on the wall shows them, each with the seconds at which it does."""
    found: ZoneInfo = zone(name)
    days: dict[date, dict[datetime, list[int]]] = {}
    for second in range(start, end, 60):
        wall = datetime.fromtimestamp(second, found).replace(tzinfo=None)
        days.setdefault(wall.date(), {}).setdefault(wall, []).append(second)
    return days


@lru_cache(maxsize=4)  # a year is half a million minutes
def skipped(name: str, start: int, end: int) -> list[tuple[datetime, int]]:
    """Return the minutes that the clock on the wall jumps over, each with the second after its jump."""
    days = walls(name, start, end).values()
    minutes = sorted((second, wall) for day in days for wall, seconds in day.items() for second in seconds)
    return [
        (before + timedelta(minutes=ahead), second)
        for (_, before), (second, after) in pairwise(minutes)
        for ahead in range(1, (after - before) // timedelta(minutes=1))
    ]


def occurrences(cron: str, name: str, start: int, end: int, gap: str | None, overlap: str | None) -> set[int]:
    """Seconds in `[start, end)`, two whole minutes apart from any change: what matches, by the rules for jumps."""
    expression = Expression(cron)
    gap = gap or ("run_after" if expression.is_fixed else "skip")
    overlap = overlap or ("first" if expression.is_fixed else "both")
    found: set[int] = set()
    if gap == "run_after":
        found |= {second for wall, second in skipped(name, start, end) if expression.matches(wall)}
    for day, minutes in walls(name, start, end).items():
        if not expression.matches_day(day):
            continue
        for wall, seconds in minutes.items():
            if wall.minute in expression.minutes and wall.hour in expression.hours:
                found |= {seconds[0]} if overlap == "first" else {seconds[-1]} if overlap == "last" else set(seconds)
    return found
