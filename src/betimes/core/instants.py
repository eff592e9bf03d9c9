"""Instants are integers: microseconds since 1970-01-01T00:00:00Z.

Integers compare, add and store exactly in every database and encode to the same bytes everywhere. Text is
for people and the wire: ISO 8601 in UTC with `Z`, a fraction only when there is one, at most six digits.
Nothing here knows what time it is.
"""

from __future__ import annotations

from typing import TypeAlias

from whenever import Instant as _Moment
from whenever import OffsetDateTime

from betimes.core.errors import Invalid

Instant: TypeAlias = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def seconds(count: float) -> int:
    """A duration in microseconds, rounded to the nearest."""
    return round(count * SECOND)


def parse(text: str) -> Instant:
    """The instant an ISO 8601 text with an offset names; finer than a microsecond is cut off."""
    try:
        moment = _Moment.parse_iso(text) if text.endswith("Z") else OffsetDateTime.parse_iso(text).to_instant()
    except ValueError as error:
        raise Invalid(
            f"{text[:40]!r} is not an ISO 8601 instant with an offset, such as 2026-01-05T09:00:00Z"
        ) from error
    return moment.timestamp(unit="microsecond")


def render(at: Instant) -> str:
    """ISO 8601 in UTC with `Z`."""
    return _Moment.from_timestamp(at, unit="microsecond").format_iso()


def epoch_up(at: Instant) -> int:
    """Whole epoch seconds of a deadline: rounded up, so that whoever waits for it is never early."""
    return -(-at // SECOND)


def epoch_down(at: Instant) -> int:
    """Whole epoch seconds of something that happened: rounded down."""
    return at // SECOND


def earliest(*instants: Instant | None) -> Instant | None:
    """The first of the instants that are set."""
    return min((at for at in instants if at is not None), default=None)
