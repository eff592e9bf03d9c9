"""Instants as people hold them in Python: aware datetimes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias, overload

import msgspec

from betimes.core.errors import Invalid
from betimes.core.instants import FIRST, LAST, Instant, checked_instant, nearest

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@overload
def moment(at: Instant) -> datetime: ...
@overload
def moment(at: None) -> None: ...
@overload
def moment(at: Instant | None) -> datetime | None: ...
def moment(at: Instant | None) -> datetime | None:
    """Return the instant as a datetime in UTC; beyond the calendar, its first or last."""
    if at is None:
        return None
    return _EPOCH + timedelta(0, 0, at if FIRST <= at <= LAST else nearest(at))


@overload
def instant(when: datetime) -> Instant: ...
@overload
def instant(when: None) -> None: ...
@overload
def instant(when: datetime | None) -> Instant | None: ...
def instant(when: datetime | None) -> Instant | None:
    """Return a datetime as an instant; raise `Invalid` without an offset and out of bounds."""
    if when is None:
        return None
    if when.tzinfo is None:
        raise Invalid(f"{when.isoformat()} has no offset; give an aware datetime, such as datetime(…, tzinfo=UTC)")
    # In whole microseconds: `timestamp()` is a float, which cannot tell all of them apart.
    return checked_instant((when - _EPOCH) // _MICROSECOND)
