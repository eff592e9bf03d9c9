"""Cron expressions: what is accepted, and which local seconds match.

`cronsim` does the matching. Forms that it does not read are rewritten for it once, when an expression is parsed:
`@daily` and the like, `?` in a day field, ranges that wrap (`FRI-MON`, `22-2`), and `nW`, the weekday nearest to a day
of the month. Days follow Vixie: where the day of the month and the day of the week are both restricted, either will do;
a field that begins with `*`, also `*/n`, is unrestricted, and then both must match.
"""

from __future__ import annotations

import re
from calendar import monthrange
from copy import copy
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from betimes.core.zones import END_S

NEVER: Final = 1 << 62
"""Later than any match; its negative is earlier than any."""
MACROS = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 — local time is naive on purpose
_CYCLES = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))
"""The values of each field, seconds first, as a range runs through them and begins again."""
_DAY, _MONTH, _WEEKDAY = 3, 4, 5
_NAMES = {
    _MONTH: ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    _WEEKDAY: ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
}
_RANGE = re.compile(r"(\w+)-(\w+)(?:/([0-9]{1,3}))?", re.ASCII)
_FIELDS = {
    "second": "0–59",
    "minute": "0–59",
    "hour": "0–23",
    "day-of-month": "1–31 or L, and a day that its months have",
    "month": "1–12 or JAN–DEC",
    "day-of-week": "0–7 or SUN–SAT",
}
"""The fields in order, as `cronsim` names them, with what they take."""
_NEAREST = re.compile(r"[0-9]{1,2}W")


def check_cron(cron: str) -> None:
    """Raise `ValueError`, saying what is wrong, if this is no expression."""
    _parse(cron)


@lru_cache(maxsize=4_096)
def describe_cron(cron: str) -> str:
    """Return what an expression means, in English; raise `ValueError` if it is none."""
    _parse(cron)
    fields = _fields_of(cron)
    terms = fields[_DAY].split(",")
    nearest = [term for term in terms if _NEAREST.fullmatch(term)]
    days = ",".join(term[:-1] if term in nearest else term for term in terms)
    plain = (*fields[:_DAY], days, *fields[_DAY + 1 :])
    # Seconds of 0 go without saying, and would be explained.
    text = CronSim(" ".join(plain[1:] if plain[0] == "0" else plain), _EPOCH).explain()
    return f"{text} ({', '.join(nearest)}: the nearest weekday)" if nearest else text


def is_fixed(cron: str) -> bool:
    """Return whether the expression names local times of day: neither its minute nor its hour begins with `*`."""
    minute, hour = _fields_of(cron)[1:3]
    return not minute.startswith("*") and not hour.startswith("*")


def restricts_both_days(cron: str) -> bool:
    """Return whether a match of either the day of the month or the day of the week is enough."""
    fields = _fields_of(cron)
    return not fields[_DAY].startswith("*") and not fields[_WEEKDAY].startswith("*")


def times_of_day(cron: str) -> list[int]:
    """Return the seconds of a day that the expression matches, ascending; raise `ValueError` if it is none."""
    fields = _parse(cron)
    return sorted(h * 3_600 + m * 60 + s for h in fields.hours for m in fields.minutes for s in fields.seconds)


class Wall:
    """A clock on the wall and an expression's matches on it, in seconds of local time."""

    def __init__(self, cron: str) -> None:
        # A `CronSim` is an iterator and moves along; the parsed one is shared by everybody who has this expression.
        self._ahead = copy(_parse(cron))
        self._back: CronSim | None = None
        self._from = 0
        self.match = -NEVER
        """The last result of `at_or_after`."""
        self.match_before = NEVER
        """The last result of `at_or_before`."""

    def at_or_after(self, local: int) -> int:
        """Return the first match at or after a local second, or `NEVER`."""
        # Nothing matches between where the last search began and what it found.
        if self._from <= local <= self.match:
            return self.match
        # It stands at its last match already; and it looks for what is later than where it stands, hence the second
        # less.
        if local != self.match + 1:
            self._ahead.dt = _EPOCH + timedelta(seconds=min(local, END_S) - 1)
        self._from = local
        self.match = _next_match(self._ahead, NEVER)
        return self.match

    def at_or_before(self, local: int) -> int:
        """Return the last match at or before a local second, or `-NEVER`."""
        if self._back is None:
            self._back = copy(self._ahead)
            self._back.tick_direction = -1
        # It looks for what is earlier than where it stands, hence the second more.
        self._back.dt = _EPOCH + timedelta(seconds=min(local + 1, END_S - 1))
        self.match_before = _next_match(self._back, -NEVER)
        return self.match_before


def _next_match(simulated: CronSim, otherwise: int) -> int:
    try:
        found = next(simulated) - _EPOCH
    except (StopIteration, OverflowError, ValueError):  # none, or none before the calendar ends
        return otherwise
    return found.days * 86_400 + found.seconds


# -- parsing


class _NearestWeekdays(CronSim):
    """Also matches the weekday nearest to each of these days of the month."""

    nearest: tuple[int, ...] = ()

    def match_dom(self, d: date) -> bool:
        return super().match_dom(d) or any(d == nearest_weekday(d.year, d.month, day) for day in self.nearest)


def nearest_weekday(year: int, month: int, day: int) -> date | None:
    """Return the day from Monday to Friday nearest to a day, within its month; `None` if the month has no such day."""
    last = monthrange(year, month)[1]
    if day > last:
        return None
    found = date(year, month, day)
    match found.weekday():
        case 5:
            return found - timedelta(days=1) if day > 1 else found + timedelta(days=2)
        case 6:
            return found + timedelta(days=1) if day < last else found - timedelta(days=2)
        case _:
            return found


@lru_cache(maxsize=16_384)
def _parse(cron: str) -> CronSim:
    try:
        fields = _fields_of(cron)
        nearest = tuple(term for term in fields[_DAY].split(",") if _NEAREST.fullmatch(term))
        return _with_nearest(fields, nearest) if nearest else CronSim(" ".join(fields), _EPOCH)
    # For a step of 0 `cronsim` fails an assertion that has no message.
    except (CronSimError, AssertionError, ValueError) as error:
        raise ValueError(f"{cron[:100]!r} is not a cron expression: {_spell_error(cron, str(error))}") from None


def _spell_error(cron: str, error: str) -> str:
    """Return what is wrong with an expression, where `cronsim` only names the field."""
    name = error.removeprefix("Bad ")
    if name not in _FIELDS:
        return error or "a step must be at least 1"
    field = _fields_of(cron)[[*_FIELDS].index(name)]
    return f"its {name} {field[:40]!r} is not valid; use {_FIELDS[name]}"


def _with_nearest(fields: tuple[str, ...], nearest: tuple[str, ...]) -> CronSim:
    """Parse the days without their `W`, so that they are checked, and then keep the two kinds apart."""
    terms = fields[_DAY].split(",")
    days = ",".join(term[:-1] if term in nearest else term for term in terms)
    simulated = _NearestWeekdays(" ".join((*fields[:_DAY], days, *fields[_DAY + 1 :])), _EPOCH)
    plain = ",".join(term for term in terms if term not in nearest)
    simulated.days = CronSim(f"0 0 {plain} * *", _EPOCH).days if plain else set()
    simulated.nearest = tuple(int(term[:-1]) for term in nearest)
    return simulated


@lru_cache(maxsize=16_384)
def _fields_of(cron: str) -> tuple[str, ...]:
    """Return the six fields, in upper case and as `cronsim` reads them; raise `ValueError` if there are not so many."""
    text = cron.strip().upper()
    if text.startswith("@") and text not in MACROS:
        raise ValueError(f"no such macro; use one of {', '.join(MACROS).lower()}")
    fields = MACROS.get(text, text).split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != len(_CYCLES):
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise ValueError(f"it has {count}; write 5, or 6 with the seconds first")
    return tuple(_rewrite_field(place, field) for place, field in enumerate(fields))


def _rewrite_field(place: int, field: str) -> str:
    if field == "?" and place in (_DAY, _WEEKDAY):
        return "*"
    return ",".join(_unwrap_range(place, term) for term in field.split(","))


def _unwrap_range(place: int, term: str) -> str:
    """Return a range that ends below where it begins as a list; any other term, also a wrong one, as it is."""
    found = _RANGE.fullmatch(term)
    if not found:
        return term
    first, last = _value_of(place, found[1]), _value_of(place, found[2])
    step = int(found[3] or 1)
    # What is wrong is left as it is, so that `cronsim` says in its own words what it is.
    if first is None or last is None or first <= last or not step:
        return term
    cycle = _CYCLES[place]
    start, length = cycle.index(first % 7 if place == _WEEKDAY else first), len(cycle)
    steps = range(0, (last - cycle[start]) % length + 1, step)
    return ",".join(str(cycle[(start + ahead) % length]) for ahead in steps)


def _value_of(place: int, text: str) -> int | None:
    names = _NAMES.get(place, ())
    if text in names:
        return names.index(text)
    value = int(text) if text.isdecimal() and len(text) < 4 else None
    allowed = range(8) if place == _WEEKDAY else _CYCLES[place]  # 7 is Sunday too
    return value if value in allowed else None
