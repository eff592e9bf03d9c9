"""The one door to time-zone data: zones by name, offsets from UTC, and pieces of the time line with one offset each.

Zones come from the installed `tzdata` package and from nowhere else: never from the machine, whose database may be
older, newer or wrong. So quiet hours, digests, schedules and intents agree on every host, and the version recorded with
a tick is the version it was computed with. Nothing here changes what the rest of the process sees: `zoneinfo`'s and
`whenever`'s own caches and search paths stay as they are. Instants are whole seconds unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from betimes.core.instants import LAST, SECOND, Instant
from betimes.core.names import find_near_names

TZDATA_VERSION: str = tzdata.IANA_VERSION
YEAR_MIN, YEAR_MAX = 1_900, 9_999
END_S = LAST // SECOND + 1
"""The first second that the calendar has no name for."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S = 86_400
_SAMPLE_S = 6 * 3_600
"""No zone changes its offset twice within so short a time."""
_SHOWN_S = END_S - 2 * _DAY_S
"""Every zone can show it; whatever comes later keeps the offset of this second."""


_NAME_CHARS_MAX = 80


class Piece(NamedTuple):
    """`[start, end)` with one offset, and the offsets on either side of it."""

    start: int
    end: int
    before: int
    offset: int
    after: int


@cache
def zone_names() -> frozenset[str]:
    """Return every name a zone may be called by."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


def is_zone(name: str) -> bool:
    """Return whether it is a zone's name in its one spelling; libraries differ on case and on this machine's names."""
    return name in zone_names()


def unknown_zone(name: str) -> str:
    """Return the message about an unknown zone, with the one that may be meant.

    Abbreviations mean several zones and look like each other, and the signs of Etc/GMT+1 are not those people write:
    none of these is suggested for another, but a form that is clear.
    """
    spelt = name[:_NAME_CHARS_MAX].casefold().replace(" ", "_")
    names = {known.casefold(): known for known in zone_names()}
    places = {known: known for known in names if "/" in known and not known.startswith("etc/")}
    cities = {known.rpartition("/")[2]: known for known in sorted(places)}
    meant = names.get(spelt) or _find_near(spelt, places, names) or _find_near(spelt, cities, names)
    clear = "" if "/" in spelt else "; name a place, such as Europe/Berlin, or UTC"
    return f"no such zone: {name[:_NAME_CHARS_MAX]}{f'; did you mean {meant}?' if meant else clear}"


def _find_near(spelt: str, known: Mapping[str, str], names: Mapping[str, str]) -> str | None:
    near = find_near_names(spelt, known, likeness=0.8)
    return names[known[near[0]]] if near else None


@lru_cache(maxsize=1_024)
def zone(name: str) -> ZoneInfo:
    """Return the zone of this name; raise `ValueError` if there is none."""
    if name not in zone_names():
        raise ValueError(unknown_zone(name))
    # Read from the package: `ZoneInfo(name)` would prefer what is installed on the machine.
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def to_local(name: str, at: datetime) -> datetime:
    """Return a time as a wall in the zone shows it; in UTC, if the calendar ends before it there."""
    try:
        return at.astimezone(zone(name))
    except OverflowError:
        return at.astimezone(UTC)


def offset_at(name: str, at: int) -> int:
    """Return the seconds east of UTC at an instant."""
    for start, offset in _day_offsets(name, at // _DAY_S):
        if at >= start:
            return offset
    raise AssertionError("a day of UTC begins with an offset")


@lru_cache(maxsize=1 << 14)
def _day_offsets(name: str, day: int) -> tuple[tuple[int, int], ...]:
    """Return the offsets of one day of UTC, each with its first second, the last one first."""
    start, found = day * _DAY_S, zone(name)
    # A change at midnight UTC begins the day and is not counted twice.
    starts = dict.fromkeys((start, *transitions(name, start, start + _DAY_S)))
    return tuple((at, _offset(found, at)) for at in reversed(starts))


def from_local(name: str, local: datetime, fold: int = 0) -> Instant:
    """Return the instant, in microseconds, at which a wall in the zone shows a naive time.

    One that is shown twice is the first (fold 0) or the second (1). One that is skipped is read with the offset from
    before the change (0) or after it (1), which is as long after the change as it was skipped by, or before it.
    """
    return (local.replace(tzinfo=zone(name), fold=fold) - _EPOCH) // timedelta(microseconds=1)


def first_shown(name: str, local: datetime) -> Instant:
    """Return the first instant at which a wall in the zone shows a naive time; of one that is skipped, the next shown.

    Schedules, quiet hours and intents all take local times so.
    """
    found, other = from_local(name, local), from_local(name, local, fold=1)
    # Only of a time that is skipped does the second reading lie before the first.
    if found <= other:
        return found
    return transitions(name, other // SECOND, found // SECOND + 1)[0] * SECOND


def pieces(name: str, at: int) -> Iterator[Piece]:
    """Yield the time line from the piece that holds the instant, a year at a time, to the end of the calendar."""
    year = _year_of(at)
    while year <= YEAR_MAX:
        for piece in _year(name, year):
            if piece.end > at:
                yield piece
        year += 1


def pieces_back(name: str, at: int) -> Iterator[Piece]:
    """Yield the time line from the piece that holds the instant back, a year at a time."""
    year = _year_of(at)
    while year >= YEAR_MIN:
        for piece in reversed(_year(name, year)):
            if piece.start <= at:
                yield piece
        year -= 1


@lru_cache(maxsize=8_192)
def _year(name: str, year: int) -> tuple[Piece, ...]:
    start, end = _new_year(year), _new_year(year + 1)
    changes = transitions(name, start, end)
    # A change at the very start of the year is an edge already.
    edges = [start, *(at for at in changes if at != start), end]
    found = zone(name)
    return tuple(
        Piece(left, right, _offset(found, left - 1), _offset(found, left), _offset(found, right))
        for left, right in pairwise(edges)
    )


def transitions(name: str, start: int, end: int) -> list[int]:
    """Return the first seconds of every new offset in `[start, end)`."""
    found = zone(name)
    changes = []
    # From one second before, so that a change at the very start is seen as one.
    left, left_offset = start - 1, _offset(found, start - 1)
    while left < end - 1:
        right = min(left + _SAMPLE_S, end - 1)
        right_offset = _offset(found, right)
        if right_offset != left_offset:
            changes.append(_change(found, left, right))
        left, left_offset = right, right_offset
    return changes


def _change(found: ZoneInfo, left: int, right: int) -> int:
    """Return the first second in `(left, right]` that has not the offset of `left`."""
    before = _offset(found, left)
    # By halves, which is sound because the offset changes at most once between two samples.
    while right - left > 1:
        middle = (left + right) // 2
        if _offset(found, middle) == before:
            left = middle
        else:
            right = middle
    return right


def _offset(found: ZoneInfo, at: int) -> int:
    # Past the last days of the calendar `astimezone` overflows.
    moment = (_EPOCH + timedelta(seconds=min(at, _SHOWN_S))).astimezone(found)
    offset = moment.utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _year_of(at: int) -> int:
    return (_EPOCH + timedelta(seconds=min(at, _SHOWN_S))).year


def _new_year(year: int) -> int:
    return END_S if year > YEAR_MAX else int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
