"""Time zones as a calendar needs them: pieces of the time line, each with one offset from UTC.

Zones come from the installed `tzdata` package and from nowhere else, so that the version that is recorded with a tick
is the version it was computed with. All instants here are whole seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

TZDATA_VERSION: str = tzdata.IANA_VERSION
YEAR_MAX = 9_900
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLE_S = 6 * 3_600
"""No zone changes its offset twice within so short a time."""


class Piece(NamedTuple):
    """`[start, end)` with one offset, and the offsets on either side of it."""

    start: int
    end: int
    before: int
    offset: int
    after: int


@cache
def zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@lru_cache(maxsize=1_024)
def zone(name: str) -> ZoneInfo:
    """The zone, or `ValueError`."""
    if name not in zone_names():
        raise ValueError(f"no such zone: {name[:80]}")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_at(name: str, at: int) -> int:
    """Seconds east of UTC."""
    return _offset(zone(name), at)


def pieces(name: str, at: int) -> Iterator[Piece]:
    """The time line from the piece that holds the instant on, a year at a time."""
    year = (_EPOCH + timedelta(seconds=at)).year
    while year < YEAR_MAX:
        for piece in _year(name, year):
            if piece.end > at:
                yield piece
        year += 1


@lru_cache(maxsize=8_192)
def _year(name: str, year: int) -> tuple[Piece, ...]:
    start, end = _new_year(year), _new_year(year + 1)
    changes = transitions(name, start, end)
    edges = [start, *(at for at in changes if at != start), end]
    found = zone(name)
    return tuple(
        Piece(left, right, _offset(found, left - 1), _offset(found, left), _offset(found, right))
        for left, right in pairwise(edges)
    )


def transitions(name: str, start: int, end: int) -> list[int]:
    """The first seconds of every new offset in `[start, end)`."""
    found = zone(name)
    changes = []
    left, left_offset = start - 1, _offset(found, start - 1)
    while left < end - 1:
        right = min(left + _SAMPLE_S, end - 1)
        right_offset = _offset(found, right)
        if right_offset != left_offset:
            changes.append(_change(found, left, right))
        left, left_offset = right, right_offset
    return changes


def _change(found: ZoneInfo, left: int, right: int) -> int:
    """The first second in `(left, right]` that has not the offset of `left`."""
    before = _offset(found, left)
    while right - left > 1:
        middle = (left + right) // 2
        if _offset(found, middle) == before:
            left = middle
        else:
            right = middle
    return right


def _offset(found: ZoneInfo, at: int) -> int:
    moment = (_EPOCH + timedelta(seconds=at)).astimezone(found)
    offset = moment.utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _new_year(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
