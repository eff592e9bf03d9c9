"""Instants are integers: microseconds since 1970-01-01T00:00:00Z.

Integers compare, add and store exactly in every database and encode to the same bytes everywhere. Text is
for people and the wire: ISO 8601 in UTC with `Z`, a fraction only when there is one, at most six digits.
Nothing here knows what time it is.
"""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import msgspec
from whenever import Instant as _Moment
from whenever import OffsetDateTime

from betimes.core.errors import Invalid

Instant: TypeAlias = int

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

FIRST: Instant = 0
LAST: Instant = 253_402_300_799_999_999
"""The instants that may come from outside, once they are in UTC: from 1970 to the end of the year 9999."""
FIRST_TEXT, LAST_TEXT = "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
Epoch = Annotated[int, msgspec.Meta(ge=0, le=LAST // SECOND)]
"""Whole epoch seconds, as callers may send them."""
InstantText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""An instant that is kept as it is shown."""
_CALENDAR_FIRST = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z: nothing before it has a name."""
_DURATION = re.compile(r"([0-9]{1,9})\s*([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPOKEN_UNITS = (("day", 86_400, "hour", 3_600), ("hour", 3_600, "minute", 60), ("minute", 60, "second", 1))
"""The two units in which a duration of at least this length is written."""


def seconds(count: float) -> int:
    """Return a duration in microseconds, rounded to the nearest."""
    return round(count * SECOND)


def parse(text: str) -> Instant:
    """Return the instant that an ISO 8601 text with an offset names; finer than a microsecond is cut off."""
    try:
        moment = _Moment.parse_iso(text) if text.endswith("Z") else OffsetDateTime.parse_iso(text).to_instant()
    except ValueError as error:
        raise Invalid(
            f"{text[:40]!r} is not an ISO 8601 instant with an offset, such as 2026-01-05T09:00:00Z"
        ) from error
    return checked_instant(moment.timestamp(unit="microsecond"))


def parse_seconds(text: str) -> int:
    """Return the seconds of a duration such as `30s`, `5m`, `1h` or `1d`; raise `Invalid` if it is none."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise Invalid(f"{text[:40]!r} is not a duration such as 30s, 5m, 1h or 1d")
    return int(found[1]) * _UNIT_S[found[2]]


def spell_duration(count_s: float) -> str:
    """Return a duration as people say it, in its two largest units: `40 minutes`, `1 hour 5 minutes`, `1.5 seconds`.

    Parts of a second are rounded: `31 milliseconds`.
    """
    for large, large_s, small, small_s in _SPOKEN_UNITS:
        if count_s >= large_s:
            many, rest = int(count_s // large_s), int(count_s % large_s // small_s)
            return _spell_count(many, large) + (f" {_spell_count(rest, small)}" if rest else "")
    if 0 < count_s < 0.1:
        return _spell_count(max(1, round(count_s * 1_000)), "millisecond")
    rounded = round(count_s, 1 if count_s >= 1 else 2)
    return _spell_count(int(rounded) if rounded == int(rounded) else rounded, "second")


def _spell_count(count: float, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def checked_instant(at: Instant) -> Instant:
    """Return the instant; raise `Invalid` if it may not come from outside."""
    if not FIRST <= at <= LAST:
        raise Invalid(f"an instant must be from {FIRST_TEXT} to {LAST_TEXT} in UTC")
    return at


def nearest(at: Instant) -> Instant:
    """Return the instant, or the first or last the calendar has: what is stored or added up can always be shown."""
    return at if _CALENDAR_FIRST <= at <= LAST else min(max(at, _CALENDAR_FIRST), LAST)


def render(at: Instant) -> str:
    """Return ISO 8601 in UTC with `Z`; beyond the calendar, its first or last instant."""
    return _Moment.from_timestamp(nearest(at), unit="microsecond").format_iso()


def epoch_up(at: Instant) -> int:
    """Return whole epoch seconds of a deadline, rounded up, so that waiting for it never ends early."""
    return -(-at // SECOND)


def epoch_down(at: Instant) -> int:
    """Return whole epoch seconds of something that happened, rounded down."""
    return at // SECOND


def earliest(*instants: Instant | None) -> Instant | None:
    """Return the first of the instants that are set."""
    return min((at for at in instants if at is not None), default=None)
