"""The recurrence of a definition: one cron expression or several, or an interval, without excluded days; partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from betimes.core import zones
from betimes.core.calendar import Gap, Overlap, calendar_of
from betimes.core.checks import Problem, Rule, readable
from betimes.core.cron import check_cron, describe_cron
from betimes.core.instants import SECOND, Instant
from betimes.core.occurrences import Excluding, Interval, Occurrences, Several

CRONS_MAX = 16
EVERY_S_MAX = 366 * 86_400
EXCLUDED_DATES_MAX = 1_000
KEPT_DATES_MAX = 31
"""A recurrence that excludes more dates is not remembered: a thousand take 70 kB, and a preview may name any."""
CronText = Annotated[str, msgspec.Meta(max_length=1_000)]
CronList = Annotated[tuple[CronText, ...], msgspec.Meta(min_length=1, max_length=CRONS_MAX)]
CronField: TypeAlias = CronText | CronList
"""One expression or several, as authors write them."""
Crons: TypeAlias = str | tuple[str, ...]
ZoneText = Annotated[str, msgspec.Meta(max_length=100)]
Partition: TypeAlias = Literal["hourly", "daily", "weekly", "monthly"]
Weekday: TypeAlias = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
ExcludedDates = Annotated[tuple[date, ...], msgspec.Meta(max_length=EXCLUDED_DATES_MAX)]
ExcludedWeekdays = Annotated[tuple[Weekday, ...], msgspec.Meta(max_length=7)]
EverySeconds = Annotated[int, msgspec.Meta(ge=1, le=EVERY_S_MAX)]
_WEEKDAYS: tuple[Weekday, ...] = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dst(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The treatment of skipped or repeated local times; by default it depends on the kind of cron."""

    gap: Gap | None = None
    overlap: Overlap | None = None


class Every(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An interval of real time."""

    seconds: EverySeconds
    anchor: Instant | None = None
    """Where the first one is; by default 1970-01-01T00:00:00Z, so that round intervals are at round times."""

    @property
    def anchor_at(self) -> Instant:
        return self.anchor or 0


class Exclude(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Local days on which nothing occurs."""

    dates: ExcludedDates = ()
    weekdays: ExcludedWeekdays = ()


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """When something occurs. Fields that are unset are left out where it is stored."""

    cron: Crons | UnsetType = UNSET
    every: Every | UnsetType = UNSET
    timezone: str = "UTC"
    dst: Dst = Dst()
    exclude: Exclude | UnsetType = UNSET

    @property
    def crons(self) -> tuple[str, ...]:
        return _crons(self.cron)

    def occurrences(self) -> Occurrences:
        """Return when it occurs; raise `ValueError` if an expression or the zone is not known (any more)."""
        return _occurrences_of(self) if self.is_small else self._occurrences()

    @property
    def is_small(self) -> bool:
        """Return whether what is found out about it may be remembered under it."""
        return not self.exclude or len(self.exclude.dates) <= KEPT_DATES_MAX

    def _occurrences(self) -> Occurrences:
        found = self._base_occurrences()
        exclude = self.exclude
        if not exclude:
            return found
        weekdays = frozenset(_WEEKDAYS.index(name) for name in exclude.weekdays)
        return Excluding(found, self.timezone, frozenset(exclude.dates), weekdays)

    def _base_occurrences(self) -> Occurrences:
        if self.every:
            # An interval needs no zone; this only refuses one that is not known.
            zones.zone(self.timezone)
            return Interval(self.every.seconds, self.every.anchor_at)
        parts = tuple(calendar_of(cron, self.timezone, self.dst.gap, self.dst.overlap) for cron in self.crons)
        return parts[0] if len(parts) == 1 else Several(parts)

    def describe(self) -> str:
        """Return when it occurs, in English; an expression that is not known (any more) as it is written."""
        base = _every_text(self.every.seconds) if self.every else "; ".join(map(_cron_text, self.crons))
        return f"{base}{_exclusion_text(self.exclude)}" if self.exclude else base

    def partition_key(self, partition: Partition, at: Instant) -> str:
        """Return the name of the hour, day, ISO week or month, in the zone, that an instant lies in."""
        second = at // SECOND
        offset = zones.offset_at(self.timezone, second)
        local = _EPOCH + timedelta(seconds=second + offset)
        match partition:
            case "hourly":  # with its offset: an hour may come twice
                return f"{local:%Y-%m-%dT%H}{_offset_text(offset)}"
            case "daily":
                return f"{local:%Y-%m-%d}"
            case "weekly":
                return f"{local:%G-W%V}"
            case "monthly":
                return f"{local:%Y-%m}"


@lru_cache(maxsize=16_384)
def _occurrences_of(recurrence: Recurrence) -> Occurrences:
    """Schedules that are due together often share a recurrence, and a tick asks twice."""
    return recurrence._occurrences()


def _cron_text(cron: str) -> str:
    try:
        return describe_cron(cron)
    except ValueError:
        return cron


def _every_text(seconds: int) -> str:
    for unit_s, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit_s == 0:
            count = seconds // unit_s
            return f"Every {unit}" if count == 1 else f"Every {count:,} {unit}s"
    raise AssertionError(seconds)


def _exclusion_text(exclude: Exclude) -> str:
    days = [_WEEKDAY_NAMES[_WEEKDAYS.index(day)] for day in exclude.weekdays]
    if exclude.dates:
        days.append(str(exclude.dates[0]) if len(exclude.dates) == 1 else f"{len(exclude.dates):,} dates")
    return f", except on {', '.join(days)}" if days else ""


def _offset_text(offset_s: int) -> str:
    if not offset_s:
        return "Z"
    minutes = abs(offset_s) // 60
    return f"{'-' if offset_s < 0 else '+'}{minutes // 60:02}{minutes % 60:02}"


# -- rules, each of one field, so that a problem of one never hides another. They judge anything that has these fields:
# a stored definition, and the sound fields of a request for one.


def _crons(cron: Crons | UnsetType | None) -> tuple[str, ...]:
    if isinstance(cron, str):
        return (cron,)
    return cron or ()


def choice_problems(timed: Any) -> Iterator[Problem]:
    if bool(_crons(timed.cron)) == bool(timed.every):
        yield "cron", "give exactly one of cron and every"


def cron_problems(timed: Any) -> Iterator[Problem]:
    # More than that are refused for their number alone.
    for place, cron in readable(_crons(timed.cron)[:CRONS_MAX]):
        path = "cron" if isinstance(timed.cron, str) else f"cron[{place}]"
        yield from _refusal(path, check_cron, cron)


def zone_problems(timed: Any) -> Iterator[Problem]:
    yield from _refusal("timezone", zones.zone, timed.timezone)


def anchor_problems(timed: Any) -> Iterator[Problem]:
    if timed.every and timed.every.anchor_at % SECOND:
        yield "every.anchor", "must be a whole second"


def exclude_problems(timed: Any) -> Iterator[Problem]:
    if timed.exclude and len(set(timed.exclude.weekdays)) == len(_WEEKDAYS):
        yield "exclude.weekdays", "leaves no day of the week"


def _refusal(path: str, check: Callable[[str], object], value: str) -> Iterator[Problem]:
    try:
        check(value)
    except ValueError as error:
        yield path, str(error)


RECURRENCE_RULES: tuple[Rule[Any], ...] = (
    choice_problems,
    cron_problems,
    zone_problems,
    anchor_problems,
    exclude_problems,
)
