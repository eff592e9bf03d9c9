"""Digest windows: crons of five fields in a person's zone, and when the next one opens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from betimes.core import zones
from betimes.core.instants import HOUR, MINUTE, SECOND, Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = 5
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def next_window(crons: tuple[str, ...], zone: str, after: Instant) -> Instant | None:
    """The first opening after this instant; `None` without crons. Windows open at whole minutes."""
    opens = _next_window(crons, zone, after // HOUR * 60) if crons else None
    while opens is not None and opens <= after:
        opens = _next_window(crons, zone, opens // MINUTE)
    return opens


@lru_cache(maxsize=1 << 14)
def _next_window(crons: tuple[str, ...], zone: str, minute: int) -> Instant | None:
    try:
        local = (_EPOCH + timedelta(minutes=minute)).astimezone(zones.zone(zone))
        openings = [then for cron in crons if (then := _next_opening(cron, local))]
        return min((int(then.timestamp()) * SECOND for then in openings), default=None)
    except (OverflowError, ValueError):  # the calendar ends before the next one opens
        return None


def _next_opening(cron: str, local: datetime) -> datetime | None:
    """In an hour that comes twice a cron is read off the first, so what it says of the second may be past."""
    return next((then for then in CronSim(cron, local) if then.timestamp() > local.timestamp()), None)


def problem_of(cron: str) -> str:
    """What is wrong with a cron, if anything is."""
    if len(cron.split()) != _FIELDS:
        return "a digest window is a cron of five fields: minute hour day month weekday"
    try:
        return "" if next(CronSim(cron, _SOME_DAY), None) else "no such day ever comes"
    except CronSimError as error:
        return f"{error}"
