"""A clock that stands still until it is moved, so that no test waits for time to pass."""

from __future__ import annotations

from datetime import datetime

from betimes.core.datetimes import instant
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, parse, render, seconds
from betimes.core.names import spell_name


class VirtualClock:
    """Give it to a store in place of the real clock; it is called for the instant."""

    def __init__(self, start: Instant | str | datetime = "2026-01-05T09:00:00Z") -> None:
        self._now = _instant_of(start)

    def __call__(self) -> Instant:
        return self._now

    def advance(self, by_s: float) -> Instant:
        """Move forward by a number of seconds."""
        return self.advance_to(self._now + seconds(by_s))

    def advance_to(self, at: Instant | str | datetime) -> Instant:
        """Move forward to an instant; a clock never goes back."""
        target = _instant_of(at)
        if target < self._now:
            raise ValueError(f"the clock is at {render(self._now)} and cannot go back to {render(target)}")
        self._now = target
        return target


def _instant_of(at: Instant | str | datetime) -> Instant:
    if isinstance(at, datetime):
        return instant(at)
    if isinstance(at, str):
        return parse(at)
    if at.__class__ is not int:
        form = "a text such as 2026-01-05T09:00:00Z or an aware datetime"
        raise Invalid(f"a clock is set to {form}, not to {spell_name(at):.80}")
    return at
