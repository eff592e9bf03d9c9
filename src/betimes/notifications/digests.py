"""Digest windows: crons of five fields in a person's zone, and when the next one opens.

They are read as schedules and intents are (`core.cron`, `core.calendar`), by the same rules where local time jumps.
"""

from __future__ import annotations

from functools import lru_cache

from betimes.core.calendar import calendar_of
from betimes.core.instants import HOUR, MINUTE, Instant

_FIELDS = 5


def next_window(crons: tuple[str, ...], zone: str, after: Instant) -> Instant | None:
    """Return the first opening after this instant; `None` without crons. Windows open at whole minutes."""
    # Asked from the full hour, so that all who have these windows share one answer for an hour.
    opens = _next_window(crons, zone, after // HOUR * 60) if crons else None
    while opens is not None and opens <= after:
        opens = _next_window(crons, zone, opens // MINUTE)
    return opens


@lru_cache(maxsize=1 << 14)
def _next_window(crons: tuple[str, ...], zone: str, minute: int) -> Instant | None:
    try:
        openings = [next(calendar_of(cron, zone).after(minute * MINUTE), None) for cron in crons]
    except ValueError:  # the zone has left the time-zone data since it was saved
        return None
    return min((at for at in openings if at is not None), default=None)


def problem_of(cron: str) -> str:
    """Return what is wrong with a cron, or an empty text."""
    if len(cron.split()) != _FIELDS and not cron.strip().startswith("@"):
        return "a digest window is a cron of five fields: minute hour day month weekday"
    try:
        return "" if next(calendar_of(cron, "UTC").after(0), None) is not None else "no such day ever comes"
    except ValueError as error:
        return f"{error}"
